#include "codegen/fork_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace minuet {
namespace {

std::atomic<bool> began{false};

/// As NVRTC gives up a compile: some time after it could see that it should.
[[noreturn]] void exit_while_a_thread_compiles() {
  std::thread([] {
    const CompileScope scope;
    began = true;
    while (!process_ends()) ::usleep(1000);
    ::usleep(50000);
    std::fprintf(stderr, "gave up\n");
  }).detach();
  while (!began) ::usleep(1000);
  std::exit(0);
}

[[noreturn]] void exit_in_a_compile() {
  const CompileScope scope;
  std::exit(3);
}

TEST(ForkWatchDeathTest, R27_ExitWaitsUntilCompilesHaveGivenUp) {
  EXPECT_EXIT(exit_while_a_thread_compiles(), testing::ExitedWithCode(0), "gave up");
}

TEST(ForkWatchDeathTest, R27_ExitDoesNotWaitForItsOwnThread) {
  EXPECT_EXIT(exit_in_a_compile(), testing::ExitedWithCode(3), "");
}

}  // namespace
}  // namespace minuet
