// The kernels of a batch norm in training in the shim, against plain loops: vectors of every width, rows with
// gaps and padding, and grids of any size.
#include "tests/kernels_templates/features.h"
// The kernels come after features.h, which defines the shim's names that they use.
#include <gtest/gtest.h>

#include <bit>

#include "kernels_templates/batch_norm/finish_moments.h"
#include "kernels_templates/batch_norm/finish_norm_gradients.h"
#include "kernels_templates/batch_norm/normalize.h"
#include "kernels_templates/batch_norm/normalize_gradients.h"
#include "kernels_templates/batch_norm/sum_moments.h"
#include "kernels_templates/batch_norm/sum_norm_gradients.h"
#include "tests/support/batch_norm_oracle.h"

namespace minuet {
namespace {

/// The kernels of one problem. Fewer threads than the library uses make the shim faster.
template <DType T, i32 VectorBytes, i32 Lanes, ReluMask Mask>
struct Kernels {
  static constexpr DType kIo = T;
  static constexpr ReluMask kMask = Mask;
  static constexpr bool kHasRelu = Mask != ReluMask::None, kHasResidual = Mask == ReluMask::Output;
  static constexpr SumMomentsSpec kSum{.io = T, .vector_bytes = VectorBytes, .lanes = Lanes, .threads = 64};
  static constexpr FinishMomentsSpec kFinish{.threads = 64};
  static constexpr NormalizeSpec kNormalize{.io = T,
                                            .vector_bytes = VectorBytes,
                                            .lanes = Lanes,
                                            .has_residual = kHasResidual,
                                            .has_relu = kHasRelu,
                                            .threads = 64};
  static constexpr SumNormGradientsSpec kSumGradients{
      .io = T, .vector_bytes = VectorBytes, .lanes = Lanes, .mask = Mask, .threads = 64};
  static constexpr FinishNormGradientsSpec kFinishGradients{.threads = 64};
  static constexpr NormalizeGradientsSpec kNormalizeGradients{
      .io = T,
      .vector_bytes = VectorBytes,
      .lanes = Lanes,
      .mask = Mask == ReluMask::Output ? ReluMask::None : Mask,
      .threads = 64};
};

/// Returns the bits of all results, which do not depend on the number of blocks.
template <class K>
std::vector<u32> norm_bits(i64 rows, i64 capacity, i32 channels, i32 blocks) {
  SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(channels) + " channels");
  Random random(static_cast<std::uint64_t>(rows + channels));
  const i64 ld = channels + 16;
  const auto make = [&](bool fills) {
    Matrix<K::kIo> matrix(capacity, channels, ld);
    if (fills) matrix.fill(random, rows);
    return matrix;
  };
  Matrix<K::kIo> input = make(true), residual = make(true), out_gradient = make(true), output = make(false),
                 residual_gradient = make(false), input_gradient = make(false);
  const auto width = static_cast<std::size_t>(channels);
  std::vector<float> weight, bias, running_mean(width, 3.0f), running_variance(width, 2.0f);
  weight.reserve(width), bias.reserve(width);
  for (i32 c = 0; c < channels; ++c) {
    weight.push_back(static_cast<float>(random.uniform(0.5, 2)));
    bias.push_back(static_cast<float>(random.uniform(-1, 1)));
  }
  std::vector<float> pieces =
                         poisoned<float>(static_cast<std::size_t>(norm_pieces(capacity)) * 2 * width + 1),
                     shift = poisoned<float>(width), saved = poisoned<float>(2 * width + 1),
                     sums = poisoned<float>(2 * width), weight_gradient(width, 1.0f),
                     bias_gradient(width, -1.0f);
  const i32 count = static_cast<i32>(rows);
  i64 batches = 4;
  BatchNormParams forward = {};
  forward.shape = {capacity, rows == capacity ? nullptr : &count, channels};
  forward.input = {input.elements(), ld}, forward.output = {output.elements(), ld};
  if (K::kHasResidual) forward.residual = {residual.elements(), ld};
  forward.pieces = pieces.data(), forward.shift = shift.data(), forward.saved = saved.data();
  forward.weight = weight.data(), forward.bias = bias.data();
  forward.running = {running_mean.data(),
                     running_variance.data(),
                     &batches,
                     running_mean.data(),
                     running_variance.data(),
                     &batches,
                     0.25f,
                     1};
  forward.eps = 1e-3f;
  shim::launch(&sum_moments<K::kSum>, forward, {.blocks = blocks, .threads = 64});
  shim::launch(&finish_moments<K::kFinish>, forward, {.blocks = blocks, .threads = 64});
  shim::launch(&normalize<K::kNormalize>, forward, {.blocks = blocks, .threads = 64});

