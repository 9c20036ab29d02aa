// The two dataflows beside one another: asked for by an option, named by queries, alike in what they compute.
#include <algorithm>
#include <cmath>

#include "tests/cases/random_networks.h"
#include "tests/support/compare.h"
#include "tests/support/network_abi.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

constexpr minuet_dataflow kDataflows[] = {MINUET_DATAFLOW_GATHER_GEMM_SCATTER, MINUET_DATAFLOW_FUSED};

/// Down, residual, up, a concatenation.
constexpr const char* kSmallUNet = R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [16, 24, 16],
  "layers": [
  {"op": "block", "name": "stem", "width": 0, "kernel_size": 3, "save": "fine"},
  {"op": "block", "name": "down", "width": 1, "kernel_size": 2, "stride": 2},
  {"op": "residual", "name": "residual", "width": 1},
  {"op": "up", "name": "up", "width": 2, "kernel_size": 2, "stride": 2, "onto": "fine"},
  {"op": "concat", "with": "fine"},
  {"op": "block", "name": "last", "width": 2, "kernel_size": 3}]})";

/// Up by a kernel that is larger than a cell.
constexpr const char* kReachingUp = R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [16, 24],
  "layers": [
  {"op": "block", "name": "stem", "width": 0, "kernel_size": 3, "save": "fine"},
  {"op": "block", "name": "down", "width": 1, "kernel_size": 2, "stride": 2},
  {"op": "up", "name": "up", "width": 0, "kernel_size": 3, "stride": 2, "onto": "fine"}]})";

/// So wide that what makes its maps needs less than its runs.
constexpr int kWide = 128;

class DataflowTest : public DeviceTest {
 protected:
  static NetworkSpec spec_of(const NetworkCase& test, minuet_dataflow dataflow) {
    NetworkSpec spec;
    spec.description = test.json(), spec.dtype = test.dtype, spec.seed = test.seed;
    spec.dataflow = dataflow;
    return spec;
  }
  NetworkRun run(const NetworkCase& test, minuet_dataflow dataflow) {
    const Plan network = make_network(machine(), spec_of(test, dataflow));
    const Execution execution = make_execution(machine(), network.get());
    const std::vector<float> features = oracle::draw_features(test.points * test.in_channels, test.seed);
    const NetworkRun result =
        run_network(machine(), execution.get(), test.coordinates(), encode(test.dtype, features), test.dtype,
                    test.ndim, test.in_channels);
    for (int32_t layer = 0; layer < info_of(network.get()).layers; ++layer) {
      const minuet_dataflow found = dataflow_of(execution.get(), layer);
      EXPECT_TRUE(found == dataflow || found == 0) << found;  // 0: a pointwise op, which has none
    }
    return result;
  }
  /// fp32 sums in either, in another order.
  void expect_alike(const NetworkRun& gmas, const NetworkRun& fused) {
    EXPECT_EQ(fused.coordinates, gmas.coordinates);
    ASSERT_EQ(fused.bytes.size(), gmas.bytes.size());
    const std::vector<float> a = decode(dtype(), gmas.bytes), b = decode(dtype(), fused.bytes);
    float largest = 0;
    for (const float value : a) largest = std::max(largest, std::abs(value));
    for (size_t j = 0; j < a.size(); ++j) {
      ASSERT_LE(std::abs(a[j] - b[j]), 8 * error_bound(dtype(), true) * largest) << "element " << j;
    }
  }
};

TEST_P(DataflowTest, NetworksAgree) {
  const int networks = machine().is_software() ? 1 : 6;
  std::vector<NetworkCase> cases;
  std::vector<NetworkSpec> specs;
  for (int i = 0; i < networks; ++i) {
    cases.push_back(draw_network(dtype(), 7000 + static_cast<uint64_t>(i)));
    for (const minuet_dataflow dataflow : kDataflows) specs.push_back(spec_of(cases.back(), dataflow));
  }
  compile_ahead(machine(), specs);
  for (const NetworkCase& test : cases) {
    SCOPED_TRACE(as_initializer(test));
    expect_alike(run(test, MINUET_DATAFLOW_GATHER_GEMM_SCATTER), run(test, MINUET_DATAFLOW_FUSED));
  }
}

