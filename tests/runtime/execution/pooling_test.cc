// Pooling through the C ABI, on every device and in every dtype, against plain loops in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/cases/convolution_cases.h"
#include "tests/support/by_hand.h"
#include "tests/support/compare.h"
#include "tests/support/environment.h"
#include "tests/support/network_abi.h"
#include "tests/support/pooling_abi.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

constexpr minuet_reduction kReductions[] = {MINUET_REDUCE_MAX, MINUET_REDUCE_AVERAGE, MINUET_REDUCE_SUM};

/// [out_rows, channels]: what pairs lead to each output; 0 where none does. NaN propagates.
std::vector<double> expected_pooling(const std::vector<oracle::Pair>& pairs,
                                     const std::vector<float>& features, int64_t out_rows, int channels,
                                     minuet_reduction reduction) {
  std::vector<double> values(static_cast<size_t>(out_rows * channels), 0);
  std::vector<int64_t> found(static_cast<size_t>(out_rows), 0);
  for (const oracle::Pair& pair : pairs) {
    const bool is_first = found[static_cast<size_t>(pair.out)]++ == 0;
    for (int c = 0; c < channels; ++c) {
      const double input = features[static_cast<size_t>(pair.in) * channels + c];
      double& value = values[static_cast<size_t>(pair.out) * channels + c];
      if (is_first) {
        value = input;
      } else if (reduction != MINUET_REDUCE_MAX) {
        value += input;
      } else if (std::isnan(input) || input > value) {
        value = input;
      }
    }
  }
  for (int64_t r = 0; r < out_rows && reduction == MINUET_REDUCE_AVERAGE; ++r) {
    for (int c = 0; c < channels; ++c) {
      if (found[r] > 0) values[static_cast<size_t>(r) * channels + c] /= static_cast<double>(found[r]);
    }
  }
  return values;
}

class PoolingTest : public DeviceTest {
 protected:
  /// Compares every reduction over the case's kernel map.
  void check_case(const ConvolutionCase& test) {
    SCOPED_TRACE(test.name());
    const ConvolutionData data = make_data(test);
    const Map map = make_map(machine(), test, data);
    for (const minuet_reduction reduction : kReductions) {
      const Pooling pooling(machine(), pooling_of(test, reduction));
      ASSERT_EQ(pooling.status(), MINUET_OK) << last_error();
      const std::vector<char> bytes = pooling.run(map, data.features, data.out_rows());
      const std::vector<double> expected =
          expected_pooling(map.pairs, data.features, data.out_rows(), test.in_channels, reduction);
      EXPECT_TRUE(is_close(decode(dtype(), bytes), expected, test.in_channels, error_bound(dtype())))
          << "reduction " << reduction;
      EXPECT_EQ(pooling.run(map, data.features, data.out_rows()), bytes) << "again";
    }
  }

