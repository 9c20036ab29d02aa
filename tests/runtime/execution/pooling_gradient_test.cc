// Gradients of poolings through the C ABI, on every device and in every dtype, against plain loops in
// float64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "include/minuet/gradient.h"
#include "tests/cases/convolution_cases.h"
#include "tests/support/network_abi.h"
#include "tests/support/pooling_abi.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

constexpr minuet_reduction kGradientReductions[] = {MINUET_REDUCE_MAX, MINUET_REDUCE_AVERAGE,
                                                    MINUET_REDUCE_SUM};

/// A pooling in float64: its output, and the input row that each maximum comes from. Pairs are in ascending
/// order of the offset.
struct PooledCase {
  std::vector<double> output;
  std::vector<int32_t> winners;
  std::vector<int64_t> found;  // the inputs of each output
};
PooledCase pool(const std::vector<oracle::Pair>& pairs, const std::vector<double>& features, int64_t out_rows,
                int channels, minuet_reduction reduction) {
  const auto count = static_cast<size_t>(out_rows * channels);
  PooledCase pooled{std::vector<double>(count, 0), std::vector<int32_t>(count, -1),
                    std::vector<int64_t>(static_cast<size_t>(out_rows), 0)};
  for (const oracle::Pair& pair : pairs) {
    const bool is_first = pooled.found[static_cast<size_t>(pair.out)]++ == 0;
    for (int c = 0; c < channels; ++c) {
      const double input = features[static_cast<size_t>(pair.in) * channels + c];
      const size_t place = static_cast<size_t>(pair.out) * channels + c;
      double& value = pooled.output[place];
      if (reduction != MINUET_REDUCE_MAX) {
        value += input;
      } else if (is_first || input > value || (std::isnan(input) && !std::isnan(value))) {
        value = input;
        pooled.winners[place] = pair.in;
      }
    }
  }
  for (size_t i = 0; i < count && reduction == MINUET_REDUCE_AVERAGE; ++i) {
    const int64_t found = pooled.found[i / static_cast<size_t>(channels)];
    if (found > 0) pooled.output[i] /= static_cast<double>(found);
  }
  return pooled;
}

/// The gradient of the input, and the sum of the sizes of what is added.
struct InputGradient {
  std::vector<double> values, sizes;
};
InputGradient gradient_of(const std::vector<oracle::Pair>& pairs, const PooledCase& pooled,
                          const std::vector<float>& out_gradient, int64_t in_rows, int channels,
                          minuet_reduction reduction) {
  const auto count = static_cast<size_t>(in_rows * channels);
  InputGradient gradient{std::vector<double>(count, 0), std::vector<double>(count, 0)};
  for (const oracle::Pair& pair : pairs) {
    for (int c = 0; c < channels; ++c) {
      const size_t to = static_cast<size_t>(pair.in) * channels + c;
      const size_t from = static_cast<size_t>(pair.out) * channels + c;
      double value = static_cast<double>(out_gradient[from]);
      if (reduction == MINUET_REDUCE_MAX && pooled.winners[from] != pair.in) continue;
      if (reduction == MINUET_REDUCE_AVERAGE) {
        value /= static_cast<double>(pooled.found[static_cast<size_t>(pair.out)]);
      }
      gradient.values[to] += value, gradient.sizes[to] += std::abs(value);
    }
  }
  return gradient;
}

