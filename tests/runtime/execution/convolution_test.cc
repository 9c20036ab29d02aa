// Single convolutions through the C ABI, on every device, against the fp64 oracle.
#include "include/minuet/minuet.h"
#include "tests/support/abi.h"
#include "tests/support/compare.h"
#include "tests/support/expect.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

class ConvolutionTest : public DeviceTest {
 protected:
  /// How many points, rows or repeats; a few on the software device.
  int64_t size(int64_t full, int64_t few) { return machine().is_software() ? std::min(full, few) : full; }

  /// One cloud through a convolution that is ready; compares pairs and output.
  void check_cloud(Convolution& convolution, minuet_execution* execution, const ConvolutionCase& test,
                   const ConvolutionData& data) {
    const Map map = make_map(machine(), test, data);
    if (test.sampled_rows == 0) {
      EXPECT_EQ(map.pairs, oracle::find_pairs(data.geometry, data.in_coordinates, data.out_coordinates));
    }
    const std::vector<float> output = decode(test.dtype, convolution.run(execution, map, data));
    std::vector<double> magnitudes;
    const std::vector<double> expected = expected_output(test, data, &magnitudes);
    EXPECT_TRUE(is_close(select_rows(output, test.out_channels, data.rows), expected, magnitudes,
                         test.out_channels, test.dtype));
  }

  /// Compiled ahead.
  std::vector<ConvolutionCase> one_of_each_kind(int in_channels, int out_channels, int64_t points) {
    std::vector<ConvolutionCase> cases;
    for (ConvolutionKind kind : all_kinds())
      cases.push_back(small_case(dtype(), kind, in_channels, out_channels, points));
    compile_ahead(machine(), cases);
    return cases;
  }

  void check_cases(std::vector<ConvolutionCase> cases) {
    std::erase_if(cases, [&](const ConvolutionCase& test) { return test.dtype != dtype(); });
    compile_ahead(machine(), cases);
    for (ConvolutionCase& test : cases) {
      test.points = size(kSanitized ? std::min<int64_t>(test.points, 300) : test.points, 60);
      SCOPED_TRACE(test.name());
      const ConvolutionData data = make_data(test);
      Convolution convolution(machine(), test, data);
      check_cloud(convolution, convolution.execution().get(), test, data);
      if (HasFailure()) return;  // the first case is enough to go on
    }
  }
};

/// What the cross of channels and kinds takes. On a GPU kernels differ by all of dtype, pair of channels and
/// kind, and each has to be compiled: every pair once a dtype, each dtype with another kind, so that every
/// kind meets every size on either side; MINUET_LONG_TESTS=1 has all of them. On the CPU, where only the ends
/// of rows differ, a dozen pairs with every kind: each size once as inputs and once as outputs, and one by
/// one.
std::vector<ConvolutionCase> small_cross(DType dtype, bool is_gpu) {
  const std::vector<int>& sizes = channel_sizes();
  const std::vector<ConvolutionKind>& kinds = all_kinds();
  std::vector<ConvolutionCase> cases;
  for (size_t k = 0; k < kinds.size(); ++k) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      for (size_t o = 0; o < sizes.size(); ++o) {
        const bool is_taken = is_gpu ? (i + o + static_cast<size_t>(dtype)) % kinds.size() == k
                                     : o == (5 * i + 3) % sizes.size() || i + o == 0;
        if (is_taken || long_tests_wanted())
          cases.push_back(small_case(dtype, kinds[k], sizes[i], sizes[o], 1));
      }
    }
  }
  return cases;
}

/// Channel pairs and kinds at 0, 1, 2 and 31 points; item 1 of 3 is empty at 31.
TEST_P(ConvolutionTest, SmallCross) {
  std::vector<ConvolutionCase> convolutions =
      small_cross(dtype(), !machine().is_cpu() && !machine().is_software());
  // On the software device a kernel takes long to compile, and the suites of networks have the usual widths.
  if (machine().is_software()) {
    std::erase_if(convolutions, [](const ConvolutionCase& test) {
      return test.in_channels != 1 && test.in_channels % 24 != 0;
    });
  }
  compile_ahead(machine(), convolutions);
  for (const ConvolutionCase& one : convolutions) {
    ConvolutionData parameters;
    make_parameters(one, false, parameters);
    Convolution convolution(machine(), one, parameters);
    const Execution execution = convolution.execution();
    for (int64_t points : small_counts()) {
      const ConvolutionCase test = small_case(dtype(), one.kind, one.in_channels, one.out_channels, points);
      SCOPED_TRACE(test.name());
      ConvolutionData data = make_coordinates(test);
      make_features(test, false, data);
      data.weight = parameters.weight, data.scale = parameters.scale, data.shift = parameters.shift;
      check_cloud(convolution, execution.get(), test, data);
      if (HasFailure()) return;
    }
  }
}

TEST_P(ConvolutionTest, PairwiseAtAThousand) { check_cases(pairwise_cases()); }

TEST_P(ConvolutionTest, LargeClouds) {
  if (machine().is_software()) GTEST_SKIP() << "takes long on the software device; smaller clouds do not";
  if (kSanitized) GTEST_SKIP() << "takes long under a sanitizer; the smaller clouds take the same paths";
  std::vector<ConvolutionCase> cases = large_cases(dtype());
  // The CPU device multiplies a hundredth as fast, and by the same code whatever the widths: two of six, the
  // others in the other dtypes.
  if (machine().is_cpu() && !long_tests_wanted()) {
    const size_t first = static_cast<size_t>(dtype()) % 3;
    cases = {cases[first], cases[first + 3]};
  }
  check_cases(cases);
}

TEST_P(ConvolutionTest, LongList) {
  if (!long_tests_wanted()) GTEST_SKIP() << "MINUET_LONG_TESTS=1 runs the long list";
  check_cases(long_cases(dtype()));
}

