// Feature matrices for the gather and scatter tests: elements of any dtype, with a row stride.
#pragma once

#include "tests/kernels_templates/testing.h"
// testing.h first: it brings the shim's names.
#include <cmath>

#include "kernels_templates/core/vector.h"

namespace minuet {

/// Rows of `channels` elements, `ld` apart; aligned to 16 bytes; what lies between rows is poison.
template <DType T>
class Matrix {
 public:
  using Element = std::conditional_t<dtype_bytes(T) == 2, u16, u32>;

  Matrix(i64 rows, i64 channels, i64 ld)
      : channels_(channels),
        ld_(ld),
        data_(poisoned<Vector<16>>(static_cast<std::size_t>(rows * ld * kBytes / 16 + 2))) {}

  void fill(Random& random, i64 rows) {
    for (i64 row = 0; row < rows; ++row) {
      for (i64 c = 0; c < channels_; ++c) set(row, c, static_cast<float>(random.uniform(-2, 2)));
    }
  }
  void set(i64 row, i64 channel, float value) {
    if constexpr (kBytes == 2) {
      elements()[row * ld_ + channel] = to_16_bits<T>(value);
    } else {
      elements()[row * ld_ + channel] = bits_of(value);
    }
  }
  u32 bits(i64 row, i64 channel) const { return elements()[row * ld_ + channel]; }
  double at(i64 row, i64 channel) const {
    const u32 stored = bits(row, channel);
    if constexpr (kBytes == 2) return static_cast<double>(from_16_bits<T>(static_cast<u16>(stored)));
    return static_cast<double>(float_of(stored));
  }
  bool is_poison(i64 row, i64 channel) const { return bits(row, channel) == poison<Element>(); }
  Element* elements() { return reinterpret_cast<Element*>(data_.data()); }
  const Element* elements() const { return reinterpret_cast<const Element*>(data_.data()); }
  float* floats() {
    static_assert(T == DType::F32 || T == DType::TF32);
    return reinterpret_cast<float*>(data_.data());
  }
  i64 ld() const { return ld_; }

  static constexpr i32 kBytes = dtype_bytes(T);

 private:
  i64 channels_, ld_;
  std::vector<Vector<16>> data_;
};

/// Runs check.template operator()<channels, tile, vector bytes>() over channel counts, with the widest
/// access and tile, the narrowest, and one between.
template <i32 Channels, i32 ElementBytes, class Check>
void for_tiles(Check&& check) {
  constexpr i32 kEven = Channels * ElementBytes;  // bytes of a row
  constexpr i32 kWidest = kEven % 16 == 0 ? 16 : kEven % 8 == 0 ? 8 : kEven % 4 == 0 ? 4 : ElementBytes;
  constexpr i32 kVector = kWidest < ElementBytes ? ElementBytes : kWidest;
  check.template operator()<Channels, kVector / ElementBytes, kVector>();
  if constexpr (kVector != ElementBytes) check.template operator()<Channels, 1, ElementBytes>();
  if constexpr (Channels <= 32 && Channels * ElementBytes != kVector) {
    check.template operator()<Channels, Channels, kVector>();
  }
  if constexpr (kVector > 2 * ElementBytes && kEven % (2 * kVector) == 0) {
    check.template operator()<Channels, 2 * kVector / ElementBytes, kVector / 2>();
  }
}
template <i32 ElementBytes, class Check>
void for_channels_and_tiles(Check&& check) {
  for_tiles<1, ElementBytes>(check);
  for_tiles<3, ElementBytes>(check);
  for_tiles<4, ElementBytes>(check);
  for_tiles<16, ElementBytes>(check);
  for_tiles<24, ElementBytes>(check);
  for_tiles<32, ElementBytes>(check);
  for_tiles<48, ElementBytes>(check);
  for_tiles<64, ElementBytes>(check);
  for_tiles<96, ElementBytes>(check);
  for_tiles<128, ElementBytes>(check);
  for_tiles<256, ElementBytes>(check);
}

/// Row numbers of `buffer_rows` slots, shuffled, handed out to random (offset, row) pairs; -1 elsewhere.
/// Returns the table [volume][rows]; `unused` are the slots that no pair got.
inline std::vector<i32> random_table(Random& random, i32 volume, i64 rows, i64 buffer_rows,
                                     std::vector<i32>* unused) {
  std::vector<i32> slots(static_cast<std::size_t>(buffer_rows));
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<i32>(i);
  for (std::size_t i = slots.size(); i > 1; --i) std::swap(slots[i - 1], slots[random.below(i)]);
  std::vector<i32> table;
  for (i64 entry = 0; entry < volume * rows; ++entry) {
    const bool used = !slots.empty() && random.below(3) == 0;
    table.push_back(used ? slots.back() : -1);
    if (used) slots.pop_back();
  }
  if (unused != nullptr) *unused = slots;
  return table;
}

}  // namespace minuet
