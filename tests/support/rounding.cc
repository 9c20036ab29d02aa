#include "tests/support/rounding.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace minuet {
namespace {

struct Format {
  int fraction_bits, least_exponent, greatest_exponent;
  bool ties_to_even;
};

Format format_of(DType type) {
  switch (type) {
    case DType::F16:
      return {10, -14, 15, true};
    case DType::BF16:
      return {7, -126, 127, true};
    case DType::TF32:
      return {10, -126, 127, false};
    case DType::F32:
    case DType::U8:
    case DType::S8:
      break;
  }
  return {23, -126, 127, true};
}

}  // namespace

float round_to(DType type, double x) {
  if (type == DType::F32 || x == 0 || !std::isfinite(x)) return static_cast<float>(x);
  const Format format = format_of(type);
  const int exponent = std::max(std::ilogb(x), format.least_exponent);
  const double place = std::ldexp(1.0, exponent - format.fraction_bits);
  const double units = x / place;
  const double rounded = (format.ties_to_even ? std::nearbyint(units) : std::round(units)) * place;
  if (std::abs(rounded) >= std::ldexp(1.0, format.greatest_exponent + 1)) {
    return static_cast<float>(std::copysign(std::numeric_limits<double>::infinity(), x));
  }
  return static_cast<float>(std::copysign(rounded, x));
}

std::vector<float> round_to(DType type, std::vector<float> values) {
  for (float& value : values) value = round_to(type, value);
  return values;
}

float decode_16(DType type, uint16_t bits) {
  const Format format = format_of(type);
  const int fraction = bits & ((1 << format.fraction_bits) - 1);
  const int exponent_bits = 15 - format.fraction_bits;
  const int exponent = (bits >> format.fraction_bits) & ((1 << exponent_bits) - 1);
  const double sign = bits >> 15 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::numeric_limits<float>::quiet_NaN()
                         : static_cast<float>(sign * std::numeric_limits<double>::infinity());
  }
  const int whole = exponent == 0 ? fraction : fraction + (1 << format.fraction_bits);
  const int power = std::max(exponent, 1) - 1 + format.least_exponent - format.fraction_bits;
  return static_cast<float>(sign * std::ldexp(static_cast<double>(whole), power));
}

std::vector<char> encode(DType type, const std::vector<float>& values) {
  std::vector<char> bytes(values.size() * dtype_bytes(type));
  if (dtype_bytes(type) == 4) {
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  }
  const Format format = format_of(type);
  for (size_t i = 0; i < values.size(); ++i) {
    const float value = values[i];
    uint16_t bits = std::signbit(value) ? 0x8000 : 0;
    const uint16_t infinity = static_cast<uint16_t>(0x7fff >> format.fraction_bits << format.fraction_bits);
    if (!std::isfinite(value)) {
      bits |= std::isnan(value) ? 0x7fff : infinity;
    } else if (value != 0) {
      const int exponent = std::max(std::ilogb(value), format.least_exponent);
      // Adding the whole significand to the exponent field carries its leading one into it.
      const double units = std::ldexp(std::abs(static_cast<double>(value)), format.fraction_bits - exponent);
      bits |= static_cast<uint16_t>(((exponent - format.least_exponent) << format.fraction_bits) +
                                    static_cast<int>(units));
    }
    std::memcpy(bytes.data() + 2 * i, &bits, 2);
  }
  return bytes;
}

std::vector<float> decode(DType type, const std::vector<char>& bytes) {
  std::vector<float> values(bytes.size() / dtype_bytes(type));
  if (dtype_bytes(type) == 4) {
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * 4);
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    values[i] = decode_16(type, bits);
  }
  return values;
}

}  // namespace minuet
