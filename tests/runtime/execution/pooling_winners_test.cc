// The winners of max poolings: for every element of the output the input row that it comes from, on every
// device and in every dtype, against plain loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/runtime/abi/abi_stream.h"
#include "tests/support/by_hand.h"
#include "tests/support/network_abi.h"
#include "tests/support/pooling_abi.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

struct Pooled {
  std::vector<float> output;     // [out rows, channels]
  std::vector<int32_t> winners;  // as many
};

/// In float64, offset by offset; pairs are in ascending order of the offset.
Pooled expected_winners(const std::vector<oracle::Pair>& pairs, const std::vector<float>& features,
                        int64_t out_rows, int channels) {
  const auto count = static_cast<size_t>(out_rows * channels);
  Pooled expected{std::vector<float>(count, 0.0f), std::vector<int32_t>(count, -1)};
  for (const oracle::Pair& pair : pairs) {
    for (int c = 0; c < channels; ++c) {
      const float input = features[static_cast<size_t>(pair.in) * channels + c];
      const size_t place = static_cast<size_t>(pair.out) * channels + c;
      float& value = expected.output[place];
      const bool is_first = expected.winners[place] < 0;
      if (!is_first && !(input > value) && !(std::isnan(input) && !std::isnan(value))) continue;
      value = input;
      expected.winners[place] = pair.in;
    }
  }
  return expected;
}

/// Few different numbers, so that there are ties, and some NaN and infinities.
std::vector<float> features_with_ties(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    value = static_cast<float>(random.between(-3, 3));
    if (random.below(29) == 0) value = std::numeric_limits<float>::quiet_NaN();
    if (random.below(31) == 0) value = -std::numeric_limits<float>::infinity();
  }
  return values;
}

void expect_equal(const Pooled& given, const Pooled& expected) {
  ASSERT_EQ(given.output.size(), expected.output.size());
  for (size_t i = 0; i < given.output.size(); ++i) {
    if (std::isnan(expected.output[i])) {
      ASSERT_TRUE(std::isnan(given.output[i])) << i;
    } else {
      ASSERT_EQ(given.output[i], expected.output[i]) << i;
    }
  }
  EXPECT_EQ(given.winners, expected.winners);
}

class WinnersTest : public DeviceTest {
 protected:
  static minuet_pooling_options with_winners(minuet_pooling_options options) {
    options.winners = 1;
    return options;
  }

  /// Rows of the output and of the winners are `gap` channels further apart than their channels; between them
  /// nothing is written.
  Pooled run(minuet_execution* execution, const std::vector<float>& features, int64_t out_rows, int channels,
             int gap) {
    const int64_t wide = channels + gap, in_rows = static_cast<int64_t>(features.size()) / channels;
    const Buffer input(machine(), encode(dtype(), features));
    const Buffer output(machine(), out_rows * wide * dtype_bytes(dtype()));
    const Buffer winners(machine(), out_rows * wide * 4);
    const std::vector<char> poison = output.read<char>();
    const std::vector<int32_t> poisoned = winners.read<int32_t>();
    minuet_array second = array_of(winners.data(), {out_rows, channels}, MINUET_ELEMENT_I32);
    second.has_strides = 1;
    second.stride[0] = wide, second.stride[1] = 1;
    check(
        run_arrays(execution, {array_of(tensor(input, in_rows, channels, dtype()))},
                   {array_of(tensor(output.data(), out_rows, channels, abi_dtype(dtype()), wide)), second}));
    const std::vector<float> values = decode(dtype(), output.read<char>());
    const std::vector<int32_t> rows = winners.read<int32_t>();
    const std::vector<char> bytes = output.read<char>();
    Pooled pooled;
    const int64_t element = dtype_bytes(dtype());
    for (int64_t i = 0; i < out_rows * wide; ++i) {
      if (i % wide < channels) {
        pooled.output.push_back(values[i]);
        pooled.winners.push_back(rows[i]);
      } else {
        EXPECT_EQ(rows[i], poisoned[i]) << "between rows";
        EXPECT_TRUE(std::equal(&bytes[i * element], &bytes[(i + 1) * element - 1] + 1, &poison[i * element]));
      }
    }
    return pooled;
  }

