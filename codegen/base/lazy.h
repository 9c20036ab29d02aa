// Defines a value that is created on first use. It uses no lock, because a forked child would wait forever
// for a lock that a thread of its parent holds. All functions are thread-safe.
#pragma once

#include <atomic>
#include <memory>

namespace minuet {

template <class T>
class Lazy {
 public:
  Lazy() = default;
  Lazy(const Lazy&) = delete;
  Lazy& operator=(const Lazy&) = delete;
  ~Lazy() { delete value_.load(); }

  /// Returns the value, and creates it if necessary. Threads that call this at the same time may each run
  /// `make`, but all get the same value.
  template <class Make>
  const T& get(const Make& make) const {
    if (const T* const known = value_) return *known;
    auto made = std::make_unique<const T>(make());
    const T* other = nullptr;
    return value_.compare_exchange_strong(other, made.get()) ? *made.release() : *other;
  }
  /// Returns the value, or null if it was not created yet.
  const T* made() const { return value_; }

 private:
  mutable std::atomic<const T*> value_{nullptr};
};

}  // namespace minuet
