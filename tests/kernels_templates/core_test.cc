// core/: element conversion against enumerated values in fp64, vector access, walks and searches.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels_templates/testing.h"
// testing.h first: it brings the shim's names.
#include "kernels_templates/core/epilogue.h"
#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/search.h"
#include "kernels_templates/core/vector.h"

namespace minuet {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double value_of_f16(u32 bits) {
  const i32 exponent = (bits >> 10) & 31;
  const double mantissa = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}
double value_of_bf16(u32 bits) {
  const i32 exponent = (bits >> 7) & 255;
  const double mantissa = bits & 127;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -133) : std::ldexp(128 + mantissa, exponent - 134);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

/// Nearest of the type's values by search over all of them, ties to the even one; `infinity` is the
/// bits of infinity, whose neighbour below is the greatest value.
u32 nearest(double (*value)(u32), u32 infinity, float x) {
  const double magnitude = std::fabs(static_cast<double>(x));
  u32 below = 0, above = infinity;
  while (above - below > 1) {
    const u32 middle = (below + above) / 2;
    (value(middle) <= magnitude ? below : above) = middle;
  }
  const double to_below = magnitude - value(below), to_above = value(above) - magnitude;
  const u32 chosen = to_below < to_above   ? below
                     : to_above < to_below ? above
                     : (below & 1) == 0    ? below
                                           : above;
  return chosen | (std::signbit(x) ? 0x8000u : 0u);
}

std::vector<float> interesting_floats(u64 seed) {
  std::vector<float> floats{0.0f,    -0.0f, 1.0f,    -1.0f,    65504.0f, 65519.9f, 65520.0f, 65536.0f,
                            3.4e38f, 6e-8f, 2.9e-8f, 2.98e-8f, 6.1e-5f,  1e-40f,   1e-45f,   -3e-39f};
  Random random(seed);
  for (i32 i = 0; i < 60000; ++i) {
    const u32 bits = static_cast<u32>(random.next());
    // Half with few mantissa bits, so that ties are met.
    const float x = float_of((i & 1) != 0 ? bits : bits & 0xfffff000u);
    if (std::isfinite(x)) floats.push_back(x);
    floats.push_back(
        static_cast<float>(std::ldexp(random.uniform(-1, 1), static_cast<int>(random.between(-30, 17)))));
  }
  return floats;
}

TEST(Convert, EveryF16AndBf16ValueIsExactAndComesBack) {
  for (u32 bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7c00) != 0x7c00) {
      ASSERT_EQ(static_cast<double>(from_f16(static_cast<u16>(bits))), value_of_f16(bits)) << bits;
      ASSERT_EQ(to_f16(from_f16(static_cast<u16>(bits))), bits);
    }
    if ((bits & 0x7f80) != 0x7f80) {
      ASSERT_EQ(static_cast<double>(from_bf16(static_cast<u16>(bits))), value_of_bf16(bits)) << bits;
      ASSERT_EQ(to_bf16(from_bf16(static_cast<u16>(bits))), bits);
    }
  }
}

TEST(Convert, RoundsToNearestEven) {
  for (const float x : interesting_floats(1)) {
    const double magnitude = std::fabs(static_cast<double>(x));
    ASSERT_EQ(to_f16(x), magnitude >= 65520 ? 0x7c00u | (std::signbit(x) ? 0x8000u : 0u)
                                            : nearest(value_of_f16, 0x7c00, x))
        << x;
    ASSERT_EQ(to_bf16(x), nearest(value_of_bf16, 0x7f80, x)) << x;
  }
}

TEST(Convert, Tf32RoundsToNearestTiesAway) {
  for (const float x : interesting_floats(2)) {
    const i32 exponent = std::max(x == 0 ? -126 : std::ilogb(x), -126);
    const double unit = std::ldexp(1.0, exponent - 10);
    const double rounded = std::copysign(std::round(std::fabs(static_cast<double>(x)) / unit) * unit, x);
    const float result = float_of(round_to_tf32(bits_of(x)));
    if (std::fabs(rounded) > std::numeric_limits<float>::max()) {
      ASSERT_EQ(result, std::copysign(kInfinity, x));
    } else {
      ASSERT_EQ(static_cast<double>(result), rounded) << x;
    }
  }
}