/// An index names one query of a source at an offset; with a kernel larger than a voxel of the coarser set
/// there are several.
TEST_P(DataflowTest, ALayerUpMayReachPastItsCell) {
  const std::vector<int32_t> coordinates = make_scene(machine().is_software() ? 200 : 3000, 5);
  const std::vector<char> features =
      encode(dtype(), oracle::draw_features(static_cast<int64_t>(coordinates.size()), 3));  // [count, 4]
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.map_method = MINUET_MAPS_INDEXED;
  NetworkRun runs[2];
  for (size_t i = 0; i < 2; ++i) {
    NetworkSpec spec;
    spec.description = kReachingUp, spec.dtype = dtype(), spec.dataflow = kDataflows[i];
    const Plan network = make_network(machine(), spec);
    const Execution execution = make_execution(machine(), network.get(), &options);
    runs[i] = run_network(machine(), execution.get(), coordinates, features, dtype());
    EXPECT_EQ(dataflow_of(execution.get(), 2), kDataflows[i]);
    minuet_level_info level{};
    level.struct_size = sizeof(level);
    check(minuet_execution_query_level(execution.get(), 0, &level));
    EXPECT_EQ(level.map_method, MINUET_MAPS_INDEXED);
  }
  expect_alike(runs[0], runs[1]);
}

TEST_P(DataflowTest, FusedRepeatsItsBitsOnAnyCloudsInBetween) {
  NetworkSpec spec;
  spec.description = kSmallUNet, spec.dtype = dtype(), spec.dataflow = MINUET_DATAFLOW_FUSED;
  const Plan network = make_network(machine(), spec);
  const Execution execution = make_execution(machine(), network.get());
  const auto run_points = [&](int64_t points) {
    const std::vector<int32_t> coordinates = make_scene(points, 5);
    const std::vector<float> features =
        oracle::draw_features(static_cast<int64_t>(coordinates.size()), 3);  // [count, 4]
    return run_network(machine(), execution.get(), coordinates, encode(dtype(), features), dtype());
  };
  const int64_t most = machine().is_software() ? 300 : 3000;
  const NetworkRun first = run_points(most);
  run_points(most / 3);
  EXPECT_EQ(run_points(most).bytes, first.bytes);
}

TEST_P(DataflowTest, AFusedExecutionHasNoBuffersForPairs) {
  int64_t bytes[2] = {};
  for (size_t i = 0; i < 2; ++i) {
    NetworkSpec spec;
    spec.description = kSmallUNet, spec.dtype = dtype(), spec.dataflow = kDataflows[i];
    const Plan network = make_network(machine(), spec);
    const Execution execution = make_execution(machine(), network.get());
    check(prepare(machine(), execution.get(), make_scene(machine().is_software() ? 300 : 3000, 5)));
    bytes[i] = counters_of(execution.get()).workspace_bytes;
  }
  EXPECT_LT(bytes[1], bytes[0]);
}

/// What one larger than the last has left behind it has room for one that is a tenth larger.
TEST_P(DataflowTest, ALikeCloudThatIsSlightlyLargerFits) {
  NetworkSpec spec;
  spec.description = kSmallUNet, spec.channels = {kWide, kWide, kWide};
  spec.dtype = dtype(), spec.dataflow = MINUET_DATAFLOW_FUSED;
  const Plan network = make_network(machine(), spec);
  const Execution execution = make_execution(machine(), network.get());
  const auto allocations = [&](int64_t voxels) {
    check(minuet_execution_reset_counters(execution.get()));
    check(prepare(machine(), execution.get(), make_scene(voxels, 5)));
    return counters_of(execution.get()).allocations;
  };
  allocations(300);
  EXPECT_GT(allocations(1000), 0);
  EXPECT_EQ(allocations(1100), 0);
}