  void check_case(ConvolutionCase test, int gap) {
    SCOPED_TRACE(test.name());
    test.scale_shift = test.residual = false, test.activation = Activation::None;
    const int channels = test.in_channels;
    const ConvolutionData data = make_data(test);
    const Map map = make_map(machine(), test, data);
    const std::vector<float> features =
        features_with_ties(static_cast<int64_t>(data.features.size()), test.seed);
    const Pooling pooling(machine(), with_winners(pooling_of(test, MINUET_REDUCE_MAX)));
    ASSERT_EQ(pooling.status(), MINUET_OK) << last_error();
    EXPECT_EQ(info_of(pooling.plan()).outputs, 2);
    const Execution execution = pooling.execution();
    check(prepare_map(execution.get(), map.map.get()));
    Pooled pooled = run(execution.get(), map.to_input(features), data.out_rows(), channels, gap);
    pooled.output = map.from_output(pooled.output);
    pooled.winners = map.from_output(pooled.winners);
    Pooled expected = expected_winners(map.pairs, features, data.out_rows(), channels);
    for (int64_t r = 0; r < static_cast<int64_t>(data.first_row.size()); ++r) {
      const int64_t from = data.first_row[static_cast<size_t>(r)] * channels;
      std::copy_n(&expected.output[from], channels, &expected.output[r * channels]);
      std::copy_n(&expected.winners[from], channels, &expected.winners[r * channels]);
    }
    for (int32_t& winner : expected.winners) {
      if (winner >= 0 && !map.in_rows.empty()) winner = map.in_rows[static_cast<size_t>(winner)];
    }
    expect_equal(pooled, expected);
    EXPECT_GT(std::count(pooled.winners.begin(), pooled.winners.end(), -1),
              test.kind == ConvolutionKind::GivenOutputs ? 0 : -1);
  }
};

TEST_P(WinnersTest, EveryMap) {
  for (const ConvolutionKind kind : {ConvolutionKind::Submanifold, ConvolutionKind::Strided,
                                     ConvolutionKind::GivenOutputs, ConvolutionKind::Transposed}) {
    for (const int channels : {16, 3}) {
      ConvolutionCase test =
          small_case(dtype(), kind, channels, channels, machine().is_software() ? 60 : 300);
      check_case(test, 0);
      check_case(test, 16);
    }
  }
}

/// The lists are not in the order of a box, so that a tie shows that the order of the list decides.
TEST_P(WinnersTest, OfEqualInputsTheFirstOffsetOfAListWins) {
  const std::vector<oracle::Axes> list{
      {1, 0, 0, 0}, {0, 0, 0, 0}, {0, 2, -1, 0}, {-1, 0, 0, 0}, {0, 0, 1, 0}};
  for (const ConvolutionKind kind : all_kinds()) {
    ConvolutionCase test = small_case(dtype(), kind, 8, 8, machine().is_software() ? 60 : 300);
    test.kernel_size = test.dilation = {1, 1, 1, 1};
    test.offsets = list;
    check_case(test, 8);
    std::reverse(test.offsets.begin(), test.offsets.end());
    check_case(test, 0);
  }
}

TEST_P(WinnersTest, OneOffsetIsItsOwnWinner) {
  ConvolutionCase test = small_case(dtype(), ConvolutionKind::Submanifold, 8, 8, 50);
  test.kernel_size = {1, 1, 1, 1};
  check_case(test, 8);
}

/// Winners are rows of the caller, of duplicates the first.
TEST_P(WinnersTest, WhereRowsAreRepeated) {
  for (const ConvolutionKind kind : {ConvolutionKind::Submanifold, ConvolutionKind::Strided}) {
    ConvolutionCase test = small_case(dtype(), kind, 4, 4, 60);
    test.duplicates = 25;
    check_case(test, 0);
  }
}

TEST_P(WinnersTest, OfNoRows) {
  ConvolutionCase test = small_case(dtype(), ConvolutionKind::Submanifold, 4, 4, 0);
  test.scale_shift = test.residual = false, test.activation = Activation::None;
  const ConvolutionData data = make_data(test);
  const Map map = make_map(machine(), test, data);
  const Pooling pooling(machine(), with_winners(pooling_of(test, MINUET_REDUCE_MAX)));
  const Execution execution = pooling.execution();
  check(prepare_map(execution.get(), map.map.get()));
  const minuet_element element = array_of(tensor(nullptr, 0, 4, abi_dtype(dtype()))).element;
  const minuet_array none = array_of(nullptr, {0, 4}, element);
  check(run_arrays(execution.get(), {none}, {none, array_of(nullptr, {0, 4}, MINUET_ELEMENT_I32)}));
}

