// The kernel weight_gradient_warpgroups computes the sums of the parts (shared/gradient_kernels.h) with the
// tensor cores of warpgroups. sums[slot][i][o] = sum over the pairs of the part and the offset of
// input[input row][i] * gradient[output row][o].
//
// A block computes one tile of channels of one part after the other. The rows of the pairs of a step are
// copied to shared memory, where a pair is a row of planes (core/wgmma_planes.h), so that nothing is
// transposed. Warpgroup w multiplies the input channels from 64 w on by all output channels of the tile. The
// rows are copied either by `copiers` further warpgroups, which run ahead by `stages` steps at most, or by
// the warpgroups that multiply, `stages` - 1 steps ahead.
#pragma once

#include "kernels_templates/core/async_copy.h"
#include "kernels_templates/core/dynamic_shared.h"
#include "kernels_templates/core/mbarrier.h"
#include "kernels_templates/core/wgmma_planes.h"
#include "kernels_templates/gradient/part_steps.h"

namespace minuet {

static_assert(kStepPairs == kPlaneRows, "a step fills the planes");

/// Divides the parts among the blocks. A block has one tile of the parts `first`, `first` + `stride` and so
/// on.
struct BlockParts {
  i32 first, stride, parts, steps;
  MINUET_HD i32 begin(i32 part) const { return static_cast<i32>(first_step_of_part(part, parts, steps)); }
  MINUET_HD i32 end(i32 part) const { return begin(part + 1); }
};

template <WarpgroupGradientSpec S>
class WarpgroupGradient {
 public:
  static constexpr i32 kPlanesIn = gradient_planes(S.tile_in),
                       kPlanes = kPlanesIn + gradient_planes(S.tile_out);
  static constexpr i32 kMultiplying = multiplying_threads(S);
  static constexpr i32 kCopying = S.copiers > 0 ? 128 * S.copiers : kMultiplying;
  static constexpr i32 kDepth = mma_depth<S.io>(), kColumnTiles = S.tile_out / kMmaColumns;
  static constexpr i32 kVector = 16, kElementBytes = 2;
  static_assert(dtype_bytes(S.io) == kElementBytes && kPlanes * kPlaneBytes == gradient_stage_bytes(S),
                "stages of planes");
  static_assert(S.tile_in % 32 == 0 && S.tile_out % 32 == 0, "tiles of whole products");
  static_assert(S.stages >= 2, "the copies of a step and the products of another one overlap");

  /// Initialises the barriers. A __syncthreads() must follow.
  MINUET_DEVICE static void prepare() {
    if constexpr (S.copiers > 0) {
      if (threadIdx.x != 0) return;
      for (i32 stage = 0; stage < S.stages; ++stage) {
        mbarrier_init(full(stage), kCopying);
        mbarrier_init(empty(stage), kMultiplying / 32);
      }
      mbarrier_init_fence();
    }
  }

  MINUET_DEVICE WarpgroupGradient(const WeightGradientParams& p, i32 tile, OffsetLanes& lanes,
                                  const LateFollower& start)
      : p_(p), thread_(static_cast<i32>(threadIdx.x)), lanes_(lanes), start_(start) {
    group_ = tile / (p.tiles_in * p.tiles_out);
    first_in_ = tile / p.tiles_out % p.tiles_in * S.tile_in;
    first_out_ = tile % p.tiles_out * S.tile_out;
    input_ = rows_of(p.input, p.input_ld, p.group_inputs, first_in_);
    gradient_ = rows_of(p.gradient, p.gradient_ld, p.group_outputs, first_out_);
  }

  MINUET_DEVICE void sum(const BlockParts& block) {
    if constexpr (S.copiers == 0) {
      for (i32 part = block.first; part < block.parts; part += block.stride) {
        sum_and_copy(part, block.begin(part), block.end(part));
      }
    } else if (thread_ < kMultiplying) {
      for (i32 part = block.first; part < block.parts; part += block.stride) {
        sum_part(part, block.begin(part), block.end(part));
      }
    } else {
      for (i32 part = block.first; part < block.parts; part += block.stride) {
        copy_part(block.begin(part), block.end(part));
      }
    }
    start_.follow();
  }

