// Chains of pointwise steps in the shim, against fp64.
#include <gtest/gtest.h>

#include "tests/kernels_templates/features.h"
// The kernel comes after features.h, which defines the shim's names that it uses.
#include "kernels_templates/pointwise/pointwise.h"
#include "tests/support/pointwise_oracle.h"

namespace minuet {
namespace {

using Kind = PointwiseKind;

/// A chain with random parameters and operands, and what it computes of `input`.
template <PointwiseSpec S>
struct Chain {
  Chain(Random& random, i64 rows) {
    for (i32 i = 0; i < kMostPointwiseSteps && S.steps.kinds[i] != Kind::None; ++i) {
      const Kind kind = S.steps.kinds[i];
      oracle::ChainStep& step = steps.emplace_back();
      step.op = oracle::kStepNames[static_cast<int>(kind)];
      if (kind == Kind::LayerNorm || kind == Kind::LayerNormGradient) step.number = 1e-3f;
      if (kind == Kind::LeakyReLU || kind == Kind::LeakyReLUGradient) step.number = -0.25f;
      params.numbers[i] = static_cast<float>(step.number);
      if (reads_operand(kind)) add_operand(random, rows, i, step);
      if (kind == Kind::Affine) add_affine(random, step);
    }
    // The kernel reads several numbers at once.
    for (std::vector<float>* numbers : {&scales, &shifts}) numbers->resize(numbers->size() + 4);
    params.scale = aligned(scales), params.shift = aligned(shifts);
  }
  Chain(const Chain&) = delete;

  std::vector<oracle::ChainStep> steps;
  PointwiseParams params = {};

 private:
  void add_operand(Random& random, i64 rows, i32 i, oracle::ChainStep& step) {
    Matrix<S.io>& operand = operands.emplace_back(rows, S.channels, S.channels + 16);
    operand.fill(random, rows);
    for (i64 row = 0; row < rows; ++row) {
      for (i64 c = 0; c < S.channels; ++c) step.operand.push_back(static_cast<float>(operand.at(row, c)));
    }
    params.operands[i] = operand.elements(), params.operand_lds[i] = operand.ld();
  }
  void add_affine(Random& random, oracle::ChainStep& step) {
    for (i32 c = 0; c < S.channels; ++c) {
      step.scale.push_back(static_cast<float>(random.uniform(-2, 2)));
      step.shift.push_back(static_cast<float>(random.uniform(-1, 1)));
    }
    scales.insert(scales.end(), step.scale.begin(), step.scale.end());
    shifts.insert(shifts.end(), step.shift.begin(), step.shift.end());
  }
  static const float* aligned(std::vector<float>& numbers) {
    const auto skipped = (16 - reinterpret_cast<std::uintptr_t>(numbers.data()) % 16) % 16 / sizeof(float);
    std::rotate(numbers.begin(), numbers.end() - static_cast<std::ptrdiff_t>(skipped), numbers.end());
    return numbers.data() + skipped;
  }

