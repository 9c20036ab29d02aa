// Pooling through the C ABI, on every device and in every dtype, against plain loops in float64.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/cases/convolution_cases.h"
#include "tests/support/compare.h"
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

minuet_pooling_options options_of(const ConvolutionCase& test, minuet_reduction reduction) {
  minuet_pooling_options options = MINUET_POOLING_OPTIONS_INIT;
  options.ndim = test.ndim;
  options.dtype = abi_dtype(test.dtype);
  options.channels = test.in_channels;
  options.reduction = reduction;
  std::copy_n(test.kernel_size.begin(), test.ndim, options.kernel_size);
  std::copy_n(test.stride.begin(), test.ndim, options.stride);
  std::copy_n(test.dilation.begin(), test.ndim, options.dilation);
  options.submanifold = test.kind == ConvolutionKind::Submanifold;
  options.transposed = test.transposed();
  return options;
}

class PoolingTest : public DeviceTest {
 protected:
  /// Compares every reduction over the case's kernel map.
  void check_case(const ConvolutionCase& test) {
    SCOPED_TRACE(test.name());
    const ConvolutionData data = make_data(test);
    const Map map = make_map(machine(), test, data);
    for (const minuet_reduction reduction : kReductions) {
      const Pooling pooling(machine(), options_of(test, reduction));
      ASSERT_EQ(pooling.status(), MINUET_OK) << last_error();
      const std::vector<char> bytes = pooling.run(map, data.features, data.out_rows());
      const std::vector<double> expected =
          expected_pooling(map.pairs, data.features, data.out_rows(), test.in_channels, reduction);
      EXPECT_TRUE(is_close(decode(dtype(), bytes), expected, test.in_channels, error_bound(dtype())))
          << "reduction " << reduction;
      EXPECT_EQ(pooling.run(map, data.features, data.out_rows()), bytes) << "again";
    }
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
      test.scale_shift = test.residual = test.relu = false;
      check_case(test);
    }
  }
}

TEST_P(PoolingTest, OneOffsetReadsEachRowItself) {
  ConvolutionCase test = small_case(dtype(), ConvolutionKind::Submanifold, 8, 8, 50);
  test.kernel_size = {1, 1, 1, 1};
  test.scale_shift = test.residual = test.relu = false;
  check_case(test);
}

TEST_P(PoolingTest, NanPropagates) {
  ConvolutionCase test = small_case(dtype(), ConvolutionKind::Strided, 4, 4, 60);
  test.scale_shift = test.residual = test.relu = false;
  ConvolutionData data = make_data(test);
  const Map map = make_map(machine(), test, data);
  data.features[5 * 4 + 1] = std::numeric_limits<float>::quiet_NaN();
  data.features[9 * 4 + 2] = -std::numeric_limits<float>::infinity();
  for (const minuet_reduction reduction : kReductions) {
    const Pooling pooling(machine(), options_of(test, reduction));
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
  Random random(11);
  std::vector<float> features(static_cast<size_t>(points) * 4);
  for (float& value : features) value = static_cast<float>(random.normal());
  const std::vector<char> bytes = encode(dtype(), round_to(dtype(), features));
  const Execution exact = make_execution(machine(), plan.get());
  const NetworkRun expected = run_network(machine(), exact.get(), coordinates, bytes, dtype());
  EXPECT_EQ(expected.rows, points);
  EXPECT_EQ(run_network(machine(), exact.get(), coordinates, bytes, dtype()), expected) << "again";

  std::vector<int64_t> capacities(2);
  check(minuet_execution_suggest_capacities(exact.get(), 1.5, capacities.data(), 2));
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.level_capacity = capacities.data();
  options.level_count = 2;
  options.key_bits = 64;
  const Execution within = make_execution(machine(), plan.get(), &options);
  const Buffer where(machine(), coordinates), input(machine(), capacities[0] * 4 * dtype_bytes(dtype()));
  const Buffer output(machine(), capacities[0] * 8 * dtype_bytes(dtype()));
  check(minuet_device_copy(machine().device(), input.data(), bytes.data(), static_cast<int64_t>(bytes.size()),
                           0));
  check(minuet_execution_prepare(within.get(), where.integers(), points, nullptr));
  check(run_tensors(within.get(), {tensor(input, capacities[0], 4, dtype())},
                    tensor(output, capacities[0], 8, dtype())));
  std::vector<char> padded = output.read<char>();
  EXPECT_TRUE(std::all_of(padded.begin() + static_cast<std::ptrdiff_t>(expected.bytes.size()), padded.end(),
                          [](char byte) { return byte == 0; }))
      << "rows past the count are zeros";
  padded.resize(expected.bytes.size());
  EXPECT_EQ(padded, expected.bytes);
}

MINUET_INSTANTIATE_DEVICE_TEST(PoolingTest);

}  // namespace
}  // namespace minuet::abi
