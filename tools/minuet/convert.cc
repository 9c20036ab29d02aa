#include "tools/minuet/convert.h"

#include <bit>
#include <cstring>

namespace minuet::tool {

uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;   // NaN
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and more round to infinity
  if (magnitude < 0x38800000u) {
    // Below 2^-14: the half is a multiple of 2^-24, and adding 0.5f puts exactly those bits last.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float bfloat16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

const char* dtype_name(minuet_dtype dtype) {
  switch (dtype) {
    case MINUET_F32:
      return "fp32";
    case MINUET_TF32:
      return "tf32";
    case MINUET_F16:
      return "fp16";
    case MINUET_BF16:
      return "bf16";
  }
  return "?";
}

std::optional<minuet_dtype> parse_dtype(llvm::StringRef name) {
  for (const minuet_dtype dtype : {MINUET_F32, MINUET_TF32, MINUET_F16, MINUET_BF16}) {
    if (name == dtype_name(dtype)) return dtype;
  }
  return std::nullopt;
}

int dtype_bytes(minuet_dtype dtype) { return dtype == MINUET_F16 || dtype == MINUET_BF16 ? 2 : 4; }

float dtype_largest(minuet_dtype dtype) {
  if (dtype == MINUET_F16) return 65504.0f;
  return dtype == MINUET_BF16 ? bfloat16_to_float(0x7f7f) : std::bit_cast<float>(0x7f7fffffu);
}

std::vector<char> encode(const std::vector<float>& values, minuet_dtype dtype) {
  std::vector<char> bytes(values.size() * static_cast<size_t>(dtype_bytes(dtype)));
  if (dtype_bytes(dtype) == 4) {
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = dtype == MINUET_F16 ? float_to_half(values[i]) : float_to_bfloat16(values[i]);
    std::memcpy(bytes.data() + 2 * i, &half, 2);
  }
  return bytes;
}

std::vector<float> decode(const std::vector<char>& bytes, minuet_dtype dtype) {
  std::vector<float> values(bytes.size() / static_cast<size_t>(dtype_bytes(dtype)));
  if (dtype_bytes(dtype) == 4) {
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t half;
    std::memcpy(&half, bytes.data() + 2 * i, 2);
    values[i] = dtype == MINUET_F16 ? half_to_float(half) : bfloat16_to_float(half);
  }
  return values;
}

}  // namespace minuet::tool
