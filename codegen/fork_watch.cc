#include "codegen/fork_watch.h"

#include <pthread.h>

#include <atomic>

namespace minuet {
namespace {

// Plain atomics, constant from the start: the handler runs between fork and whatever the child does,
// where no lock may be taken.
std::atomic<std::uint64_t> generation{0};
std::atomic<int> running{0};
std::atomic<bool> need_helper{false};

void after_fork_in_child() {
  ++generation;
  // The threads that compiled are not in this process; their scopes will never end here.
  if (running.exchange(0) > 0) need_helper = true;
}

}  // namespace

void watch_forks() {
  // Out of memory is the one way to fail; then a fork is not seen, and nothing else is lost.
  static const bool registered = ::pthread_atfork(nullptr, nullptr, &after_fork_in_child) == 0;
  static_cast<void>(registered);
}

CompileScope::CompileScope() {
  watch_forks();
  generation_ = generation;
  ++running;
}

CompileScope::~CompileScope() {
  // The thread that forked inside of a scope leaves it in both processes, and only the parent counts it.
  if (generation_ == generation) --running;
}

std::uint64_t fork_generation() { return generation; }

bool compiles_need_helper() { return need_helper; }

}  // namespace minuet
