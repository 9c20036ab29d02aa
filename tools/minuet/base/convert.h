// Names dtypes, dataflows and map methods, and converts numbers on the host between float32 and the dtypes in
// which a network stores values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "minuet/minuet.h"

namespace minuet::tool {

// Conversions to a narrower type round to the nearest value and break ties to even. Overflow gives infinity,
// and NaN stays NaN.
uint16_t float_to_half(float value);
float half_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);
float bfloat16_to_float(uint16_t bits);

/// Returns "fp32", "tf32", "fp16" or "bf16", or "?" for an unknown dtype.
const char* dtype_name(minuet_dtype dtype);
/// Returns "auto", "gather-gemm-scatter" or "fused", or "?" for an unknown dataflow.
const char* dataflow_name(minuet_dataflow dataflow);
/// Returns "auto", "sorted" or "indexed", or "?" for an unknown method.
const char* map_method_name(minuet_map_method method);
std::optional<minuet_dtype> parse_dtype(llvm::StringRef name);
int dtype_bytes(minuet_dtype dtype);
/// Returns the largest finite number of the dtype.
float dtype_largest(minuet_dtype dtype);

/// Returns the bytes in which a device stores `values`. A value takes 4 bytes in fp32 and tf32, and 2 bytes
/// in fp16 and bf16.
std::vector<char> encode(const std::vector<float>& values, minuet_dtype dtype);
/// Converts bytes that encode() made with this dtype to float32.
std::vector<float> decode(const std::vector<char>& bytes, minuet_dtype dtype);

}  // namespace minuet::tool
