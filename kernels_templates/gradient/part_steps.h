// This file walks through the steps of the parts that a block sums.
#pragma once

#include "kernels_templates/core/mma.h"
#include "kernels_templates/core/search.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/gradient/early_lists.h"
#include "kernels_templates/shared/gradient_kernels.h"

namespace minuet {

/// Holds the first steps and the first pairs of consecutive offsets, one in each lane of a warp, so that they
/// are read at once. All lanes must call the functions together. They may be used before the launch follows
/// the last one, if WeightGradientParams::reads_early says so.
class OffsetLanes {
 public:
  MINUET_DEVICE explicit OffsetLanes(const WeightGradientParams& p) : p_(p) { read(0); }
  /// Returns the number of steps of the list.
  MINUET_DEVICE i32 steps() const {
    return p_.volume < 32 ? __shfl_sync(~0u, first_step_, p_.volume) : read_early(p_.first_step + p_.volume);
  }
  /// Returns the offset that has a step, which must be less than the number of steps.
  MINUET_DEVICE i32 offset_of(i32 step) {
    if (p_.volume >= 32) {
      read(static_cast<i32>(
          find_by_warp(1, p_.volume, [&](i64 offset) { return read_early(p_.first_step + offset) <= step; }) -
          1));
    }
    // Offsets without steps have the first step of the next offset, so the last one of these has the step.
    return first_ + highest_bit(__ballot_sync(~0u, first_step_ <= step));
  }
  /// Makes the offset and the next one those of lanes.
  MINUET_DEVICE void enter(i32 offset) {
    if (offset < first_ || offset - first_ >= 31) read(offset);
  }
  /// Return the first step and the first pair of an offset, or those of the end if the offset is the volume.
  MINUET_DEVICE i32 first_step(i32 offset) const { return __shfl_sync(~0u, first_step_, offset - first_); }
  MINUET_DEVICE i32 first_pair(i32 offset) const { return __shfl_sync(~0u, first_pair_, offset - first_); }

 private:
  MINUET_DEVICE void read(i32 first) {
    first_ = first;
    const i32 offset = first + static_cast<i32>(threadIdx.x % 32);
    const bool is_there = offset <= p_.volume;
    first_step_ = is_there ? read_early(p_.first_step + offset) : kMostInt;
    first_pair_ = is_there ? read_early(p_.first_pair + offset) : kMostInt;
  }

  static constexpr i32 kMostInt = 0x7fffffff;  // Is in no list, so that no lane behind the end is found.
  const WeightGradientParams& p_;
  i32 first_ = 0;  // Is the offset of the first lane.
  i32 first_step_ = 0, first_pair_ = 0;
};

/// Says which pairs a step multiplies. Steps must be visited in ascending order, by all lanes of a warp
/// together.
class StepPlace {
 public:
  /// Visits a step, which must be less than the number of steps.
  MINUET_DEVICE StepPlace(OffsetLanes& lanes, i32 step) : lanes_(lanes) {
    offset_ = lanes_.offset_of(step);
    enter_offset();
    visit(step);
  }
  MINUET_DEVICE void visit(i32 step) {
    while (step >= end_) {
      ++offset_;
      enter_offset();
    }
    first_ = static_cast<i32>(static_cast<u32>(step) * kStepPairs + shift_);
  }
  MINUET_HD i32 offset() const { return offset_; }
  /// Returns the first step of the next offset.
  MINUET_HD i32 offset_end() const { return end_; }
  MINUET_HD i32 first_pair() const { return first_; }
  MINUET_HD i32 pairs() const {
    const i32 left = end_of_offset_ - first_;
    return left < kStepPairs ? left : kStepPairs;
  }

 private:
  MINUET_DEVICE void enter_offset() {
    lanes_.enter(offset_);
    end_ = lanes_.first_step(offset_ + 1), end_of_offset_ = lanes_.first_pair(offset_ + 1);
    shift_ = static_cast<u32>(lanes_.first_pair(offset_)) -
             static_cast<u32>(lanes_.first_step(offset_)) * kStepPairs;
  }

