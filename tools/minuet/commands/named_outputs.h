// Writes the files of --output-of and --coordinates-of of `minuet run`, which name outputs of a network.
#pragma once

#include <string>
#include <vector>

#include "llvm/Support/Error.h"
#include "minuet/minuet.h"
#include "tools/minuet/base/output_file.h"
#include "tools/minuet/base/tensor_file.h"
#include "tools/minuet/commands/output.h"
#include "tools/minuet/flags/arguments.h"

namespace minuet::tool {

/// Owns the files. They are opened before the inference, so that an unwritable path fails early.
class NamedOutputs {
 public:
  /// Returns the flags, each with its file, for check_distinct().
  static llvm::Expected<std::vector<NamedFile>> named_files(const Arguments& arguments);
  static llvm::Expected<NamedOutputs> open(const Arguments& arguments);

  /// Finds the outputs by name. Returns an error if there is no such output, or if --coordinates-of names a
  /// dense tensor.
  llvm::Error find(const std::vector<minuet_tensor_info>& outputs);
  /// Returns an error if --coordinates-of does not fit the cloud.
  llvm::Error check(const Input& input) const;
  /// Returns true if the coordinates of this output are written.
  bool needs_coordinates(size_t output) const;
  /// Writes the files that are for this output.
  llvm::Error write(size_t index, const Output& output, const Input& input);

 private:
  struct File {
    TensorFile named;
    size_t output;
    OutputFile file;
  };
  static llvm::Error open_all(const char* flag, const std::vector<std::string>& values,
                              std::vector<File>& files);

  std::vector<File> features_, coordinates_;
};

}  // namespace minuet::tool
