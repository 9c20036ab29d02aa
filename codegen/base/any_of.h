// Defines a value of any type, as std::any does. Code that only copies or passes on such a value need not
// know its type.
#pragma once

#include <cassert>
#include <memory>
#include <type_traits>
#include <utility>

namespace minuet {

/// Holds a value of any type T that has a `static const Kind kKind`. Code that does not know T can copy the
/// AnyOf, and finds in kind() everything that it needs to know about T. The value is immutable and shared
/// between copies. An AnyOf is empty only after a move from it.
template <class Kind>
class AnyOf {
 public:
  template <class T>  // NOLINTNEXTLINE(google-explicit-constructor): The conversion is implicit on purpose.
  requires std::is_same_v<decltype(T::kKind), const Kind> AnyOf(T value)
      : kind_(&T::kKind), value_(std::make_shared<const T>(std::move(value))) {}

  const Kind& kind() const { return *kind_; }
  /// Returns the value, or null if it has another type than T.
  template <class T>
  const T* get_if() const {
    return kind_ == &T::kKind ? static_cast<const T*>(value_.get()) : nullptr;
  }
  /// Returns the value, which must have type T.
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