  std::vector<Matrix<S.io>> operands;
  std::vector<float> scales, shifts;
};

constexpr u32 kMark = 5;  // of a chain that writes a number that is not finite

template <PointwiseSpec S>
u32 launch(PointwiseParams& params, i32 count, i64 output_rows, int variant) {
  u32 overflow = 0;
  params.count = &count;
  params.rows = output_rows;
  params.pads_output = output_rows > count ? 1 : 0;
  params.overflow = &overflow, params.overflow_mark = kMark;
  shim::launch(&pointwise<S>, params, shim::small_grid(variant, S.threads));
  return overflow;
}

template <PointwiseSpec S>
std::vector<float> values_of(const Matrix<S.io>& matrix, i64 rows) {
  std::vector<float> values;
  for (i64 row = 0; row < rows; ++row) {
    for (i64 c = 0; c < S.channels; ++c) values.push_back(static_cast<float>(matrix.at(row, c)));
  }
  return values;
}

template <PointwiseSpec S>
void expect_chain(i32 count, i64 output_rows, int variant) {
  Random random(500 + static_cast<u64>(count) + S.channels);
  Chain<S> chain(random, count);
  Matrix<S.io> input(count, S.channels, S.channels + 16),
      output(output_rows + 1, S.channels, S.channels + 32);
  input.fill(random, count);
  chain.params.input = input.elements(), chain.params.input_ld = input.ld();
  chain.params.output = output.elements(), chain.params.output_ld = output.ld();
  EXPECT_EQ((launch<S>(chain.params, count, output_rows, variant)), 0u);
  const oracle::ChainResult expected =
      oracle::evaluate_chain(chain.steps, values_of<S>(input, count), S.channels);
  EXPECT_TRUE(oracle::is_chain(values_of<S>(output, count), expected, S.io))
      << S.channels << " " << S.lanes << " " << count;
  for (i64 row = 0; row <= output_rows; ++row) {
    for (i64 c = 0; c < S.channels && row >= count && row < output_rows; ++c) {
      ASSERT_EQ(output.bits(row, c), 0u) << "padding " << row << " " << c;
    }
    ASSERT_TRUE(output.is_poison(row, row < output_rows ? S.channels : 0)) << "past the row " << row;
  }
}

template <PointwiseSpec S>
void expect_argmax(i32 count, i64 output_rows, int variant) {
  Random random(700 + static_cast<u64>(count) + S.channels);
  Chain<S> chain(random, count);
  Matrix<S.io> input(count, S.channels, S.channels + 16);
  bool has_nan = false;
  for (i64 row = 0; row < count; ++row) {
    for (i64 c = 0; c < S.channels; ++c) {
      const float value = static_cast<float>(random.below(4)) - 3;
      const bool is_nan = random.below(90) == 0;
      input.set(row, c, is_nan ? std::nanf("") : value);
      has_nan = has_nan || is_nan;
    }
  }
  constexpr i32 kNothing = 77777;
  std::vector<i32> output(static_cast<std::size_t>(3 * (output_rows + 1)), kNothing);
  chain.params.input = input.elements(), chain.params.input_ld = input.ld();
  chain.params.output = output.data(), chain.params.output_ld = 3;
  EXPECT_EQ((launch<S>(chain.params, count, output_rows, variant)), has_nan ? kMark : 0u);
  std::vector<i32> found;
  for (i64 row = 0; row <= output_rows; ++row) {
    const i32* const at = output.data() + 3 * row;
    if (row < count) found.push_back(at[0]);
    if (row >= count) {
      EXPECT_EQ(at[0], row < output_rows ? -1 : kNothing) << row;
    }
    EXPECT_TRUE(at[1] == kNothing && at[2] == kNothing);
  }
  const oracle::ChainResult expected =
      oracle::evaluate_chain(chain.steps, values_of<S>(input, count), S.channels);
  EXPECT_TRUE(oracle::is_argmax_of(found, expected, S.channels)) << S.channels << " " << S.lanes;
}

template <Kind... Kinds>
constexpr PointwiseSpec elementwise(DType io, i32 channels, i32 vector_bytes) {
  return {.io = io,
          .channels = channels,
          .vector_bytes = vector_bytes,
          .steps = {{Kinds...}},
          .lanes = channels * dtype_bytes(io) / vector_bytes,
          .threads = 64};
}
template <Kind... Kinds>
constexpr PointwiseSpec row_wise(DType io, i32 channels, i32 vector_bytes, i32 lanes) {
  return {.io = io,
          .channels = channels,
          .vector_bytes = vector_bytes,
          .steps = {{Kinds...}},
          .lanes = lanes,
          .threads = lanes > 32 ? lanes : 64};
}

template <PointwiseSpec S>
void expect_chains() {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    expect_chain<S>(37, 37, variant);
    expect_chain<S>(1, 6, variant);
    expect_chain<S>(0, 3, variant);
  }
}
template <PointwiseSpec S>
void expect_argmaxes() {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    expect_argmax<S>(37, 37, variant);
    expect_argmax<S>(1, 6, variant);
    expect_argmax<S>(0, 3, variant);
  }
}

template <Kind K>
void expect_alone() {
  expect_chains<elementwise<K>(DType::F32, 12, 16)>();
  expect_chains<elementwise<K>(DType::F16, 16, 16)>();
  expect_chains<elementwise<K>(DType::BF16, 7, 2)>();
}

TEST(Pointwise, EveryStepAlone) {
  expect_alone<Kind::ReLU>();
  expect_alone<Kind::LeakyReLU>();
  expect_alone<Kind::Gelu>();
  expect_alone<Kind::GeluTanh>();
  expect_alone<Kind::Silu>();
  expect_alone<Kind::Sigmoid>();
  expect_alone<Kind::Tanh>();
  expect_alone<Kind::Add>();
  expect_alone<Kind::Multiply>();
  expect_alone<Kind::Affine>();
  expect_alone<Kind::ReLUGradient>();
  expect_alone<Kind::LeakyReLUGradient>();
  expect_alone<Kind::GeluGradient>();
  expect_alone<Kind::GeluTanhGradient>();
  expect_alone<Kind::SiluGradient>();
  expect_alone<Kind::SigmoidGradient>();
  expect_alone<Kind::TanhGradient>();
}

