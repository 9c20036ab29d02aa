// This file computes, for a thread of the fused kernel, which queries its warp handles and which sums the
// thread holds.
#pragma once

#include "kernels_templates/core/cluster.h"
#include "kernels_templates/core/early_loads.h"
#include "kernels_templates/core/grid.h"
#include "kernels_templates/fused/step_iterator.h"

namespace minuet {

/// Returns *address, a number of a view or of an order, if `present`, otherwise -1. The kernel may call it
/// before it waits for the last launch (FusedParams::reads_early).
template <FusedSpec S>
MINUET_DEVICE i32 load_view_if(bool present, const i32* address) {
  if constexpr (S.programmatic) {
    return load_early_row_if(present, address);
  } else {
    return load_row_if(present, address);
  }
}

/// Returns what this warp of a persistent block keeps of its tiles.
template <FusedSpec S>
MINUET_DEVICE WarpTiles& warp_tiles() {
  return reinterpret_cast<WarpTiles*>(dynamic_shared() + fused_barrier_bytes(S))[thread_in_block() / 32];
}

/// Says which rows and columns of the output a thread computes.
template <FusedSpec S>
struct ThreadPlace {
  static_assert(S.columns % 16 == 0, "columns are whole tiles of 16");
  static_assert(kPositionGroup % fused_unit_rows(S) == 0, "a unit reads entries that are there");
  static_assert(S.unit == MmaUnit::Warp || (S.row_tiles == 2 && S.warps % 4 == 0 && S.split == 1),
                "whole warpgroups, of 64 rows each");
  // wgmma() reads shared memory through the async proxy. Data that threads write there, also with
  // asynchronous copies, would need a fence. Warpgroups therefore require bulk copies.
  static_assert(S.unit == MmaUnit::Warp || fused_copies_bulk(S), "warpgroups read what bulk copies brought");
  static_assert(!S.shortcut || (!FusedDepth<S>::kFolds && S.volume % 2 == 1 && !S.residual),
                "a shortcut has an offset in the middle, and steps of its own");
  static_assert(!S.shortcut || !S.second_output, "the blocks of a shortcut write one output");
  static_assert(!S.shortcut || is_integer(S.io) || !has_integers(S),
                "a shortcut has no factor of its output");
  static_assert(!is_integer(S.io) || S.scale_shift, "8-bit inputs have a scale");
  static_assert(!S.residual || is_integer(fused_residual_type(S)) == is_integer(S.io),
                "the residual has 8 bits if the input has");

  i32 lane, row_warp;
  /// Gives the warp's number among the S.split warps that compute the same rows and take the steps in turn,
  /// or S.split for the warp that only copies weights.
  i32 share;
  i32 rank;  // Gives the rank of the block in its cluster, or -1 if it shares no rows with other blocks.
  i32 column_block;
  bool of_shortcut;
  u32 block;  // Gives the position of the block's first query in FusedParams::order.
  u32 first;  // Gives the position of the warp's first query in FusedParams::order.
  i32 count;

  /// If `is_first` is true, finds the block's rows and stores them in shared memory. Otherwise reads what the
  /// first ThreadPlace of the thread has stored. A kernel makes a second one behind the products, because
  /// there are too few registers to hold the first one while the products run.
  MINUET_DEVICE ThreadPlace(const FusedParams& p, bool is_first) {
    const u32 thread = thread_in_block();
    const i32 warp = static_cast<i32>(thread / 32);
    lane = static_cast<i32>(thread % 32);
    row_warp = warp % S.warps;
    share = warp / S.warps;
    u32 number = block_in_grid();
    of_shortcut = S.shortcut && number >= p.shortcut.first_block;
    if (of_shortcut) number -= p.shortcut.first_block;
    rank = S.cluster > 1 && !of_shortcut ? static_cast<i32>(cluster_rank()) : -1;
    if (S.cluster > 1 && !of_shortcut) number /= S.cluster;
    column_block = static_cast<i32>(number % fused_column_blocks(S));
    const u32 turn = number / fused_column_blocks(S);
    // The grid consists of whole clusters, so the last blocks of the launch may have no rows.
    const bool is_idle = S.cluster > 1 && of_shortcut && number >= p.shortcut.first_block / S.cluster;
    if (is_first) {
      const u32 taken = p.block_order == nullptr || is_idle
                            ? turn
                            : static_cast<u32>(load_view_if<S>(true, p.block_order + turn));
      block = taken * fused_block_rows(S);
      count = load_view_if<S>(true, p.query_count);
      // The first lane keeps the numbers for its warp, so that no barrier of the block is needed.
      if (lane == 0) kept(warp)[0] = static_cast<i32>(block), kept(warp)[1] = count;
      __syncwarp();
    } else {
      block = static_cast<u32>(kept(warp)[0]), count = kept(warp)[1];
    }
    first = block + static_cast<u32>(row_warp * 8 * S.row_tiles);
  }
  /// Reads the place of a thread of a persistent block in tile `which` of its warp (TileQueue).
  MINUET_DEVICE explicit ThreadPlace(i32 which) {
    const u32 thread = thread_in_block();
    const i32 warp = static_cast<i32>(thread / 32);
    const FusedTile& tile = warp_tiles<S>().tiles[which];
    lane = static_cast<i32>(thread % 32);
    row_warp = warp % 4;
    share = 0;
    rank = -1;
    of_shortcut = S.shortcut && tile.is_of_shortcut();
    column_block = tile.column_block(fused_column_blocks(S));
    block = tile.first;
    first = block + static_cast<u32>(row_warp * 8 * S.row_tiles);
    count = warp_tiles<S>().count;
  }
  /// Returns `shortcut` if this block computes the shortcut, otherwise `own`.
  template <class T>
  MINUET_HD T one_of(T own, T shortcut) const {
    return S.shortcut && of_shortcut ? shortcut : own;
  }
  MINUET_DEVICE i64 query(const FusedParams& p, i64 position) const {
    return p.order != nullptr && position < count ? load_view_if<S>(true, p.order + position) : position;
  }

