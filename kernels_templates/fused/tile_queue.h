// This file finds the tiles of a persistent block (FusedSpec::persistent). A tile is the rows and columns
// that a block of one warpgroup computes otherwise, and has the number of that block. Every warp finds the
// tiles for itself, so that the warps of a block need no barrier between tiles.
//
// The tiles are numbered like the blocks of a grid that is not persistent: those of the convolution first, in
// the order of FusedParams::block_order, and then those of the shortcut. Warpgroup w of n takes the tiles w,
// w + n, w + 2 n and so on. In an ordered view, neighbouring tiles have about as many offsets, so that all
// warpgroups then have about equal work.
#pragma once

#include "kernels_templates/fused/thread_place.h"

namespace minuet {

/// Holds masks of the queries of a tile, while they are being loaded.
struct LoadedMasks {
  i32 masks[2];
};

template <FusedSpec S>
class TileQueue {
  static_assert(
      S.unit == MmaUnit::Warpgroup && fused_stages_rows(S) && FusedDepth<S>::kWords == 1 && S.cluster == 1 &&
          S.split == 1,
      "persistent blocks are warpgroups that stage row numbers and share nothing with other blocks");
  static constexpr i32 kRows = fused_block_rows(S), kColumnBlocks = fused_column_blocks(S);
  static_assert(kRows == 64, "each lane has the masks of two queries");

 public:
  /// Finds the first tile. load() and keep() must follow.
  MINUET_DEVICE explicit TileQueue(const FusedParams& p) : p_(p) {
    WarpTiles& kept = warp_tiles<S>();
    const i32 count = load_view_if<S>(true, p.query_count);
    const i64 rows = i64{count} > p.padded_rows ? i64{count} : p.padded_rows;
    if (lane() == 0) {
      kept.count = count;
      kept.tile_count = static_cast<u32>((rows + kRows - 1) / kRows) * kColumnBlocks;
      kept.number = block_in_grid() + thread_in_block() / 128 * gridDim.x;
    }
    __syncwarp();
    taken_ = row_block(kept.number);
  }

  /// Starts to load the masks of the next tile, and finds the tile behind it.
  MINUET_DEVICE LoadedMasks load() {
    WarpTiles& kept = warp_tiles<S>();
    const u32 first = static_cast<u32>(taken_) * kRows;
    if (lane() == 0) kept.first = first;
    const bool by_position = p_.ordered_views != 0 || p_.order == nullptr;
    LoadedMasks loaded;
    MINUET_UNROLL
    for (i32 i = 0; i < 2; ++i) {
      const i64 position = i64{first} + i * 32 + lane();
      const bool is_there = position < kept.count;
      i64 column = position;
      if (!by_position && is_there) column = load_view_if<S>(true, p_.order + position);
      loaded.masks[i] = load_view_if<S>(is_there, reinterpret_cast<const i32*>(p_.masks) + column);
    }
    taken_ = row_block(kept.number + stride());
    return loaded;
  }
  /// Keeps the tile whose masks are `loaded` as tile `which` of the warp, and moves to the next one.
  MINUET_DEVICE void keep(const LoadedMasks& loaded, i32 which) {
    __syncwarp();  // All lanes have read what is overwritten.
    WarpTiles& kept = warp_tiles<S>();
    const u32 number = kept.number;
    const bool of_shortcut = S.shortcut && number >= kept.tile_count;
    FusedTile tile{kept.first, 0, of_shortcut ? (number - kept.tile_count) | FusedTile::kShortcut : number};
    MINUET_UNROLL
    for (i32 i = 0; i < 2; ++i) {
      const bool is_there = i64{tile.first} + i * 32 + lane() < kept.count;
      tile.offsets |= is_there ? static_cast<u32>(loaded.masks[i]) : 0u;
    }
    tile.offsets = __reduce_or_sync(~0u, tile.offsets);
    if (of_shortcut) tile.offsets &= 1u << S.volume / 2;
    if (number >= kept.tile_count * (S.shortcut ? 2 : 1)) tile.offsets = 0, tile.number = FusedTile::kNone;
    __syncwarp();
    if (lane() == 0) kept.tiles[which] = tile, kept.number = number + stride();
    __syncwarp();
  }

 private:
  MINUET_DEVICE static i32 lane() { return static_cast<i32>(threadIdx.x % 32); }
  /// Returns the number of warpgroups of the grid.
  MINUET_DEVICE static u32 stride() { return gridDim.x * (S.warps / 4); }
  /// Returns the number of the row block of a tile, or one that has no rows if there is no such tile.
  MINUET_DEVICE i32 row_block(u32 number) const {
    const u32 tiles = warp_tiles<S>().tile_count;
    const bool of_shortcut = S.shortcut && number >= tiles;
    const u32 turn = (of_shortcut ? number - tiles : number) / kColumnBlocks;
    if (p_.block_order == nullptr) return static_cast<i32>(turn);
    return load_view_if<S>(turn * kColumnBlocks < tiles, p_.block_order + turn);
  }

  const FusedParams& p_;
  i32 taken_;  // Gives the row block of the tile whose masks load() loads next.
};

}  // namespace minuet
