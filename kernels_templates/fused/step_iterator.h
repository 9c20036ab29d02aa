// This file finds the steps of the reduction (fused_kernels.h) that a block or warp must process. These are
// the steps of the kernel offsets at which its queries have neighbours.
#pragma once

#include "kernels_templates/core/dynamic_shared.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/fused_kernels.h"

namespace minuet {

template <FusedSpec S>
struct FusedDepth {
  static constexpr bool kFolds = folds_offsets(S.io, S.in_channels);
  /// Gives the length of one kernel offset along the reduction, which is the number of its channels after
  /// padding with zeros.
  static constexpr i32 kOffset = fused_offset_depth(S);
  /// Gives the number of steps per offset, or 1 if a step covers several offsets.
  static constexpr i32 kParts = kFolds ? 1 : kOffset / S.step;
  static constexpr i32 kWords = mask_words(S.volume);
};

/// Returns the position of the set bit with index `number`, counted from the lowest. More than `number` bits
/// must be set.
MINUET_HD i32 nth_bit(u32 bits, i32 number) {
  i32 place = 0;
  MINUET_UNROLL
  for (i32 half = 16; half != 0; half /= 2) {
    if (count_bits(bits & ((1u << (place + half)) - 1)) <= number) place += half;
  }
  return place;
}
/// Returns `bits` with only its `count` lowest set bits.
MINUET_HD u32 lowest_bits(u32 bits, i32 count) {
  return count >= count_bits(bits) ? bits : bits & ((1u << nth_bit(bits, count)) - 1);
}
/// Returns `bits` with only its set bits of indices [first, end), counted from the lowest.
MINUET_HD u32 keep_bits(u32 bits, i32 first, i32 end) {
  return lowest_bits(bits, end) & ~lowest_bits(bits, first);
}

/// Holds the kernel offsets at which the queries of a warp have neighbours, and those that its block
/// processes. The block processes all offsets at which its queries have neighbours, or in a cluster a part of
/// them. The warps' masks of offsets are in shared memory, [words][warps], unless kOfBlock is false. Masks of
/// one word are also in registers.
template <FusedSpec S>
class FusedMasks {
  static constexpr i32 kWords = FusedDepth<S>::kWords;
  /// True means that the block is one warpgroup, whose mask equals the mask of the block. This saves a
  /// register.
  static constexpr bool kOneOwner = S.unit == MmaUnit::Warpgroup && S.warps == 4;
  static_assert(S.cluster == 1 || (!FusedDepth<S>::kFolds && S.weights != WeightRoad::Cached),
                "the blocks of a cluster share offsets, and each a ring");

 public:
  /// False means that warps share no weights and keep their masks in registers.
  static constexpr bool kOfBlock = S.weights != WeightRoad::Cached || kWords > 1;

  MINUET_DEVICE FusedMasks(i32 warp, i32 rank) : warp_(warp), rank_(rank) {}
  /// Holds the masks of a tile of a persistent block.
  MINUET_DEVICE explicit FusedMasks(const FusedTile& tile)
      : warp_(0), rank_(-1), own_(tile.offsets), all_(tile.offsets) {}
  /// Sets a word of the warp's mask. If the masks are in shared memory, only a thread whose `tells` is true
  /// writes it.
  MINUET_DEVICE void put(i32 word, u32 bits, bool tells) {
    if constexpr (kOfBlock) {
      if (tells) shared()[word * S.warps + warp_] = bits;
    } else {
      own_ = all_ = bits;
    }
  }
  /// Reads the masks of the block. All warps must have called put() and then passed a barrier.
  MINUET_DEVICE void gather() {
    if constexpr (S.cluster > 1) {
      i32 offsets = 0;
      for (i32 word = 0; word < kWords; ++word) offsets += count_bits(load(word, 0, S.warps));
      first_ = rank_ < 0 ? 0 : offsets * rank_ / S.cluster;
      end_ = rank_ < 0 ? offsets : offsets * (rank_ + 1) / S.cluster;
    }
    if constexpr (kOfBlock && kWords == 1) {
      all_ = load_all(0);
      own_ = kOneOwner ? all_ : load_own(0);
    }
  }
  MINUET_DEVICE u32 own(i32 word) const { return kWords == 1 ? own_ : load_own(word); }
  MINUET_DEVICE u32 all(i32 word) const { return kWords == 1 ? all_ : load_all(word); }
  /// Returns the offsets that the warp processes, which are those that both the warp and its block have.
  MINUET_DEVICE u32 taken(i32 word) const { return S.cluster == 1 ? own(word) : own(word) & all(word); }

