// Writes safetensors files of float32 tensors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "codegen/base/error.h"

namespace minuet {

struct FileTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;  // The order is row-major, and the number of values is that of the shape.
};

/// Writes the tensors in the order of their names, and `metadata` as the header's entry "__metadata__". After
/// an error, the file is unchanged.
llvm::Error write_safetensors_file(const std::string& path, const std::map<std::string, FileTensor>& tensors,
                                   const std::map<std::string, std::string>& metadata = {});

}  // namespace minuet