  /// The network's bits in capacity mode, by sets and maps of this method, and zeros behind them.
  void expect_same_within(minuet_plan* plan, minuet_execution* exact, const std::vector<int32_t>& coordinates,
                          const std::vector<char>& features, const NetworkRun& expected,
                          minuet_map_method method) {
    std::vector<int64_t> capacities(2);
    check(minuet_execution_suggest_capacities(exact, 1.5, capacities.data(), 2));
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.level_capacity = capacities.data();
    options.level_count = 2;
    options.map_method = method;
    options.has_bounds = 1;
    std::copy_n(coordinates.begin(), 4, options.least);
    std::copy_n(coordinates.begin(), 4, options.greatest);
    for (size_t i = 0; i < coordinates.size(); ++i) {
      options.least[i % 4] = std::min(options.least[i % 4], coordinates[i]);
      options.greatest[i % 4] = std::max(options.greatest[i % 4], coordinates[i]);
    }
    const Execution within = make_execution(machine(), plan, &options);
    const Buffer where(machine(), coordinates), input(machine(), capacities[0] * 4 * dtype_bytes(dtype()));
    const Buffer output(machine(), capacities[0] * 8 * dtype_bytes(dtype()));
    check(minuet_device_copy(machine().device(), input.data(), features.data(),
                             static_cast<int64_t>(features.size()), 0));
    check(minuet_execution_prepare(within.get(), where.integers(), expected.rows, nullptr));
    minuet_level_info info{};
    info.struct_size = sizeof(info);
    check(minuet_execution_query_level(within.get(), 0, &info));
    EXPECT_EQ(info.map_method, method);
    check(run_tensors(within.get(), {tensor(input, capacities[0], 4, dtype())},
                      tensor(output, capacities[0], 8, dtype())));
    std::vector<char> padded = output.read<char>();
    EXPECT_TRUE(std::all_of(padded.begin() + static_cast<std::ptrdiff_t>(expected.bytes.size()), padded.end(),
                            [](char byte) { return byte == 0; }))
        << "rows past the count are zeros";
    padded.resize(expected.bytes.size());
    EXPECT_EQ(padded, expected.bytes);
  }

  std::vector<float> drawn(int64_t count) const {
    Random random(17);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(random.normal());
    return round_to(dtype(), std::move(values));
  }

  minuet_pooling_options window_options(int32_t channels, int32_t size, int32_t stride, bool transposed,
                                        minuet_reduction reduction) const {
    minuet_pooling_options options = MINUET_POOLING_OPTIONS_INIT;
    options.dtype = abi_dtype(dtype());
    options.channels = channels;
    options.reduction = reduction;
    std::fill_n(options.kernel_size, 3, size);
    std::fill_n(options.stride, 3, stride);
    options.transposed = transposed;
    return options;
  }

  NetworkSpec network(const std::string& description) const {
    NetworkSpec spec{"", {}, dtype(), "", 7, description};
    spec.dataflow = MINUET_DATAFLOW_FUSED;
    return spec;
  }
};

/// Every kind of map; the given outputs have rows without an input.
TEST_P(PoolingTest, EveryMap) {
  for (const ConvolutionKind kind : {ConvolutionKind::Submanifold, ConvolutionKind::Strided,
                                     ConvolutionKind::GivenOutputs, ConvolutionKind::Transposed}) {
    for (const int channels : {16, 3}) {
      ConvolutionCase test = small_case(dtype(), kind, channels, channels, 300);
      test.scale_shift = test.residual = false, test.activation = Activation::None;
      check_case(test);
    }
  }
}

TEST_P(PoolingTest, OneOffsetReadsEachRowItself) {
  ConvolutionCase test = small_case(dtype(), ConvolutionKind::Submanifold, 8, 8, 50);
  test.kernel_size = {1, 1, 1, 1};
  test.scale_shift = test.residual = false, test.activation = Activation::None;
  check_case(test);
}

TEST_P(PoolingTest, NanPropagates) {
  ConvolutionCase test = small_case(dtype(), ConvolutionKind::Strided, 4, 4, 60);
  test.scale_shift = test.residual = false, test.activation = Activation::None;
  ConvolutionData data = make_data(test);
  const Map map = make_map(machine(), test, data);
  data.features[5 * 4 + 1] = std::numeric_limits<float>::quiet_NaN();
  data.features[9 * 4 + 2] = -std::numeric_limits<float>::infinity();
  for (const minuet_reduction reduction : kReductions) {
    const Pooling pooling(machine(), pooling_of(test, reduction));
    const std::vector<float> output = decode(dtype(), pooling.run(map, data.features, data.out_rows()));
    const std::vector<double> expected =
        expected_pooling(map.pairs, data.features, data.out_rows(), 4, reduction);
    int nans = 0;
    for (size_t i = 0; i < output.size(); ++i) {
      EXPECT_EQ(std::isnan(output[i]), std::isnan(expected[i])) << i;
      EXPECT_EQ(std::isinf(output[i]), std::isinf(expected[i])) << i;
      nans += std::isnan(output[i]) ? 1 : 0;
    }
    EXPECT_GT(nans, 0);
  }
}