TEST(Convert, InfinityAndNan) {
  EXPECT_EQ(to_f16(kInfinity), 0x7c00);
  EXPECT_EQ(to_bf16(-kInfinity), 0xff80);
  EXPECT_EQ(from_f16(0xfc00), -kInfinity);
  EXPECT_TRUE(std::isnan(from_f16(0x7c01)));
  EXPECT_EQ(round_to_tf32(bits_of(-kInfinity)), bits_of(-kInfinity));
  // Every NaN stays one: a carry out of the mantissa must not turn it into zero.
  for (const u32 bits : {0x7fffffffu, 0xffffffffu, 0x7f800001u, 0x7fc00000u}) {
    EXPECT_TRUE(std::isnan(from_f16(to_f16(float_of(bits)))));
    EXPECT_TRUE(std::isnan(from_bf16(to_bf16(float_of(bits)))));
    EXPECT_TRUE(std::isnan(float_of(round_to_tf32(bits))));
  }
}

template <DType T, i32 Bytes>
void expect_vector_round_trip() {
  constexpr i32 kElements = Bytes / dtype_bytes(T);
  alignas(16) unsigned char from[48], to[48];
  std::memset(to, kPoison, sizeof to);
  float values[kElements], back[kElements];
  for (i32 e = 0; e < kElements; ++e) values[e] = static_cast<float>(3 * e - 4);
  store_vector(from, Bytes, from_floats<T, Bytes>(values));
  to_floats<T>(load_vector<Bytes>(from, Bytes), back);
  for (i32 e = 0; e < kElements; ++e) EXPECT_EQ(back[e], values[e]);
  store_vector(to, Bytes, load_vector_if<Bytes>(true, from, Bytes));
  EXPECT_EQ(std::memcmp(to + Bytes, from + Bytes, Bytes), 0);
  EXPECT_EQ(to[Bytes - 1], kPoison);
  EXPECT_EQ(to[2 * Bytes], kPoison);
  store_vector(to, Bytes, load_vector_if<Bytes>(false, nullptr, 0));
  for (i32 b = 0; b < Bytes; ++b) EXPECT_EQ(to[Bytes + b], 0);
}

TEST(Vector, MovesExactlyItsBytesAndConvertsInOrder) {
  expect_vector_round_trip<DType::F32, 4>();
  expect_vector_round_trip<DType::F32, 8>();
  expect_vector_round_trip<DType::TF32, 16>();
  expect_vector_round_trip<DType::F16, 2>();
  expect_vector_round_trip<DType::F16, 16>();
  expect_vector_round_trip<DType::BF16, 4>();
  expect_vector_round_trip<DType::BF16, 8>();
#define MINUET_DTYPE_ROW(type, ...) expect_vector_round_trip<DType::type, 16>();
  MINUET_DTYPES(MINUET_DTYPE_ROW)
#undef MINUET_DTYPE_ROW
}

TEST(Vector, OnlyTf32OperandsAreRounded) {
  for (const DType type : kDTypes) EXPECT_EQ(rounds_operands(type), type == DType::TF32);
  Vector<4> v;
  v.words[0] = 0x3f801fffu;
  EXPECT_EQ(to_operand<DType::TF32>(v).words[0], 0x3f802000u);
  EXPECT_EQ(to_operand<DType::F32>(v).words[0], 0x3f801fffu);
}

TEST(Epilogue, InOrderAndNanSurvivesRelu) {
  EXPECT_EQ((epilogue<true, true, Activation::None>(2, 3, 4, -100, kNan)), -90);
  EXPECT_EQ((epilogue<true, true, Activation::ReLU>(2, 3, 4, -100, kNan)), 0);
  EXPECT_EQ((epilogue<false, false, Activation::ReLU>(5, kNan, kNan, kNan, kNan)), 5);
  EXPECT_TRUE(std::isnan(epilogue<false, false, Activation::ReLU>(kNan, 1, 0, 0, 0)));
  EXPECT_EQ((epilogue<true, true, Activation::LeakyReLU>(2, 3, 4, -100, 0.5f)), -45);
  EXPECT_EQ((epilogue<true, true, Activation::LeakyReLU>(2, 3, 4, -5, kNan)), 5);
  EXPECT_TRUE(std::isnan(epilogue<false, false, Activation::LeakyReLU>(kNan, 1, 0, 0, 0)));
  EXPECT_EQ((epilogue<true, true, Activation::Tanh>(2, 3, 4, -100, kNan)), -1);
  EXPECT_EQ((epilogue<true, false, Activation::Sigmoid>(2, 3, -6, kNan, kNan)), 0.5f);
}