 private:
  MINUET_DEVICE static i32* kept(i32 warp) {
    return reinterpret_cast<i32*>(dynamic_shared() + fused_barrier_bytes(S)) +
           S.warps * mask_words(S.volume) + 2 * warp;
  }
};

/// Sets the columns of FusedParams::rows from which the lane loads the row numbers of a tile of a persistent
/// block. Lanes past the last query get a column whose entries exist.
template <FusedSpec S>
MINUET_DEVICE void find_columns(const FusedParams& p, const ThreadPlace<S>& place,
                                i32 (&columns)[S.row_tiles]) {
  const bool by_position = p.ordered_views != 0 || p.order == nullptr;
  MINUET_UNROLL
  for (i32 n = 0; n < S.row_tiles; ++n) {
    const i64 position = i64{place.first} + n * 8 + place.lane / 4;
    columns[n] = static_cast<i32>(by_position ? position : place.query(p, position));
    if (position >= place.count) columns[n] = static_cast<i32>(place.first / kPositionGroup * kPositionGroup);
  }
}

/// Sets the columns of FusedParams::rows and FusedParams::masks from which the lane loads its input rows and
/// masks, and returns the masks of the warp's queries. Lanes past the last query get a column whose entries
/// exist.
template <FusedSpec S>
MINUET_DEVICE FusedMasks<S> find_queries(const FusedParams& p, const ThreadPlace<S>& place,
                                         i32 (&columns)[S.row_tiles]) {
  const bool by_position = p.ordered_views != 0 || p.order == nullptr;
  i64 positions[S.row_tiles];
  MINUET_UNROLL
  for (i32 n = 0; n < S.row_tiles; ++n) {
    positions[n] = i64{place.first} + n * 8 + place.lane / 4;
    columns[n] = static_cast<i32>(by_position ? positions[n] : place.query(p, positions[n]));
  }
  FusedMasks<S> masks(place.row_warp, place.rank);
  // If steps cover several offsets, all steps are processed, so no masks are needed.
  constexpr i32 kWords = FusedDepth<S>::kFolds ? 0 : mask_words(S.volume);
  for (i32 word = 0; word < kWords; ++word) {
    u32 mask = 0;
    MINUET_UNROLL
    for (i32 n = 0; n < S.row_tiles; ++n) {
      const i32* address = reinterpret_cast<const i32*>(p.masks);
      if (p.masks != nullptr) address += i64{word} * p.row_stride + columns[n];
      const bool is_there = positions[n] < place.count;
      const i32 loaded = load_view_if<S>(p.masks != nullptr && is_there, address);
      mask |= !is_there ? 0u : p.masks != nullptr ? static_cast<u32>(loaded) : 1u;
    }
    constexpr i32 kMiddle = S.volume / 2;
    const u32 taken = place.one_of(~0u, word == kMiddle / 32 ? 1u << kMiddle % 32 : 0u);
    masks.put(word, __reduce_or_sync(~0u, mask) & taken, place.lane == 0 && place.share == 0);
  }
  MINUET_UNROLL
  for (i32 n = 0; n < S.row_tiles; ++n) {
    if (positions[n] < place.count) continue;
    columns[n] = FusedDepth<S>::kFolds ? 0 : static_cast<i32>(place.first / kPositionGroup * kPositionGroup);
  }
  return masks;
}

/// Gives the type of the sums, which is a 32-bit integer for an input of 8 bits.
template <bool OfIntegers>
struct FusedSum {
  using Type = float;
};
template <>
struct FusedSum<true> {
  using Type = i32;
};

/// Describes the sums of one lane. These are two output channels of each tile (fused_tile()), for kQueries
/// queries.
template <FusedSpec S>
struct FusedLane {
  static constexpr bool kOfWarp = S.unit == MmaUnit::Warp;
  static constexpr i32 kTiles = S.columns / fused_tile(S);
  static constexpr i32 kQueries = 2 * (kOfWarp ? S.row_tiles : 1);
  static constexpr i32 kVectors = kQueries / 2;  // Gives the number of vectors of four sums per tile.
  using Sum = typename FusedSum<is_integer(S.io)>::Type;
  using Sums = Sum[kTiles * kVectors][4];

  MINUET_HD static i32 part(i32 lane) { return kOfWarp ? lane / 4 : lane % 4; }
  /// Returns the index, among the warp's queries, of a lane's query q.
  MINUET_HD static i32 query(i32 lane, i32 q) {
    return kOfWarp ? q / 2 * 8 + lane % 4 * 2 + q % 2 : q * 8 + lane / 4;
  }
  MINUET_HD static Sum value(const Sums& sums, i32 tile, i32 q, i32 channel) {
    return kOfWarp ? sums[tile * kVectors + q / 2][channel * 2 + q % 2] : sums[tile][q * 2 + channel];
  }
  /// Keeps a number in the place of a sum, from which result() gets it back.
  MINUET_HD static void set_result(Sums& sums, i32 tile, i32 q, i32 channel, float value) {
    (kOfWarp ? sums[tile * kVectors + q / 2][channel * 2 + q % 2] : sums[tile][q * 2 + channel]) =
        __builtin_bit_cast(Sum, value);
  }
  MINUET_HD static float result(const Sums& sums, i32 tile, i32 q, i32 channel) {
    return __builtin_bit_cast(float, value(sums, tile, q, channel));
  }
};

template <FusedSpec S>
using FusedSums = typename FusedLane<S>::Sums;

}  // namespace minuet