/// In a network, between convolutions, the pooling reads rows of the map, and in capacity mode too.
TEST_P(PoolingTest, InANetwork) {
  const std::string description = R"({"name": "pools", "ndim": 3, "in_channels": 4, "channels": [8],
    "batch_norm_epsilon": 1e-5, "layers": [
      {"op": "block", "name": "a", "width": 0, "kernel_size": 3, "save": "s"},
      {"op": "max_pool", "name": "p", "kernel_size": 2, "stride": 2},
      {"op": "block", "name": "b", "width": 0, "kernel_size": 3},
      {"op": "average_pool", "name": "q", "kernel_size": 3},
      {"op": "up", "name": "c", "width": 0, "kernel_size": 2, "stride": 2, "onto": "s"},
      {"op": "sum_pool", "name": "r", "kernel_size": 3}]})";
  const Plan plan = make_network(machine(), network(description));
  const std::vector<int32_t> coordinates = make_scene(300, 5);
  const auto points = static_cast<int64_t>(coordinates.size()) / 4;
  const std::vector<char> bytes = encode(dtype(), drawn(points * 4));
  for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
    SCOPED_TRACE(method);
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.map_method = method;
    const Execution exact = make_execution(machine(), plan.get(), &options);
    const NetworkRun expected = run_network(machine(), exact.get(), coordinates, bytes, dtype());
    EXPECT_EQ(expected.rows, points);
    EXPECT_EQ(run_network(machine(), exact.get(), coordinates, bytes, dtype()), expected) << "again";
    expect_same_within(plan.get(), exact.get(), coordinates, bytes, expected, method);
  }
}

