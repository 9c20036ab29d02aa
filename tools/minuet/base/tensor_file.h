// Parses flags such as `--output-of NAME=FILE.npy`, which pair a tensor of a network with a file.
#pragma once

#include <string>
#include <vector>

#include "llvm/Support/Error.h"

namespace minuet::tool {

/// Pairs an input or output of a network with an .npy file.
struct TensorFile {
  std::string name, path;
};

/// Parses all values of `flag`, each of the form NAME=FILE.npy. A file's name may contain "=", a tensor's
/// name may not. Returns an error if a tensor is named twice, or a file does not end in .npy.
llvm::Expected<std::vector<TensorFile>> parse_tensor_files(const char* flag,
                                                           const std::vector<std::string>& values);

}  // namespace minuet::tool