  OffsetLanes& lanes_;
  i32 offset_ = 0, first_ = 0;
  i32 end_ = 0, end_of_offset_ = 0;
  u32 shift_ = 0;  // The first pair of step s of the offset is s * kStepPairs + shift_, modulo 2^32.
};

/// Cuts the steps of a part into segments of at most `Most` steps of one offset. The sums of a segment are
/// stored in the slot of the part and the offset, or added to it, always by the same thread.
template <i32 Most>
class PartSegments {
 public:
  /// The part has the steps from `first` to `end`.
  MINUET_DEVICE PartSegments(const WeightGradientParams& p, OffsetLanes& lanes, i32 part, i32 first, i32 end)
      : p_(p), place_(lanes, first), part_(part), begin_(first), end_of_part_(end) {
    enter();
  }
  MINUET_HD bool has_steps() const { return begin_ < end_of_part_; }
  MINUET_HD i32 begin() const { return begin_; }
  MINUET_HD i32 end() const { return end_; }
  MINUET_HD StepPlace& place() { return place_; }
  /// Returns true if the slot has the sums of earlier segments.
  MINUET_HD bool adds() const { return adds_; }
  MINUET_HD float* slot() const { return p_.sums + i64{part_ + place_.offset()} * p_.layout.elements; }
  MINUET_DEVICE void pass() {
    begin_ = end_;
    if (!has_steps()) return;
    adds_ = begin_ < place_.offset_end();
    place_.visit(begin_);
    enter();
  }

 private:
  MINUET_HD void enter() {
    end_ = begin_ + Most;
    if (place_.offset_end() < end_) end_ = place_.offset_end();
    if (end_of_part_ < end_) end_ = end_of_part_;
  }

  const WeightGradientParams& p_;
  StepPlace place_;
  const i32 part_;
  i32 begin_, end_ = 0;
  const i32 end_of_part_;
  bool adds_ = false;
};

/// Holds the rows of a pair. Both are -1 if one of the operands does not have its row.
struct PairRows {
  i32 input = -1, gradient = -1;
};
template <bool Early = false>
MINUET_DEVICE PairRows rows_of_pair(const WeightGradientParams& p, i64 pair) {
  const auto read = [](const i32* address) { return Early ? read_early(address) : fresh(address); };
  const i32 input = read(p.pairs + 3 * pair + p.input_column);
  const i32 gradient = read(p.pairs + 3 * pair + 3 - p.input_column);
  const bool is_there = input >= 0 && input < p.input_rows && gradient >= 0 && gradient < p.gradient_rows;
  return is_there ? PairRows{input, gradient} : PairRows();
}

/// Stores one of the two rows of sums that a thread has in tiles side by side, from `row` on. With `Adds`,
/// they are added to those that this thread has stored there, which are loaded at once. The sums are not
/// changed, because the compiler would then wait for the products of warpgroups in more places.
template <bool Adds, i32 Tiles>
MINUET_HD void store_row_of_tiles(const float (&sums)[Tiles][4], i32 half, float* row) {
  constexpr i32 kTileBytes = kMmaColumns * static_cast<i32>(sizeof(float)), kPairBytes = 8;
  float earlier[Tiles][2] = {};
  MINUET_UNROLL
  for (i32 n = 0; Adds && n < Tiles; ++n) {
    to_floats<DType::F32>(load_vector_if<kPairBytes, true>(true, row, n * kTileBytes), earlier[n]);
  }
  MINUET_UNROLL
  for (i32 n = 0; n < Tiles; ++n) {
    float pair[2] = {sums[n][2 * half], sums[n][2 * half + 1]};
    if constexpr (Adds) pair[0] += earlier[n][0], pair[1] += earlier[n][1];
    store_vector(row, n * kTileBytes, from_floats<DType::F32, kPairBytes>(pair));
  }
}

}  // namespace minuet
