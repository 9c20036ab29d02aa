// Rounding between float32 and the storage types of a network, on the host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "minuet/minuet.h"

namespace minuet::tool {

/// To nearest, ties to even; overflow becomes infinity, NaN stays NaN.
uint16_t float_to_half(float value);
float half_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);
float bfloat16_to_float(uint16_t bits);

/// "fp32", "tf32", "fp16", "bf16".
const char* dtype_name(minuet_dtype dtype);
/// "auto", "gather-gemm-scatter", "fused"
const char* dataflow_name(minuet_dataflow dataflow);
const char* map_method_name(minuet_map_method method);
std::optional<minuet_dtype> parse_dtype(llvm::StringRef name);
int dtype_bytes(minuet_dtype dtype);
/// The largest finite number of the type.
float dtype_largest(minuet_dtype dtype);

/// `values` as a device stores them: 4 bytes a value for fp32 and tf32, else 2.
std::vector<char> encode(const std::vector<float>& values, minuet_dtype dtype);
std::vector<float> decode(const std::vector<char>& bytes, minuet_dtype dtype);

}  // namespace minuet::tool
