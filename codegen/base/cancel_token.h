// Asking work that runs elsewhere to stop (R17).
#pragma once

#include <atomic>
#include <chrono>
#include <future>

namespace minuet {

/// Thread-safe.
class CancelToken {
 public:
  void cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }

 private:
  std::atomic<bool> cancelled_{false};
};

inline bool is_cancelled(const CancelToken* cancel) { return cancel != nullptr && cancel->cancelled(); }

/// Waits until `future` is ready; false where `cancel`, which may be null, was cancelled first.
template <class T>
bool wait_for(const std::shared_future<T>& future, const CancelToken* cancel) {
  constexpr auto kStep = std::chrono::milliseconds(20);  // how late a cancel is seen
  while (future.wait_for(kStep) != std::future_status::ready) {
    if (is_cancelled(cancel)) return false;
  }
  return true;
}

}  // namespace minuet
