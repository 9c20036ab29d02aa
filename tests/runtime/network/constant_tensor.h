// Makes tensors of weights for tests of networks.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/weights/safetensors_writer.h"

namespace minuet::abi {

/// Returns a tensor whose numbers are all `value`.
inline FileTensor constant(std::vector<int64_t> shape, float value) {
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  return FileTensor{std::move(shape), std::vector<float>(count, value)};
}

}  // namespace minuet::abi
