// The kernels of a batch norm in training in the shim, against plain loops: vectors of every width, rows with
// gaps and padding, and grids of any size.
#include "tests/kernels_templates/features.h"
// The kernels come after features.h, which defines the shim's names that they use.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <limits>

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
  std::vector<PieceSums> pieces =
      poisoned<PieceSums>(static_cast<std::size_t>(most_norm_pieces(capacity)) * width + 1);
  std::vector<float> shift = poisoned<float>(width), saved = poisoned<float>(2 * width + 1),
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

/// Pieces are larger where there are many rows, and those of one thread are then of several batches.
TEST(BatchNorm, OfPiecesOfManyRows) {
  expect_norm<Kernels<DType::F32, 4, 1, ReluMask::Input>>(132000, 132100, 1, 40);
}

/// With a capacity of so many rows that pieces would be longer if they depended on it, the numbers of
/// channels have the same bits.
TEST(BatchNorm, OfFewRowsOfALargeCapacity) {
  using K = Kernels<DType::F32, 4, 1, ReluMask::Output>;
  constexpr std::size_t kNumbers = 9;  // Those of one channel.
  const std::vector<u32> bits = norm_bits<K>(900, 900, 1, 5), wide = norm_bits<K>(900, 132000, 1, 30);
  ASSERT_GT(bits.size(), kNumbers);
  EXPECT_EQ(std::vector<u32>(wide.begin(), wide.begin() + kNumbers),
            std::vector<u32>(bits.begin(), bits.begin() + kNumbers));
}

TEST(BatchNorm, PiecesCoverTheRowsOnce) {
  for (const i64 rows : {i64{0}, i64{1}, i64{127}, i64{128}, i64{129}, i64{131072}, i64{131073}, i64{1} << 20,
                         (i64{1} << 31) - 1}) {
    const NormPieces pieces(rows);
    EXPECT_LE(pieces.count(), most_norm_pieces(rows));
    i64 covered = 0;
    for (i64 piece = 0; piece < pieces.count(); ++piece) {
      EXPECT_EQ(pieces.begin(piece), covered);
      EXPECT_GT(pieces.rows_of(piece), 0);
      covered += pieces.rows_of(piece);
    }
    EXPECT_EQ(covered, rows);
    EXPECT_EQ(pieces.count_up_to(rows), pieces.count());
    EXPECT_EQ(pieces.count_up_to(pieces.begin(pieces.count()) + 1), pieces.count() + 1) << "a row of padding";
    EXPECT_LE(most_norm_pieces(rows), most_norm_pieces(rows + 1)) << "more rows need no less memory";
  }
}

/// The moments of more ranks than the threads of a channel load at once, of which some have no rows.
TEST(BatchNorm, OfManyRanks) {
  constexpr FinishMomentsSpec kFinish{.threads = 64};
  constexpr i64 kChannels = 6, kNumbers = 2 * kChannels + 1;
  for (const i64 ranks : {1, 3, 64, 65, 200}) {
    Random random(static_cast<std::uint64_t>(ranks));
    std::vector<std::vector<double>> rows(kChannels);
    std::vector<float> moments;
    for (i64 rank = 0; rank < ranks; ++rank) {
      // The mean that a rank without rows gives does not count.
      const i64 count = ranks > 1 && rank % 4 == 0 ? 0 : 1 + rank % 7;
      std::vector<float> means, squares;
      for (std::size_t c = 0; c < kChannels; ++c) {
        std::vector<float> numbers;
        double mean = 0, square = 0;
        for (i64 i = 0; i < count; ++i) numbers.push_back(static_cast<float>(1e3 + random.uniform(-1, 1)));
        for (const float number : numbers) mean += static_cast<double>(number) / static_cast<double>(count);
        const auto stored = static_cast<float>(mean);
        for (const float number : numbers) {
          rows[c].push_back(static_cast<double>(number));
          square += (static_cast<double>(number) - mean) * (static_cast<double>(number) - mean);
        }
        means.push_back(count == 0 ? std::numeric_limits<float>::quiet_NaN() : stored);
        squares.push_back(static_cast<float>(square));
      }
      moments.insert(moments.end(), means.begin(), means.end());
      moments.insert(moments.end(), squares.begin(), squares.end());
      moments.push_back(static_cast<float>(count));
    }
    std::vector<float> merged = poisoned<float>(kNumbers), again = merged;
    BatchNormParams params = {};
    params.shape = {0, nullptr, kChannels};
    params.moments = moments.data(), params.ranks = ranks, params.merged = merged.data();
    shim::launch(&finish_moments<kFinish>, params, {.blocks = 1, .threads = 64});
    params.merged = again.data();
    shim::launch(&finish_moments<kFinish>, params, {.blocks = 3, .threads = 64});
    EXPECT_EQ(again, merged);
    EXPECT_EQ(merged.back(), static_cast<float>(rows[0].size()));
    for (std::size_t c = 0; c < kChannels; ++c) {
      double mean = 0, square = 0;
      for (const double number : rows[c]) mean += number / static_cast<double>(rows[c].size());
      for (const double number : rows[c]) square += (number - mean) * (number - mean);
      EXPECT_NEAR(static_cast<double>(merged[c]), mean, 1e-4) << ranks;
      EXPECT_NEAR(static_cast<double>(merged[kChannels + c]), square, 1e-3 * square + 1e-6) << ranks;
    }
  }
}

/// Returns the merged moments of `Count` numbers, which are added to `numbers`.
template <i32 Count>
Moments moments_of_numbers(Random& random, std::vector<double>& numbers) {
  std::array<Moments, Count> parts;
  for (Moments& part : parts) {
    part = {1, static_cast<float>(1e4 + random.uniform(-1, 1)), 0};
    numbers.push_back(static_cast<double>(part.mean));
  }
  return merged<Count>(parts.data());
}

TEST(BatchNorm, MergesMoments) {
  Random random(3);
  std::vector<double> numbers;
  const Moments five = moments_of_numbers<5>(random, numbers), one = moments_of_numbers<1>(random, numbers);
  const Moments parts[] = {five, {0, 0, 0}, one, moments_of_numbers<300>(random, numbers)};
  const Moments all = merged<4>(parts);
  double mean = 0, squares = 0;
  for (const double number : numbers) mean += number / static_cast<double>(numbers.size());
  for (const double number : numbers) squares += (number - mean) * (number - mean);
  EXPECT_EQ(all.count, 306);
  EXPECT_NEAR(static_cast<double>(all.mean), mean, 1e-3);
  EXPECT_NEAR(static_cast<double>(all.squares), squares, 2e-3 * squares);
  const Moments behind_none[] = {{0, 0, 0}, all}, before_none[] = {all, {0, 0, 0}};
  EXPECT_EQ(merged<2>(behind_none).mean, all.mean);
  EXPECT_EQ(merged<2>(before_none).squares, all.squares);
}

}  // namespace
}  // namespace minuet