TEST(RowIterator, EqualsDivision) {
  Random random(3);
  for (i32 trial = 0; trial < 200; ++trial) {
    const i64 row = static_cast<i64>(random.below(trial % 2 == 0 ? 9 : 1000000)) + 1;
    const i64 stride = static_cast<i64>(random.below(5000000)) + 1;
    i64 item = static_cast<i64>(random.below(5000000));
    RowIterator walk(item, stride, row);
    for (i32 step = 0; step < 50; ++step, item += stride, walk.advance()) {
      ASSERT_EQ(walk.outer(), item / row);
      ASSERT_EQ(walk.inner(), item % row);
    }
  }
  RowIterator empty(5, 3, 0);  // must not divide by zero
  empty.advance();
}

TEST(Search, FirstGreaterIsUpperBoundOfShiftedKeys) {
  Random random(4);
  for (const i64 count : {0, 1, 2, 3, 31, 100}) {
    std::vector<u32> keys;
    for (i64 i = 0; i < count; ++i) keys.push_back(static_cast<u32>(1000 + random.below(60)));
    std::sort(keys.begin(), keys.end());
    for (u32 bound = 990; bound < 1070; ++bound) {
      for (const u32 delta : {0u, 5u, static_cast<u32>(-7)}) {
        const auto found =
            std::find_if(keys.begin(), keys.end(), [&](u32 key) { return key + delta > bound; });
        ASSERT_EQ(first_greater<u32>(keys.data(), count, delta, bound), found - keys.begin());
      }
    }
  }
}

TEST(Search, ShareOfFindsTheOwnerAndSkipsEmptyShares) {
  const std::vector<i32> shares{0, 3, 0, 0, 2, 1, 0};
  std::vector<i32> ends, owner;
  for (i32 s = 0; s < 7; ++s) {
    owner.insert(owner.end(), static_cast<std::size_t>(shares[s]), s);
    ends.push_back(static_cast<i32>(owner.size()));
  }
  for (i32 n = 0; n < static_cast<i32>(owner.size()); ++n) EXPECT_EQ(share_of(ends.data(), 7, n), owner[n]);
}

template <i32 Size>
void expect_candidates() {
  for (i32 count = 0; count <= Size; ++count) {
    std::vector<u64> block(Size, ~0ull);
    for (i32 i = 0; i < count; ++i) block[static_cast<std::size_t>(i)] = static_cast<u64>(10 + 2 * i);
    for (u64 key = 8; key < 12 + 2 * static_cast<u64>(count); ++key) {
      const u64 keys[2] = {key, ~0ull};
      i32 positions[2];
      find_candidates<Size, 2>(block.data(), keys, positions);
      for (const i32 position : positions) {
        ASSERT_GE(position, 0);
        ASSERT_LT(position, Size);
      }
      const bool present = key >= 10 && key < 10 + 2 * static_cast<u64>(count) && key % 2 == 0;
      ASSERT_EQ(block[static_cast<std::size_t>(positions[0])] == key && positions[0] < count, present);
      ASSERT_FALSE(block[static_cast<std::size_t>(positions[1])] == ~0ull && positions[1] < count);
    }
  }
}
TEST(Search, CandidatesForAnyBlockSize) {
  expect_candidates<1>();
  expect_candidates<2>();
  expect_candidates<4>();
  expect_candidates<64>();
  EXPECT_EQ(next_power_of_two(1), 1);
  EXPECT_EQ(next_power_of_two(5), 8);
  EXPECT_EQ(next_power_of_two(256), 256);
}

TEST(Search, AKeyOfAllOnesIsFoundAndPaddingIsNot) {
  const std::vector<u32> block{3, ~0u, ~0u, ~0u};  // two keys, then padding
  const u32 keys[1] = {~0u};
  i32 position;
  find_candidates<4, 1>(block.data(), keys, &position);
  EXPECT_EQ(position, 1);
}

TEST(Grid, QuotientOfSmallAndLargeNumbers) {
  EXPECT_EQ(quotient(7, 2), 3);
  EXPECT_EQ(quotient((1ll << 40) + 5, 7), ((1ll << 40) + 5) / 7);
  EXPECT_EQ(quotient(5, 1ll << 40), 0);
  EXPECT_EQ(quotient(0xffffffffll, 0xffffffffll), 1);
}

TEST(Vector, LowestBit) {
  EXPECT_EQ(lowest_bit(0), 0);
  EXPECT_EQ(lowest_bit(1), 0);
  EXPECT_EQ(lowest_bit(0x80000000u), 31);
  EXPECT_EQ(lowest_bit(0x28), 3);
}

}  // namespace
}  // namespace minuet