/// Maps of a queue come from one index, and the execution's buffers lie in the queue's scratch.
TEST_P(WinnersTest, OnAQueue) {
  constexpr int kChannels = 8;
  const Queue queue = make_queue(machine());
  const std::vector<int32_t> fine = make_scene(machine().is_software() ? 60 : 300, 5);
  minuet_coordinates_options on_queue = MINUET_COORDINATES_OPTIONS_INIT;
  on_queue.queue = queue.get();
  const Coordinates fine_set = make_set(machine(), 3, fine, {1, 1, 1, 1}, on_queue);
  const Coordinates coarse_set = downsample(fine_set.get(), {2, 2, 2, 1});
  const auto fine_rows = static_cast<int64_t>(fine.size()) / 4;
  const int64_t coarse_rows = minuet_coordinates_rows(coarse_set.get());
  minuet_kernel_map_options kernel = MINUET_KERNEL_MAP_OPTIONS_INIT;
  std::fill_n(kernel.kernel_size, 3, 3);
  minuet_kernel_map *made = nullptr, *turned = nullptr;
  check(minuet_kernel_map_create(fine_set.get(), coarse_set.get(), &kernel, nullptr, &made));
  const KernelMap forward(made, {minuet_kernel_map_destroy});
  check(minuet_kernel_map_transpose(made, &turned));
  const KernelMap backward(turned, {minuet_kernel_map_destroy});
  for (const bool transposed : {true, false}) {
    SCOPED_TRACE(transposed);
    minuet_kernel_map* const map = transposed ? backward.get() : forward.get();
    const int64_t in_rows = transposed ? coarse_rows : fine_rows;
    const int64_t out_rows = transposed ? fine_rows : coarse_rows;
    const std::vector<float> features = features_with_ties(in_rows * kChannels, 9);
    minuet_pooling_options options = MINUET_POOLING_OPTIONS_INIT;
    options.dtype = abi_dtype(dtype());
    options.channels = kChannels;
    std::fill_n(options.kernel_size, 3, 3);
    std::fill_n(options.stride, 3, 2);
    options.transposed = transposed;
    const Pooling pooling(machine(), with_winners(options));
    const Execution execution = pooling.execution(queue.get());
    check(prepare_map(execution.get(), map));
    const Pooled pooled = run(execution.get(), features, out_rows, kChannels, 0);
    expect_equal(pooled, expected_winners(pairs_of(map), features, out_rows, kChannels));
  }
}

