// A value of one of several types that only each type's own files know.
#pragma once

#include <cassert>
#include <memory>
#include <type_traits>
#include <utility>

namespace minuet {

/// Holds a value of any type T that has a `static const Kind kKind`, and passes it on through code that knows
/// no T. What such code needs to know of every T stands in `Kind`. The value never changes, and copies share
/// it. Only one that was moved from is empty.
template <class Kind>
class AnyOf {
 public:
  // Implicit, for a T is one of the values that this type is for.
  template <class T>  // NOLINTNEXTLINE(google-explicit-constructor)
  requires std::is_same_v<decltype(T::kKind), const Kind> AnyOf(T value)
      : kind_(&T::kKind), value_(std::make_shared<const T>(std::move(value))) {}

  const Kind& kind() const { return *kind_; }
  /// Null where the value is of another type.
  template <class T>
  const T* get_if() const {
    return kind_ == &T::kKind ? static_cast<const T*>(value_.get()) : nullptr;
  }
  /// The value must be of this type.
  template <class T>
  const T& get() const {
    assert(kind_ == &T::kKind);
    return *static_cast<const T*>(value_.get());
  }

 private:
  const Kind* kind_;
  std::shared_ptr<const void> value_;
};

}  // namespace minuet
