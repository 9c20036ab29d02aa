#include "tools/minuet/base/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "llvm/ADT/APFloat.h"

namespace minuet::tool {
namespace {

/// LLVM's arbitrary-precision rounding as the oracle. It starts from a double, where every float32 is a
/// normal number: LLVM 14 rounds float32 denormals to the least half instead of to zero.
uint16_t rounded(float value, const llvm::fltSemantics& type) {
  llvm::APFloat number(static_cast<double>(value));
  bool lost = false;
  number.convert(type, llvm::APFloat::rmNearestTiesToEven, &lost);
  return static_cast<uint16_t>(number.bitcastToAPInt().getZExtValue());
}

void expect_agreement(float value) {
  EXPECT_EQ(float_to_half(value), rounded(value, llvm::APFloat::IEEEhalf())) << value;
  EXPECT_EQ(float_to_bfloat16(value), rounded(value, llvm::APFloat::BFloat())) << value;
}

TEST(Convert, EveryHalfGoesThereAndBack) {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (std::isnan(half_to_float(half))) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(half_to_float(half)))));
      continue;
    }
    EXPECT_EQ(float_to_half(half_to_float(half)), half);
    EXPECT_EQ(rounded(half_to_float(half), llvm::APFloat::IEEEhalf()), half);
  }
}

TEST(Convert, TiesGoToEven) {
  for (uint32_t bits = 0; bits < 0x7c00u; ++bits) {
    const float low = half_to_float(static_cast<uint16_t>(bits)),
                high = half_to_float(static_cast<uint16_t>(bits + 1));
    if (std::isinf(high)) continue;
    const float middle = 0.5f * (low + high);
    expect_agreement(middle);
    expect_agreement(-middle);
    expect_agreement(std::nextafter(middle, low));
    expect_agreement(std::nextafter(middle, high));
  }
}

TEST(Convert, RandomBitsAndEdges) {
  const auto seed = std::random_device()();
  std::mt19937 random(seed);
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (int i = 0; i < 200000; ++i) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isnan(value)) expect_agreement(value);
  }
  for (const float value :
       {65504.0f, 65519.996f, 65520.0f, 65536.0f, 3.4028235e38f, INFINITY, -INFINITY, 0.0f, -0.0f}) {
    expect_agreement(value);
  }
  for (const uint32_t nan :
       {0x7fc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu}) {  // low bits that are cut off, too
    EXPECT_TRUE(std::isnan(half_to_float(float_to_half(std::bit_cast<float>(nan)))));
    EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(nan)))));
  }
}

TEST(Convert, EncodeAndDecodeAllTypes) {
  const std::vector<float> values = {0.0f, 1.0f, -0.5f, 1024.0f};
  for (const minuet_dtype dtype : {MINUET_F32, MINUET_TF32, MINUET_F16, MINUET_BF16}) {
    const std::vector<char> bytes = encode(values, dtype);
    EXPECT_EQ(bytes.size(), values.size() * static_cast<size_t>(dtype_bytes(dtype)));
    EXPECT_EQ(decode(bytes, dtype), values);
    EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype);
  }
  EXPECT_EQ(parse_dtype("fp8"), std::nullopt);
}

}  // namespace
}  // namespace minuet::tool
