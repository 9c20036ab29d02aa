#include "runtime/rounding.h"

#include <Eigen/Core>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace minuet {
namespace {

float round_tf32(float value) {
  if (!std::isfinite(value)) return value;
  // tf32 keeps 10 of 23 mantissa bits; half of the last kept bit is added to the magnitude.
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu);
}

template <class Half>
void store_as(const float* values, std::size_t count, void* target) {
  char* out = static_cast<char*>(target);
  for (std::size_t i = 0; i < count; ++i) {
    const Half half(values[i]);
    std::memcpy(out + i * sizeof(Half), &half, sizeof(Half));
  }
}

template <class Half>
void load_as(const void* source, std::size_t count, float* values) {
  const char* in = static_cast<const char*>(source);
  for (std::size_t i = 0; i < count; ++i) {
    Half half;
    std::memcpy(&half, in + i * sizeof(Half), sizeof(Half));
    values[i] = static_cast<float>(half);
  }
}

template <class Half>
void round_as(float* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(Half(values[i]));
}

}  // namespace

void round_values(DType dtype, float* values, std::size_t count) {
  switch (dtype) {
    case DType::F32:
      return;
    case DType::TF32:
      for (std::size_t i = 0; i < count; ++i) values[i] = round_tf32(values[i]);
      return;
    case DType::F16:
      return round_as<Eigen::half>(values, count);
    case DType::BF16:
      return round_as<Eigen::bfloat16>(values, count);
  }
}

void store_values(DType dtype, const float* values, std::size_t count, void* target) {
  if (count == 0) return;  // of none there may be no address, which memcpy must not get
  switch (dtype) {
    case DType::F32:
    case DType::TF32:
      std::memcpy(target, values, count * sizeof(float));
      return;
    case DType::F16:
      return store_as<Eigen::half>(values, count, target);
    case DType::BF16:
      return store_as<Eigen::bfloat16>(values, count, target);
  }
}

void load_values(DType dtype, const void* source, std::size_t count, float* values) {
  if (count == 0) return;
  switch (dtype) {
    case DType::F32:
    case DType::TF32:
      std::memcpy(values, source, count * sizeof(float));
      return;
    case DType::F16:
      return load_as<Eigen::half>(source, count, values);
    case DType::BF16:
      return load_as<Eigen::bfloat16>(source, count, values);
  }
}

}  // namespace minuet
