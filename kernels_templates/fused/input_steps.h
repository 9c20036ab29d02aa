// This file loads the input rows that a warp multiplies, one step of the reduction after another
// (shared/fused_kernels.h), from global memory directly into mma() fragments.
//
// With g = lane / 4 and t = lane % 4, a lane holds data of query g of each of the warp's tiles of 8 queries.
// In a step, this is 16 bytes of each 64 bytes of the query's row, at position t. Words 0 and 1 are b[] of
// one product, and words 2 and 3 are b[] of the next one. The weights are stored in the same order
// (shared/fused_image.h). For a warpgroup's products these words are a[] of two tiles.
#pragma once

#include "kernels_templates/fused/staged_rows.h"
#include "kernels_templates/fused/step_iterator.h"

namespace minuet {

/// Holds the input that a lane multiplies in one step of the reduction.
template <FusedSpec S>
struct InputStep {
  /// Gives the number of 64-byte pieces of an input row that one step multiplies.
  static constexpr i32 kPieces = (fused_stage_bytes(S) / S.columns + 63) / 64;
  Vector<16> pieces[S.row_tiles][kPieces];
  /// Holds, per tile of queries, ~0 if the tile's `pieces` are valid, and 0 if they count as zeros.
  u32 present[S.row_tiles];
  /// Bit n is set if a query of tile n has an input row at the step's offset. The bits are computed only if
  /// fused_skips_tiles(S).
  u32 hits;
  i32 number;  // Gives the step's number among the block's steps, or -1 if there is no step.
  i32 step;    // Gives the step's number in the image of the weights (fused_image.h).

  /// Sets `b` to the operand of product number `granule` of the step, for the queries of a tile.
  MINUET_DEVICE void operand(i32 tile, i32 granule, u32 (&b)[2]) const {
    MINUET_UNROLL
    for (i32 i = 0; i < 2; ++i)
      b[i] = keep_if(present[tile], pieces[tile][granule / 2].words[granule % 2 * 2 + i]);
  }
};

/// Starts to load `Bytes` bytes at `row` + Offset, of which the first belongs to channel `channel`. Accesses
/// before number First have been started already. The result is undefined if not `present`, and zeros past
/// the last channel.
template <FusedSpec S, i32 Bytes, i32 Offset, i32 First = 0>
MINUET_DEVICE void load_channels(bool present, const char* row, i32 channel, u32* words) {
  constexpr i32 kAccess = S.input_bytes < Bytes ? S.input_bytes : Bytes, kByte = Offset + First * kAccess;
  const bool is_there = present && channel + First * kAccess / dtype_bytes(S.io) < S.in_channels;
  if constexpr (kAccess == 1) {
    const u32 byte = load_vector_if<1, S.programmatic>(is_there, row, kByte).words[0];
    words[First / 4] = First % 4 == 0 ? byte : words[First / 4] | byte << First % 4 * 8;
  } else if constexpr (kAccess == 2) {
    const u32 half = load_vector_if<2, S.programmatic>(is_there, row, kByte).words[0];
    words[First / 2] = First % 2 == 0 ? half : words[First / 2] | half << 16;
  } else {
    constexpr bool kZeros = S.in_channels % S.step != 0 || S.unit == MmaUnit::Warpgroup;
    const Vector<kAccess> part =
        start_load_if<kAccess, kByte, kZeros, S.programmatic>(kZeros ? is_there : present, row);
    MINUET_UNROLL
    for (i32 w = 0; w < kAccess / 4; ++w) words[First * (kAccess / 4) + w] = part.words[w];
  }
  if constexpr ((First + 1) * kAccess < Bytes)
    load_channels<S, Bytes, Offset, First + 1>(present, row, channel, words);
}

/// Iterates over the steps that this warp takes and at whose kernel offsets at least one of its queries has a
/// neighbour. Loads the input of these steps ahead of the products.
template <FusedSpec S>
class InputSteps {
  using Depth = FusedDepth<S>;
  /// kLane gives the number of elements in a lane's 16 bytes.
  static constexpr i32 kElement = dtype_bytes(S.io), kLane = 16 / kElement;
  static constexpr i32 kGranules = S.step / fused_granule(S.io);
  static_assert(S.step % fused_granule(S.io) == 0, "steps of whole products");
  static_assert(!Depth::kFolds || kGranules % 2 == 0, "steps of several offsets are whole pieces");

