// Writes output files. A file appears whole or not at all, and never replaces a file that the tool reads.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/base/error.h"

namespace minuet::tool {

/// Represents an output file. It is written under a temporary name in the same folder and renamed at the end,
/// so an existing file stays as it is until then. A path that is not a regular file, such as a pipe or
/// /dev/null, is written directly.
class OutputFile {
 public:
  /// Opens the file, and reports at once what would prevent writing it later, for example a missing folder.
  static llvm::Expected<OutputFile> open(llvm::StringRef path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  /// Writes `bytes` as the whole content of the file and calls keep(). May be called at most once.
  llvm::Error write(llvm::StringRef bytes);
  /// Returns the path of the temporary file, for functions that take a path and write the file themselves.
  /// The caller must then call keep().
  const std::string& temporary_path() const { return temporary_; }
  /// Flushes the temporary file to disk and renames it to the output.
  llvm::Error keep();
  bool is_regular() const { return temporary_ != target_; }

 private:
  explicit OutputFile(std::string path) : path_(std::move(path)) {}
  using ErrorKind = llvm::Error(std::string sentence);
  llvm::Error failed(llvm::StringRef reason, ErrorKind* kind = user_error) const;

  /// `path_` is the path as the user gave it, and `target_` is the same path with symbolic links resolved.
  std::string path_, target_;
  /// Holds the path of the temporary file, or `target_` itself if that is not a regular file.
  std::string temporary_;
  /// Refers to the open temporary file. The value is -1 if there is none, and after keep().
  int descriptor_ = -1;
  /// Tells whether the temporary file exists.
  bool is_unfinished_ = false;
};

/// Removes the temporary files of all OutputFiles. It is safe in a signal handler. The signal handlers of
/// OutputFile call it, and all other handlers that end the process must call it too.
void remove_unfinished_files();

/// Returns the extension in lower case, for example ".npy" for "O.NPY".
std::string extension_of(llvm::StringRef path);

/// Opens an OutputFile and writes `bytes` to it.
llvm::Error write_file(llvm::StringRef path, llvm::StringRef bytes);

/// Pairs a flag of the command line with the file that it names. An empty path means that the flag was not
/// given.
struct NamedFile {
  std::string flag, path;
};

/// Resolves symbolic links, "." and ".." in the path. The file itself need not exist.
std::string resolved(llvm::StringRef path);

/// Returns an error if two outputs are the same file, or if an output is also an input.
llvm::Error check_distinct(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs);

}  // namespace minuet::tool
