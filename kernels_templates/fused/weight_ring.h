// This file delivers the weights of a block to its warps, in one stage of shared memory for each step of the
// reduction that the block processes. The steps come in rounds of S.split steps, one for each share, where a
// share is the warps that take the same steps. For every step of its share, a warp must call either acquire()
// and release(), or pass().
#pragma once

#include "kernels_templates/core/async_copy.h"
#include "kernels_templates/core/bulk_copy.h"
#include "kernels_templates/core/wgmma.h"
#include "kernels_templates/fused/step_iterator.h"

namespace minuet {

template <FusedSpec S>
MINUET_DEVICE unsigned char* fused_ring() {
  unsigned char* const begin = dynamic_shared() + fused_ring_begin(S);
  if constexpr (S.unit == MmaUnit::Warp) return begin;
  return align_wgmma(begin);
}

/// Gives the size in bytes of one 16-byte vector for each of 32 lanes. A stage consists of such groups of
/// vectors.
constexpr i32 kLaneVectors = 32 * 16;
MINUET_DEVICE const unsigned char* lane_vector(const unsigned char* stage) {
  return stage + threadIdx.x % 32 * 16;
}

/// Delivers the weights of the block's output channels from their image (fused_image.h). In the functions
/// below, `number` counts the steps that the block processes, and `step` counts the steps of the image.
template <FusedSpec S, WeightRoad Road = S.weights>
class WeightRing;

/// This version has no ring. Each warp reads its weights from global memory.
template <FusedSpec S>
class WeightRing<S, WeightRoad::Cached> {
 public:
  MINUET_DEVICE WeightRing(const void* image, const StepIterator<S>&) : image_(image) {}
  MINUET_DEVICE static void prepare() {}
  MINUET_DEVICE static void fill() {}
  MINUET_DEVICE static i32 end(i32) { return 0; }
  MINUET_DEVICE static void pass(i32) {}
  MINUET_DEVICE void acquire(i32, i32 step) {
    stage_ = lane_vector(static_cast<const unsigned char*>(image_)) +
             static_cast<i64>(step) * fused_stage_bytes(S);
  }
  MINUET_DEVICE static void release(i32) {}
  MINUET_DEVICE static void finish() {}
  MINUET_DEVICE Vector<16> load(i32 vector) const { return load_vector<16>(stage_, vector * kLaneVectors); }

 private:
  const void* image_;
  const unsigned char* stage_ = nullptr;  // Points to the lane's first vector of the step's weights.
};

template <FusedSpec S>
class WeightRing<S, WeightRoad::AsyncCopy> {
  static constexpr i32 kRounds = S.stages / S.split;
  static_assert(kRounds >= 2 && S.stages % S.split == 0, "a ring of whole rounds, two at least");

 public:
  MINUET_DEVICE WeightRing(const void* image, const StepIterator<S>& first) : image_(image), next_(first) {}
  MINUET_DEVICE static void prepare() {}
  MINUET_DEVICE void fill() {
    for (i32 round = 0; round + 1 < kRounds; ++round) copy_round(round);
  }
  /// Returns the number of steps rounded up to whole rounds of S.split steps, because all warps take part in
  /// all rounds.
  MINUET_DEVICE static i32 end(i32 steps) { return (steps + S.split - 1) / S.split * S.split; }
  MINUET_DEVICE void pass(i32 number) {
    async_copy_wait<kRounds - 2>();
    // After this barrier, all copies of the weights of this round of S.split steps have arrived, and all
    // warps have read the weights of the round before.
    __syncthreads();
    copy_round(number / S.split + kRounds - 1);
  }
  MINUET_DEVICE void acquire(i32 number, i32) {
    pass(number);
    stage_ = stage(number);
  }
  MINUET_DEVICE static void release(i32) {}
  MINUET_DEVICE static void finish() { async_copy_wait<0>(); }
  MINUET_DEVICE Vector<16> load(i32 vector) const {
    return load_shared_vector(lane_vector(stage_) + vector * kLaneVectors);
  }

 private:
  MINUET_DEVICE static unsigned char* stage(i32 number) {
    return fused_ring<S>() + number % S.stages * fused_stage_bytes(S);
  }
  /// Copies the weights of the S.split steps of a round as one group of asynchronous copies. The group is
  /// empty past the last step.
  MINUET_DEVICE void copy_round(i32 round) {
    for (i32 share = 0; share < S.split && !next_.ended(); ++share, next_.advance()) {
      const char* const from =
          static_cast<const char*>(image_) + static_cast<i64>(next_.step()) * fused_stage_bytes(S);
      unsigned char* const to = stage(round * S.split + share);
      for (i32 byte = static_cast<i32>(threadIdx.x) * 16; byte < fused_stage_bytes(S);
           byte += fused_threads(S) * 16) {
        async_copy<16>(to + byte, from + byte);
      }
    }
    async_copy_commit();
  }

  const void* image_;
  StepIterator<S> next_;  // The iterator is at the step whose weights are copied next.
  const unsigned char* stage_ = nullptr;
};

/// Holds stages of weights that bulk copies fill. The steps of the reduction are divided into S.split shares,
/// and each stage belongs to one of them. One barrier per stage signals that it is full, another that all
/// warps of the stage's share have released it.
template <FusedSpec S>
class BulkStages {
  static_assert(S.stages >= 2 * S.split && S.stages % S.split == 0, "a ring of whole rounds, two at least");

