#include "codegen/base/fork_watch.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace minuet {
namespace {

TEST(ForkWatch, R16_AChildAndItsChildAreOtherProcesses) {
  watch_forks();
  const std::uint64_t here = fork_generation();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_other = fork_generation() == here + 1;
    const pid_t grandchild = ::fork();
    if (grandchild == 0) ::_exit(fork_generation() == here + 2 ? 0 : 1);
    int status = -1;
    ::waitpid(grandchild, &status, 0);
    ::_exit(is_other && status == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(fork_generation(), here);
}

}  // namespace
}  // namespace minuet
