// This file runs a persistent block of the fused kernel (FusedSpec::persistent), whose warpgroups compute one
// tile after another. A warp keeps two tiles, the current one and the next one. In a tile it
//   starts to load the masks of the tile behind the next one,
//   computes the products, and at their end starts to load the first input rows of the next tile,
//   starts to copy the row numbers of the tile behind the next one in place of those of the current tile,
//   and writes the output.
// Every load is therefore in flight during a part of a tile at least, and so is each copy of weights.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/fused/finish.h"
#include "kernels_templates/fused/products.h"
#include "kernels_templates/fused/tile_ring.h"

namespace minuet {

/// Starts to copy the row numbers of the warp's queries in tile `which`.
template <FusedSpec S>
MINUET_DEVICE void stage_tile(const FusedParams& p, i32 which) {
  const ThreadPlace<S> place(which);
  i32 columns[S.row_tiles];
  find_columns<S>(p, place, columns);
  stage_rows<S>(p, place, FusedMasks<S>(warp_tiles<S>().tiles[which]), columns, which);
}

/// Adds up the products of a tile, whose steps have the numbers from `number` up to `end` among those of all
/// tiles. At the start, `steps` hold the first of them, except those that have not been started. At the end,
/// they hold the first steps of tile `next` in the same way.
template <FusedSpec S>
MINUET_DEVICE void sum_tile(TileRing<S>& ring, InputSteps<S>& inputs, InputStep<S> (&steps)[S.prefetch],
                            i32& number, i32 end, i32 next, FusedSums<S>& sums) {
  // Only steps[0] moves on to the next tile. The first step of a tile is therefore always in steps[0], and
  // this function needs no code for tiles that begin elsewhere.
  MINUET_UNROLL
  for (i32 i = 0; i < S.prefetch; ++i) {
    if (steps[i].number < 0) inputs.start(steps[i], i == 0 ? next : -1);
  }
  for (bool more = true; more;) {
    MINUET_UNROLL
    for (i32 i = 0; i < S.prefetch; ++i) {
      if (number == end) more = false;
      if (!more) break;
      take_warpgroup_step<S>(ring, number, inputs, steps[i], sums, i == 0 ? next : -1);
      ++number;
    }
  }
}

template <FusedSpec S>
MINUET_DEVICE void compute_tiles(const FusedParams& p, bool follows) {
  TileQueue<S> queue(p);
  const WarpTiles& kept = warp_tiles<S>();
  TileRing<S>::prepare();
  __syncthreads();
  TileRing<S> ring(p);
  queue.keep(queue.load(), 0);
  stage_tile<S>(p, 0);
  queue.keep(queue.load(), 1);
  ring.begin_tile(0, 0);
  if (follows) follow_last_launch();
  wait_for_rows<S>();
  const i32 no_columns[S.row_tiles] = {};
  InputSteps<S> inputs(p, StepIterator<S>(FusedMasks<S>(kept.tiles[0])), 0, no_columns);
  InputStep<S> steps[S.prefetch];
  MINUET_UNROLL
  for (i32 i = 0; i < S.prefetch; ++i) inputs.start(steps[i]);
  stage_tile<S>(p, 1);
  i32 number = 0;
  for (i32 which = 0; kept.tiles[which].number != FusedTile::kNone; which ^= 1) {
    const LoadedMasks loaded = queue.load();
    FusedSums<S> sums = {};
    sum_tile<S>(ring, inputs, steps, number, number + steps_of<S>(kept.tiles[which]), which ^ 1, sums);
    const ThreadPlace<S> place(which);
    FusedRows<S> rows(p, place, staged_rows<S>(which) + S.volume * 8 * S.row_tiles);
    queue.keep(loaded, which);
    stage_tile<S>(p, which);
    ring.begin_tile(which ^ 1, number);
    finish<S>(p, place, rows, sums);
  }
  ring.finish();
}

}  // namespace minuet