/// Activations that are in use together, and what runs read of maps; all else shares their memory, but for
/// some words a voxel. With slack of an eighth, once.
TEST_P(DataflowTest, AFusedExecutionIsAsSmallAsItsRuns) {
  // The CPU reads maps as they come. Under AddressSanitizer nothing shares memory.
  if (machine().is_cpu() || kAddressSanitized) return;
  NetworkSpec spec;
  spec.description = kSmallUNet, spec.channels = {kWide, kWide, kWide};
  spec.dtype = dtype(), spec.dataflow = MINUET_DATAFLOW_FUSED;
  const Plan network = make_network(machine(), spec);
  for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.map_method = method;
    const Execution execution = make_execution(machine(), network.get(), &options);
    const auto level_rows = [&](int32_t level) {
      minuet_level_info info{};
      info.struct_size = sizeof(info);
      check(minuet_execution_query_level(execution.get(), level, &info));
      return info.voxels;
    };
    check(prepare(machine(), execution.get(), make_scene(machine().is_software() ? 2000 : 20000, 5)));
    const int64_t fine = level_rows(0), coarse = level_rows(1);
    // A concatenation, which waits for the coarse level's residual block; beside it the last layer's output.
    const int64_t channels = kWide * std::max(3 * fine, 2 * fine + 3 * coarse);
    // A row of a view: its entries, mask and place. Maps of 27 offsets, and of 8 in both directions.
    const int64_t views = 4 * (29 + 10) * (fine + coarse);
    // The table of an index stays from cloud to cloud: two slots of 33 bytes for each of a level's rows, of
    // which there is room for as many as there are coordinates, in thousands.
    const int64_t slots = method == MINUET_MAPS_INDEXED ? 2 * (2 * (fine + fine / 8) + 5 * 1024) : 0;
    const int64_t least = channels * dtype_bytes(dtype()) + views;
    EXPECT_LE(counters_of(execution.get()).workspace_bytes,
              least + least / 8 + 48 * fine + 33 * slots + (1 << 15))
        << fine << " and " << coarse << " rows";
  }
}

TEST_P(DataflowTest, WhatIsNoDataflowIsRefused) {
  minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
  options.description = kSmallUNet;
  for (const minuet_dataflow wrong : {-1, 3}) {
    options.dataflow = wrong;
    minuet_plan* plan = nullptr;
    EXPECT_EQ(minuet_plan_create_network(machine().context(), &options, &plan), MINUET_INVALID_ARGUMENT);
    EXPECT_NE(last_error().find("dataflow"), std::string::npos) << last_error();
  }
}

/// Just in time and ahead, for what was asked for: nothing else is compiled in its place.
TEST_P(DataflowTest, KernelsOfTooManyOffsetsAreNotFused) {
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  options.dtype = abi_dtype(dtype());
  options.in_channels = options.out_channels = 1;
  std::fill_n(options.kernel_size, 3, 17);
  options.submanifold = 1;
  const std::vector<float> weight(17 * 17 * 17, 1.0f);
  options.weight = weight.data();
  options.weight_count = static_cast<int64_t>(weight.size());
  options.dataflow = MINUET_DATAFLOW_FUSED;
  minuet_plan* plan = nullptr;
  check(minuet_plan_create_convolution(machine().context(), &options, &plan));
  const Plan owned(plan, {minuet_plan_destroy});
  EXPECT_EQ(minuet_plan_compile(plan, "sm_90a", nullptr, nullptr), MINUET_UNIMPLEMENTED);
  const char* const arch = "sm_90a";
  const TemporaryPath folder("bundles");
  minuet_precompile_options ahead = MINUET_PRECOMPILE_OPTIONS_INIT;
  ahead.plans = &plan;
  ahead.plan_count = 1;
  ahead.archs = &arch;
  ahead.arch_count = 1;
  ahead.output_directory = folder.path().c_str();
  EXPECT_EQ(minuet_precompile(machine().context(), &ahead, nullptr), MINUET_UNIMPLEMENTED);
  EXPECT_NE(last_error().find("4096"), std::string::npos) << last_error();
}

MINUET_INSTANTIATE_DEVICE_TEST(DataflowTest);

}  // namespace
}  // namespace minuet::abi
