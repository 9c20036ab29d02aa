// A value that is made when it is first asked for, without a lock: a forked child could find one held by a
// thread that it does not have, and would wait for ever (R16). Thread-safe.
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

  /// Threads that are the first at once make one each, and all get the same.
  template <class Make>
  const T& get(const Make& make) const {
    if (const T* const known = value_) return *known;
    auto made = std::make_unique<const T>(make());
    const T* other = nullptr;
    return value_.compare_exchange_strong(other, made.get()) ? *made.release() : *other;
  }
  /// Null where nobody has asked yet.
  const T* made() const { return value_; }

 private:
  mutable std::atomic<const T*> value_{nullptr};
};

}  // namespace minuet
