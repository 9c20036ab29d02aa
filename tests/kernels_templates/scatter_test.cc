// Scatter: sums in ascending order of offsets, epilogue and storage, against fp64.
#include <gtest/gtest.h>

#include "tests/kernels_templates/features.h"
// features.h first: it brings the shim's names.
#include "codegen/choose/problem.h"
#include "kernels_templates/gmas/scatter.h"
#include "tests/support/pointwise_oracle.h"

namespace minuet {
namespace {

/// One unit in the last place of T at magnitude 1: what one rounding may cost.
constexpr double unit_of(DType type) {
  switch (type) {
    case DType::F32:
    case DType::TF32:
      return 0x1p-24;
    case DType::F16:
      return 0x1p-11;
    case DType::BF16:
      return 0x1p-8;
    case DType::U8:
    case DType::S8:
      break;
  }
  return 0;
}

constexpr float kSlope = -0.375f, kSecondSlope = 0.625f;  // of leaky ReLUs; others do not read it

double applied(Activation activation, double x, float slope) {
  return oracle::apply_function(kActivationNames[static_cast<i32>(activation)], x, slope);
}

using ScatterKernel = void (*)(const ScatterParams&);

/// Of a kernel with `spec`, whose dtype this is: an instance a dtype, not one a kernel. The buffer comes
/// whole or in slices, with sums of an offset that was read in place or without.
template <DType Io>
void check_scattered(const ScatterSpec& spec, ScatterKernel kernel, i64 rows, i32 volume, int variant) {
  SCOPED_TRACE("io " + std::to_string(static_cast<i32>(spec.io)) + " channels " +
               std::to_string(spec.channels) + " tile " + std::to_string(spec.tile) + " vector " +
               std::to_string(spec.vector_bytes) + " rows " + std::to_string(rows));
  Random random(400 + static_cast<u64>(rows));
  const i64 buffer_rows = rows * volume + 3;
  Matrix<DType::F32> buffer(buffer_rows, spec.channels, spec.channels),
      sums(rows, spec.channels, spec.channels);
  buffer.fill(random, buffer_rows);
  const std::vector<i32> table = random_table(random, volume, rows, buffer_rows, nullptr);
  Matrix<Io> residual(rows, spec.channels, spec.channels + 16);
  Matrix<Io> output(rows + 1, spec.channels, spec.channels + 32);
  Matrix<Io> second(rows + 1, spec.channels, spec.channels + 48);
  residual.fill(random, rows);
  std::vector<float> scale, shift, second_scale, second_shift;
  for (i32 c = 0; c < spec.channels; ++c) {
    scale.push_back(static_cast<float>(random.uniform(0.5, 1.5)));
    shift.push_back(static_cast<float>(random.uniform(-1, 1)));
    second_scale.push_back(static_cast<float>(random.uniform(-1.5, 1.5)));
    second_shift.push_back(static_cast<float>(random.uniform(-1, 1)));
  }

  ScatterParams params{};
  params.table = table.data();
  params.rows = rows;
  params.volume = volume;
  params.scale = spec.scale_shift ? scale.data() : nullptr;
  params.shift = spec.scale_shift ? shift.data() : nullptr;
  params.residual = spec.residual ? residual.elements() : nullptr;
  params.residual_ld = residual.ld();
  params.output = output.elements();
  params.output_ld = output.ld();
  u32 overflow = 0, second_overflow = 0;
  params.overflow = &overflow;
  if (spec.second_output) {
    params.second = {second_scale.data(), second_shift.data(), second.elements(),
                     second.ld(),         &second_overflow,    kSecondSlope};
  }
  params.overflow_mark = 1;
  params.slope = kSlope;
  const bool has_sums = variant % 3 == 1;
  if (has_sums) sums.fill(random, rows);
  const Matrix<DType::F32> first_sums = sums;
  std::vector<i64> ends{buffer_rows};
  if (variant % 2 == 1) ends = {buffer_rows / 3, buffer_rows / 3, buffer_rows / 2, buffer_rows};
  for (std::size_t slice = 0; slice < ends.size(); ++slice) {
    params.first_row = static_cast<i32>(slice == 0 ? 0 : ends[slice - 1]);
    params.last_row = static_cast<i32>(ends[slice]);
    params.buffer = buffer.floats() + params.first_row * spec.channels;
    params.sums_in = slice > 0 || has_sums ? sums.floats() : nullptr;
    params.sums_out = slice + 1 < ends.size() ? sums.floats() : nullptr;
    shim::launch(kernel, params, shim::small_grid(variant, spec.threads));
  }
  EXPECT_EQ(overflow, 0u);
  EXPECT_EQ(second_overflow, 0u);

  for (i64 row = 0; row < rows; ++row) {
    for (i64 c = 0; c < spec.channels; ++c) {
      double sum = has_sums ? first_sums.at(row, c) : 0, size = std::fabs(sum);
      for (i32 k = 0; k < volume; ++k) {
        const i32 from = table[static_cast<std::size_t>(k * rows + row)];
        if (from < 0) continue;
        sum += buffer.at(from, c);
        size += std::fabs(buffer.at(from, c));
      }
      double expected = sum;
      if (spec.scale_shift)
        expected = expected * static_cast<double>(scale[c]) + static_cast<double>(shift[c]);
      if (spec.residual) expected += residual.at(row, c);
      expected = applied(spec.activation, expected, kSlope);
      double bound = (size + 4) * (volume + 1) * 0x1p-24 + std::fabs(expected) * unit_of(Io);
      // The smallest numbers of fp16 are 2^-24 apart, and activations other than the two ReLUs give such.
      const double least = Io == DType::F16 ? 0x1p-25 : 0;
      if (spec.activation > Activation::LeakyReLU) bound += (size + 4) * (volume + 3) * 0x1p-24 + least;
      ASSERT_NEAR(output.at(row, c), expected, bound) << row << " " << c;
      if (!spec.second_output) continue;
      const double product = static_cast<double>(output.at(row, c)) * static_cast<double>(second_scale[c]);
      const double of_it =
          applied(spec.second_activation, product + static_cast<double>(second_shift[c]), kSecondSlope);
      ASSERT_NEAR(second.at(row, c), of_it,
                  (std::fabs(product) + 2) * 0x1p-21 + std::fabs(of_it) * unit_of(Io) + least)
          << row << " " << c;
    }
    for (i64 c = spec.channels; c < output.ld(); ++c) ASSERT_TRUE(output.is_poison(row, c));
    for (i64 c = spec.second_output ? spec.channels : 0; c < second.ld(); ++c) {
      ASSERT_TRUE(second.is_poison(row, c));
    }
  }
  for (i64 c = 0; c < spec.channels; ++c) {
    ASSERT_TRUE(output.is_poison(rows, c));
    ASSERT_TRUE(second.is_poison(rows, c));
  }
}

template <ScatterSpec S>
void expect_scattered(i64 rows, i32 volume, int variant) {
  check_scattered<S.io>(S, &scatter<S>, rows, volume, variant);
}

/// The epilogues take turns over the shapes, so that all meet all dtypes without a build of all products.
template <DType T, i32 Turn>
void expect_all_scattered() {
  int variant = 0;
  for_channels_and_tiles<dtype_bytes(T)>([&]<i32 Channels, i32 Tile, i32 VectorBytes>() {
    constexpr i32 kTurn = Turn + Channels / 3 + Tile;
    constexpr ScatterSpec kSpec{.io = T,
                                .channels = Channels,
                                .tile = Tile,
                                .vector_bytes = VectorBytes,
                                .scale_shift = kTurn % 2 == 0,
                                .residual = kTurn / 2 % 2 == 0,
                                .activation = static_cast<Activation>(kTurn % kActivations),
                                .second_output = kTurn % 3 == 0,
                                .second_activation = static_cast<Activation>(kTurn / 3 % kActivations),
                                .threads = 64};
    for (const i64 rows : {0, 1, 31}) expect_scattered<kSpec>(rows, 27, variant++);
  });
}
TEST(Scatter, F32) { expect_all_scattered<DType::F32, 0>(); }
TEST(Scatter, Tf32) { expect_all_scattered<DType::TF32, 1>(); }
TEST(Scatter, F16) { expect_all_scattered<DType::F16, 2>(); }
TEST(Scatter, Bf16) { expect_all_scattered<DType::BF16, 3>(); }

template <bool ScaleShift, bool Residual, Activation A>
constexpr ScatterSpec kEpilogue{.io = DType::F16,
                                .channels = 24,
                                .tile = 8,
                                .scale_shift = ScaleShift,
                                .residual = Residual,
                                .activation = A,
                                .threads = 32};
/// Tests every activation in both places.
template <i32 Number>
constexpr ScatterSpec kActivated{.io = DType::F16,
                                 .channels = 24,
                                 .tile = 8,
                                 .residual = Number % 2 == 0,
                                 .activation = static_cast<Activation>(Number),
                                 .second_output = true,
                                 .second_activation = static_cast<Activation>((Number + 3) % kActivations),
                                 .threads = 32};
template <i32... Numbers>
void expect_activations(std::integer_sequence<i32, Numbers...>) {
  (expect_scattered<kActivated<Numbers>>(20, 27, Numbers), ...);
}
TEST(Scatter, EveryActivationAndSecondOutput) {
  expect_activations(std::make_integer_sequence<i32, kActivations>());
}

/// Returns the overflow flags of both outputs if the only sum of a row is `sum`.
template <Activation A, Activation Second>
std::pair<u32, u32> overflows_of(float sum, float second_scale = 1) {
  constexpr ScatterSpec kSpec{.io = DType::F16,
                              .channels = 1,
                              .tile = 1,
                              .vector_bytes = 2,
                              .scale_shift = false,
                              .activation = A,
                              .second_output = true,
                              .second_activation = Second,
                              .threads = 32};
  const float shift = 0;
  const i32 table = 0;
  u16 output = 0, second = 0;
  u32 overflow = 0, second_overflow = 0;
  ScatterParams params{};
  params.buffer = &sum;
  params.table = &table;
  params.rows = params.volume = 1;
  params.last_row = 1;
  params.output = &output, params.output_ld = 1;
  params.overflow = &overflow, params.overflow_mark = 1;
  params.second = {&second_scale, &shift, &second, 1, &second_overflow, 0};
  shim::launch(&scatter<kSpec>, params, shim::small_grid(0, kSpec.threads));
  return {overflow, second_overflow};
}
TEST(Scatter, OverflowsOfBothOutputsAreTold) {
  using Flags = std::pair<u32, u32>;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ((overflows_of<Activation::None, Activation::ReLU>(1)), Flags(0, 0));
  EXPECT_EQ((overflows_of<Activation::None, Activation::None>(60000, 2)), Flags(0, 1));
  EXPECT_EQ((overflows_of<Activation::None, Activation::Sigmoid>(1e6f)), Flags(1, 0));
  EXPECT_EQ((overflows_of<Activation::Tanh, Activation::None>(1e6f)), Flags(0, 0));
  EXPECT_EQ((overflows_of<Activation::Tanh, Activation::None>(kInfinity)), Flags(1, 0));
  EXPECT_EQ((overflows_of<Activation::Sigmoid, Activation::None>(-kInfinity)), Flags(1, 0));
  EXPECT_EQ((overflows_of<Activation::Gelu, Activation::Silu>(std::numeric_limits<float>::quiet_NaN())),
            Flags(1, 1));
  EXPECT_EQ((overflows_of<Activation::Silu, Activation::None>(-1e30f)), Flags(0, 0));
}

TEST(Scatter, EveryEpilogue) {
  expect_scattered<kEpilogue<false, false, Activation::None>>(20, 27, 0);
  expect_scattered<kEpilogue<false, false, Activation::ReLU>>(20, 27, 1);
  expect_scattered<kEpilogue<false, true, Activation::None>>(20, 27, 2);
  expect_scattered<kEpilogue<false, true, Activation::ReLU>>(20, 27, 3);
  expect_scattered<kEpilogue<true, false, Activation::None>>(20, 27, 4);
  expect_scattered<kEpilogue<true, false, Activation::ReLU>>(20, 27, 5);
  expect_scattered<kEpilogue<true, true, Activation::None>>(20, 27, 6);
  expect_scattered<kEpilogue<true, true, Activation::ReLU>>(20, 27, 7);
  expect_scattered<kEpilogue<false, false, Activation::LeakyReLU>>(20, 27, 8);
  expect_scattered<kEpilogue<false, true, Activation::LeakyReLU>>(20, 27, 9);
  expect_scattered<kEpilogue<true, false, Activation::LeakyReLU>>(20, 27, 10);
  expect_scattered<kEpilogue<true, true, Activation::LeakyReLU>>(20, 27, 11);
}

TEST(Scatter, ManyRowsAndOddVolumes) {
  for (const i32 volume : {1, 8, 9, 10, 27, 125}) {
    expect_scattered<kEpilogue<true, true, Activation::ReLU>>(2, volume, volume);
    expect_scattered<ScatterSpec{.io = DType::F32, .channels = 4, .tile = 4}>(300, volume, volume);
  }
}

// fp32 addition is not associative: ascending k is part of the contract, for it is what repeats.
TEST(Scatter, SumsInAscendingOffsets) {
  Matrix<DType::F32> buffer(3, 1, 1), output(1, 1, 1);
  buffer.set(2, 0, 1e8f);
  buffer.set(0, 0, 1.0f);
  buffer.set(1, 0, -1e8f);
  constexpr ScatterSpec kSpec{.io = DType::F32,
                              .channels = 1,
                              .tile = 1,
                              .vector_bytes = 4,
                              .scale_shift = false,
                              .activation = Activation::None,
                              .threads = 32};
  const std::vector<i32> lost{2, 0, -1, 1}, kept{2, 1, -1, 0};
  ScatterParams params{};
  params.buffer = buffer.floats();
  params.rows = 1;
  params.volume = 4;
  params.last_row = 3;
  params.output = output.elements();
  params.output_ld = 1;
  u32 overflow = 0;
  params.overflow = &overflow;
  params.overflow_mark = 1;
  params.table = lost.data();
  shim::launch(&scatter<kSpec>, params, {.blocks = 1, .threads = 32});
  EXPECT_EQ(output.at(0, 0), 0.0);
  params.table = kept.data();
  shim::launch(&scatter<kSpec>, params, {.blocks = 1, .threads = 32});
  EXPECT_EQ(output.at(0, 0), 1.0);
}

TEST(Scatter, NoNeighbourGivesExactZeroAndNanPasses) {
  Matrix<DType::F32> buffer(2, 8, 8);
  Matrix<DType::F16> output(2, 8, 8);
  for (i64 c = 0; c < 8; ++c) {
    buffer.set(0, c, std::numeric_limits<float>::quiet_NaN());  // a row that nobody reads
    buffer.set(1, c, std::numeric_limits<float>::quiet_NaN());
  }
  constexpr ScatterSpec kSpec{
      .channels = 8, .scale_shift = false, .activation = Activation::ReLU, .threads = 32};
  const std::vector<i32> table{-1, 1, -1, -1};
  ScatterParams params{};
  params.buffer = buffer.floats();
  params.table = table.data();
  params.rows = params.volume = params.last_row = 2;
  params.output = output.elements();
  params.output_ld = 8;
  u32 overflow = 0;
  params.overflow = &overflow;
  params.overflow_mark = 1;
  shim::launch(&scatter<kSpec>, params, {.blocks = 1, .threads = 32});
  for (i64 c = 0; c < 8; ++c) {
    EXPECT_EQ(output.bits(0, c), 0u);
    EXPECT_TRUE(std::isnan(output.at(1, c)));
  }
  EXPECT_EQ(overflow, 1u);
}

/// One number of a row, by what its sum is before it is rounded to T.
template <DType T, Activation A = Activation::None>
u32 overflow_of(float sum) {
  Matrix<DType::F32> buffer(1, 8, 8);
  Matrix<T> output(1, 8, 8);
  for (i64 c = 0; c < 8; ++c) buffer.set(0, c, c == 5 ? sum : 1.0f);
  constexpr ScatterSpec kSpec{.io = T, .channels = 8, .scale_shift = false, .activation = A, .threads = 32};
  const i32 row = 0;
  u32 overflow = 0;
  ScatterParams params{};
  params.buffer = buffer.floats();
  params.table = &row;
  params.rows = params.volume = params.last_row = 1;
  params.output = output.elements();
  params.output_ld = 8;
  params.overflow = &overflow;
  params.overflow_mark = 1;
  shim::launch(&scatter<kSpec>, params, {.blocks = 1, .threads = 32});
  if (A == Activation::None) {
    EXPECT_EQ(overflow == 0, std::isfinite(output.at(0, 5))) << sum;
  }
  return overflow;
}

TEST(Scatter, NumbersThatMemoryDoesNotHoldAreTold) {
  EXPECT_EQ(overflow_of<DType::F16>(0x1.ffdffep15f), 0u);  // the last below 65520
  EXPECT_EQ(overflow_of<DType::F16>(-65520.0f), 1u);
  EXPECT_EQ(overflow_of<DType::BF16>(65520.0f), 0u);
  EXPECT_EQ(overflow_of<DType::BF16>(-0x1.fefffep127f), 0u);
  EXPECT_EQ(overflow_of<DType::BF16>(0x1.ffp127f), 1u);
  EXPECT_EQ(overflow_of<DType::F32>(std::numeric_limits<float>::max()), 0u);
  EXPECT_EQ(overflow_of<DType::F32>(-std::numeric_limits<float>::infinity()), 1u);
  EXPECT_EQ(overflow_of<DType::F16>(std::numeric_limits<float>::quiet_NaN()), 1u);
  // A ReLU makes 0 of both; the second is what a sum of 16-bit parts overflowed to.
  EXPECT_EQ((overflow_of<DType::F16, Activation::ReLU>(-1e6f)), 0u);
  EXPECT_EQ((overflow_of<DType::F16, Activation::ReLU>(-std::numeric_limits<float>::infinity())), 1u);
}

}  // namespace
}  // namespace minuet
