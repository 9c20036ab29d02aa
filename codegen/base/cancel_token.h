// Defines a flag by which one thread asks work on another thread to stop.
#pragma once

#include <atomic>
#include <chrono>
#include <future>

namespace minuet {

/// Holds the flag that asks work to stop. All functions are thread-safe.
class CancelToken {
 public:
  void cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }

 private:
  std::atomic<bool> cancelled_{false};
};

inline bool is_cancelled(const CancelToken* cancel) { return cancel != nullptr && cancel->cancelled(); }

/// Waits until `future` is ready and returns true, or returns false if `cancel` is cancelled first. `cancel`
/// may be null.
template <class T>
bool wait_for(const std::shared_future<T>& future, const CancelToken* cancel) {
  constexpr auto kStep = std::chrono::milliseconds(20);  // A cancellation is noticed within this time.
  while (future.wait_for(kStep) != std::future_status::ready) {
    if (is_cancelled(cancel)) return false;
  }
  return true;
}

}  // namespace minuet