TEST(Pointwise, ChainsOfElements) {
  expect_chains<elementwise<Kind::Affine, Kind::Silu, Kind::Add, Kind::Affine, Kind::Multiply, Kind::Tanh,
                            Kind::Add, Kind::LeakyReLU>(DType::F16, 24, 16)>();
  expect_chains<elementwise<Kind::Gelu, Kind::Affine, Kind::Multiply>(DType::F32, 6, 8)>();
  expect_chains<elementwise<Kind::Add, Kind::ReLU>(DType::BF16, 20, 8)>();
}

TEST(Pointwise, RowsOfAWarpOrLess) {
  expect_chains<row_wise<Kind::LayerNorm>(DType::F32, 3, 4, 1)>();
  expect_chains<row_wise<Kind::LayerNorm, Kind::Affine, Kind::Gelu>(DType::F16, 48, 16, 2)>();
  expect_chains<row_wise<Kind::Add, Kind::Softmax>(DType::BF16, 19, 2, 8)>();
  expect_chains<row_wise<Kind::Softmax, Kind::LayerNorm, Kind::Multiply>(DType::F32, 300, 16, 32)>();
}

TEST(Pointwise, RowsOfABlock) {
  expect_chains<row_wise<Kind::LayerNorm, Kind::Affine, Kind::Softmax>(DType::F16, 1001, 2, 128)>();
  expect_chains<row_wise<Kind::Silu, Kind::LayerNorm>(DType::F32, 520, 8, 64)>();
}

TEST(Pointwise, GradientsOfRows) {
  expect_chains<row_wise<Kind::LayerNormGradient>(DType::F32, 3, 4, 1)>();
  expect_chains<row_wise<Kind::GeluGradient, Kind::Affine, Kind::LayerNormGradient, Kind::Add>(DType::F16, 48,
                                                                                               16, 2)>();
  expect_chains<row_wise<Kind::SoftmaxGradient, Kind::SiluGradient>(DType::BF16, 19, 2, 8)>();
  expect_chains<row_wise<Kind::SoftmaxGradient, Kind::LayerNormGradient>(DType::F32, 520, 8, 64)>();
}

TEST(Pointwise, Argmax) {
  expect_argmaxes<row_wise<Kind::Argmax>(DType::F32, 5, 4, 4)>();
  expect_argmaxes<row_wise<Kind::Argmax>(DType::F16, 72, 16, 8)>();
  expect_argmaxes<row_wise<Kind::ReLU, Kind::Argmax>(DType::BF16, 301, 2, 32)>();
  expect_argmaxes<row_wise<Kind::Argmax>(DType::F32, 700, 8, 128)>();
}

/// A NaN or an overflow of fp16 is marked; softmax of a row with NaN, or of -inf only, is NaN.
TEST(Pointwise, WhatIsNotFiniteIsMarked) {
  constexpr PointwiseSpec kScale = elementwise<Kind::Affine>(DType::F16, 4, 8);
  constexpr PointwiseSpec kSoftmax = row_wise<Kind::Softmax>(DType::F16, 4, 8, 1);
  const float infinity = std::numeric_limits<float>::infinity();
  const auto run = [&]<PointwiseSpec S>(std::integral_constant<i32, S.lanes>, std::vector<float> values) {
    Matrix<DType::F16> input(1, 4, 8), output(1, 4, 8);
    for (i64 c = 0; c < 4; ++c) input.set(0, c, values[static_cast<std::size_t>(c)]);
    alignas(16) const float scale[4] = {2, 2, 2, 2}, shift[4] = {};
    PointwiseParams params = {};
    params.input = input.elements(), params.input_ld = 8;
    params.output = output.elements(), params.output_ld = 8;
    params.scale = scale, params.shift = shift;
    const u32 mark = launch<S>(params, 1, 1, 0);
    return std::pair(mark, values_of<S>(output, 1));
  };
  const auto scale = [&](std::vector<float> values) {
    return run.template operator()<kScale>({}, std::move(values));
  };
  const auto softmax = [&](std::vector<float> values) {
    return run.template operator()<kSoftmax>({}, std::move(values));
  };
  EXPECT_EQ(scale({1, 2, 3, 32000}).first, 0u);
  EXPECT_EQ(scale({1, 2, 3, 33000}).first, 5u);
  EXPECT_EQ(scale({1, std::nanf(""), 3, 4}).first, 5u);
  for (const float odd : {std::nanf(""), infinity}) {
    const auto [mark, values] = softmax({1, odd, 2, 3});
    EXPECT_EQ(mark, 5u);
    EXPECT_TRUE(std::isnan(values[1])) << odd;
  }
  EXPECT_TRUE(std::isnan(softmax({-infinity, -infinity, -infinity, -infinity}).second[0]));
  EXPECT_EQ(softmax({-infinity, 0, -infinity, 0}), std::pair(0u, std::vector<float>{0, 0.5f, 0, 0.5f}));
}

}  // namespace
}  // namespace minuet
