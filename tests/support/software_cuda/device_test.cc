// The software device itself: its memory is guarded, every order that streams allow happens, captures are
// strict.
#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/software_cuda/control.h"
#include "tests/support/software_cuda/enqueue.h"
#include "tests/support/software_cuda/memory.h"
#include "tests/support/software_cuda/work.h"

namespace minuet::software_cuda {
namespace {

constexpr std::uint64_t kSeeds = 60;
constexpr unsigned kWords = 64;

void check(CUresult result) { ASSERT_EQ(result, CUDA_SUCCESS); }

class DeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    check(cuDevicePrimaryCtxRetain(&context_, 0));
    check(cuCtxPushCurrent(context_));
    software_cuda_reset();
  }
  void TearDown() override {
    CUcontext popped = nullptr;
    check(cuCtxPopCurrent(&popped));
    check(cuDevicePrimaryCtxRelease(0));
  }

  static CUdeviceptr allocate() {
    CUdeviceptr memory = 0;
    check(cuMemAlloc(&memory, kWords * 4));
    return memory;
  }
  static CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream made = nullptr;
    check(cuStreamCreate(&made, flags));
    return made;
  }
  static CUevent event() {
    CUevent made = nullptr;
    check(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
    return made;
  }
  static std::vector<unsigned> read(CUdeviceptr memory) {
    std::vector<unsigned> words(kWords);
    check(cuMemcpyDtoHAsync(words.data(), memory, kWords * 4, nullptr));
    return words;
  }
  static std::vector<unsigned> all(unsigned word) { return std::vector<unsigned>(kWords, word); }

  /// What comes out over many seeds: `run` enqueues, waits and reads the first word.
  template <class Run>
  static std::set<unsigned> outcomes(const Run& run) {
    std::set<unsigned> seen;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      software_cuda_seed(seed);
      seen.insert(run());
    }
    return seen;
  }

  CUcontext context_ = nullptr;
};

/// Work of a kernel's kind: `word` is stored at `target`.
struct Store {
  unsigned* target;
  unsigned word;
};
CUresult store(CUstream stream, CUdeviceptr target, unsigned word) {
  const auto work = [](void* state) {
    *static_cast<Store*>(state)->target = static_cast<Store*>(state)->word;
  };
  const auto release = [](void* state) { delete static_cast<Store*>(state); };
  return software_cuda_enqueue(stream, work, new Store{reinterpret_cast<unsigned*>(target), word}, release);
}

