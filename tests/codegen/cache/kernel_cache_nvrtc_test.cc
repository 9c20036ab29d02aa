// The cache with NVRTC and the helper program: forks and cancels in the middle of a compile.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "codegen/compile/helper_compiler.h"
#include "codegen/source/emit.h"
#include "tests/codegen/compile/gated_helper.h"
#include "tests/codegen/fakes.h"
#include "tests/support/expect.h"

namespace minuet {
namespace {

class KernelCacheNvrtc : public testing::Test {
 protected:
  void SetUp() override {
    llvm::Expected<std::shared_ptr<Compiler>> here = open_nvrtc();
    if (!here) MINUET_SKIP_OR_FAIL("nvrtc", llvm::toString(here.takeError()));
    std::shared_ptr<Compiler> compiler = make_helper_compiler("", helper_.program());
    llvm::cantFail(compiler->info());  // so that the gate is before compiles
    CacheOptions options;
    options.use_disk = false;
    cache_ = llvm::cantFail(
        KernelCache::create(options, std::move(compiler), make_environment({}), real_file_system()));
  }
  GatedHelper helper_{MINUET_COMPILE};
  std::unique_ptr<KernelCache> cache_;
};

TEST_F(KernelCacheNvrtc, R16_AChildForkedDuringACompileCompilesThroughTheHelper) {
  helper_.close();
  std::thread compiling([&] { llvm::cantFail(cache_->get_or_compile({emit(ScanSpec{}), "sm_90a"})); });
  helper_.wait();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // a hang ends as a failure
    llvm::Expected<std::shared_ptr<const Binary>> binary =
        cache_->get_or_compile({emit(UniqueSpec{}), "sm_90a"});
    const bool good = binary && cache_->stats().compiled == 1;
    if (!binary) llvm::consumeError(binary.takeError());
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(cache_->stats().compiled, 0) << "the gate is closed";
  helper_.open();
  compiling.join();
  EXPECT_EQ(cache_->stats().compiled, 1);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  // The parent goes on, and both make the same kernel.
  EXPECT_EQ(llvm::cantFail(cache_->get_or_compile({emit(UniqueSpec{}), "sm_90a"}))->display_name,
            emit(UniqueSpec{}).display_name);
}

TEST_F(KernelCacheNvrtc, R17_ACompileThatIsCancelledEndsAndLeavesNothing) {
  helper_.close();
  CancelToken cancel;
  StatusCode code = StatusCode::Ok;
  std::thread compiling([&] {
    auto binary = cache_->get_or_compile({emit(ScanSpec{}), "sm_90a"}, {&cancel});
    if (!binary) code = take_status(binary.takeError()).code();
  });
  helper_.wait();
  cancel.cancel();
  compiling.join();  // for ever, where the cancel waits for the helper: the gate stays closed
  EXPECT_EQ(code, StatusCode::Cancelled);
  EXPECT_EQ(cache_->stats().compiled, 0);
  EXPECT_EQ(cache_->stats().failures, 1);
}

}  // namespace
}  // namespace minuet
