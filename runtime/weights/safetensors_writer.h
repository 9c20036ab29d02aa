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
  std::vector<float> values;  // row-major, as many as the shape says
};

/// In the order of their names. `metadata` becomes "__metadata__". The file is there whole or, after an
/// error, as it was.
llvm::Error write_safetensors_file(const std::string& path, const std::map<std::string, FileTensor>& tensors,
                                   const std::map<std::string, std::string>& metadata = {});

}  // namespace minuet