/// Central differences of the loss sum(out_gradient * output) are the gradients above.
TEST(PoolingGradientOracle, EqualsDifferences) {
  Random random(1);
  constexpr int kChannels = 3;
  for (const ConvolutionKind kind : all_kinds()) {
    const ConvolutionData data = make_data(small_case(DType::F32, kind, kChannels, kChannels, 40));
    const std::vector<oracle::Pair> pairs = expected_pairs(data);
    std::vector<double> features(static_cast<size_t>(data.in_rows() * kChannels));
    for (double& value : features) value = random.uniform(-9, 9);
    std::vector<float> out_gradient(static_cast<size_t>(data.out_rows() * kChannels));
    for (float& value : out_gradient) value = static_cast<float>(random.uniform(-1, 1));
    for (const minuet_reduction reduction : kGradientReductions) {
      const PooledCase pooled = pool(pairs, features, data.out_rows(), kChannels, reduction);
      const InputGradient gradient =
          gradient_of(pairs, pooled, out_gradient, data.in_rows(), kChannels, reduction);
      const auto loss = [&](size_t place, double step) {
        std::vector<double> moved = features;
        moved[place] += step;
        const PooledCase other = pool(pairs, moved, data.out_rows(), kChannels, reduction);
        double sum = 0;
        for (size_t i = 0; i < other.output.size(); ++i) {
          sum += other.output[i] * static_cast<double>(out_gradient[i]);
        }
        return sum;
      };
      for (int i = 0; i < 20; ++i) {
        const auto place = static_cast<size_t>(random.below(features.size()));
        constexpr double kStep = 1e-7;  // so small that no other input wins
        EXPECT_NEAR((loss(place, kStep) - loss(place, -kStep)) / (2 * kStep), gradient.values[place], 1e-5);
      }
    }
  }
}

class PoolingGradientTest : public DeviceTest {
 protected:
  int64_t points() { return machine().is_software() ? 60 : 300; }

  Plan make_plan(const minuet_pooling_options& options) {
    minuet_plan* made = nullptr;
    check(minuet_plan_create_pooling_gradient(machine().context(), &options, &made));
    Plan plan(made, {minuet_plan_destroy});
    if (!made) return plan;
    check(minuet_plan_compile(made, machine().arch().c_str(), nullptr, nullptr));
    check(minuet_plan_load(made, machine().device()));
    return plan;
  }