  oracle::NormBatch batch;
  batch.channels = channels, batch.eps = static_cast<double>(forward.eps);
  batch.weight.assign(weight.begin(), weight.end()), batch.bias.assign(bias.begin(), bias.end());
  std::vector<bool> passes;
  for (i64 row = 0; row < rows; ++row) {
    for (i32 c = 0; c < channels; ++c) {
      batch.input.push_back(input.at(row, c));
      if (K::kHasResidual) batch.residual.push_back(residual.at(row, c));
      batch.out_gradient.push_back(out_gradient.at(row, c));
      passes.push_back(!K::kHasRelu || output.at(row, c) > 0);
    }
  }
  const oracle::NormResult expected = oracle::normalize(batch);
  constexpr double kUnit = K::kIo == DType::F16 ? 1e-3 : K::kIo == DType::BF16 ? 8e-3 : 2e-5;
  const auto expect_rows = [&](const Matrix<K::kIo>& matrix, const std::vector<double>& wanted,
                               const char* name) {
    for (i64 row = 0; row < capacity; ++row) {
      for (i32 c = 0; c < channels; ++c) {
        const double value = row < rows ? wanted[static_cast<std::size_t>(row * channels + c)] : 0;
        ASSERT_NEAR(matrix.at(row, c), value, row < rows ? kUnit * (1 + std::abs(value)) : 0) << name << row;
      }
      ASSERT_TRUE(matrix.is_poison(row, channels)) << name;
    }
  };
  std::vector<double> outputs = expected.output;
  for (double& value : outputs) value = K::kHasRelu && value < 0 ? 0 : value;
  expect_rows(output, outputs, "output ");
  const double share = rows > 0 ? 0.2 : 0;
  for (std::size_t c = 0; c < width; ++c) {
    EXPECT_NEAR(static_cast<double>(saved[c]), expected.mean[c], 1e-6);
    EXPECT_NEAR(static_cast<double>(saved[width + c]), expected.inverse_std[c],
                1e-5 * expected.inverse_std[c]);
    const double n = static_cast<double>(rows), unbiased = rows > 1 ? expected.variance[c] * n / (n - 1) : 0;
    EXPECT_NEAR(static_cast<double>(running_mean[c]), 3 + share * (expected.mean[c] - 3), 1e-5);
    EXPECT_NEAR(static_cast<double>(running_variance[c]), 2 + share * (unbiased - 2), 1e-5);
  }
  EXPECT_EQ(batches, rows > 0 ? 5 : 4);

