// Writer of NumPy .npy files: version 1.0, little-endian, C order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace minuet::tool {

/// Returns the bytes of a file with these values.
std::string npy_bytes(const std::vector<float>& values, const std::vector<int64_t>& shape);
std::string npy_bytes(const std::vector<int32_t>& values, const std::vector<int64_t>& shape);

}  // namespace minuet::tool