 private:
  using Segments = PartSegments<most_segment_steps(S.io)>;

  /// Describes the channels of the tile in the rows of an operand.
  struct Rows {
    const char* first;
    u32 row_bytes;
    i32 bytes;  // Counts the bytes of a row from `first` on; those behind them are zeros.
  };
  MINUET_DEVICE Rows rows_of(const void* rows, i64 ld, i32 group_channels, i32 first_channel) const {
    const i64 channel = static_cast<i64>(group_) * group_channels + first_channel;
    return {static_cast<const char*>(rows) + channel * kElementBytes, static_cast<u32>(ld) * kElementBytes,
            (group_channels - first_channel) * kElementBytes};
  }

  MINUET_DEVICE static unsigned char* stage_at(i32 stage) {
    return align_planes(dynamic_shared()) + stage * gradient_stage_bytes(S);
  }
  MINUET_DEVICE static MBarrier* full(i32 stage) {
    return reinterpret_cast<MBarrier*>(stage_at(S.stages)) + stage;
  }
  MINUET_DEVICE static MBarrier* empty(i32 stage) { return full(stage) + S.stages; }
  /// Returns the numbers of the rows of a stage: those of the input, then those of the output's gradient.
  MINUET_DEVICE static i32* numbers_at(i32 stage) {
    return reinterpret_cast<i32*>(stage_at(S.stages)) + stage * 2 * kStepPairs;
  }

  /// Starts the copies of one operand's rows of a step to `planes`. row_of(pair, n) returns the row of a pair
  /// of the thread's n-th copy, or a negative number. Missing rows, and channels past the last one, become
  /// zeros.
  template <i32 Channels, class RowOf>
  MINUET_DEVICE void copy_rows(unsigned char* planes, const Rows& rows, const RowOf& row_of) const {
    constexpr i32 kPieces = Channels * kElementBytes / kVector, kCopies = kStepPairs * kPieces / kCopying;
    static_assert(kStepPairs * kPieces % kCopying == 0, "each thread has as many copies");
    constexpr bool kHasOnePiece =
        kCopying % kPieces == 0;  // All copies of a thread are of the same channels.
    const i32 thread = thread_ % kCopying;
    MINUET_UNROLL
    for (i32 n = 0; n < kCopies; ++n) {
      const i32 copy = thread + n * kCopying;
      const i32 pair = kHasOnePiece ? thread / kPieces + n * (kCopying / kPieces) : copy / kPieces;
      const i32 piece = kHasOnePiece ? thread % kPieces : copy % kPieces, byte = piece * kVector;
      const i32 row = row_of(pair, n);
      const bool is_there = row >= 0 && byte < rows.bytes;
      // A row has fewer than 2^31 bytes, and rows are not negative, so one instruction finds a row.
      const u64 offset =
          is_there ? static_cast<u64>(static_cast<u32>(row)) * rows.row_bytes + static_cast<u32>(byte) : 0;
      unsigned char* const plane = planes + byte / kPlaneRowBytes * kPlaneBytes;
      async_copy_if<kVector>(is_there, plane + place_in_plane(pair, byte % kPlaneRowBytes),
                             rows.first + offset);
    }
  }

  /// Starts the products of a step, whose rows are in `stage`.
  MINUET_DEVICE void multiply(i32 stage, bool adds) {
    const unsigned char* const planes = stage_at(stage);
    const u64 a = wgmma_operand_of_planes(planes + thread_ / kWarpgroup * kPlaneBytes);
    const u64 b = wgmma_operand_of_planes(planes + kPlanesIn * kPlaneBytes);
    wgmma_fence();
    MINUET_UNROLL
    for (i32 pair = 0; pair < kStepPairs; pair += kDepth) {
      wgmma_planes<S.io>(sums_, wgmma_operand_of_later_rows(a, pair), wgmma_operand_of_later_rows(b, pair),
                         adds || pair > 0);
    }
    wgmma_commit();
  }

  /// Follows the last launch, unless it writes no rows. It may still read the slots, which store() writes.
  /// The rows and their numbers were there before the first launch of the branch, which waited for all work
  /// before it, so that ordinary loads find them.
  MINUET_DEVICE void follow_for_rows() {
    if (p_.reads_early < 2) start_.follow();
  }

