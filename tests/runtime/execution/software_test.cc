// What only the software device can show: every order, the true counts, and failures on demand. Through the C
// ABI.
#include <cuda.h>

#include <cstdlib>

#include "tests/runtime/cuda/driver_function.h"
#include "tests/runtime/execution/execution_fixture.h"
#include "tests/support/expect.h"
#include "tests/support/software_cuda/control.h"
#include "tests/support/software_cuda/cublaslt_control.h"

namespace minuet::abi {
namespace {

constexpr uint64_t kOrders = 5;
const char* const kAllocations[] = {"cuMemAlloc", "cuMemHostAlloc", "cuStreamCreate", "cuEventCreate"};

/// The controls of the cuBLASLt that the library has open.
template <class Function>
Function* cublaslt(const char* name) {
  const char* const path = std::getenv("MINUET_CUBLASLT");
  void* const library = dlopen(path ? path : "", RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Function*>(library ? dlsym(library, name) : nullptr);
}
SoftwareCublasltCounts cublaslt_counts() {
  SoftwareCublasltCounts counts = {};
  if (auto* const get = cublaslt<decltype(software_cublaslt_counts)>("software_cublaslt_counts"))
    get(&counts);
  return counts;
}

class SoftwareTest : public ExecutionTest {
 protected:
  void SetUp() override {
    const std::optional<software_cuda::Control> found = software_cuda::Control::find();
    if (!found) MINUET_SKIP_OR_FAIL("gpu", "this is not the software CUDA device");
    control_ = *found;
    ExecutionTest::SetUp();
  }
  void TearDown() override {
    if (IsSkipped()) return;
    control_.reset();
    EXPECT_STREQ(control_.fault_text(), "");
    EXPECT_EQ(cublaslt_counts().wrong_calls, 0)
        << "an algorithm was given something else than it was looked up for";
  }

  software_cuda::Control control_ = {};
};

TEST_P(SoftwareTest, AnyOrderGivesTheSameBits) {
  const std::vector<Cloud> clouds = {scene(250), scene(50, kSeed + 1)};
  std::vector<NetworkRun> expected;
  for (const Cloud& cloud : clouds) expected.push_back(fresh(cloud));
  expect_oracle(expected[0], clouds[0]);
  for (uint64_t seed = 0; seed < kOrders; ++seed) {
    control_.seed(seed);
    const Execution execution = this->execution();
    for (size_t i = 0; i < clouds.size(); ++i) {
      EXPECT_EQ(run(execution, clouds[i]), expected[i]) << "order of seed " << seed << ", cloud " << i;
    }
  }
}

/// Clouds in turn without a wait between them: nothing of one may be overwritten before the device has read
/// it.
TEST_P(SoftwareTest, CallsThatDoNotWaitForEachOther) {
  const std::vector<Cloud> clouds = {scene(60), scene(100, kSeed + 1), scene(30, kSeed + 2)};
  std::vector<NetworkRun> expected;
  for (const Cloud& cloud : clouds) expected.push_back(fresh(cloud));
  for (uint64_t seed = 0; seed < kOrders; ++seed) {
    control_.seed(seed);
    const Execution execution = this->execution();
    run(execution, clouds[1]);  // warm, at the largest size
    std::vector<std::unique_ptr<Buffer>> coordinates, features, outputs;
    for (size_t i = 0; i < clouds.size(); ++i) {
      coordinates.push_back(std::make_unique<Buffer>(machine(), clouds[i].coordinates));
      features.push_back(std::make_unique<Buffer>(machine(), clouds[i].bytes));
      outputs.push_back(std::make_unique<Buffer>(machine(), static_cast<int64_t>(expected[i].bytes.size())));
    }
    for (size_t i = 0; i < clouds.size(); ++i) {
      const int64_t count = static_cast<int64_t>(clouds[i].coordinates.size()) / 4;
      check(minuet_execution_prepare(execution.get(), coordinates[i]->integers(), count, nullptr));
      for (int twice = 0; twice < 2; ++twice) {
        check(enqueue(execution.get(), clouds[i], features[i]->data(), outputs[i]->data()));
      }
    }
    for (size_t i = 0; i < clouds.size(); ++i) {
      EXPECT_EQ(outputs[i]->read<char>(), expected[i].bytes) << "order of seed " << seed << ", cloud " << i;
    }
  }
}

/// On a stream of the caller's that orders itself with no other, and with features at another address in
/// every call.
TEST_P(SoftwareTest, OnACallersStream) {
  const Cloud cloud = scene(100), other(cloud.coordinates, dtype(), kSeed + 1);
  const auto count = static_cast<int64_t>(cloud.coordinates.size()) / 4;
  const NetworkRun expected[] = {fresh(cloud), fresh(other)};
  ASSERT_NE(expected[0].bytes, expected[1].bytes);
  const Buffer coordinates(machine(), cloud.coordinates), first(machine(), cloud.bytes),
      again(machine(), other.bytes);
  CUcontext context = nullptr;
  ASSERT_EQ(driver_function<CUresult (*)(CUcontext*, CUdevice)>("cuDevicePrimaryCtxRetain")(&context, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(driver_function<CUresult (*)(CUcontext)>("cuCtxPushCurrent_v2")(context), CUDA_SUCCESS);
  CUstream stream = nullptr;
  ASSERT_EQ(
      driver_function<CUresult (*)(CUstream*, unsigned)>("cuStreamCreate")(&stream, CU_STREAM_NON_BLOCKING),
      CUDA_SUCCESS);
  for (uint64_t seed = 0; seed < kOrders; ++seed) {
    control_.seed(seed);
    const Execution execution = this->execution();
    for (int twice = 0; twice < 2; ++twice) {
      const auto bytes = static_cast<int64_t>(expected[0].bytes.size());
      const Buffer outputs[] = {{machine(), bytes}, {machine(), bytes}};
      check(minuet_execution_prepare(execution.get(), coordinates.integers(), count, stream));
      check(enqueue(execution.get(), cloud, first.data(), outputs[0].data(), stream));
      check(enqueue(execution.get(), other, again.data(), outputs[1].data(), stream));
      check(minuet_device_synchronize(machine().device(), stream));
      for (int i = 0; i < 2; ++i)
        EXPECT_EQ(outputs[i].read<char>(), expected[i].bytes) << "seed " << seed << ", run " << i;
    }
  }
  EXPECT_EQ(driver_function<CUresult (*)(CUstream)>("cuStreamDestroy_v2")(stream), CUDA_SUCCESS);
  EXPECT_EQ(driver_function<CUresult (*)(CUcontext*)>("cuCtxPopCurrent_v2")(&context), CUDA_SUCCESS);
  EXPECT_EQ(driver_function<CUresult (*)(CUdevice)>("cuDevicePrimaryCtxRelease_v2")(0), CUDA_SUCCESS);
}

/// A single convolution waits for nothing between maps: the tables of one are written while the device is
/// still behind with the last, in memory that grows.
TEST_P(SoftwareTest, MapsThatDoNotWaitForEachOther) {
  static_cast<void>(fresh(scene(10)));  // opens cuBLASLt
  auto* const set_scarcity =
      cublaslt<decltype(software_cublaslt_set_scarcity)>("software_cublaslt_set_scarcity");
  ASSERT_TRUE(set_scarcity);
  set_scarcity(0);  // weights by tables of pointers
  std::vector<ConvolutionCase> cases;
  for (const int64_t points : {40, 120, 25}) {
    cases.push_back(small_case(dtype(), ConvolutionKind::Submanifold, 16, 32, points));
    cases.back().residual = false;
    cases.back().seed = static_cast<uint64_t>(points);
  }
  ConvolutionData parameters;
  make_parameters(cases[0], false, parameters);
  Convolution convolution(machine(), cases[0], parameters);
  std::vector<ConvolutionData> data;
  std::vector<Map> maps;
  std::vector<std::vector<char>> expected;
  for (const ConvolutionCase& test : cases) {
    data.push_back(make_data(test));
    maps.push_back(make_map(machine(), test, data.back()));
    expected.push_back(convolution.run(convolution.execution().get(), maps.back(), data.back()));
  }
  for (uint64_t seed = 0; seed < 2 * kOrders; ++seed) {
    control_.seed(seed);
    const Execution execution = convolution.execution();
    std::vector<std::unique_ptr<Buffer>> inputs, outputs;
    for (size_t i = 0; i < cases.size(); ++i) {
      inputs.push_back(std::make_unique<Buffer>(machine(), encode(dtype(), data[i].features)));
      outputs.push_back(std::make_unique<Buffer>(machine(), static_cast<int64_t>(expected[i].size())));
    }
    for (size_t i = 0; i < cases.size(); ++i) {
      check(prepare_map(execution.get(), maps[i].map.get()));
      check(run_tensors(execution.get(), {tensor(*inputs[i], data[i].in_rows(), 16, dtype())},
                        tensor(*outputs[i], data[i].out_rows(), 32, dtype())));
    }
    for (size_t i = 0; i < cases.size(); ++i) {
      EXPECT_EQ(outputs[i]->read<char>(), expected[i]) << "order of seed " << seed << ", map " << i;
    }
  }
  set_scarcity(8);
}

/// An algorithm that is refused for a height is looked up for this very height.
TEST_P(SoftwareTest, RefusedAlgorithmsAreLookedUpAgain) {
  const Cloud cloud = scene(100);
  const NetworkRun expected = fresh(cloud);
  auto* const refuse =
      cublaslt<decltype(software_cublaslt_refuse_inexact)>("software_cublaslt_refuse_inexact");
  auto* const scarcity = cublaslt<decltype(software_cublaslt_set_scarcity)>("software_cublaslt_set_scarcity");
  ASSERT_TRUE(refuse && scarcity);
  scarcity(0);  // an exact one is there
  refuse(1);
  const Execution execution = this->execution();
  const Buffer coordinates(machine(), cloud.coordinates), features(machine(), cloud.bytes);
  const Buffer output(machine(), static_cast<int64_t>(expected.bytes.size()));
  const auto count = static_cast<int64_t>(cloud.coordinates.size()) / 4;
  EXPECT_EQ(minuet_execution_prepare(execution.get(), coordinates.integers(), count, nullptr), MINUET_OK);
  EXPECT_EQ(enqueue(execution.get(), cloud, features.data(), output.data()), MINUET_OK) << last_error();
  refuse(0);
  scarcity(8);
  EXPECT_EQ(output.read<char>(), expected.bytes);
}

/// Two layers of one shape, of which one reads columns of a wider tensor, whose rows begin on 8 bytes:
/// TearDown sees that no algorithm is used for another pitch than it was looked up for.
TEST_P(SoftwareTest, LayersOfOneShapeAndTwoPitches) {
  const std::string description =
      R"({"name": "pitches", "ndim": 3, "in_channels": 4, "channels": [16, 4], "layers": [
    {"op": "block", "name": "a", "width": 0, "kernel_size": 3, "save": "s"},
    {"op": "block", "name": "b", "width": 0, "kernel_size": 3},
    {"op": "block", "name": "c", "width": 0, "kernel_size": 3},
    {"op": "block", "name": "narrow", "width": 1, "kernel_size": 1},
    {"op": "concat", "with": "s"},
    {"op": "block", "name": "d", "width": 0, "kernel_size": 1}]})";
  const Plan network = make_network(machine(), {"", {}, dtype(), "", 3, description});
  const Cloud cloud = scene(100);
  const auto run = [&] {
    return run_network(machine(), make_execution(machine(), network.get()).get(), cloud.coordinates,
                       cloud.bytes, dtype());
  };
  EXPECT_EQ(run(), run());
}

/// Enough pairs that a scan takes many tiles, each of which waits for what the one before left.
TEST_P(SoftwareTest, AScanOfManyTiles) {
  const ConvolutionCase test = small_case(dtype(), ConvolutionKind::Submanifold, 4, 4, 12000);
  const ConvolutionData data = make_coordinates(test);
  EXPECT_TRUE(make_map(machine(), test, data).pairs == expected_pairs(data));
}

/// Warm: two waits in prepare, none in run, and no allocation; and what the library counts is what the driver
/// saw.
TEST_P(SoftwareTest, WarmCallsWaitTwiceAndAllocateNothing) {
  const Cloud cloud = scene(100);
  const Execution execution = this->execution();
  const NetworkRun expected = run(execution, cloud);
  const Buffer coordinates(machine(), cloud.coordinates), features(machine(), cloud.bytes);
  const Buffer output(machine(), static_cast<int64_t>(expected.bytes.size()));
  check(minuet_execution_reset_counters(execution.get()));
  control_.reset();
  const SoftwareCublasltCounts before = cublaslt_counts();
  const int64_t count = static_cast<int64_t>(cloud.coordinates.size()) / 4;
  check(minuet_execution_prepare(execution.get(), coordinates.integers(), count, nullptr));
  EXPECT_LE(control_.waits(), 2);
  EXPECT_GE(control_.waits(), 1) << "somebody has to learn the counts";
  const int64_t after_prepare = control_.waits();
  check(enqueue(execution.get(), cloud, features.data(), output.data()));
  EXPECT_EQ(control_.waits(), after_prepare);
  EXPECT_EQ(control_.allocations(), 0);
  EXPECT_EQ(control_.calls("cuLibraryLoadData"), 0);

  const minuet_execution_counters counters = counters_of(execution.get());
  EXPECT_EQ(counters.host_syncs, control_.waits());
  EXPECT_EQ(counters.allocations, control_.allocations());
  EXPECT_EQ(counters.kernels, control_.calls("cuLaunchKernelEx"));
  EXPECT_EQ(counters.matmuls, cublaslt_counts().matmuls - before.matmuls);
  EXPECT_EQ(counters.fills, control_.calls("cuMemsetD32Async"));
  EXPECT_EQ(counters.copies, control_.calls("cuMemcpyHtoDAsync") + control_.calls("cuMemcpyDtoHAsync"));
  EXPECT_GT(counters.kernels, 0);
  EXPECT_GT(counters.matmuls, 0);
  EXPECT_EQ(output.read<char>(), expected.bytes);
}

/// From the load on: clouds of any size find their GEMMs' algorithms looked up, and their kernels loaded.
TEST_P(SoftwareTest, UnseenCloudsLookNothingUp) {
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.max_points = 700;
  const Execution execution = this->execution(&options);
  const SoftwareCublasltCounts before = cublaslt_counts();
  EXPECT_GT(before.kernels_loaded, 0);
  for (uint64_t i = 0; i < 30; ++i) {
    run(execution, scene(5 + static_cast<int64_t>(i) * 131 % 600, kSeed + i));
    const SoftwareCublasltCounts counts = cublaslt_counts();
    EXPECT_EQ(counts.lookups, before.lookups) << i;
    EXPECT_EQ(counts.kernels_loaded, before.kernels_loaded) << i;
  }
  EXPECT_EQ(counters_of(execution.get()).gemm_lookups, 0);
}

/// Each allocation in turn fails once: an error that says so, nothing is lost, and the next try works.
TEST_P(SoftwareTest, EveryAllocationMayFail) {
  const Cloud cloud = scene(30);
  const NetworkRun expected = fresh(cloud);
  for (const char* name : kAllocations) {
    control_.reset();
    static_cast<void>(fresh(cloud));
    const int64_t calls = control_.calls(name);
    int64_t failed = 0;
    for (int64_t nth = 1; nth <= calls; ++nth) {
      SCOPED_TRACE(std::string(name) + " number " + std::to_string(nth));
      const int64_t live = control_.live();
      const Buffer coordinates(machine(), cloud.coordinates);
      control_.fail(name, static_cast<int>(nth), CUDA_ERROR_OUT_OF_MEMORY);
      minuet_execution* made = nullptr;
      minuet_status status = minuet_execution_create(network_.get(), machine().device(), nullptr, &made);
      const Execution execution(made, {minuet_execution_destroy});
      const int64_t count = static_cast<int64_t>(cloud.coordinates.size()) / 4;
      if (status == MINUET_OK) {
        status = minuet_execution_prepare(made, coordinates.integers(), count, nullptr);
      }
      control_.reset();
      // The test's own buffers are among the calls; or a second try went well.
      if (status == MINUET_OK) continue;
      ++failed;
      EXPECT_EQ(status, MINUET_RESOURCE_EXHAUSTED) << last_error();
      if (made != nullptr) {
        EXPECT_EQ(run(execution, cloud), expected);
      } else {
        EXPECT_EQ(control_.live(), live + 1) << "what was allocated before is freed";
      }
    }
    EXPECT_GT(failed, 0) << name << ": none of its " << calls << " calls was ever seen to fail";
  }
}

TEST_P(SoftwareTest, NothingIsLeftBehind) {
  const int64_t live = control_.live();
  {
    const Execution execution = this->execution();
    for (const int64_t voxels : {50, 400, 20}) static_cast<void>(run(execution, scene(voxels)));
    EXPECT_GT(control_.live(), live);
  }
  EXPECT_EQ(control_.live(), live);
}

INSTANTIATE_TEST_SUITE_P(Devices, SoftwareTest,
                         testing::Combine(testing::Values("cuda:0"), testing::Values(DType::F16)),
                         device_test_name);

}  // namespace
}  // namespace minuet::abi