TEST_F(DeviceTest, MemoryIsPoisonedAndNotTheHosts) {
  const CUdeviceptr memory = allocate();
  EXPECT_EQ(read(memory), all(kPoison));
  EXPECT_DEATH(*reinterpret_cast<volatile unsigned*>(memory) = 1, "");
  check(cuMemFree(memory));
  EXPECT_EQ(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceTest, WritesPastTheEndAreFound) {
  const CUdeviceptr memory = allocate();
  // Within the last page, where the guard is looked at; AddressSanitizer sees it at once.
  EXPECT_DEATH(
      {
        static_cast<void>(store(nullptr, memory - 4, 1));
        if (cuStreamSynchronize(nullptr) != CUDA_SUCCESS) std::abort();
      },
      "before its start|AddressSanitizer");
  EXPECT_DEATH(
      {
        static_cast<void>(store(nullptr, memory + kWords * 4, 1));
        static_cast<void>(cuStreamSynchronize(nullptr));
      },
      "");
  check(cuMemFree(memory));
}

TEST_F(DeviceTest, CopiesPastTheEndAreFaults) {
  EXPECT_EXIT(
      {
        const std::vector<unsigned> words(kWords + 1);
        static_cast<void>(cuMemcpyHtoDAsync(allocate(), words.data(), kWords * 4 + 4, nullptr));
        std::exit(cuStreamSynchronize(nullptr) == CUDA_ERROR_ILLEGAL_ADDRESS ? 7 : 0);
      },
      testing::ExitedWithCode(7), "memory that is not there");
}

TEST_F(DeviceTest, AMissingEventWaitIsFound) {
  const CUstream writer = stream(), reader = stream();
  const CUevent written = event();
  const CUdeviceptr first = allocate(), second = allocate();
  const auto run = [&](bool wait) {
    return outcomes([&] {
      check(cuMemsetD32Async(first, 0, kWords, nullptr));
      check(cuStreamSynchronize(nullptr));
      check(store(writer, first, 5));
      check(cuEventRecord(written, writer));
      if (wait) check(cuStreamWaitEvent(reader, written, 0));
      unsigned word = 0;
      check(cuMemcpyDtoHAsync(&word, first, 4, reader));
      check(cuStreamSynchronize(writer));
      return word;
    });
  };
  EXPECT_EQ(run(/*wait=*/false), (std::set<unsigned>{0, 5}));
  EXPECT_EQ(run(/*wait=*/true), (std::set<unsigned>{5}));
  for (const CUdeviceptr memory : {first, second}) check(cuMemFree(memory));
}

TEST_F(DeviceTest, ABufferReusedTooEarlyIsFound) {
  const CUstream copies = stream();
  const CUevent copied = event();
  const CUdeviceptr memory = allocate();
  void* pinned = nullptr;
  check(cuMemHostAlloc(&pinned, kWords * 4, 0));
  unsigned* const words = static_cast<unsigned*>(pinned);
  const auto run = [&](bool wait) {
    return outcomes([&] {
      words[0] = 1;
      check(cuMemcpyHtoDAsync(memory, pinned, 4, copies));
      check(cuEventRecord(copied, copies));
      if (wait) check(cuEventSynchronize(copied));
      words[0] = 2;  // for the next copy
      check(cuStreamSynchronize(copies));
      return read(memory)[0];
    });
  };
  EXPECT_EQ(run(/*wait=*/false), (std::set<unsigned>{1, 2}));
  EXPECT_EQ(run(/*wait=*/true), (std::set<unsigned>{1}));
  check(cuMemFreeHost(pinned));
  check(cuMemFree(memory));
}

TEST_F(DeviceTest, TheNullStreamOrdersItselfWithBlockingStreams) {
  const CUdeviceptr memory = allocate();
  const auto run = [&](CUstream other) {
    return outcomes([&] {
      check(store(other, memory, 1));
      check(store(nullptr, memory, 2));
      check(cuStreamSynchronize(other));
      check(cuStreamSynchronize(nullptr));
      return read(memory)[0];
    });
  };
  EXPECT_EQ(run(stream(CU_STREAM_DEFAULT)), (std::set<unsigned>{2}));
  EXPECT_EQ(run(stream(CU_STREAM_NON_BLOCKING)), (std::set<unsigned>{1, 2}));
  check(cuMemFree(memory));
}

TEST_F(DeviceTest, CallsThatACaptureForbids) {
  const CUstream stream = this->stream(), other = this->stream();
  const CUdeviceptr memory = allocate();
  const auto refused = [&](CUstreamCaptureMode mode, const auto& call) {
    check(cuStreamBeginCapture(stream, mode));
    const CUresult answer = call();
    CUgraph graph = nullptr;
    const CUresult end = cuStreamEndCapture(stream, &graph);
    EXPECT_EQ(answer == CUDA_SUCCESS, end == CUDA_SUCCESS);
    if (graph) check(cuGraphDestroy(graph));
    return answer;
  };
  CUdeviceptr made = 0;
  const auto allocation = [&] { return cuMemAlloc(&made, 16); };
  EXPECT_EQ(refused(CU_STREAM_CAPTURE_MODE_GLOBAL, allocation), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(refused(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, allocation), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(refused(CU_STREAM_CAPTURE_MODE_RELAXED, allocation), CUDA_SUCCESS);
  const auto wait = [&] { return cuStreamSynchronize(stream); };
  EXPECT_EQ(refused(CU_STREAM_CAPTURE_MODE_RELAXED, wait), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  // In another thread only the global mode minds.
  const auto elsewhere = [&] {
    CUresult answer = CUDA_SUCCESS;
    std::thread([&] {
      check(cuCtxPushCurrent(context_));
      answer = cuMemAlloc(&made, 16);
    }).join();
    return answer;
  };
  EXPECT_EQ(refused(CU_STREAM_CAPTURE_MODE_GLOBAL, elsewhere), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(refused(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, elsewhere), CUDA_SUCCESS);
  // Unless it says that it leaves captures alone.
  const auto apart = [&] {
    CUresult answer = CUDA_SUCCESS;
    std::thread([&] {
      check(cuCtxPushCurrent(context_));
      CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
      check(cuThreadExchangeStreamCaptureMode(&mode));
      EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
      answer = cuStreamSynchronize(other);
      check(cuThreadExchangeStreamCaptureMode(&mode));
      EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    }).join();
    return answer;
  };
  EXPECT_EQ(refused(CU_STREAM_CAPTURE_MODE_GLOBAL, apart), CUDA_SUCCESS);
  const auto synchronization = [&] { return cuStreamSynchronize(other); };
  EXPECT_EQ(refused(CU_STREAM_CAPTURE_MODE_GLOBAL, synchronization), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  check(cuMemFree(memory));
}

TEST_F(DeviceTest, CapturedWorkRunsWhereItIsLaunched) {
  const CUstream stream = this->stream(), side = this->stream();
  const CUevent forked = event(), joined = event();
  const CUdeviceptr memory = allocate();
  const auto capture = [&](bool join, CUgraph* graph) {
    check(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    check(store(stream, memory, 1));
    check(cuEventRecord(forked, stream));
    check(cuStreamWaitEvent(side, forked, 0));
    check(store(side, memory, 2));
    check(cuEventRecord(joined, side));
    if (join) check(cuStreamWaitEvent(stream, joined, 0));
    check(store(stream, memory + 4, 3));
    return cuStreamEndCapture(stream, graph);
  };
  CUgraph graph = nullptr;
  EXPECT_EQ(capture(/*join=*/false, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  check(capture(/*join=*/true, &graph));
  EXPECT_EQ(read(memory), all(kPoison)) << "a capture runs nothing";
  CUgraphExec exec = nullptr;
  check(cuGraphInstantiateWithFlags(&exec, graph, 0));
  EXPECT_EQ(outcomes([&] {
              check(cuMemsetD32Async(memory, 0, kWords, stream));
              for (int replay = 0; replay < 2; ++replay) check(cuGraphLaunch(exec, stream));
              check(cuStreamSynchronize(stream));
              const std::vector<unsigned> words = read(memory);
              return words[0] * 10 + words[1];
            }),
            (std::set<unsigned>{23}));
  check(cuGraphExecDestroy(exec));
  check(cuGraphDestroy(graph));
  check(cuMemFree(memory));
}

/// A host function that ends only when another thread has come through the driver: no lock is held while it
/// runs.
TEST_F(DeviceTest, AHostFunctionMayWaitForAnotherThreadsCall) {
  const CUstream blocked = stream(), free = stream();
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    software_cuda_seed(seed);
    std::atomic<bool> released{false};
    check(cuLaunchHostFunc(
        blocked,
        [](void* flag) {
          while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
        },
        &released));
    std::thread other([&] {
      check(cuCtxPushCurrent(context_));
      check(cuLaunchHostFunc(
          free, [](void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); }, &released));
      check(cuStreamSynchronize(free));
    });
    check(cuStreamSynchronize(blocked));
    other.join();
  }
}

TEST_F(DeviceTest, CountsAndFailsOnDemand) {
  CUdeviceptr memory = 0;
  software_cuda_fail("cuMemAlloc", 2, CUDA_ERROR_OUT_OF_MEMORY);
  check(cuMemAlloc(&memory, 16));
  EXPECT_EQ(cuMemAlloc(&memory, 16), CUDA_ERROR_OUT_OF_MEMORY);
  check(cuMemFree(memory));
  check(cuStreamSynchronize(nullptr));
  EXPECT_EQ(software_cuda_calls("cuMemAlloc"), 2);
  EXPECT_EQ(software_cuda_waits(), 1);
  EXPECT_EQ(software_cuda_live(), 0);
}

TEST(FirstSeed, IsNamedOrFreshOrRepeated) {
  EXPECT_EQ(first_seed(nullptr, nullptr), 1u);
  EXPECT_EQ(first_seed(nullptr, "5"), 1u);
  EXPECT_EQ(first_seed("7", nullptr), 7u);
  EXPECT_EQ(first_seed("7", "5"), 7u) << "the entry names its seed";
  EXPECT_EQ(first_seed(kFreshSeed, "5"), 5u);
  EXPECT_EQ(first_seed(kFreshSeed, "12345678901234567890"), 12345678901234567890u);
  std::set<std::uint64_t> fresh;
  for (int i = 0; i < 4; ++i) fresh.insert(first_seed(kFreshSeed, i % 2 ? "" : nullptr));
  EXPECT_GT(fresh.size(), 1u);
}

}  // namespace
}  // namespace minuet::software_cuda