/// Small whole numbers are exact in every dtype, so the output must be the oracle's bit by bit.
TEST_P(ConvolutionTest, WholeNumbersAreExact) {
  std::vector<ConvolutionCase> cases;
  for (ConvolutionKind kind : all_kinds()) {
    for (auto [in, out] : {std::pair{1, 3}, {3, 16}, {4, 32}, {8, 24}})
      cases.push_back(small_case(dtype(), kind, in, out, size(1000, 60)));
  }
  compile_ahead(machine(), cases);
  for (const ConvolutionCase& test : cases) {
    SCOPED_TRACE(test.name());
    const ConvolutionData data = make_data(test, true);
    Convolution convolution(machine(), test, data);
    const std::vector<char> bytes =
        convolution.run(convolution.execution().get(), make_map(machine(), test, data), data);
    const std::vector<double> expected = expected_output(test, data);
    // Compared as numbers: the sign of a zero is of no interest.
    EXPECT_EQ(decode(dtype(), bytes), std::vector<float>(expected.begin(), expected.end()));
  }
}

TEST_P(ConvolutionTest, RepeatsBitByBit) {
  for (const ConvolutionCase& test : one_of_each_kind(32, 48, size(3000, 200))) {
    const ConvolutionData data = make_data(test);
    Convolution convolution(machine(), test, data);
    const Execution execution = convolution.execution();
    const std::vector<char> first = convolution.run(execution.get(), make_map(machine(), test, data), data);
    for (int repeat = 1; repeat < (machine().is_cpu() ? 8 : size(20, 4)); ++repeat) {
      // Every other time all is made anew: sets, map and execution.
      const Execution fresh =
          repeat % 2 == 0 ? convolution.execution() : Execution(nullptr, {minuet_execution_destroy});
      const Map map = make_map(machine(), test, data);
      ASSERT_EQ(convolution.run(fresh ? fresh.get() : execution.get(), map, data), first) << test.name();
    }
  }
}

/// The caller's workspace, poisoned, of exactly the bytes that are needed; then one byte less.
TEST_P(ConvolutionTest, WorksInTheCallersWorkspace) {
  for (const ConvolutionCase& test : one_of_each_kind(24, 16, size(1000, 60))) {
    SCOPED_TRACE(test.name());
    const ConvolutionData data = make_data(test);
    const Map map = make_map(machine(), test, data);
    Convolution convolution(machine(), test, data);
    const Execution own = convolution.execution();
    const std::vector<char> expected = convolution.run(own.get(), map, data);
    minuet_execution_counters counters = MINUET_EXECUTION_COUNTERS_INIT;
    check(minuet_execution_query_counters(own.get(), &counters));
    ASSERT_GT(counters.workspace_bytes, 0);

    const Buffer workspace(machine(), counters.workspace_bytes);
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.workspace = workspace.data();
    options.workspace_bytes = workspace.bytes();
    const Execution given = convolution.execution(&options);
    EXPECT_EQ(convolution.run(given.get(), map, data), expected);
    check(minuet_device_synchronize(machine().device(), nullptr));
    minuet_execution_options deferred = MINUET_EXECUTION_OPTIONS_INIT;
    deferred.defer_workspace = 1;
    const Execution later = convolution.execution(&deferred);
    EXPECT_EQ(prepare_map(later.get(), map.map.get()), MINUET_FAILED_PRECONDITION);
    const minuet_execution_info info = info_of(later);
    EXPECT_EQ(info.workspace_bytes, counters.workspace_bytes) << "what the refused prepare needed";
    EXPECT_EQ(info.map_method, MINUET_MAPS_AUTO) << "the map is the caller's";
    check(minuet_execution_set_workspace(later.get(), workspace.data(), workspace.bytes(), nullptr));
    EXPECT_EQ(convolution.run(later.get(), map, data), expected);
    check(minuet_device_synchronize(machine().device(), nullptr));

    options.workspace_bytes = 256;
    minuet_execution* tight = nullptr;
    minuet_status status = minuet_execution_create(convolution.get(), machine().device(), &options, &tight);
    const Execution owner(tight, {minuet_execution_destroy});
    if (status == MINUET_OK) status = prepare_map(tight, map.map.get());
    EXPECT_EQ(status, MINUET_RESOURCE_EXHAUSTED);
    EXPECT_NE(last_error().find("bytes"), std::string::npos) << last_error();
  }
}

/// Maps that do not belong to the convolution are refused before anything runs.
TEST_P(ConvolutionTest, RefusesAnotherConvolutionsMap) {
  ConvolutionCase test = small_case(dtype(), ConvolutionKind::Submanifold, 16, 16, 100);
  test.residual = false;
  const ConvolutionData data = make_data(test);
  Convolution convolution(machine(), test, data);
  const Execution execution = convolution.execution();
  const Buffer input(machine(), encode(dtype(), data.features)), output(machine(), input.bytes());
  const minuet_tensor in = tensor(input, data.in_rows(), 16, dtype()),
                      out = tensor(output, data.out_rows(), 16, dtype());
  EXPECT_EQ(run_tensors(execution.get(), {in}, out), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), testing::HasSubstr("prepare_maps"));
  ConvolutionCase other = test;
  other.kernel_size = {1, 3, 5, 1};
  ConvolutionData other_data = make_coordinates(other);
  const Map map = make_map(machine(), other, other_data);
  EXPECT_EQ(prepare_map(execution.get(), map.map.get()), MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(run_tensors(execution.get(), {in}, out), MINUET_FAILED_PRECONDITION) << "no map is prepared";
}

MINUET_INSTANTIATE_DEVICE_TEST(ConvolutionTest);

}  // namespace
}  // namespace minuet::abi
