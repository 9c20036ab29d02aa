// This file declares what the warps of a persistent block of the fused kernel keep in shared memory.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// Describes a tile of a persistent block to one of its warps.
struct FusedTile {
  u32 first;    // Gives the position of the tile's first query in FusedParams::order.
  u32 offsets;  // Holds the kernel offsets that the warps of the tile process.
  /// Gives the number of the tile (TileQueue), with kShortcut for a tile of the shortcut. It is kNone if the
  /// warp has no further tile.
  u32 number;
  static constexpr u32 kNone = ~0u, kShortcut = 1u << 31;

  MINUET_HD constexpr bool is_of_shortcut() const { return (number & kShortcut) != 0; }
  /// Returns which of the layer's `column_blocks` blocks of output columns the tile computes.
  MINUET_HD constexpr i32 column_block(i32 column_blocks) const {
    return static_cast<i32>((number & ~kShortcut) % static_cast<u32>(column_blocks));
  }
};
/// Holds what a warp of a persistent block keeps in shared memory, because registers are scarce while
/// products run.
struct WarpTiles {
  FusedTile tiles[2];  // These are the current tile and the next one, in turn.
  i32 count;           // Gives the number of queries.
  u32 tile_count;      // Gives the number of tiles of the convolution, and also of the shortcut.
  u32 number, first;   // These belong to the tile that comes next (TileQueue).
  i32 current;         // Gives the index of the current tile in `tiles`.
  i32 first_step;      // Gives the number of the current tile's first step among the steps of all tiles.
};

}  // namespace minuet
