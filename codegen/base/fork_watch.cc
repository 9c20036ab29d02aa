#include "codegen/base/fork_watch.h"

#include <pthread.h>

#include <atomic>

namespace minuet {
namespace {

// The counter is constant-initialized and atomic, because the handler runs in the child directly after
// fork(), where no lock may be taken.
std::atomic<std::uint64_t> generation{0};

void after_fork_in_child() { ++generation; }

}  // namespace

void watch_forks() {
  // pthread_atfork() fails only if memory is exhausted. In that case forks are not detected, but all else
  // works.
  static const bool registered = ::pthread_atfork(nullptr, nullptr, &after_fork_in_child) == 0;
  static_cast<void>(registered);
}

std::uint64_t fork_generation() { return generation; }

}  // namespace minuet
