// Stacks of their own that one OS thread switches to and from; AddressSanitizer and ThreadSanitizer are told.
#pragma once

#include <cstddef>

namespace minuet::shim {

/// Runs `entry`, which never returns, between resume() and suspend(). One runs at a time; which OS thread
/// resumes it may change.
class Fiber {
 public:
  explicit Fiber(void (*entry)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// From the OS thread's stack to this one, until it suspends.
  void resume();
  /// Back to where one was resumed, or on to `next`, which is suspended too. On this fiber's stack.
  void suspend(Fiber* next = nullptr);

 private:
  char* stack_;  // a page that must not be touched below it
  void* context_ = nullptr;
  void* fake_stack_ = nullptr;  // ASan's, megabytes of it
  [[maybe_unused]] bool started_ = false, ending_ = false;
  [[maybe_unused]] void* tsan_ = nullptr;
};

}  // namespace minuet::shim
