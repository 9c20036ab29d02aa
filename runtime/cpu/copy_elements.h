// Copies elements without changing their bits, for ops that move features.
#pragma once

#include <cstring>

#include "runtime/engine/engine.h"

namespace minuet {

/// Copies elements of one size, and looks for infinite and NaN numbers, which integers of 8 bits never are.
/// `Word` is an unsigned integer of the size of an element.
template <class Word>
class Copier {
 public:
  explicit Copier(DType io)
      : exponent_(static_cast<Word>(io == DType::F32   ? 0x7f800000u
                                    : io == DType::F16 ? 0x7c00u
                                                       : 0x7f80u)) {}

  /// Copies the element at `from` to `to`. Elements may have any alignment that suits their size.
  void copy(char* to, const char* from) {
    Word word;
    std::memcpy(&word, from, sizeof word);
    std::memcpy(to, &word, sizeof word);
    if constexpr (sizeof(Word) > 1) found_ = found_ || (word & exponent_) == exponent_;
  }
  /// Copies `count` consecutive elements.
  void copy(char* to, const char* from, i64 count) {
    for (i64 i = 0; i < count; ++i) copy(to + i * sizeof(Word), from + i * sizeof(Word));
  }
  bool found() const { return found_; }

 private:
  const Word exponent_;
  bool found_ = false;
};

/// Calls body(Copier<Word>) for the elements of type `io`, and marks the overflow that it has found.
template <class Body>
void copy_elements(DType io, const OpRequest& request, const Body& body) {
  const auto run = [&](auto copier) {
    body(copier);
    if (copier.found()) __atomic_store_n(request.overflow, request.overflow_mark, __ATOMIC_RELAXED);
  };
  if (is_integer(io)) {
    run(Copier<unsigned char>(io));
  } else if (dtype_bytes(io) == 4) {
    run(Copier<u32>(io));
  } else {
    run(Copier<u16>(io));
  }
}

}  // namespace minuet
