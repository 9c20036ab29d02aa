// Many GPUs, threads, streams and CUDA contexts through the C ABI (R25). Each test has a process of its own.
#include <array>
#include <atomic>
#include <iostream>
#include <thread>

#include "tests/runtime/cuda/driver_function.h"
#include "tests/runtime/cuda/stack.h"
#include "tests/support/expect.h"
#include "tests/support/layer_run.h"
#include "tests/support/software_cuda/control.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

constexpr int kThreads = 8, kStreams = 2;
/// Of a thread on each of its streams.
int rounds() { return on_software_device() ? 1 : 4; }
/// Eight of each GPU; on the software device of all.
int threads_of(int gpus) { return on_software_device() ? kThreads : gpus * kThreads; }

class ContextsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    gpus_ = gpu_count(reason);
    if (gpus_ == 0) MINUET_SKIP_OR_FAIL("gpu", reason);
  }

  static int run_rounds(const Stack& stack, int gpu, const Cloud* clouds,
                        const std::array<std::vector<char>, 2>& expected) {
    std::vector<std::unique_ptr<Stream>> streams;
    std::vector<Execution> executions;
    for (int s = 0; s < kStreams; ++s) {
      streams.push_back(std::make_unique<Stream>(gpu));
      executions.push_back(stack.execution(gpu));
    }
    int right = 0;
    for (int round = 0; round < rounds() * kStreams; ++round) {
      const int s = round % kStreams, c = round / kStreams % 2;
      right += run_on(stack.device(gpu), executions[s].get(), clouds[c], streams[s]->get()) == expected[c];
    }
    return right;
  }

  /// Threads that each keep two executions busy on two streams of their GPU; how many runs came out right.
  static int run_all(const Stack& stack, int gpus) {
    const Cloud clouds[] = {stack_cloud(1), stack_cloud(2)};
    std::vector<std::array<std::vector<char>, 2>> expected(gpus);
    for (int gpu = 0; gpu < gpus; ++gpu) {
      for (int c = 0; c < 2; ++c) {
        const Execution alone = stack.execution(gpu);
        expected[gpu][c] = run_on(stack.device(gpu), alone.get(), clouds[c], nullptr);
        EXPECT_FALSE(expected[gpu][c].empty());
      }
    }
    std::atomic<int> right{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < threads_of(gpus); ++t) {
      threads.emplace_back([&, gpu = t % gpus] {
        try {
          right += run_rounds(stack, gpu, clouds, expected[gpu]);
        } catch (const std::exception&) {  // the failure is recorded
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return right;
  }

  int gpus_ = 0;
};

TEST_F(ContextsTest, R25_EightThreadsOfTwoStreams) {
  const Stack stack(1);
  EXPECT_EQ(run_all(stack, 1), kThreads * kStreams * rounds());
}

TEST_F(ContextsTest, R25_TwoGpusOfEightThreadsOfTwoStreams) {
  if (gpus_ < 2) GTEST_SKIP() << "there is one GPU here, and this takes two";
  const Stack stack(2);
  EXPECT_EQ(run_all(stack, 2), threads_of(2) * kStreams * rounds());
  EXPECT_THAT(stack.warnings(), testing::IsEmpty());
}

/// The last release of a primary context destroys it; the next one is another, and empty.
TEST_F(ContextsTest, R25_ContextsThatComeAndGo) {
  std::vector<char> first;
  for (int round = 0; round < 3; ++round) {
    const Stack stack(1);
    const Execution execution = stack.execution(0);
    const std::vector<char> output = run_on(stack.device(0), execution.get(), stack_cloud(), nullptr);
    ASSERT_FALSE(output.empty());
    if (round == 0) first = output;
    EXPECT_EQ(output, first) << "round " << round;
    if (round > 0) {
      EXPECT_EQ(stack.counters().compiled, 0);
    }
  }
}

/// Sorts a cloud: kernels of ours alone, without GEMMs, which are another library's.
std::vector<int32_t> sorted_on(minuet_device* device, const Cloud& cloud) {
  const Memory memory(device, cloud.coordinates);
  minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
  const int32_t stride[] = {2, 2, 2, 1};
  minuet_coordinates *set = nullptr, *coarse = nullptr;
  check(minuet_coordinates_create(device, &options, static_cast<const int32_t*>(memory.data()),
                                  static_cast<int64_t>(cloud.coordinates.size()) / 4, nullptr, &set));
  const Coordinates owner(set, {minuet_coordinates_destroy});
  check(minuet_coordinates_downsample(set, stride, nullptr, &coarse));
  const Coordinates coarse_owner(coarse, {minuet_coordinates_destroy});
  const Memory output(device, minuet_coordinates_count(coarse) * 16);
  check(minuet_coordinates_export(coarse, static_cast<int32_t*>(output.data()), nullptr));
  check(minuet_device_synchronize(device, nullptr));
  return output.read<int32_t>();
}

struct OpenGpu {
  OpenGpu() {
    minuet_context* made = nullptr;
    minuet_device* opened = nullptr;
    check(minuet_context_create(nullptr, &made));
    context.reset(made);
    check(minuet_device_open(made, "cuda:0", nullptr, &opened));
    device.reset(opened);
  }
  Handle<minuet_context> context{nullptr, {minuet_context_destroy}};
  Handle<minuet_device> device{nullptr, {minuet_device_destroy}};
};

/// Somebody resets the primary context under an open device. A device that is opened then works, with the
/// libraries that the old one holds; the old one is only good for being left alone.
TEST_F(ContextsTest, R25_APrimaryContextThatWasReset) {
  const auto reset = driver_function<CUresult (*)(CUdevice)>("cuDevicePrimaryCtxReset_v2");
  ASSERT_TRUE(reset);
  const Cloud cloud = stack_cloud();
  static auto* const old = new OpenGpu;  // never destroyed: its streams and memory are gone
  const std::vector<int32_t> expected = sorted_on(old->device.get(), cloud);
  ASSERT_FALSE(expected.empty());
  ASSERT_EQ(reset(0), CUDA_SUCCESS);
  const OpenGpu anew;
  EXPECT_EQ(sorted_on(anew.device.get(), cloud), expected);
}

/// Of an explicit context of the same GPU, where the plan's memory is not.
TEST_F(ContextsTest, R25_AStreamOfAnotherContextIsRefused) {
  const auto create = driver_function<CUresult (*)(CUcontext*, unsigned, CUdevice)>("cuCtxCreate_v2");
  const auto destroy = driver_function<CUresult (*)(CUcontext)>("cuCtxDestroy_v2");
  ASSERT_TRUE(create && destroy);
  const Stack stack(1);
  const Execution execution = stack.execution(0);
  const std::vector<char> expected = run_on(stack.device(0), execution.get(), stack_cloud(), nullptr);
  const Driver& driver = *take(Driver::get());
  CUcontext other = nullptr, current = nullptr;
  CUstream stream = nullptr;
  ASSERT_EQ(create(&other, 0, 0), CUDA_SUCCESS);  // current from here on
  ASSERT_EQ(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);

  minuet_status status = MINUET_OK;
  run_on(stack.device(0), execution.get(), stack_cloud(), stream, &status);
  EXPECT_EQ(status, MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("another context"));
  // The default stream is the primary context's, whatever is current.
  EXPECT_EQ(run_on(stack.device(0), execution.get(), stack_cloud(), nullptr), expected);

  EXPECT_EQ(driver.cuStreamDestroy(stream), CUDA_SUCCESS);
  ASSERT_EQ(driver.cuCtxPopCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, other) << "the caller's context stays current";
  EXPECT_EQ(destroy(other), CUDA_SUCCESS);
  EXPECT_EQ(run_on(stack.device(0), execution.get(), stack_cloud(), nullptr), expected);
}

/// A green context with some of the GPU's multiprocessors, and a stream of it.
struct GreenContext {
  GreenContext() {
    const auto resource = driver_function<decltype(&::cuDeviceGetDevResource)>("cuDeviceGetDevResource");
    const auto split =
        driver_function<decltype(&::cuDevSmResourceSplitByCount)>("cuDevSmResourceSplitByCount");
    const auto describe =
        driver_function<decltype(&::cuDevResourceGenerateDesc)>("cuDevResourceGenerateDesc");
    const auto create = driver_function<decltype(&::cuGreenCtxCreate)>("cuGreenCtxCreate");
    const auto create_stream = driver_function<decltype(&::cuGreenCtxStreamCreate)>("cuGreenCtxStreamCreate");
    if (!resource || !split || !describe || !create || !create_stream) return;
    CUdevResource all = {}, part = {}, rest = {};
    CUdevResourceDesc description = nullptr;
    unsigned groups = 1;
    if (resource(0, &all, CU_DEV_RESOURCE_TYPE_SM) != CUDA_SUCCESS ||
        split(&part, &groups, &all, &rest, 0, 16) != CUDA_SUCCESS ||
        describe(&description, &part, 1) != CUDA_SUCCESS ||
        create(&context, description, 0, CU_GREEN_CTX_DEFAULT_STREAM) != CUDA_SUCCESS) {
      return;
    }
    if (create_stream(&stream, context, CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS) stream = nullptr;
  }
  ~GreenContext() {
    if (stream) static_cast<void>(take(Driver::get())->cuStreamDestroy(stream));
    if (context) driver_function<decltype(&::cuGreenCtxDestroy)>("cuGreenCtxDestroy")(context);
  }
  CUgreenCtx context = nullptr;
  CUstream stream = nullptr;
};

TEST_F(ContextsTest, R25_AStreamOfAGreenContext) {
  const Stack stack(1);
  const Execution execution = stack.execution(0);
  const Cloud cloud = stack_cloud();
  const std::vector<char> expected = run_on(stack.device(0), execution.get(), cloud, nullptr);
  const GreenContext green;
  if (!green.stream) GTEST_SKIP() << "this GPU or driver gives no green context of 16 multiprocessors";
  minuet_status status = MINUET_OK;
  const auto software = software_cuda::Control::find();
  if (software) software->reset();
  const std::vector<char> output = run_on(stack.device(0), execution.get(), cloud, green.stream, &status);
  if (software) {
    EXPECT_EQ(software->calls("cuStreamWaitEvent"), 0) << "side streams leave the green context";
  }
  if (status == MINUET_OK) {
    std::cout << "the stream of a green context is taken\n";
    const std::vector<float> reference = decode(DType::F16, expected);
    EXPECT_TRUE(is_close(decode(DType::F16, output), std::vector<double>(reference.begin(), reference.end()),
                         kWidths.back(), error_bound(DType::F16, true)));
  } else {
    std::cout << "the stream of a green context is refused: " << last_error() << "\n";
    EXPECT_EQ(status, MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("green context"));
  }
  EXPECT_EQ(run_on(stack.device(0), execution.get(), cloud, nullptr), expected);
}

}  // namespace
}  // namespace minuet::abi
