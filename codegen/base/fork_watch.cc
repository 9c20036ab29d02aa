#include "codegen/base/fork_watch.h"

#include <pthread.h>

#include <atomic>

namespace minuet {
namespace {

// Constant from the start: the handler runs between fork and whatever the child does, where no lock may be
// taken.
std::atomic<std::uint64_t> generation{0};

void after_fork_in_child() { ++generation; }

}  // namespace

void watch_forks() {
  // Out of memory is the one way to fail; then a fork is not seen, and nothing else is lost.
  static const bool registered = ::pthread_atfork(nullptr, nullptr, &after_fork_in_child) == 0;
  static_cast<void>(registered);
}

std::uint64_t fork_generation() { return generation; }

}  // namespace minuet
