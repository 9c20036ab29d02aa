#include "codegen/fork_watch.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

namespace minuet {
namespace {

// Plain atomics, constant from the start: the handler runs between fork and whatever the child does,
// where no lock may be taken.
std::atomic<std::uint64_t> generation{0};
std::atomic<int> running{0};
std::atomic<bool> need_helper{false};
std::atomic<bool> ends{false};
thread_local int running_here = 0;  // NVRTC may call exit() itself

void after_fork_in_child() {
  ++generation;
  // The threads that compiled are not in this process; their scopes will never end here.
  if (running.exchange(0) > 0) need_helper = true;
}

/// Longer than NVRTC takes to see that it should give up: it does not look while it reads headers.
constexpr auto kLongestWait = std::chrono::seconds(10);

/// At dlclose too: then nothing runs, and this is over at once.
void at_exit() {
  ends = true;
  const auto end = std::chrono::steady_clock::now() + kLongestWait;
  while (running > running_here && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

void watch_forks() {
  // Out of memory is the one way to fail; then a fork is not seen, and nothing else is lost.
  static const bool registered = ::pthread_atfork(nullptr, nullptr, &after_fork_in_child) == 0;
  static_cast<void>(registered);
}

CompileScope::CompileScope() {
  watch_forks();
  hold_exit();
  generation_ = generation;
  ++running;
  ++running_here;
}

CompileScope::~CompileScope() {
  // The thread that forked inside of a scope leaves it in both processes, and only the parent counts it.
  if (generation_ == generation) --running;
  --running_here;
}

void hold_exit() {
  // Out of memory is the one way to fail; then exit() does not wait, and nothing else is lost.
  static_cast<void>(std::atexit(&at_exit));
}

bool process_ends() { return ends; }

std::uint64_t fork_generation() { return generation; }

bool compiles_need_helper() { return need_helper; }

}  // namespace minuet
