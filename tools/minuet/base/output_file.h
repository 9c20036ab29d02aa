// Files that the tool writes: whole or not at all, and never one of those that it reads.
#pragma once

#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/base/error.h"

namespace minuet::tool {

/// A file that is written beside its name and takes its place at the end; without a write nothing is changed.
/// What is no regular file (a pipe, /dev/null) is written as it is.
class OutputFile {
 public:
  /// Says now what would keep the file from being written later.
  static llvm::Expected<OutputFile> open(llvm::StringRef path);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  /// The file's whole content; at most one call.
  llvm::Error write(llvm::StringRef bytes);
  /// For a writer that takes a path: what it wrote to temporary_path() becomes the file.
  const std::string& temporary_path() const { return temporary_; }
  llvm::Error keep();
  bool is_regular() const { return temporary_ != target_; }

 private:
  explicit OutputFile(std::string path) : path_(std::move(path)) {}
  using ErrorKind = llvm::Error(std::string sentence);
  llvm::Error failed(llvm::StringRef reason, ErrorKind* kind = user_error) const;

  std::string path_, target_;   ///< as named, and behind symbolic links
  std::string temporary_;       ///< target_ itself where it is no regular file
  int descriptor_ = -1;         ///< of the temporary file, until it is kept
  bool is_unfinished_ = false;  ///< the temporary file is there
};

/// For handlers of signals that end the process, other than those that an OutputFile sets itself: removes
/// what is half written.
void remove_unfinished_files();

/// ".npy" of "O.NPY".
std::string extension_of(llvm::StringRef path);

/// Opens, writes and keeps.
llvm::Error write_file(llvm::StringRef path, llvm::StringRef bytes);

/// A file of the command line, with the flag that names it; an empty path is none.
struct NamedFile {
  const char* flag;
  std::string path;
};

/// The path with every link and dot of its folder resolved; the file itself need not exist.
std::string resolved(llvm::StringRef path);

/// An error where two outputs are one file, or an output is an input.
llvm::Error check_distinct(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs);

}  // namespace minuet::tool