 public:
  MINUET_DEVICE explicit BulkStages(const void* image) : image_(image) {}
  /// Initialises the barriers. A __syncthreads() must follow.
  MINUET_DEVICE static void prepare() {
    if (threadIdx.x != 0) return;
    for (i32 stage = 0; stage < S.stages; ++stage) {
      mbarrier_init(full(stage), 1);
      mbarrier_init(empty(stage), S.warps);
    }
    mbarrier_init_fence();
  }
  MINUET_DEVICE static i32 end(i32 steps) { return steps; }
  MINUET_DEVICE static void release(i32 number) {
    // Reads by wgmma() need no fence, because they use the async proxy, as bulk copies do.
    if constexpr (S.unit == MmaUnit::Warp) bulk_copy_fence();
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(empty(number));
  }
  MINUET_DEVICE const unsigned char* stage() const { return stage_; }
  MINUET_DEVICE Vector<16> load(i32 vector) const {
    return load_shared_vector(lane_vector(stage_) + vector * kLaneVectors);
  }

 protected:
  MINUET_DEVICE static MBarrier* full(i32 number) {
    return reinterpret_cast<MBarrier*>(dynamic_shared()) + number % S.stages;
  }
  MINUET_DEVICE static MBarrier* empty(i32 number) { return full(number) + S.stages; }
  /// Returns the parity of the barrier phase in which a stage is used for step `number`.
  MINUET_DEVICE static u32 phase(i32 number) { return static_cast<u32>(number / S.stages) & 1; }
  MINUET_DEVICE static unsigned char* stage(i32 number) {
    return fused_ring<S>() + number % S.stages * fused_stage_bytes(S);
  }
  /// Starts to copy the weights of step `step` of the image into the stage of step `number`, which must be
  /// empty.
  MINUET_DEVICE void copy(i32 number, i32 step) const { copy(image_, number, step); }
  MINUET_DEVICE static void copy(const void* image, i32 number, i32 step) {
    mbarrier_arrive_expect(full(number), fused_stage_bytes(S));
    const char* const from = static_cast<const char*>(image) + static_cast<i64>(step) * fused_stage_bytes(S);
    bulk_copy(stage(number), from, fused_stage_bytes(S), full(number));
  }
  /// Waits until the stage of step `number` is full.
  MINUET_DEVICE void take(i32 number) {
    mbarrier_wait(full(number), phase(number));
    stage_ = stage(number);
  }

 private:
  const void* image_;
  const unsigned char* stage_ = nullptr;
};

/// Delivers weights with bulk copies by the last warp, which only fills stages.
template <FusedSpec S>
class WeightRing<S, WeightRoad::BulkCopy> : public BulkStages<S> {
  using Stages = BulkStages<S>;

 public:
  MINUET_DEVICE WeightRing(const void* image, const StepIterator<S>& first) : Stages(image), next_(first) {}
  MINUET_DEVICE void fill() {
    if (threadIdx.x < fused_threads(S) - 32) return;
    for (i32 number = 0; threadIdx.x % 32 == 0 && !next_.ended(); ++number, next_.advance()) {
      mbarrier_wait(Stages::empty(number), Stages::phase(number) ^ 1);
      Stages::copy(number, next_.step());
    }
    __syncwarp();
  }
  /// Skips step `number`. It waits for the stage before releasing it, because a warp could otherwise release
  /// the same stage twice in one phase of its barrier.
  MINUET_DEVICE void pass(i32 number) {
    acquire(number, 0);
    Stages::release(number);
  }
  MINUET_DEVICE void acquire(i32 number, i32) { Stages::take(number); }
  MINUET_DEVICE static void finish() {}

 private:
  StepIterator<S> next_;
};

/// Delivers weights with bulk copies by the multiplying warps, which take turns in filling stages. A
/// dedicated warp would cost all others registers. If always the same warp filled stages, its warpgroup would
/// be late for its products in every step.
template <FusedSpec S>
class WeightRing<S, WeightRoad::BulkRefill> : public BulkStages<S> {
  using Stages = BulkStages<S>;
  /// Gives the number of steps between the last use of a stage and the next copy into it. Other warps may be
  /// this far behind without being waited for. Waiting cannot deadlock, because every warp waits only for
  /// warps that are further behind, and the last one can always continue.
  static constexpr i32 kLag = (S.stages > 3 * S.split ? 2 : 1) * S.split;

 public:
  MINUET_DEVICE WeightRing(const void* image, const StepIterator<S>& steps)
      : Stages(image), steps_(steps), count_(steps.count()) {}
  /// Fills all stages for the first time.
  MINUET_DEVICE void fill() {
    if (threadIdx.x % 32 == 0) {
      MINUET_NO_UNROLL
      for (i32 stage = warp(); stage < S.stages && stage < count_; stage += fused_threads(S) / 32)
        Stages::copy(stage, steps_.step_of(stage));
    }
    __syncwarp();
  }
  MINUET_DEVICE void pass(i32 number) {
    acquire(number, 0);
    Stages::release(number);
    refill(number);
  }
  MINUET_DEVICE void acquire(i32 number, i32) { Stages::take(number); }
  /// Copies the weights of a later step while the products of step `number` run, if it is this warp's turn.
  MINUET_DEVICE void refill(i32 number) {
    const i32 next = number - kLag + S.stages;
    if (number / S.split % S.warps != warp() % S.warps || number < kLag || next >= count_) return;
    if (threadIdx.x % 32 == 0) {
      mbarrier_wait(Stages::empty(next), Stages::phase(next) ^ 1);
      Stages::copy(next, steps_.step_of(next));
    }
    __syncwarp();
  }
  MINUET_DEVICE static void finish() {}

 private:
  MINUET_DEVICE static i32 warp() { return static_cast<i32>(threadIdx.x / 32); }

  StepIterator<S> steps_;
  i32 count_;
};

}  // namespace minuet
