// Names of types, and conversion on the host between float32 and the types in which a network stores values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "minuet/minuet.h"

namespace minuet::tool {

// Conversions to a narrower type round to nearest, ties to even. Overflow becomes infinity, NaN stays NaN.
uint16_t float_to_half(float value);
float half_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);
float bfloat16_to_float(uint16_t bits);

/// Returns "fp32", "tf32", "fp16" or "bf16".
const char* dtype_name(minuet_dtype dtype);
/// Returns "auto", "gather-gemm-scatter" or "fused".
const char* dataflow_name(minuet_dataflow dataflow);
/// Returns "auto", "sorted" or "indexed".
const char* map_method_name(minuet_map_method method);
std::optional<minuet_dtype> parse_dtype(llvm::StringRef name);
int dtype_bytes(minuet_dtype dtype);
/// Returns the largest finite number of the type.
float dtype_largest(minuet_dtype dtype);

/// Returns `values` as a device stores them: 4 bytes per value for fp32 and tf32, otherwise 2.
std::vector<char> encode(const std::vector<float>& values, minuet_dtype dtype);
/// Inverts encode().
std::vector<float> decode(const std::vector<char>& bytes, minuet_dtype dtype);

}  // namespace minuet::tool