 public:
  /// `walk` must be at the first step that this warp takes, and `number` is the number of that step.
  /// `columns` holds the columns of the queries in FusedParams::rows and FusedParams::masks. If the kernel
  /// stages row numbers, they must have arrived (wait_for_rows()).
  MINUET_DEVICE InputSteps(const FusedParams& p, const StepIterator<S>& walk, i32 number,
                           const i32 (&columns)[S.row_tiles])
      : p_(p), walk_(walk), number_(number) {
    MINUET_UNROLL
    for (i32 n = 0; n < S.row_tiles; ++n) {
      columns_[n] = columns[n];
      if constexpr (Depth::kFolds && Depth::kWords == 1) masks_[n] = load_mask(0, n);
    }
    find();
  }

  /// Starts to load the input of the next step into `step`, or loads nothing if there is none. If all steps
  /// of the tile have been started and `next` is not negative, the next step is the first one of tile `next`
  /// of a persistent block.
  MINUET_DEVICE void start(InputStep<S>& step, i32 next = -1) {
    const i32 t = static_cast<i32>(threadIdx.x % 4);
    if constexpr (S.persistent) {
      if (next >= 0 && next != tile_ && walk_.ended()) enter(next);
    }
    step.number = walk_.ended() ? -1 : number_;
    step.step = walk_.step();
    if constexpr (Depth::kFolds) {
      MINUET_UNROLL
      for (i32 n = 0; n < S.row_tiles; ++n) start_folded(step, n, t);
    } else {
      // All votes come before the loads, because the warp would wait for a load that is issued between two
      // votes.
      if constexpr (fused_skips_tiles(S)) {
        step.hits = 0;
        MINUET_UNROLL
        for (i32 n = 0; n < S.row_tiles; ++n)
          step.hits |= static_cast<u32>(__any_sync(~0u, rows_[n] >= 0)) << n;
      }
      MINUET_UNROLL
      for (i32 n = 0; n < S.row_tiles; ++n) step.present[n] = rows_[n] >= 0 ? ~0u : 0u;
      MINUET_UNROLL
      for (i32 n = 0; n < S.row_tiles; ++n)
        start_pieces<0>(step, n, t, input_row(rows_[n]) + walk_.part() * (S.step * kElement));
    }
    // Both calls are unconditional, because a branch would copy the registers that are being loaded, and so
    // wait for the loads.
    advance();
    find();
  }

 private:
  MINUET_DEVICE void advance() {
    walk_.advance(S.split);
    number_ += S.split;
  }
  /// Moves to the first step of tile `next`, whose row numbers are being staged.
  MINUET_DEVICE void enter(i32 next) {
    wait_for_rows<S>();
    tile_ = next;
    walk_ = StepIterator<S>(FusedMasks<S>(warp_tiles<S>().tiles[next]));
    offset_ = -1;
    find();
  }
  /// Finds the next step at whose offset a query of the warp has a neighbour, and loads the queries' input
  /// row numbers unless the step before had the same offset.
  MINUET_DEVICE void find() {
    while (!walk_.ended() && !walk_.is_own()) advance();
    if constexpr (!Depth::kFolds) {
      const i32 offset = walk_.offset();
      if constexpr (Depth::kParts > 1) {
        if (offset == offset_ && !walk_.ended()) return;
        offset_ = offset;
      }
      MINUET_UNROLL
      for (i32 n = 0; n < S.row_tiles; ++n) rows_[n] = row_of(offset, n, !walk_.ended());
    }
  }
  /// Returns the input row of the lane's query of tile n at an offset, or -1 if there is none or not
  /// `present`.
  MINUET_DEVICE i32 row_of(i32 offset, i32 n, bool present) const {
    if constexpr (fused_stages_rows(S)) {
      // An entry is read even if none is present, because a branch could cost more than the load. It is the
      // first one then, because the offset may be past the last one.
      const i32 entry = (offset * S.row_tiles + n) * 8 + static_cast<i32>(threadIdx.x % 32) / 4;
      const i32 row = staged_rows<S>(tile_)[present ? entry : 0];
      return present ? row : -1;
    }
    if (S.volume == 1 && p_.rows == nullptr) return present ? columns_[n] : -1;
    return load_row_if<S.programmatic, /*Started=*/true>(present,
                                                         p_.rows + i64{offset} * p_.row_stride + columns_[n]);
  }
  /// Returns true if the mask of the lane's query of tile n says that it has a neighbour at the offset. If
  /// not, the query's entry in FusedParams::rows may be undefined.
  MINUET_DEVICE bool has_row(i32 offset, i32 n) const {
    const u32 mask = Depth::kWords == 1 ? masks_[n] : load_mask(offset / 32, n);
    return (mask >> offset % 32 & 1u) != 0;
  }
  /// Returns word `word` of the mask of the lane's query of tile n. If there are no masks, all bits are set,
  /// since each query is its own source.
  MINUET_DEVICE u32 load_mask(i32 word, i32 n) const {
    const auto* masks = reinterpret_cast<const i32*>(p_.masks);
    if (masks != nullptr) masks += i64{word} * p_.row_stride + columns_[n];
    return static_cast<u32>(load_row_if<S.programmatic>(masks != nullptr, masks));
  }
  MINUET_DEVICE const char* input_row(i32 row) const {
    return static_cast<const char*>(p_.input) + i64{row} * (p_.input_ld * kElement);
  }

