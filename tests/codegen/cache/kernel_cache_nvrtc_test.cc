// The cache with NVRTC and the helper program: forks and cancels in the middle of a compile.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <thread>

#include "codegen/emit.h"
#include "codegen/worker/helper_compiler.h"
#include "tests/codegen/fakes.h"

namespace minuet {
namespace {

class KernelCacheNvrtc : public testing::Test {
 protected:
  void SetUp() override {
    llvm::Expected<std::shared_ptr<Compiler>> here = open_nvrtc();
    if (!here) GTEST_SKIP() << llvm::toString(here.takeError());
    std::shared_ptr<Compiler> compiler = make_helper_compiler("", MINUET_COMPILE);
    CacheOptions options;
    options.use_disk = false;
    cache_ = llvm::cantFail(
        make_kernel_cache(options, std::move(compiler), make_environment({}), real_file_system()));
  }
  std::unique_ptr<KernelCache> cache_;
};

TEST_F(KernelCacheNvrtc, R16_AChildForkedDuringACompileCompilesThroughTheHelper) {
  std::thread compiling([&] { llvm::cantFail(cache_->get_or_compile(emit(ScanSpec{}), "sm_90a")); });
  ::usleep(300000);  // a compile with CUB takes about a second
  EXPECT_EQ(cache_->stats().compiled, 0) << "it should still run";
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // a hang ends as a failure
    llvm::Expected<std::shared_ptr<const Binary>> binary =
        cache_->get_or_compile(emit(UniqueSpec{}), "sm_90a");
    const bool good = binary && cache_->stats().compiled == 1;
    if (!binary) llvm::consumeError(binary.takeError());
    ::_exit(good ? 0 : 1);
  }
  compiling.join();
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  // The parent goes on, and both make the same kernel.
  EXPECT_EQ(llvm::cantFail(cache_->get_or_compile(emit(UniqueSpec{}), "sm_90a"))->display_name,
            emit(UniqueSpec{}).display_name);
}

TEST_F(KernelCacheNvrtc, R17_ACompileThatIsCancelledEndsSoonAndLeavesNothing) {
  CancelToken cancel;
  StatusCode code = StatusCode::Ok;
  std::thread compiling([&] {
    auto binary = cache_->get_or_compile(emit(ScanSpec{}), "sm_90a", &cancel);
    if (!binary) code = take_status(binary.takeError()).code();
  });
  ::usleep(300000);
  const auto start = std::chrono::steady_clock::now();
  cancel.cancel();
  compiling.join();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  std::cout << "cancelled after " << took.count() << " ms\n";
  EXPECT_EQ(code, StatusCode::Cancelled);
  EXPECT_EQ(cache_->stats().compiled, 0);
  EXPECT_EQ(cache_->stats().failures, 1);
}

}  // namespace
}  // namespace minuet