  /// Stores the sums of a segment in its slot, or adds them to those that this thread stored there.
  MINUET_DEVICE void store(const Segments& segments) {
    start_.follow();
    float* const block = segments.slot() + static_cast<i64>(group_) * p_.layout.rows * p_.layout.columns;
    if (segments.adds()) {
      store_rows<true>(block);
    } else {
      store_rows<false>(block);
    }
  }
  template <bool Adds>
  MINUET_DEVICE void store_rows(float* block) const {
    const i32 lane = thread_ % 32, first = thread_ / 32 * kMmaRows + lane / 4;
    const i32 out = first_out_ + lane % 4 * 2;
    MINUET_UNROLL
    for (i32 half = 0; half < 2; ++half) {
      const i32 row = first + half * 8;
      if (row >= S.tile_in) continue;
      store_row_of_tiles<Adds>(sums_, half,
                               block + static_cast<i64>(first_in_ + row) * p_.layout.columns + out);
    }
  }

  // The following functions are for blocks with copiers.

  /// Holds the rows of two pairs of a step in each lane of a warp: of pair `lane` and of pair `lane` + 32.
  struct LaneRows {
    PairRows low, high;
  };
  template <bool Early = false>
  MINUET_DEVICE LaneRows read_rows(const StepPlace& place) const {
    const i32 lane = thread_ % 32;
    LaneRows rows;
    if (lane < place.pairs()) rows.low = rows_of_pair<Early>(p_, place.first_pair() + lane);
    if (lane + 32 < place.pairs()) rows.high = rows_of_pair<Early>(p_, place.first_pair() + lane + 32);
    return rows;
  }
  template <i32 Channels>
  MINUET_DEVICE void copy_rows_of_lanes(unsigned char* planes, const Rows& rows, i32 low, i32 high) const {
    constexpr i32 kPieces = Channels * kElementBytes / kVector, kPairs = kCopying / kPieces;
    copy_rows<Channels>(planes, rows, [&](i32 pair, i32 n) {
      // If the pairs of all threads' n-th copies are in the same half, its number is known to the compiler.
      if constexpr (kCopying % kPieces == 0 && 32 % kPairs == 0) {
        return __shfl_sync(~0u, n * kPairs < 32 ? low : high, pair % 32);
      } else {
        const i32 if_low = __shfl_sync(~0u, low, pair % 32), if_high = __shfl_sync(~0u, high, pair % 32);
        return pair < 32 ? if_low : if_high;
      }
    });
  }

  MINUET_DEVICE void copy_part(i32 first, i32 end) {
    StepPlace place(lanes_, first);
    LaneRows rows = read_rows<true>(place);
    follow_for_rows();
    for (i32 step = first; step < end; ++step) {
      LaneRows next;
      if (step + 1 < end) {
        place.visit(step + 1);
        next = read_rows(place);
      }
      mbarrier_wait(empty(stage_), parity_ ^ 1);
      unsigned char* const planes = stage_at(stage_);
      copy_rows_of_lanes<S.tile_in>(planes, input_, rows.low.input, rows.high.input);
      copy_rows_of_lanes<S.tile_out>(planes + kPlanesIn * kPlaneBytes, gradient_, rows.low.gradient,
                                     rows.high.gradient);
      mbarrier_arrive_behind_copies(full(stage_));
      pass_stage();
      rows = next;
    }
  }

  MINUET_DEVICE void sum_part(i32 part, i32 first, i32 end) {
    Segments segments(p_, lanes_, part, first, end);
    follow_for_rows();
    for (; segments.has_steps(); segments.pass()) {
      i32 last = -1;  // Names the stage of the step before, whose products may still be under way.
      bool adds = false;
      MINUET_NO_UNROLL
      for (i32 step = segments.begin(); step < segments.end(); ++step, adds = true) {
        mbarrier_wait(full(stage_), parity_);
        async_proxy_fence();
        multiply(stage_, adds);
        wgmma_wait<1>();
        if (last >= 0) release(last);
        last = stage_;
        pass_stage();
      }
      wgmma_wait();
      if (last >= 0) release(last);
      store(segments);
    }
  }