TEST_P(WinnersTest, WhatDoesNotFitIsRefused) {
  ConvolutionCase test = small_case(dtype(), ConvolutionKind::Submanifold, 8, 8, 40);
  test.scale_shift = test.residual = false, test.activation = Activation::None;
  const ConvolutionData data = make_data(test);
  const Map map = make_map(machine(), test, data);
  const Pooling pooling(machine(), with_winners(pooling_of(test, MINUET_REDUCE_MAX)));
  const Execution execution = pooling.execution();
  check(prepare_map(execution.get(), map.map.get()));
  const int64_t rows = data.in_rows();
  const Buffer input(machine(), encode(dtype(), data.features)), output(machine(), input.bytes());
  const Buffer winners(machine(), rows * 8 * 4);
  const minuet_tensor matrix = tensor(output, rows, 8, dtype());
  EXPECT_EQ(run_tensors(execution.get(), {tensor(input, rows, 8, dtype())}, matrix),
            MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("minuet_execution_run_arrays"));
  const minuet_array in = array_of(tensor(input, rows, 8, dtype())), out = array_of(matrix);
  const minuet_array second = array_of(winners.data(), {rows, 8}, MINUET_ELEMENT_I32);
  const auto refused = [&](const std::vector<minuet_array>& outputs) {
    EXPECT_EQ(run_arrays(execution.get(), {in}, outputs), MINUET_INVALID_ARGUMENT);
    return last_error();
  };
  EXPECT_THAT(refused({out}), HasSubstr("2 outputs (the winners second)"));
  EXPECT_THAT(refused({out, second, second}), HasSubstr("1 and 3 are given"));
  EXPECT_THAT(refused({second, out}), HasSubstr("output 0 has elements of i32"));
  minuet_array wrong = second;
  wrong.element = MINUET_ELEMENT_F32;
  EXPECT_THAT(refused({out, wrong}), HasSubstr("output 1 has elements of f32, but the plan needs i32"));
  wrong = second, wrong.element = MINUET_ELEMENT_I64;
  EXPECT_THAT(refused({out, wrong}), HasSubstr("output 1: its element is 8"));
  wrong = second, wrong.shape[1] = 7;
  EXPECT_THAT(refused({out, wrong}), HasSubstr("output 1 has shape"));
  wrong = second, wrong.shape[1] = 4, wrong.shape[2] = 2, wrong.rank = 3;
  EXPECT_THAT(refused({out, wrong}), HasSubstr("output 1 has a rank of 3"));
  wrong = second, wrong.has_strides = 1, wrong.stride[0] = 16, wrong.stride[1] = 2;
  EXPECT_THAT(refused({out, wrong}), HasSubstr("output 1 has a stride[1] of 2"));
  wrong = second, wrong.has_strides = 1, wrong.stride[0] = 9, wrong.stride[1] = 1;
  EXPECT_THAT(refused({out, wrong}), HasSubstr("output 1 has a row stride of 9"));
  wrong = second, wrong.has_strides = 1, wrong.stride[1] = 1;  // stride[0] is 0
  EXPECT_THAT(refused({out, wrong}), HasSubstr("output 1 has a row stride of 0"));
  wrong = second, wrong.data = static_cast<char*>(wrong.data) + 4;
  EXPECT_THAT(refused({out, wrong}), HasSubstr("output 1"));
  wrong = second, wrong.data = nullptr;
  EXPECT_THAT(refused({out, wrong}), HasSubstr("data"));
  wrong = second, wrong.data = out.data;
  EXPECT_THAT(refused({out, wrong}), HasSubstr("output 1 and output 0 overlap"));
  wrong.data = in.data;
  EXPECT_THAT(refused({out, wrong}), HasSubstr("output 1 and input 0 overlap"));
  check(run_arrays(execution.get(), {in}, {out, second}));
}

MINUET_INSTANTIATE_DEVICE_TEST(WinnersTest);

class WinnersOnGpu : public WinnersTest {};

/// A graph of one run gives the winners of whatever features there are at a replay.
TEST_P(WinnersOnGpu, CapturedAndReplayed) {
  ConvolutionCase test = small_case(dtype(), ConvolutionKind::Strided, 8, 8, 60);
  test.scale_shift = test.residual = false, test.activation = Activation::None;
  const ConvolutionData data = make_data(test);
  const Map map = make_map(machine(), test, data);
  const Pooling pooling(machine(), with_winners(pooling_of(test, MINUET_REDUCE_MAX)));
  const Execution execution = pooling.execution();
  const Stream stream(machine());
  check(prepare_map(execution.get(), map.map.get(), stream.get()));
  const int64_t rows = data.in_rows(), out_rows = data.out_rows();
  const Buffer input(machine(), encode(dtype(), features_with_ties(rows * 8, 1)));
  Buffer output(machine(), out_rows * 8 * dtype_bytes(dtype())), winners(machine(), out_rows * 8 * 4);
  const auto enqueue = [&] {
    check(run_arrays(execution.get(), {array_of(tensor(input, rows, 8, dtype()))},
                     {array_of(tensor(output, out_rows, 8, dtype())),
                      array_of(winners.data(), {out_rows, 8}, MINUET_ELEMENT_I32)},
                     stream.get()));
  };
  enqueue();
  check(minuet_device_synchronize(machine().device(), stream.get()));
  const CapturedGraph graph(stream.get(), enqueue);
  ASSERT_TRUE(graph.whole());
  for (const uint64_t seed : {2u, 3u}) {
    const std::vector<float> features = features_with_ties(rows * 8, seed);
    const std::vector<char> bytes = encode(dtype(), map.to_input(features));
    check(minuet_device_copy(machine().device(), input.data(), bytes.data(), input.bytes(), 0));
    output.poison();
    winners.poison();
    ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
    check(minuet_device_synchronize(machine().device(), stream.get()));
    const Pooled pooled{map.from_output(decode(dtype(), output.read<char>())),
                        map.from_output(winners.read<int32_t>())};
    expect_equal(pooled, expected_winners(map.pairs, features, out_rows, 8));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, WinnersOnGpu,
                         testing::Combine(testing::Values("cuda:0"), testing::Values(DType::F32, DType::F16)),
                         device_test_name);

}  // namespace
}  // namespace minuet::abi
