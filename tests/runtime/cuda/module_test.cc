// Loading kernels, on a driver of plain functions: once a process, refusals, threads, the end.
#include "runtime/cuda/module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/runtime/cuda/fake_driver.h"

namespace minuet {
namespace {

constexpr KernelNeeds kBlock{.threads = 128};

using Binaries = std::vector<std::shared_ptr<const Binary>>;

std::shared_ptr<const Binary> make_binary(const std::string& name, const std::string& image = "good") {
  Binary binary;
  binary.cubin = image + " " + name;
  binary.display_name = name;
  binary.lowered_name = "_Z" + name;
  binary.arch = "sm_90a";
  binary.params_bytes = 8;
  return std::make_shared<const Binary>(std::move(binary));
}

/// `count` of them, each made anew: other objects with the same bytes, as two contexts have them.
Binaries make_binaries(int count) {
  Binaries binaries;
  for (int i = 0; i < count; ++i) binaries.push_back(make_binary("kernel" + std::to_string(i)));
  return binaries;
}

Verdict refuse(const std::string& word, CUresult result) {
  return
      [=](const std::string& image) { return image.find(word) != std::string::npos ? result : CUDA_SUCCESS; };
}

CUkernel kernel_of(ModuleSet& modules, const std::string& name) {
  llvm::Expected<LoadedKernel> found = modules.find(name, 8, kBlock);
  if (found) return found->library->kernel();
  ADD_FAILURE() << llvm::toString(found.takeError());
  return nullptr;
}

std::string text_of(llvm::Error error) { return error ? llvm::toString(std::move(error)) : "success"; }

class ModuleTest : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(driver_.open(), 0u) << "libraries are left in the driver";
    EXPECT_EQ(registry_.size(), 0u);
    EXPECT_EQ(driver_.wrong_handles, 0);
  }
  /// One device's kernels; `context` is current in its calls.
  std::unique_ptr<ModuleSet> make_set(int context) {
    return std::make_unique<ModuleSet>(driver_.table(), context, registry_);
  }
  std::string load(ModuleSet& modules, int context, const Binaries& binaries, const Reload& reload = {}) {
    FakeDriver::set_context(context);
    return text_of(modules.load(binaries, reload));
  }

  FakeDriver driver_;
  LibraryRegistry registry_;
};

TEST_F(ModuleTest, R25_TwoDevicesShareALibrary) {
  auto first = make_set(1), second = make_set(2);
  EXPECT_EQ(load(*first, 1, make_binaries(3)), "success");
  EXPECT_EQ(load(*second, 2, make_binaries(3)), "success");
  EXPECT_EQ(load(*second, 2, make_binaries(3)), "success");
  EXPECT_EQ(driver_.loads, 3);
  EXPECT_EQ(driver_.functions.size(), 6u) << "the code of each is brought into both contexts";
  EXPECT_EQ(kernel_of(*first, "kernel1"), kernel_of(*second, "kernel1"));

  first->unload();
  EXPECT_EQ(driver_.unloads, 0) << "the second device still uses them";
  EXPECT_EQ(load(*first, 1, make_binaries(3)), "success");
  EXPECT_EQ(driver_.loads, 3);
  second.reset();
  EXPECT_EQ(driver_.unloads, 0);
  first.reset();
  EXPECT_EQ(driver_.unloads, 3);
}

TEST_F(ModuleTest, R25_ADeviceThatIsOpenedAgainLoadsAgain) {
  for (int round = 1; round <= 3; ++round) {
    auto modules = make_set(round);
    EXPECT_EQ(load(*modules, round, make_binaries(2)), "success");
    EXPECT_EQ(driver_.loads, 2 * round);
    modules->unload();
    EXPECT_EQ(driver_.open(), 0u);
    EXPECT_EQ(take_status(modules->find("kernel0", 8, kBlock).takeError()).code(),
              StatusCode::FailedPrecondition);
  }
}

/// A launch with fewer bytes would have the kernel read past them; with more, somebody means another kernel.
TEST_F(ModuleTest, R25_AKernelOfOtherParametersIsNotLaunched) {
  auto modules = make_set(1);
  EXPECT_EQ(load(*modules, 1, make_binaries(1)), "success");
  for (const std::size_t bytes : {4u, 16u}) {
    EXPECT_EQ(take_status(modules->find("kernel0", bytes, kBlock).takeError()).code(), StatusCode::Internal);
  }
}

TEST_F(ModuleTest, R25_TheBytesAreTheIdentity) {
  auto first = make_set(1), second = make_set(2);
  EXPECT_EQ(load(*first, 1, {make_binary("kernel", "one")}), "success");
  EXPECT_EQ(load(*second, 2, {make_binary("kernel", "another")}), "success");
  EXPECT_EQ(driver_.loads, 2);
  EXPECT_NE(kernel_of(*first, "kernel"), kernel_of(*second, "kernel"));
}