  MINUET_DEVICE void release(i32 stage) const {
    if (thread_ % 32 == 0) mbarrier_arrive(empty(stage));
  }
  MINUET_DEVICE void pass_stage() {
    if (++stage_ < S.stages) return;
    stage_ = 0;
    parity_ ^= 1;
  }

  // The following functions are for blocks without copiers.

  MINUET_DEVICE void sum_and_copy(i32 part, i32 first, i32 end) {
    Segments segments(p_, lanes_, part, first, end);
    StepPlace ahead = segments.place();
    for (i32 stage = 0; stage < S.stages; ++stage) {
      store_number(stage, read_number<true>(ahead, first + stage, end));
    }
    __syncthreads();
    follow_for_rows();
    for (i32 stage = 0; stage < S.stages - 1; ++stage) copy_step(first + stage, end, stage);
    i32 stage = 0;
    for (; segments.has_steps(); segments.pass()) {
      bool adds = false;
      MINUET_NO_UNROLL
      for (i32 step = segments.begin(); step < segments.end(); ++step, adds = true) {
        async_copy_wait<S.stages - 2>();
        async_proxy_fence();
        __syncthreads();
        multiply(stage, adds);
        const i32 number = read_number(ahead, step + S.stages, end);
        copy_step(step + S.stages - 1, end, stage == 0 ? S.stages - 1 : stage - 1);
        store_number(stage, number);
        wgmma_wait();
        stage = stage + 1 == S.stages ? 0 : stage + 1;
      }
      store(segments);
    }
    // The next part overwrites the stages.
    async_copy_wait<0>();
    __syncthreads();
  }

  /// Reads the thread's number of the rows of a step.
  template <bool Early = false>
  MINUET_DEVICE i32 read_number(StepPlace& ahead, i32 step, i32 end) const {
    if (step >= end) return -1;
    ahead.visit(step);
    const i32 pair = thread_ % kStepPairs;
    if (thread_ >= 2 * kStepPairs || pair >= ahead.pairs()) return -1;
    const PairRows rows = rows_of_pair<Early>(p_, ahead.first_pair() + pair);
    return thread_ < kStepPairs ? rows.input : rows.gradient;
  }
  MINUET_DEVICE void store_number(i32 stage, i32 number) const {
    if (thread_ < 2 * kStepPairs) numbers_at(stage)[thread_] = number;
  }
  MINUET_DEVICE void copy_step(i32 step, i32 end, i32 stage) const {
    if (step < end) {
      const i32* const numbers = numbers_at(stage);
      unsigned char* const planes = stage_at(stage);
      copy_rows<S.tile_in>(planes, input_, [&](i32 pair, i32) { return numbers[pair]; });
      copy_rows<S.tile_out>(planes + kPlanesIn * kPlaneBytes, gradient_,
                            [&](i32 pair, i32) { return numbers[kStepPairs + pair]; });
    }
    async_copy_commit();
  }

  const WeightGradientParams& p_;
  const i32 thread_;
  i32 group_ = 0, first_in_ = 0, first_out_ = 0;
  Rows input_ = {}, gradient_ = {};
  OffsetLanes& lanes_;
  LateFollower start_;
  i32 stage_ = 0;
  u32 parity_ = 0;
  float sums_[kColumnTiles][4] = {};
};

template <WarpgroupGradientSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(weight_gradient_threads(S), S.blocks) void weight_gradient_warpgroups(
    MINUET_PARAMS(WeightGradientParams) p) {
  WarpgroupGradient<S>::prepare();
  const LateFollower start(p.reads_early != 0);
  __syncthreads();
  const i32 tiles = p.groups * p.tiles_in * p.tiles_out;
  const i32 block = static_cast<i32>(blockIdx.x), walkers = static_cast<i32>(gridDim.x) / tiles;
  OffsetLanes lanes(p);
  const i32 steps = lanes.steps(), parts = static_cast<i32>(parts_of(steps, p.wanted_parts));
  // Blocks of the same part are neighbours, because they read the same rows.
  WarpgroupGradient<S>(p, block % tiles, lanes, start).sum({block / tiles, walkers, parts, steps});
}

}  // namespace minuet
