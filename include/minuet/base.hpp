// The parts that all C++ headers share: errors become exceptions, and owners release objects.
#ifndef MINUET_BASE_HPP_
#define MINUET_BASE_HPP_

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "minuet/minuet.h"

namespace minuet {

/// Is thrown when a call fails. It has the status, and what() is the message of minuet_last_error.
class Exception : public std::runtime_error {
 public:
  Exception(minuet_status status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  minuet_status status() const noexcept { return status_; }

 private:
  minuet_status status_;
};

/// Returns the message of minuet_last_error for this thread.
inline std::string last_error() {
  std::string text(minuet_last_error(nullptr, 0), '\0');
  minuet_last_error(text.data(), text.size());
  text.pop_back();
  return text;
}

/// Throws an Exception unless `status` is MINUET_OK. It must be called on the thread that made the call.
inline void check(minuet_status status) {
  if (status != MINUET_OK) throw Exception(status, last_error());
}

namespace detail {
/// Destroys an object when its owner goes.
template <class T, void (*Destroy)(T*)>
struct Release {
  void operator()(T* object) const noexcept { Destroy(object); }
};
template <class T, void (*Destroy)(T*)>
using Owner = std::unique_ptr<T, Release<T, Destroy>>;

/// Returns the info that `query` gives about part `number` of `object`.
template <class Info, class T>
Info told(minuet_status (*query)(T*, std::int32_t, Info*), T* object, std::int32_t number) {
  Info info{};
  info.struct_size = sizeof(info);
  check(query(object, number, &info));
  return info;
}
}  // namespace detail

}  // namespace minuet

#endif  // MINUET_BASE_HPP_
