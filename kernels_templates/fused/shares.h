// This file adds the sums of the warps of a block, and of the blocks of a cluster, that compute the same
// output rows from different parts of the reduction. It adds them in a fixed order and exchanges them in the
// shared memory that held the weights before. The warps of a block that take the same steps of the reduction
// form a share.
#pragma once

#include "kernels_templates/core/integers.h"
#include "kernels_templates/fused/thread_place.h"

namespace minuet {

template <FusedSpec S>
MINUET_DEVICE unsigned char* fused_shares() {
  return dynamic_shared() + fused_ring_begin(S);
}

/// Returns the byte position of this thread's 16-byte vector number `vector` among the vectors of all threads
/// of a share, which is the warps that take the same steps of the reduction.
template <FusedSpec S>
MINUET_DEVICE i64 share_byte(const ThreadPlace<S>& place, i32 vector) {
  return static_cast<i64>((vector * S.warps + place.row_warp) * 32 + place.lane) * 16;
}

MINUET_DEVICE void put_sums(unsigned char* to, const float (&sums)[4]) {
  *reinterpret_cast<Vector<16>*>(to) = from_floats<DType::F32, 16>(sums);
}
MINUET_DEVICE void put_sums(unsigned char* to, const i32 (&sums)[4]) {
  Vector<16> words;
  MINUET_UNROLL
  for (i32 i = 0; i < 4; ++i) words.words[i] = static_cast<u32>(sums[i]);
  *reinterpret_cast<Vector<16>*>(to) = words;
}
MINUET_DEVICE void add_sums(const unsigned char* from, float (&sums)[4]) {
  float part[4];
  to_floats<DType::F32>(load_shared_vector(from), part);
  MINUET_UNROLL
  for (i32 i = 0; i < 4; ++i) sums[i] += part[i];
}
MINUET_DEVICE void add_sums(const unsigned char* from, i32 (&sums)[4]) {
  const Vector<16> part = load_shared_vector(from);
  MINUET_UNROLL
  for (i32 i = 0; i < 4; ++i) sums[i] = wrapping_sum(sums[i], static_cast<i32>(part.words[i]));
}

/// Adds the sums of the other shares to those of the first share. A share is the warps of a block that take
/// the same steps of the reduction.
template <FusedSpec S>
MINUET_DEVICE void add_warps(const ThreadPlace<S>& place, FusedSums<S>& sums) {
  constexpr i32 kVectors = FusedLane<S>::kTiles * FusedLane<S>::kVectors;
  constexpr i64 kShareBytes = static_cast<i64>(fused_block_rows(S)) * S.columns * 4;
  unsigned char* const others = fused_shares<S>();
  // After this barrier, the memory of the weights can be reused, because all reads of the weights are done,
  // and no copy into that memory is in flight.
  __syncthreads();
  if (place.share != 0 && place.share < S.split) {
    MINUET_UNROLL
    for (i32 v = 0; v < kVectors; ++v)
      put_sums(others + (place.share - 1) * kShareBytes + share_byte<S>(place, v), sums[v]);
  }
  __syncthreads();
  if (place.share != 0) return;
  for (i32 share = 0; share + 1 < S.split; ++share) {
    MINUET_UNROLL
    for (i32 v = 0; v < kVectors; ++v)
      add_sums(others + share * kShareBytes + share_byte<S>(place, v), sums[v]);
  }
}

/// Sends to each of the other blocks of the cluster the sums of the tiles whose output that block writes.
template <FusedSpec S, i32 Rank = 0>
MINUET_DEVICE void send_sums(const ThreadPlace<S>& place, const FusedSums<S>& sums) {
  constexpr i32 kEach = FusedLane<S>::kVectors;
  constexpr FusedTiles kOwn = fused_own_tiles(S, Rank);
  constexpr i64 kBlockBytes = share_block_bytes(S);
  if (Rank != place.rank) {
    unsigned char* const to =
        map_shared(fused_shares<S>(), Rank) + (place.rank < Rank ? place.rank : place.rank - 1) * kBlockBytes;
    MINUET_UNROLL
    for (i32 v = 0; v < kOwn.count * kEach; ++v)
      put_sums(to + share_byte<S>(place, v), sums[kOwn.first * kEach + v]);
  }
  if constexpr (Rank + 1 < S.cluster) send_sums<S, Rank + 1>(place, sums);
}
template <FusedSpec S, i32 Rank = 0>
MINUET_DEVICE void receive_sums(const ThreadPlace<S>& place, FusedSums<S>& sums) {
  constexpr i32 kEach = FusedLane<S>::kVectors;
  constexpr FusedTiles kOwn = fused_own_tiles(S, Rank);
  constexpr i64 kBlockBytes = share_block_bytes(S);
  if (Rank == place.rank) {
    for (i32 other = 0; other + 1 < S.cluster; ++other) {
      MINUET_UNROLL
      for (i32 v = 0; v < kOwn.count * kEach; ++v)
        add_sums(fused_shares<S>() + other * kBlockBytes + share_byte<S>(place, v),
                 sums[kOwn.first * kEach + v]);
    }
  }
  if constexpr (Rank + 1 < S.cluster) receive_sums<S, Rank + 1>(place, sums);
}

template <FusedSpec S>
MINUET_DEVICE void add_blocks(const ThreadPlace<S>& place, FusedSums<S>& sums) {
  cluster_sync();  // After this barrier, the memory of the weights can be reused for sums.
  if (place.share == 0) send_sums<S>(place, sums);
  cluster_sync();
  if (place.share == 0) receive_sums<S>(place, sums);
}

}  // namespace minuet