  /// Few different numbers, so that there are ties, and some NaN.
  std::vector<float> features_with_ties(int64_t count, Random& random) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) {
      value = random.below(29) == 0 ? std::nanf("") : static_cast<float>(random.between(-3, 3));
    }
    return values;
  }

  /// The winners of the map's pooling as its plan writes them, i32 [out rows, channels].
  std::vector<int32_t> winners_of(const ConvolutionCase& test, const Map& map,
                                  const std::vector<float>& features, int64_t out_rows) {
    minuet_pooling_options options = pooling_of(test, MINUET_REDUCE_MAX);
    options.winners = 1;
    const Pooling pooling(machine(), options);
    const Execution execution = pooling.execution();
    check(prepare_map(execution.get(), map.map.get()));
    const int channels = test.in_channels;
    const Buffer input(machine(), encode(dtype(), map.to_input(features))),
        output(machine(), out_rows * channels * dtype_bytes(dtype())),
        winners(machine(), out_rows * channels * 4);
    const auto in_rows = static_cast<int64_t>(features.size()) / channels;
    check(run_arrays(execution.get(), {array_of(tensor(input, in_rows, channels, dtype()))},
                     {array_of(tensor(output, out_rows, channels, dtype())),
                      array_of(winners.data(), {out_rows, channels}, MINUET_ELEMENT_I32)}));
    return winners.read<int32_t>();
  }

  /// The gradient of the input as stored, in the order of the map's set. The caller's rows are `gap` elements
  /// further apart than their channels.
  std::vector<float> run(minuet_execution* execution, const Map& map, const std::vector<float>& out_gradient,
                         const std::optional<std::vector<int32_t>>& winners, int64_t in_rows, int channels,
                         int gap) {
    minuet_kernel_map* swapped = nullptr;
    check(minuet_kernel_map_transpose(map.map.get(), &swapped));
    const KernelMap owner(swapped, {minuet_kernel_map_destroy});
    check(prepare_map(execution, swapped));
    const auto out_rows = static_cast<int64_t>(out_gradient.size()) / channels;
    const int64_t wide = channels + gap;
    std::vector<int32_t> apart(static_cast<size_t>(out_rows * wide), 0);
    for (size_t i = 0; winners && i < winners->size(); ++i) {
      apart[i / static_cast<size_t>(channels) * static_cast<size_t>(wide) +
            i % static_cast<size_t>(channels)] = (*winners)[i];
    }
    const Buffer input(machine(), encode(dtype(), map.to_output(out_gradient))), numbers(machine(), apart),
        output(machine(), in_rows * wide * dtype_bytes(dtype()));
    std::vector<minuet_array> inputs{array_of(tensor(input, out_rows, channels, dtype()))};
    if (winners) {
      inputs.push_back(array_of(numbers.data(), {out_rows, channels}, MINUET_ELEMENT_I32));
      inputs.back().has_strides = 1;
      inputs.back().stride[0] = wide, inputs.back().stride[1] = 1;
    }
    check(run_arrays(execution, inputs,
                     {array_of(tensor(output.data(), in_rows, channels, abi_dtype(dtype()), wide))}));
    const std::vector<float> values = decode(dtype(), output.read<char>());
    std::vector<float> rows;
    for (size_t i = 0; i < values.size(); ++i) {
      if (i % static_cast<size_t>(wide) < static_cast<size_t>(channels)) rows.push_back(values[i]);
    }
    return rows;
  }

  void expect_near(const std::vector<float>& got, const InputGradient& expected) {
    ASSERT_EQ(got.size(), expected.values.size());
    const double relative = dtype() == DType::F16 ? 0x1p-11 : dtype() == DType::BF16 ? 0x1p-8 : 0x1p-24;
    for (size_t i = 0; i < got.size(); ++i) {
      const double value = expected.values[i];
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(got[i])) << i;
      } else {
        ASSERT_NEAR(static_cast<double>(got[i]), value,
                    relative * std::abs(value) + 1e-6 * expected.sizes[i] + 0x1p-24)
            << i;
      }
    }
  }

  void check_case(ConvolutionCase test, int gap) {
    SCOPED_TRACE(test.name());
    test.scale_shift = test.residual = false, test.activation = Activation::None;
    const int channels = test.in_channels;
    const ConvolutionData data = make_data(test);
    const Map map = make_map(machine(), test, data);
    Random random(test.seed);
    const std::vector<float> features = features_with_ties(data.in_rows() * channels, random);
    std::vector<float> out_gradient(static_cast<size_t>(data.out_rows() * channels));
    for (float& value : out_gradient) {
      value = round_to(storage_type(dtype()), static_cast<float>(random.uniform(-2, 2)));
      if (random.below(97) == 0) value = std::nanf("");
    }
    for (const minuet_reduction reduction : kGradientReductions) {
      SCOPED_TRACE(reduction);
      const bool is_max = reduction == MINUET_REDUCE_MAX;
      const Plan plan = make_plan(pooling_of(test, reduction));
      ASSERT_TRUE(plan);
      EXPECT_EQ(info_of(plan.get()).inputs, is_max ? 2 : 1);
      std::optional<std::vector<int32_t>> winners;
      if (is_max) winners = winners_of(test, map, features, data.out_rows());
      const Execution execution = make_execution(machine(), plan.get());
      const std::vector<float> got =
          run(execution.get(), map, out_gradient, winners, data.in_rows(), channels, gap);
      const PooledCase pooled =
          pool(map.pairs, {features.begin(), features.end()}, data.out_rows(), channels, reduction);
      expect_near(take_rows(got, map.in_rows),
                  gradient_of(map.pairs, pooled, out_gradient, data.in_rows(), channels, reduction));
      const std::vector<float> again =
          run(execution.get(), map, out_gradient, winners, data.in_rows(), channels, gap);
      EXPECT_EQ(encode(dtype(), again), encode(dtype(), got)) << "a repetition has other bits";
    }
  }
};

TEST_P(PoolingGradientTest, EveryMap) {
  for (const ConvolutionKind kind : {ConvolutionKind::Submanifold, ConvolutionKind::Strided,
                                     ConvolutionKind::GivenOutputs, ConvolutionKind::Transposed}) {
    check_case(small_case(dtype(), kind, 16, 16, points()), 0);
    check_case(small_case(dtype(), kind, 3, 3, points()), 16);
  }
}

TEST_P(PoolingGradientTest, ListsOfOffsetsAndOneOffset) {
  for (const ConvolutionKind kind : all_kinds()) {
    ConvolutionCase test = small_case(dtype(), kind, 8, 8, points());
    test.kernel_size = test.dilation = {1, 1, 1, 1};
    test.offsets = {{1, 0, 0, 0}, {0, 0, 0, 0}, {0, 2, -1, 0}, {-1, 0, 0, 0}, {0, 0, 1, 0}};
    check_case(test, 8);
    test.offsets = {};
    check_case(test, 0);
  }
}

