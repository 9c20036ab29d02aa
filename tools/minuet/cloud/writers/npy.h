// Writes NumPy .npy files of version 1.0, in little-endian byte order and C order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace minuet::tool {

/// Returns the bytes of an .npy file with these values in this shape.
std::string npy_bytes(const std::vector<float>& values, const std::vector<int64_t>& shape);
std::string npy_bytes(const std::vector<int32_t>& values, const std::vector<int64_t>& shape);

}  // namespace minuet::tool
