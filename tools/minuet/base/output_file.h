// Files that the tool writes. They appear whole or not at all, and never replace a file that the tool reads.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/base/error.h"

namespace minuet::tool {

/// An output file, written under a temporary name in the same folder and renamed at the end. Without a write
/// nothing changes. A path that is not a regular file (a pipe, /dev/null) is written directly.
class OutputFile {
 public:
  /// Reports at once what would prevent writing the file later, for example a missing folder.
  static llvm::Expected<OutputFile> open(llvm::StringRef path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  /// Writes the whole content and calls keep(). May be called at most once.
  llvm::Error write(llvm::StringRef bytes);
  /// The path for writers that take one. After they have written to it, keep() renames it to the output.
  const std::string& temporary_path() const { return temporary_; }
  /// Flushes the temporary file to disk and renames it.
  llvm::Error keep();
  bool is_regular() const { return temporary_ != target_; }

 private:
  explicit OutputFile(std::string path) : path_(std::move(path)) {}
  using ErrorKind = llvm::Error(std::string sentence);
  llvm::Error failed(llvm::StringRef reason, ErrorKind* kind = user_error) const;

  std::string path_, target_;   ///< as the user gave it; with symbolic links resolved
  std::string temporary_;       ///< target_ itself if that is not a regular file
  int descriptor_ = -1;         ///< the open temporary file; -1 after keep() or without one
  bool is_unfinished_ = false;  ///< true while the temporary file exists
};

/// Removes temporary files. OutputFile calls it in its own signal handlers; other handlers that end the
/// process must call it too. It is safe in a signal handler.
void remove_unfinished_files();

/// Returns the extension in lower case, for example ".npy" for "O.NPY".
std::string extension_of(llvm::StringRef path);

/// Opens an OutputFile and writes `bytes` to it.
llvm::Error write_file(llvm::StringRef path, llvm::StringRef bytes);

/// A file of the command line and the flag that names it. An empty path means that the flag was not given.
struct NamedFile {
  const char* flag;
  std::string path;
};

/// Resolves symbolic links, "." and ".." in the path. The file itself need not exist.
std::string resolved(llvm::StringRef path);

/// Returns an error if two outputs are the same file, or if an output is an input.
llvm::Error check_distinct(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs);

}  // namespace minuet::tool
