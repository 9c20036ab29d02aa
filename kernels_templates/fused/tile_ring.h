// This file delivers weights to the warps of a persistent block (FusedSpec::persistent). The steps of all its
// tiles are numbered one after the other, so that the ring of stages does not run empty between two tiles.
#pragma once

#include "kernels_templates/fused/tile_queue.h"
#include "kernels_templates/fused/weight_ring.h"

namespace minuet {

template <FusedSpec S>
MINUET_DEVICE i32 steps_of(const FusedTile& tile) {
  return count_bits(tile.offsets) * FusedDepth<S>::kParts;
}

/// Returns the address of step 0 of the weights of a tile's output channels in their image, as
/// image_of_block() does for the tile of a block that has only one.
template <FusedSpec S>
MINUET_DEVICE const char* image_of_tile(const FusedParams& p, const FusedTile& tile) {
  constexpr i32 kParts = FusedDepth<S>::kParts;
  const bool of_shortcut = S.shortcut && tile.is_of_shortcut();
  const i32 block = tile.column_block(fused_column_blocks(S));
  const i64 step = of_shortcut ? block * kParts - S.volume / 2 * kParts : block * fused_steps(S);
  return static_cast<const char*>(of_shortcut ? p.shortcut.weights : p.weights) + step * fused_stage_bytes(S);
}

template <FusedSpec S, WeightRoad Road = S.weights>
class TileRing;

/// Holds a ring of stages, of which each belongs to one step of a tile. The block is one warpgroup, whose
/// warps take turns in copying weights, as they do in other blocks (WeightRing). They copy ahead up to the
/// end of the next tile, because they know no tiles behind it.
template <FusedSpec S>
class TileRing<S, WeightRoad::BulkRefill> : public BulkStages<S> {
  using Stages = BulkStages<S>;
  static_assert(S.warps == 4, "warpgroups with tiles of their own share no stages");
  static constexpr i32 kLag = S.stages > 3 ? 2 : 1;  // WeightRing::kLag says what it is for.

 public:
  MINUET_DEVICE explicit TileRing(const FusedParams& p)
      : Stages(nullptr), p_(p), next_(static_cast<i32>(threadIdx.x / 32)) {}
  /// Must be called once the warp keeps the tile that follows tile `which`, whose first step is `first`.
  MINUET_DEVICE void begin_tile(i32 which, i32 first) {
    WarpTiles& kept = warp_tiles<S>();
    if (threadIdx.x % 32 == 0) kept.current = which, kept.first_step = first;
    __syncwarp();
    copy_up_to(first == 0 ? S.stages - 1 : first - 1 - kLag + S.stages);
  }
  MINUET_DEVICE void acquire(i32 number, i32) { this->take(number); }
  MINUET_DEVICE void refill(i32 number) { copy_up_to(number - kLag + S.stages); }
  MINUET_DEVICE static void finish() {}

 private:
  /// Starts to copy the weights of step `local` of a tile into the stage of step `number` of the block, as
  /// soon as it is empty.
  MINUET_DEVICE void copy_step(const FusedTile& tile, i32 local, i32 number) const {
    const i32 step = StepIterator<S>(FusedMasks<S>(tile)).step_of(local);
    mbarrier_wait(Stages::empty(number), Stages::phase(number) ^ 1);
    Stages::copy(image_of_tile<S>(p_, tile), number, step);
  }
  /// Copies the weights of those steps up to number `last` that it is this warp's turn to copy.
  MINUET_DEVICE void copy_up_to(i32 last) {
    const WarpTiles& kept = warp_tiles<S>();
    MINUET_NO_UNROLL
    for (; next_ <= last; next_ += S.warps) {
      const FusedTile* tile = &kept.tiles[kept.current];
      i32 local = next_ - kept.first_step;
      if (local >= steps_of<S>(*tile)) {
        local -= steps_of<S>(*tile);
        tile = &kept.tiles[kept.current ^ 1];
        if (local >= steps_of<S>(*tile)) break;
      }
      if (threadIdx.x % 32 == 0) copy_step(*tile, local, next_);
    }
    __syncwarp();
  }

  const FusedParams& p_;
  i32 next_;  // Gives the number of the next step whose weights this warp copies.
};

/// All weights stay in shared memory, each step in its place, and one barrier says that all have arrived.
template <FusedSpec S>
class TileRing<S, WeightRoad::Resident> {
  static_assert(fused_column_blocks(S) == 1 && !S.shortcut, "all tiles have the same weights");

 public:
  MINUET_DEVICE static void prepare() {
    if (threadIdx.x != 0) return;
    mbarrier_init(barrier(), 1);
    mbarrier_init_fence();
  }
  /// Starts to copy all weights. A __syncthreads() must lie between prepare() and this constructor.
  MINUET_DEVICE explicit TileRing(const FusedParams& p) {
    constexpr i32 kSteps = fused_steps(S), kBytes = fused_stage_bytes(S);
    if (threadIdx.x != 0) return;
    mbarrier_arrive_expect(barrier(), kSteps * kBytes);
    const char* const image = static_cast<const char*>(p.weights);
    MINUET_NO_UNROLL
    for (i32 step = 0; step < kSteps; ++step)
      bulk_copy(fused_ring<S>() + step * kBytes, image + step * kBytes, kBytes, barrier());
  }
  MINUET_DEVICE static void begin_tile(i32, i32) {}
  MINUET_DEVICE void acquire(i32, i32 step) {
    mbarrier_wait(barrier(), 0);
    stage_ = fused_ring<S>() + step * fused_stage_bytes(S);
  }
  MINUET_DEVICE static void release(i32) {}
  /// Waits for the weights, because a block without tiles must not end before its copies have.
  MINUET_DEVICE static void finish() { mbarrier_wait(barrier(), 0); }
  MINUET_DEVICE const unsigned char* stage() const { return stage_; }

 private:
  MINUET_DEVICE static MBarrier* barrier() { return reinterpret_cast<MBarrier*>(dynamic_shared()); }
  const unsigned char* stage_ = nullptr;
};

}  // namespace minuet