TEST_F(ModuleTest, R25_EightThreadsOnEachOfTwoDevices) {
  constexpr int kThreads = 8, kKernels = 24;
  auto first = make_set(1), second = make_set(2);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2 * kThreads; ++i) {
    threads.emplace_back([&, i] {
      Binaries binaries = make_binaries(kKernels);
      std::rotate(binaries.begin(), binaries.begin() + i, binaries.end());
      const int context = i % 2 + 1;
      ModuleSet& modules = context == 1 ? *first : *second;
      if (load(modules, context, binaries) != "success") ++failures;
      for (const auto& binary : binaries) {
        if (!kernel_of(modules, binary->display_name)) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(driver_.loads, kKernels);
  EXPECT_EQ(driver_.functions.size(), 2u * kKernels);
}

/// Devices come and go while others load: a library is never used after its unload.
TEST_F(ModuleTest, R25_UnloadsBesideLoads) {
  constexpr int kThreads = 8, kRounds = 50;
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        auto modules = make_set(i);
        if (load(*modules, i, make_binaries(4)) != "success" || !kernel_of(*modules, "kernel3")) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(driver_.loads, driver_.unloads);
}

TEST_F(ModuleTest, R26_LoadBringsTheCodeIntoTheContext) {
  auto modules = make_set(1);
  EXPECT_EQ(load(*modules, 1, make_binaries(2)), "success");
  EXPECT_THAT(driver_.functions,
              testing::ElementsAre(std::pair(1, "good kernel0"), std::pair(1, "good kernel1")));
}

TEST_F(ModuleTest, R25_SharedMemoryIsAskedForOnceADevice) {
  auto first = make_set(1), second = make_set(2);
  EXPECT_EQ(load(*first, 1, make_binaries(2)), "success");
  EXPECT_EQ(load(*second, 2, make_binaries(2)), "success");
  kernel_of(*first, "kernel0");
  EXPECT_THAT(driver_.shared_bytes, testing::IsEmpty()) << "it needs none";
  for (const int bytes : {60000, 60000, 70000, 50000}) {
    const KernelNeeds needs{.threads = 128, .dynamic_shared_bytes = bytes};
    EXPECT_TRUE(static_cast<bool>(first->find("kernel0", 8, needs)));
  }
  EXPECT_THAT(driver_.shared_bytes, testing::ElementsAre(std::tuple(1, "good kernel0", 60000),
                                                         std::tuple(1, "good kernel0", 70000)));
  EXPECT_TRUE(static_cast<bool>(second->find("kernel0", 8, {.threads = 128, .dynamic_shared_bytes = 1})));
  EXPECT_THAT(driver_.shared_bytes.back(), testing::Eq(std::tuple(2, "good kernel0", 1)));
}

TEST_F(ModuleTest, MoreSharedMemoryThanTheDeviceHasIsTheDriversError) {
  auto modules = make_set(1);
  EXPECT_EQ(load(*modules, 1, make_binaries(1)), "success");
  const KernelNeeds needs{.threads = 128, .dynamic_shared_bytes = FakeDriver::kMostShared + 1};
  for (int time = 0; time < 2; ++time) {
    const StatusError error = take_status(modules->find("kernel0", 8, needs).takeError());
    EXPECT_THAT(error.message(),
                testing::HasSubstr("giving kernel kernel0 232449 bytes of shared memory per block"));
  }
  EXPECT_TRUE(kernel_of(*modules, "kernel0"));
}

/// Each call of a load may be the one that finds the image out.
class RefusalTest : public ModuleTest, public testing::WithParamInterface<std::tuple<int, CUresult>> {
 protected:
  void SetUp() override {
    Verdict* const calls[] = {&driver_.on_load_data, &driver_.on_get_kernel, &driver_.on_get_function,
                              &driver_.on_func_load};
    *calls[std::get<0>(GetParam())] = refuse("stale", std::get<1>(GetParam()));
  }
};

TEST_P(RefusalTest, R28_ARefusedBinaryIsReplacedOnce) {
  std::vector<std::string> asked;
  const Reload reload = [&](const Binary& refused) -> llvm::Expected<std::shared_ptr<const Binary>> {
    asked.push_back(refused.cubin);
    return make_binary(refused.display_name, "new");
  };
  auto modules = make_set(1);
  EXPECT_EQ(load(*modules, 1, {make_binary("a"), make_binary("b", "stale"), make_binary("c")}, reload),
            "success");
  EXPECT_EQ(asked, std::vector<std::string>{"stale b"});
  for (const char* name : {"a", "b", "c"}) EXPECT_TRUE(kernel_of(*modules, name));
  EXPECT_EQ(driver_.open(), 3u) << "the refused one is unloaded";
  EXPECT_EQ(driver_.functions.count({1, "new b"}), 1u);
  EXPECT_EQ(load(*modules, 1, {make_binary("b", "stale")}, reload), "success");
  EXPECT_EQ(asked.size(), 1u) << "a loaded kernel is not asked for again";
}

TEST_P(RefusalTest, R28_ASecondRefusalIsTheDriversError) {
  int asked = 0;
  const Reload reload = [&](const Binary& refused) -> llvm::Expected<std::shared_ptr<const Binary>> {
    ++asked;
    return make_binary(refused.display_name, "stale too");
  };
  auto modules = make_set(1);
  FakeDriver::set_context(1);
  const StatusError error = take_status(modules->load({make_binary("b", "stale")}, reload));
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(error.code(), StatusCode::FailedPrecondition);
  EXPECT_THAT(error.message(), testing::StartsWith("loading b: cu"));
  EXPECT_THAT(error.message(), testing::HasSubstr("CUDA_ERROR_"));
  EXPECT_THAT(error.message(), testing::HasSubstr("even after it was compiled again: use a driver"));
  EXPECT_EQ(driver_.open(), 0u);
}

std::string refusal_name(const testing::TestParamInfo<std::tuple<int, CUresult>>& info) {
  static const char* const calls[] = {"LoadData", "GetKernel", "GetFunction", "FuncLoad"};
  return calls[std::get<0>(info.param)] + std::to_string(std::get<1>(info.param));
}
INSTANTIATE_TEST_SUITE_P(
    Calls, RefusalTest,
    testing::Combine(testing::Range(0, 4),
                     testing::Values(CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_INVALID_IMAGE,
                                     CUDA_ERROR_INVALID_PTX, CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                                     CUDA_ERROR_JIT_COMPILER_NOT_FOUND, CUDA_ERROR_JIT_COMPILATION_DISABLED,
                                     CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_FOUND)),
    refusal_name);

/// What PTX needs of its kernel nobody knows before the driver has compiled it.
TEST_F(ModuleTest, R23_PtxIsLoadedLikeCode) {
  Binary ptx = *make_binary("gather", ".target sm_80");
  ptx.arch = "compute_80";
  ptx.params_bytes = 0;
  auto modules = make_set(1);
  EXPECT_EQ(load(*modules, 1, {std::make_shared<const Binary>(ptx)}), "success");
  EXPECT_THAT(driver_.functions, testing::ElementsAre(std::pair(1, ".target sm_80 gather")));
  EXPECT_TRUE(kernel_of(*modules, "gather"));
  EXPECT_TRUE(llvm::errorToBool(modules->find("gather", 8, {.threads = 2048}).takeError()))
      << "the driver's bound holds";
}

TEST_F(ModuleTest, R28_WithoutAReloadTheRefusalIsTheError) {
  driver_.on_load_data = refuse("stale", CUDA_ERROR_NO_BINARY_FOR_GPU);
  auto modules = make_set(1);
  EXPECT_THAT(load(*modules, 1, {make_binary("b", "stale")}),
              testing::AllOf(testing::HasSubstr("CUDA_ERROR_NO_BINARY_FOR_GPU"),
                             testing::HasSubstr("refuses the kernel: use a driver")));
}

TEST_F(ModuleTest, R28_OtherFailuresAreNoRefusals) {
  for (CUresult result : {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_DEINITIALIZED, CUDA_ERROR_ILLEGAL_ADDRESS}) {
    driver_.on_load_data = refuse("b", result);
    auto modules = make_set(1);
    FakeDriver::set_context(1);
    const StatusError error = take_status(
        modules->load({make_binary("b")}, [](const Binary&) -> llvm::Expected<std::shared_ptr<const Binary>> {
          ADD_FAILURE() << "nothing is wrong with the binary";
          return make_binary("b");
        }));
    EXPECT_EQ(error.code(),
              result == CUDA_ERROR_OUT_OF_MEMORY ? StatusCode::ResourceExhausted : StatusCode::Internal);
  }
}

TEST_F(ModuleTest, R28_AFailedReloadIsTheError) {
  driver_.on_load_data = refuse("stale", CUDA_ERROR_INVALID_IMAGE);
  auto modules = make_set(1);
  const Reload reload = [](const Binary&) -> llvm::Expected<std::shared_ptr<const Binary>> {
    return make_error(StatusCode::Unavailable, "there is no compiler");
  };
  EXPECT_THAT(load(*modules, 1, {make_binary("b", "stale")}, reload),
              testing::HasSubstr("loading b: there is no compiler"));
}

/// What is released while the process ends finds no driver any more, and does not mind.
TEST_F(ModuleTest, R27_AnUnloadWithoutADriverIsIgnored) {
  auto modules = make_set(1);
  EXPECT_EQ(load(*modules, 1, make_binaries(2)), "success");
  driver_.deinitialize();
  modules.reset();
  EXPECT_EQ(driver_.calls_after_exit, 2);
  EXPECT_EQ(driver_.open(), 2u) << "the driver took them along";
  driver_.forget();
}

}  // namespace
}  // namespace minuet
