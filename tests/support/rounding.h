// Rounding to the storage types by arithmetic on doubles: written apart from the library's bit tricks,
// so that one checks the other.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels_templates/shared/types.h"

namespace minuet {

/// The value that `type` holds for x: nearest, ties to even (tf32: ties away from zero); overflow
/// becomes infinity, subnormals are kept.
float round_to(DType type, double x);
std::vector<float> round_to(DType type, std::vector<float> values);

/// Values (already rounded) as they lie in memory of `type`, and back.
std::vector<char> encode(DType type, const std::vector<float>& values);
std::vector<float> decode(DType type, const std::vector<char>& bytes);
/// One 16-bit pattern of F16 or BF16.
float decode_16(DType type, uint16_t bits);

}  // namespace minuet
