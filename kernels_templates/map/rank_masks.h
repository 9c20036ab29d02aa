// The kernel rank_masks computes a sort key for each query of each view (ViewJob). keys[i] is the rank of the
// query's mask (rank_of_code()) plus the number of ranks of the views before, and queries[i] is the query.
// After sorting by these keys, the queries of each view are contiguous, and those with similar masks are near
// each other. Each thread handles one query, and makes the query's mask first if this is missing.
//
// A rank depends on bits from all over the mask. Each block finds ranks with tables that are indexed by bytes
// (RankTables). A block makes the tables anew for each view, so it processes consecutive blocks of queries,
// which belong to few views.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/jobs.h"
#include "kernels_templates/core/ordered_places.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/core/view_rows.h"
#include "kernels_templates/map/children.h"

namespace minuet {

/// Holds lookup tables of one view. They map each byte of a one-word mask to bits of its code (mask_code()),
/// and each byte of a code to an interval of ranks (byte_interval()). If the view has at most 8 offsets, a
/// single table maps each mask to its rank.
class RankTables {
 public:
  /// Makes the tables of a view. All threads of a block must call this function, after a barrier that ends
  /// all use of the previous tables.
  template <i32 Threads>
  MINUET_DEVICE void make(const ViewJob& job) {
    const i32 thread = static_cast<i32>(threadIdx.x);
    for (i32 bit = thread; bit < 32; bit += Threads) of_bit_[bit] = 0;
    for (i32 i = thread; i < 256; i += Threads)
      of_code_byte_[i] = packed(byte_interval(static_cast<u32>(i), job.ranks.share));
    __syncthreads();
    for (i32 i = thread; i < job.ranked && job.geometry.volume <= 32; i += Threads)
      of_bit_[job.offsets[i]] = 1u << (31 - i);
    __syncthreads();
    const bool is_single = has_one_byte(job);
    for (i32 i = thread; i < (is_single ? 256 : 4 * 256); i += Threads) {
      u32 code = 0;
      MINUET_UNROLL
      for (i32 bit = 0; bit < 8; ++bit) code |= (i >> bit & 1) != 0 ? of_bit_[i / 256 * 8 + bit] : 0u;
      of_mask_byte_[i / 256][i % 256] = is_single ? rank_of(code, job.ranks) : code;
    }
    __syncthreads();
  }
  /// Returns the rank of query `q`, of which `mask` is the first mask word.
  MINUET_DEVICE u32 rank(const ViewJob& job, u32 mask, i64 q, i64 queries) const {
    if (has_one_byte(job)) return of_mask_byte_[0][mask & 255u];
    const u32 code = job.geometry.volume <= 32
                         ? of_mask_byte_[0][mask & 255u] | of_mask_byte_[1][mask >> 8 & 255u] |
                               of_mask_byte_[2][mask >> 16 & 255u] | of_mask_byte_[3][mask >> 24]
                         : mask_code(job.masks, queries, q, job.offsets, job.ranked);
    return rank_of(code, job.ranks);
  }

 private:
  MINUET_DEVICE static bool has_one_byte(const ViewJob& job) { return job.geometry.volume <= 8; }
  MINUET_DEVICE u32 rank_of(u32 code, const MaskRanks& ranks) const {
    return rank_of_code(code, ranks, [this](u32 byte) {
      const u64 interval = of_code_byte_[byte];
      return RankInterval{static_cast<u32>(interval), static_cast<u32>(interval >> 32),
                          static_cast<u32>(count_bits(byte)) & 1u};
    });
  }
  /// Returns an interval as one word, which takes one load. RankInterval::is_odd follows from the byte.
  MINUET_DEVICE static u64 packed(const RankInterval& interval) {
    return u64{interval.size} << 32 | interval.begin;
  }

  u32 of_bit_[32];
  u32 of_mask_byte_[4][256];
  u64 of_code_byte_[256];
};

/// Returns the first word of a query's mask. If the masks are not made yet, the function makes and stores
/// all words of this mask.
template <RankMasksSpec S>
MINUET_DEVICE u32 find_mask(const ViewJob& job, const VoxelIndex* index, i64 q, i64 queries) {
  if (job.has_masks) return fresh(job.masks + q);
  if (job.source == RowSource::Parents) {
    const i32 place = place_of_row(index->level[job.query_level], q);
    return job.masks[q] = 1u << child_offset<S.ndim>(job.geometry, place);
  }
  for (i32 word = mask_words(job.geometry.volume) - 1; word > 0; --word)
    job.masks[word * queries + q] = mask_word(rows_of(job), q, word);
  return job.masks[q] = mask_word(rows_of(job), q, 0);
}

template <RankMasksSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void rank_masks(MINUET_PARAMS(ViewsParams) p) {
  follow_last_launch();
  __shared__ ViewStarts starts;
  __shared__ RankTables tables;
  find_view_starts<S.threads, false>(starts, p, [](const ViewJob&) { return true; });
  const i64 thread = grid_thread(S.threads), blocks = starts.blocks[p.job_count];
  if (thread == 0) *p.key_count = static_cast<i32>(starts.queries[p.job_count]);
  for (i64 i = thread; i < p.sort_state_words; i += grid_threads(S.threads)) p.sort_state[i] = 0;
  JobIterator walk(starts.blocks);
  // Gives the index of the view (ViewJob) for which `tables` are made, or -1 before the first.
  i32 made = -1;
  const i64 end = blocks * (blockIdx.x + i64{1}) / gridDim.x;
  for (i64 block = blocks * blockIdx.x / gridDim.x; block < end; ++block) {
    const i32 j = walk.advance(block);
    const ViewJob& job = p.jobs[j];
    if (made != j) {
      __syncthreads();
      tables.make<S.threads>(job);
    }
    made = j;
    const i64 q = walk.inner(block) * S.threads + threadIdx.x, queries = *job.query_count;
    if (q >= queries) continue;
    const u32 mask = find_mask<S>(job, p.index, q, queries);
    p.keys[starts.queries[j] + q] = job.first_key + tables.rank(job, mask, q, queries);
    p.queries[starts.queries[j] + q] = static_cast<u32>(q);
  }
}

}  // namespace minuet