TEST_P(PoolingGradientTest, FewPoints) {
  for (const int64_t count : {0, 1}) {
    check_case(small_case(dtype(), ConvolutionKind::Submanifold, 8, 8, count), 0);
    check_case(small_case(dtype(), ConvolutionKind::Strided, 8, 8, count), 0);
  }
}

TEST_P(PoolingGradientTest, AsBytes) {
  const ConvolutionCase test = small_case(dtype(), ConvolutionKind::Strided, 8, 8, 40);
  for (const minuet_reduction reduction : kGradientReductions) {
    const Plan plan = make_plan(pooling_of(test, reduction));
    size_t bytes = 0;
    check(minuet_plan_serialize(plan.get(), nullptr, 0, 0, nullptr, 0, &bytes));
    std::vector<char> memory(bytes);
    check(minuet_plan_serialize(plan.get(), nullptr, 0, 0, memory.data(), bytes, &bytes));
    minuet_plan* made = nullptr;
    check(minuet_plan_deserialize(machine().context(), memory.data(), bytes, &made));
    const Plan again(made, {minuet_plan_destroy});
    std::vector<char> same(bytes);
    check(minuet_plan_serialize(again.get(), nullptr, 0, 0, same.data(), bytes, &bytes));
    EXPECT_EQ(same, memory);
  }
}

TEST_P(PoolingGradientTest, WhatDoesNotFitIsRefused) {
  ConvolutionCase test = small_case(dtype(), ConvolutionKind::Submanifold, 8, 8, 40);
  test.scale_shift = test.residual = false, test.activation = Activation::None;
  minuet_pooling_options options = pooling_of(test, MINUET_REDUCE_MAX);
  options.winners = 1;
  minuet_plan* made = nullptr;
  EXPECT_EQ(minuet_plan_create_pooling_gradient(machine().context(), &options, &made),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("winners is set"));
  options.winners = 0, options.channels = 0;
  EXPECT_EQ(minuet_plan_create_pooling_gradient(machine().context(), &options, &made),
            MINUET_INVALID_ARGUMENT);

  const Plan plan = make_plan(pooling_of(test, MINUET_REDUCE_MAX));
  EXPECT_STREQ(input_of(plan.get(), 1).name, "winners");
  EXPECT_EQ(input_of(plan.get(), 1).element, MINUET_ELEMENT_I32);
  EXPECT_EQ(input_of(plan.get(), 1).rank, 2);
  const ConvolutionData data = make_data(test);
  const Map map = make_map(machine(), test, data);
  minuet_kernel_map* swapped = nullptr;
  check(minuet_kernel_map_transpose(map.map.get(), &swapped));
  const KernelMap owner(swapped, {minuet_kernel_map_destroy});
  const Execution execution = make_execution(machine(), plan.get());
  EXPECT_EQ(prepare_map(execution.get(), map.map.get()), MINUET_INVALID_ARGUMENT);
  check(prepare_map(execution.get(), swapped));
  const int64_t rows = data.in_rows();
  const Buffer input(machine(), encode(dtype(), data.features)), output(machine(), input.bytes());
  EXPECT_EQ(run_tensors(execution.get(), {tensor(input, rows, 8, dtype()), tensor(input, rows, 8, dtype())},
                        tensor(output, rows, 8, dtype())),
            MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("minuet_execution_run_arrays"));
  const minuet_array matrix = array_of(tensor(input, rows, 8, dtype()));
  EXPECT_EQ(run_arrays(execution.get(), {matrix, matrix}, {array_of(tensor(output, rows, 8, dtype()))}),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("input 1 has elements of"));

  test.duplicates = 5;
  const ConvolutionData repeated = make_data(test);
  const Map of_repeated = make_map(machine(), test, repeated);
  check(minuet_kernel_map_transpose(of_repeated.map.get(), &swapped));
  const KernelMap other(swapped, {minuet_kernel_map_destroy});
  EXPECT_EQ(prepare_map(execution.get(), swapped), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("duplicates"));
}

MINUET_INSTANTIATE_DEVICE_TEST(PoolingGradientTest);

}  // namespace
}  // namespace minuet::abi