  /// Starts to load the 64-byte pieces of tile n from number Piece on. `row` is the address where the step
  /// begins in the input row.
  template <i32 Piece>
  MINUET_DEVICE void start_pieces(InputStep<S>& step, i32 n, i32 t, const char* row) {
    constexpr i32 kBytes = Piece * 2 + 1 < kGranules ? 16 : 8;
    const i32 channel = walk_.part() * S.step + Piece * 4 * kLane + t * (kBytes / kElement);
    load_channels<S, kBytes, Piece * 64>(rows_[n] >= 0, row + t * kBytes, channel,
                                         step.pieces[n][Piece].words);
    if constexpr (Piece + 1 < InputStep<S>::kPieces) start_pieces<Piece + 1>(step, n, t, row);
  }

  /// Starts to load the 64-byte pieces of tile n for a step that covers several offsets.
  MINUET_DEVICE void start_folded(InputStep<S>& step, i32 n, i32 t) {
    constexpr i32 kOffsets = kLane / Depth::kOffset, kBytes = Depth::kOffset * kElement;
    i32 rows[InputStep<S>::kPieces][kOffsets];
    MINUET_UNROLL
    for (i32 piece = 0; piece < InputStep<S>::kPieces; ++piece) {
      const i32 first = (walk_.step() * S.step + (piece * 4 + t) * kLane) / Depth::kOffset;
      MINUET_UNROLL
      for (i32 o = 0; o < kOffsets; ++o)
        rows[piece][o] =
            row_of(first + o, n, !walk_.ended() && first + o < S.volume && has_row(first + o, n));
    }
    MINUET_UNROLL
    for (i32 piece = 0; piece < InputStep<S>::kPieces; ++piece) {
      u32* const words = step.pieces[n][piece].words;
      MINUET_UNROLL
      for (i32 o = 0; o < kOffsets; ++o) {
        const bool present = rows[piece][o] >= 0;
        const char* const row = input_row(rows[piece][o]);
        if constexpr (kBytes >= 4) {
          load_channels<S, kBytes, 0>(present, row, 0, words + o * (kBytes / 4));
        } else {
          u32 half = 0;
          load_channels<S, 2, 0>(present, row, 0, &half);
          words[o / 2] = o % 2 == 0 ? half : words[o / 2] | half << 16;
        }
      }
    }
    step.present[n] = ~0u;  // Missing rows were loaded as zeros, so all pieces are valid.
  }

  const FusedParams& p_;
  StepIterator<S> walk_;  // This iterator is at the step whose row numbers have been loaded.
  i32 number_;            // Gives the number of the step at which walk_ is.
  i32 columns_[S.row_tiles];
  /// Holds the masks of the lane's queries. They are set only if steps cover several offsets and a mask is
  /// one word.
  u32 masks_[S.row_tiles];
  i32 rows_[S.row_tiles];  // Holds the input rows of the lane's queries at offset_.
  i32 offset_ = -1;
  i32 tile_ = 0;  // Gives which of the warp's tiles the steps belong to in a persistent block.
};

}  // namespace minuet