 private:
  MINUET_DEVICE static u32* shared() {
    return reinterpret_cast<u32*>(dynamic_shared() + fused_barrier_bytes(S));
  }
  MINUET_DEVICE static u32 load(i32 word, i32 warp, i32 warps) {
    u32 bits = 0;
    MINUET_UNROLL
    for (i32 i = 0; i < warps; ++i) bits |= shared()[word * S.warps + warp + i];
    return bits;
  }
  MINUET_DEVICE u32 load_own(i32 word) const {
    return S.unit == MmaUnit::Warpgroup ? load(word, warp_ / 4 * 4, 4) : load(word, warp_, 1);
  }
  MINUET_DEVICE u32 load_all(i32 word) const {
    const u32 bits = load(word, 0, S.warps);
    if constexpr (S.cluster == 1) return bits;
    i32 below = 0;
    for (i32 i = 0; i < word; ++i) below += count_bits(load(i, 0, S.warps));
    return keep_bits(bits, first_ - below, end_ - below);
  }
  i32 warp_, rank_;
  /// If the offsets at which the block's queries have neighbours are numbered in ascending order, the block
  /// processes the numbers [first_, end_).
  i32 first_ = 0, end_ = 0;
  u32 own_ = 0, all_ = 0;
};

/// Iterates over the steps of the reduction that a block processes. With WeightRoad::Cached, these are the
/// steps that one warp processes, because warps share no weights. If a step covers several offsets, no steps
/// are skipped.
template <FusedSpec S>
class StepIterator {
  using Depth = FusedDepth<S>;
  static constexpr i32 kEnd = Depth::kFolds ? fused_steps(S) : Depth::kWords;
  static constexpr bool kOneWord = !Depth::kFolds && Depth::kWords == 1;

 public:
  MINUET_DEVICE explicit StepIterator(const FusedMasks<S>& masks) : masks_(masks) {
    if constexpr (!Depth::kFolds) {
      bits_ = bits_of(0);
      find();
    }
  }

  /// Returns the number of steps of the whole iteration, including those already passed.
  MINUET_DEVICE i32 count() const {
    if constexpr (Depth::kFolds) return kEnd;
    i32 offsets = 0;
    for (i32 word = 0; word < Depth::kWords; ++word) offsets += count_bits(bits_of(word));
    return offsets * Depth::kParts;
  }
  MINUET_DEVICE bool ended() const { return kOneWord ? bits_ == 0 : word_ == kEnd; }
  /// Returns the number that step `number` of this iteration has in the image of the weights (fused_image.h).
  MINUET_DEVICE i32 step_of(i32 number) const {
    if constexpr (Depth::kFolds) return number;
    i32 offset = number / Depth::kParts, word = 0;
    u32 bits = bits_of(0);
    for (; word + 1 < Depth::kWords && offset >= count_bits(bits); bits = bits_of(++word))
      offset -= count_bits(bits);
    return (word * 32 + nth_bit(bits, offset)) * Depth::kParts + number % Depth::kParts;
  }
  /// Returns the number of the current step in the image of the weights (fused_image.h).
  MINUET_DEVICE i32 step() const { return Depth::kFolds ? word_ : offset() * Depth::kParts + part_; }
  MINUET_DEVICE i32 offset() const { return word_ * 32 + lowest_bit(bits_); }
  MINUET_DEVICE i32 part() const { return part_; }
  /// Returns true if the warp processes the current step. It skips the step if the iteration is the block's
  /// and no query of the warp has a neighbour at the step's offset.
  MINUET_DEVICE bool is_own() const {
    if constexpr (S.persistent) return true;  // The tile's steps are those of its only warpgroup.
    return Depth::kFolds || S.weights == WeightRoad::Cached || (masks_.own(word_) & bits_ & (0 - bits_)) != 0;
  }

  /// Moves to the next step. After the last step the iterator stays at the end.
  MINUET_DEVICE void advance() {
    if constexpr (Depth::kFolds) {
      word_ += word_ < kEnd;
    } else if (Depth::kParts == 1 || ++part_ == Depth::kParts) {
      part_ = 0;
      bits_ &= bits_ - 1;
      find();
    }
  }
  MINUET_DEVICE void advance(i32 steps) {
    MINUET_UNROLL
    for (i32 i = 0; i < steps; ++i) advance();
  }

 private:
  MINUET_DEVICE u32 bits_of(i32 word) const {
    return S.weights == WeightRoad::Cached ? masks_.own(word) : masks_.all(word);
  }
  MINUET_DEVICE void find() {
    while (!kOneWord && bits_ == 0 && word_ < kEnd) {
      if (++word_ < kEnd) bits_ = bits_of(word_);
    }
  }

  FusedMasks<S> masks_;
  /// Gives the index of the current word of the masks, or the current step if a step covers several offsets.
  i32 word_ = 0;
  u32 bits_ = 0;  // Holds the bits of the current word of the masks, from the current offset on.
  i32 part_ = 0;
};

}  // namespace minuet