  BatchNormGradientParams backward = {};
  backward.shape = forward.shape;
  backward.input = forward.input, backward.output = forward.output;
  backward.out_gradient = {out_gradient.elements(), ld};
  if (K::kHasResidual) backward.residual_gradient = {residual_gradient.elements(), ld};
  backward.input_gradient = {input_gradient.elements(), ld};
  backward.weight = weight.data(), backward.bias = bias.data(), backward.saved = saved.data();
  backward.pieces = pieces.data(), backward.sums = sums.data();
  backward.weight_gradient = weight_gradient.data(), backward.bias_gradient = bias_gradient.data();
  backward.adds = 1;
  shim::launch(&sum_norm_gradients<K::kSumGradients>, backward, {.blocks = blocks, .threads = 64});
  shim::launch(&finish_norm_gradients<K::kFinishGradients>, backward, {.blocks = blocks, .threads = 64});
  if (K::kHasResidual) backward.out_gradient = backward.residual_gradient;
  shim::launch(&normalize_gradients<K::kNormalizeGradients>, backward, {.blocks = blocks, .threads = 64});
  const oracle::NormGradients gradients = oracle::gradients_of(batch, passes);
  if (K::kHasResidual) expect_rows(residual_gradient, gradients.residual, "residual_gradient ");
  expect_rows(input_gradient, gradients.input, "input_gradient ");
  for (std::size_t c = 0; c < width; ++c) {
    const double bound = 1e-5 * (gradients.weight_sizes[c] + gradients.bias_sizes[c] + 1);
    EXPECT_NEAR(static_cast<double>(weight_gradient[c]), 1 + gradients.weight[c], bound);
    EXPECT_NEAR(static_cast<double>(bias_gradient[c]), -1 + gradients.bias[c], bound);
  }
  std::vector<u32> bits;
  bits.reserve(static_cast<std::size_t>(3 * capacity + 7) * width + 1);
  for (const auto* values :
       {&saved, &sums, &weight_gradient, &bias_gradient, &running_mean, &running_variance})
    for (const float value : *values) bits.push_back(std::bit_cast<u32>(value));
  for (const auto* matrix : {&output, &input_gradient, &residual_gradient}) {
    if (matrix == &residual_gradient && !K::kHasResidual) continue;
    for (i64 row = 0; row < capacity; ++row) {
      for (i32 c = 0; c < channels; ++c)
        bits.push_back(std::bit_cast<u32>(static_cast<float>(matrix->at(row, c))));
    }
  }
  return bits;
}
template <class K>
void expect_norm(i64 rows, i64 capacity, i32 channels, i32 blocks) {
  const std::vector<u32> bits = norm_bits<K>(rows, capacity, channels, blocks);
  EXPECT_EQ(norm_bits<K>(rows, capacity, channels, blocks + 9), bits);
}

TEST(BatchNorm, OfVectorsOfEveryWidth) {
  expect_norm<Kernels<DType::F16, 16, 8, ReluMask::Output>>(1100, 1100, 136, 3);
  expect_norm<Kernels<DType::BF16, 16, 4, ReluMask::Input>>(700, 1700, 32, 2);
  expect_norm<Kernels<DType::F32, 16, 2, ReluMask::None>>(600, 601, 8, 1);
  expect_norm<Kernels<DType::F32, 8, 4, ReluMask::Output>>(515, 1030, 10, 7);
  expect_norm<Kernels<DType::F16, 4, 8, ReluMask::None>>(513, 513, 70, 4);
  expect_norm<Kernels<DType::BF16, 2, 4, ReluMask::Input>>(90, 100, 3, 2);
  expect_norm<Kernels<DType::F32, 4, 1, ReluMask::Input>>(520, 520, 1, 2);
}

TEST(BatchNorm, OfFewRows) {
  for (const i64 rows : {0, 1, 2, 65}) {
    expect_norm<Kernels<DType::F16, 16, 2, ReluMask::Output>>(rows, rows + 3, 16, 2);
    expect_norm<Kernels<DType::F32, 4, 4, ReluMask::None>>(rows, rows, 3, 1);
  }
}

TEST(BatchNorm, MergesMoments) {
  Random random(3);
  std::vector<double> numbers;
  MomentsSum all;
  for (const i32 count : {5, 0, 1, 300}) {
    MomentsSum part;
    for (i32 i = 0; i < count; ++i) {
      numbers.push_back(1e4 + random.uniform(-1, 1));
      const auto number = static_cast<float>(numbers.back());
      numbers.back() = static_cast<double>(number);
      part.add(Moments{1, number, 0});
    }
    all.add(part.moments());
  }
  double mean = 0, squares = 0;
  for (const double number : numbers) mean += number / static_cast<double>(numbers.size());
  for (const double number : numbers) squares += (number - mean) * (number - mean);
  const Moments moments = all.moments();
  EXPECT_EQ(moments.count, 306);
  EXPECT_NEAR(static_cast<double>(moments.mean), mean, 1e-3);
  EXPECT_NEAR(static_cast<double>(moments.squares), squares, 2e-3 * squares);
  EXPECT_EQ(merged({0, 0, 0}, moments).mean, moments.mean);
  EXPECT_EQ(merged(moments, {0, 0, 0}).squares, moments.squares);
}

}  // namespace
}  // namespace minuet
