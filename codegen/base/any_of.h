// A type-erased value. Only the files of each stored type need to know that type.
#pragma once

#include <cassert>
#include <memory>
#include <type_traits>
#include <utility>

namespace minuet {

/// Holds a value of any type T that has a `static const Kind kKind`. Code that does not know T can pass the
/// value on, and finds in `Kind` everything that it needs to know about T. The value is immutable and shared
/// between copies. An AnyOf is empty only after it was moved from.
template <class Kind>
class AnyOf {
 public:
  // The conversion is implicit because every T with a kKind of this Kind is a valid value.
  template <class T>  // NOLINTNEXTLINE(google-explicit-constructor)
  requires std::is_same_v<decltype(T::kKind), const Kind> AnyOf(T value)
      : kind_(&T::kKind), value_(std::make_shared<const T>(std::move(value))) {}

  const Kind& kind() const { return *kind_; }
  /// Returns null if the value has another type.
  template <class T>
  const T* get_if() const {
    return kind_ == &T::kKind ? static_cast<const T*>(value_.get()) : nullptr;
  }
  /// Requires that the value has type T.
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
