// The kernel reduce_voxels computes, for each voxel, its coordinates, the features that follow from those of
// its first most_points points, and the number of these. The points are sorted by row, and by number within a
// row. Sums are in fp64 and in the order of the points, so that they have the same bits on every device.
//
// Each thread handles one position of the sorted list and kPointChannels channels at a time. It has work if a
// voxel begins there: it reads the first points itself, and if there are more, all threads of its warp read
// the points together. Afterwards the kernel writes zeros to the rows that no voxel has.
#pragma once

#include "kernels_templates/core/convert.h"
#include "kernels_templates/core/votes.h"
#include "kernels_templates/points/point_table.h"

namespace minuet {

/// A thread reads at most this many points of a voxel alone.
constexpr i32 kFewPoints = 4;

/// Says which points belong to the voxel that begins at a position of the sorted list.
struct VoxelRun {
  i64 begin, points;  // `points` counts the points of the list.
  u32 key;
  /// Returns true if point k of the voxel exists and counts for its features.
  MINUET_DEVICE bool has(const VoxelizeParams& p, i64 k) const {
    return k < p.most_points && begin + k < points && fresh(p.sorted_keys + begin + k) == key;
  }
};

/// Reads the numbers of channels first, first + 1, ... of a point, and zeros past the last channel.
MINUET_DEVICE void read_features(const VoxelizeParams& p, i64 position, i32 first,
                                 float (&values)[kPointChannels]) {
  const float* const row = p.points.points + i64{fresh(p.sorted_values + position)} * p.points.ld + p.column;
  MINUET_UNROLL
  for (i32 c = 0; c < kPointChannels; ++c) values[c] = first + c < p.channels ? fresh(row + first + c) : 0;
}

/// Combines the points of a voxel, which all threads of the warp read together, and returns their number. All
/// 32 threads must call it with the same arguments.
template <PointReduction R>
MINUET_DEVICE i64 reduce_together(const VoxelizeParams& p, const VoxelRun& run, i32 first_channel,
                                  double (&sums)[kPointChannels]) {
  for (i64 first = 0;; first += 32) {
    const i64 k = first + (threadIdx.x & 31u);
    const bool is_there = run.has(p, k);
    float values[kPointChannels] = {};
    if (is_there) read_features(p, run.begin + k, first_channel, values);
    const i32 count = __popc(__ballot_sync(~0u, is_there));
    for (i32 lane = 0; lane < count; ++lane) {
      MINUET_UNROLL
      for (i32 c = 0; c < kPointChannels; ++c)
        add_point<R>(sums[c], static_cast<double>(__shfl_sync(~0u, values[c], lane)), first + lane);
    }
    if (count < 32) return first + count;
  }
}

template <DType T>
MINUET_DEVICE void store_feature(void* features, i64 element, float value) {
  if constexpr (dtype_bytes(T) == 4) {
    static_cast<float*>(features)[element] = value;
  } else {
    static_cast<u16*>(features)[element] = to_16_bits<T>(value);
  }
}

template <ReduceVoxelsSpec S>
MINUET_DEVICE void store_voxel(const VoxelizeParams& p, const VoxelRun& run, i32 first_channel, i64 count,
                               const double (&sums)[kPointChannels]) {
  const i64 row = run.key;
  MINUET_UNROLL
  for (i32 c = 0; c < kPointChannels; ++c) {
    const i32 channel = first_channel + c;
    if (channel >= p.channels) continue;
    store_feature<S.io>(p.features, row * p.features_ld + channel,
                        feature_of_points<S.reduction>(sums[c], count));
  }
  if (first_channel != 0) return;
  Cell<S.ndim> cell;
  read_cell<S.ndim>(p.points, p.grid, fresh(p.sorted_values + run.begin), cell);
  i32* const coordinate = p.coordinates + row * (1 + S.ndim);
  coordinate[0] = cell.batch;
  MINUET_UNROLL
  for (i32 a = 0; a < S.ndim; ++a) coordinate[1 + a] = cell.at[a];
  if (p.points_of != nullptr) p.points_of[row] = static_cast<i32>(count);
}

/// Counts the points that count for the features of a voxel, and those that do not because it has enough.
MINUET_DEVICE void count_kept(const VoxelizeParams& p, i64 position, i64 points) {
  i32 counter = -1;
  if (position < points) {
    const u32 key = fresh(p.sorted_keys + position);
    const i64 before = position - p.most_points;
    const bool is_past = before >= 0 && fresh(p.sorted_keys + before) == key;
    if (key != p.past_key) counter = is_past ? kCountPastPoints : kCountKept;
  }
  count_equal(reinterpret_cast<u32*>(p.counts), counter);
}

/// Writes zeros to the rows from `voxels` to the capacity.
template <ReduceVoxelsSpec S>
MINUET_DEVICE void pad_voxels(const VoxelizeParams& p) {
  const i64 voxels = fresh(p.counts + kCountVoxels), rows = p.capacity - voxels;
  const i64 thread = grid_thread(S.threads), step = grid_threads(S.threads);
  RowIterator element(thread, step, p.channels);
  for (i64 i = thread; i < rows * p.channels; i += step, element.advance())
    store_feature<S.io>(p.features, (voxels + element.outer()) * p.features_ld + element.inner(), 0);
  for (i64 i = thread; i < rows * (1 + S.ndim); i += step) p.coordinates[voxels * (1 + S.ndim) + i] = 0;
  for (i64 i = thread; p.points_of != nullptr && i < rows; i += step) p.points_of[voxels + i] = 0;
}

template <ReduceVoxelsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void reduce_voxels(MINUET_PARAMS(VoxelizeParams) p) {
  follow_last_launch();
  const i64 points = fresh(p.point_count), lane = threadIdx.x & 31u;
  const i64 groups = p.channels <= kPointChannels ? 1 : (p.channels + kPointChannels - 1) / kPointChannels;
  // Each group of channels begins with a new warp.
  const i64 padded = (points + 31) / 32 * 32;
  for (i64 first = grid_thread(S.threads) - lane; first < padded * groups; first += grid_threads(S.threads)) {
    const i64 group = quotient(first, padded), position = first - group * padded + lane;
    i32 channel = static_cast<i32>(group) * kPointChannels;
    if (group == 0) count_kept(p, position, points);
    VoxelRun run{position, points, p.past_key};
    if (position < points) run.key = fresh(p.sorted_keys + position);
    const bool begins =
        run.key != p.past_key && (position == 0 || fresh(p.sorted_keys + position - 1) != run.key);
    double sums[kPointChannels] = {};
    float values[kFewPoints][kPointChannels];
    bool there[kFewPoints + 1];
    // All loads are in flight before the first number is added.
    MINUET_UNROLL
    for (i32 k = 0; k <= kFewPoints; ++k) there[k] = begins && run.has(p, k);
    MINUET_UNROLL
    for (i32 k = 0; k < kFewPoints; ++k) {
      if (there[k]) read_features(p, position + k, channel, values[k]);
    }
    i64 count = 0;
    MINUET_UNROLL
    for (i32 k = 0; k < kFewPoints; ++k) {
      // The points of a voxel are consecutive, so those after one that is not there are not there either.
      if (!there[k]) continue;
      MINUET_UNROLL
      for (i32 c = 0; c < kPointChannels; ++c)
        add_point<S.reduction>(sums[c], static_cast<double>(values[k][c]), k);
      count = k + 1;
    }
    if (begins && !there[kFewPoints]) store_voxel<S>(p, run, channel, count, sums);
    for (u32 todo = __ballot_sync(~0u, there[kFewPoints]); todo != 0; todo &= todo - 1) {
      const i32 leader = lowest_bit(todo);
      const VoxelRun long_run{first - group * padded + leader, points, __shfl_sync(~0u, run.key, leader)};
      double all[kPointChannels] = {};
      const i64 all_count = reduce_together<S.reduction>(p, long_run, channel, all);
      if (lane == leader) store_voxel<S>(p, long_run, channel, all_count, all);
    }
  }
  pad_voxels<S>(p);
}

}  // namespace minuet