/// On a queue coarser sets and maps come from one index: the pooling of a strided map, the transposed pooling
/// of the same map, and both again with a kernel that reaches past the cells.
TEST_P(PoolingTest, OnAQueue) {
  constexpr int kChannels = 8;
  const Queue queue = make_queue(machine());
  const std::vector<int32_t> fine = make_scene(machine().is_software() ? 60 : 300, 5);
  minuet_coordinates_options on_queue = MINUET_COORDINATES_OPTIONS_INIT;
  on_queue.queue = queue.get();
  const Coordinates fine_set = make_set(machine(), 3, fine, {1, 1, 1, 1}, on_queue);
  const Coordinates coarse_set = downsample(fine_set.get(), {2, 2, 2, 1});
  const std::vector<int32_t> coarse =
      expect_coordinates(machine(), coarse_set.get(), 3, oracle::downsample(3, fine, {2, 2, 2, 1}));
  const auto fine_rows = static_cast<int64_t>(fine.size()) / 4;
  const auto coarse_rows = static_cast<int64_t>(coarse.size()) / 4;
  for (const int32_t size : {2, 3}) {
    minuet_kernel_map_options kernel = MINUET_KERNEL_MAP_OPTIONS_INIT;
    std::fill_n(kernel.kernel_size, 3, size);
    minuet_kernel_map *made = nullptr, *turned = nullptr;
    check(minuet_kernel_map_create(fine_set.get(), coarse_set.get(), &kernel, nullptr, &made));
    const KernelMap forward(made, {minuet_kernel_map_destroy});
    check(minuet_kernel_map_transpose(made, &turned));
    const KernelMap backward(turned, {minuet_kernel_map_destroy});
    for (const bool transposed : {true, false}) {  // so that the transposed view is made first
      SCOPED_TRACE(testing::Message() << "kernel size " << size << (transposed ? ", transposed" : ""));
      const std::vector<int32_t>&in = transposed ? coarse : fine, &out = transposed ? fine : coarse;
      const int64_t in_rows = transposed ? coarse_rows : fine_rows;
      const int64_t out_rows = transposed ? fine_rows : coarse_rows;
      const auto pairs =
          oracle::find_pairs({3, {size, size, size, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, transposed}, in, out);
      const std::vector<float> features = drawn(in_rows * kChannels);
      for (const minuet_reduction reduction : kReductions) {
        const Pooling pooling(machine(), window_options(kChannels, size, 2, transposed, reduction));
        ASSERT_EQ(pooling.status(), MINUET_OK) << last_error();
        const Execution execution = pooling.execution(queue.get());
        check(prepare_map(execution.get(), transposed ? backward.get() : forward.get()));
        const std::vector<char> bytes = pooling.run(execution.get(), features, out_rows);
        EXPECT_TRUE(is_close(decode(dtype(), bytes),
                             expected_pooling(pairs, features, out_rows, kChannels, reduction), kChannels,
                             error_bound(dtype())))
            << "reduction " << reduction;
      }
    }
  }
}

/// A convolution, by either dataflow, and a pooling of one map, whose views are made in one call.
TEST_P(PoolingTest, PreparedTogetherWithAConvolution) {
  for (const char* const dataflow : {"fused", "gather-gemm-scatter"}) {
    SCOPED_TRACE(dataflow);
    const EnvironmentVariable named("MINUET_TEST_DATAFLOW", dataflow);
    ConvolutionCase test;
    test.dtype = dtype();
    test.in_channels = test.out_channels = 16;
    test.kernel_size = {3, 3, 3, 1};
    test.points = 60;
    const ConvolutionData data = make_data(test);
    const Queue queue = make_queue(machine());
    minuet_coordinates_options on_queue = MINUET_COORDINATES_OPTIONS_INIT;
    on_queue.queue = queue.get();
    const Coordinates set = make_set(machine(), 3, data.in_coordinates, {1, 1, 1, 1}, on_queue);
    minuet_kernel_map_options kernel = MINUET_KERNEL_MAP_OPTIONS_INIT;
    std::fill_n(kernel.kernel_size, 3, 3);
    minuet_kernel_map* made = nullptr;
    check(minuet_kernel_map_create(set.get(), set.get(), &kernel, nullptr, &made));
    const KernelMap map(made, {minuet_kernel_map_destroy});
    Convolution convolution(machine(), test, data);
    const Pooling pooling(machine(), pooling_of(test, MINUET_REDUCE_SUM));
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.queue = queue.get();
    const Execution convolves = convolution.execution(&options), pools = pooling.execution(queue.get());
    minuet_execution* const executions[] = {convolves.get(), pools.get()};
    minuet_kernel_map* const maps[] = {made, made};
    check(minuet_executions_prepare_maps(executions, maps, 2, nullptr));

    const int64_t rows = data.out_rows();
    const auto pairs = oracle::find_pairs({3, {3, 3, 3, 1}}, data.in_coordinates, data.in_coordinates);
    const std::vector<char> pooled = pooling.run(pools.get(), data.features, rows);
    EXPECT_TRUE(is_close(decode(dtype(), pooled),
                         expected_pooling(pairs, data.features, rows, 16, MINUET_REDUCE_SUM), 16,
                         error_bound(dtype())));
    const Buffer input(machine(), encode(dtype(), data.features));
    const Buffer output(machine(), rows * 16 * dtype_bytes(dtype()));
    check(
        run_tensors(convolves.get(), {tensor(input, rows, 16, dtype())}, tensor(output, rows, 16, dtype())));
    oracle::Layer layer;
    layer.out_rows = rows;
    layer.in_channels = layer.out_channels = 16;
    layer.features = &data.features;
    layer.weight = &data.weight;
    EXPECT_TRUE(is_close(decode(dtype(), output.read<char>()), oracle::convolve(layer, pairs), 16,
                         error_bound(dtype())));
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(PoolingTest);

}  // namespace
}  // namespace minuet::abi
