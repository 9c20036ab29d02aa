// The kernel reduce_voxels computes, for each voxel, its coordinates, the features that follow from those of
// its first most_points points, and the number of these. Sums are in fp64 and in the order of the points, so
// that they have the same bits on every device.
//
// Each thread handles one voxel and kPointChannels channels at a time. It reads the points of a voxel alone
// if there are few, and otherwise all threads of its warp read them together. The numbers of a voxel's points
// are brought into ascending order first, unless the points were sorted (VoxelizeParams::sort_count).
// Afterwards the kernel writes zeros to the rows that no voxel has.
#pragma once

#include "kernels_templates/core/convert.h"
#include "kernels_templates/points/point_table.h"

namespace minuet {

/// A thread reads at most this many points of a voxel alone.
constexpr i32 kFewPoints = 4;
/// Stands for a point that is not there. It is larger than every number of a point.
constexpr u32 kNoPoint = ~0u;

/// Says where the points of a voxel are in VoxelizeParams::list. The first `count` of the `listed` points
/// count for its features.
struct VoxelPoints {
  i64 begin = 0, listed = 0, count = 0;

  VoxelPoints() = default;
  MINUET_DEVICE VoxelPoints(const VoxelizeParams& p, i64 row)
      : begin(fresh(p.begins + row)), listed(fresh(p.begins + row + 1) - begin) {
    count = listed < p.most_points ? listed : p.most_points;
  }
  MINUET_DEVICE u32 point(const VoxelizeParams& p, i64 k) const {
    return k < listed ? fresh(p.list + begin + k) : kNoPoint;
  }
};

MINUET_HD void order_pair(u32& first, u32& second) {
  const u32 greater = first < second ? second : first;
  first = first < second ? first : second;
  second = greater;
}
/// Brings the numbers of a thread into ascending order, by a sorting network.
MINUET_HD void order_few(u32 (&numbers)[kFewPoints]) {
  static_assert(kFewPoints == 4, "the network has four inputs");
  order_pair(numbers[0], numbers[1]), order_pair(numbers[2], numbers[3]);
  order_pair(numbers[0], numbers[2]), order_pair(numbers[1], numbers[3]);
  order_pair(numbers[1], numbers[2]);
}
/// Returns to each lane of a warp its number in the ascending order of the numbers of all lanes, by a bitonic
/// sorting network. All 32 lanes must call it.
MINUET_DEVICE u32 order_in_warp(u32 number) {
  const u32 lane = threadIdx.x & 31u;
  MINUET_UNROLL
  for (u32 size = 2; size <= 32; size *= 2) {
    MINUET_UNROLL
    for (u32 distance = size / 2; distance != 0; distance /= 2) {
      const u32 other = __shfl_xor_sync(~0u, number, distance);
      const bool takes_lower = ((lane & distance) == 0) == ((lane & size) == 0);
      if (takes_lower == (other < number)) number = other;
    }
  }
  return number;
}

/// Reads the numbers of channels first, first + 1, ... of a point, and zeros past the last channel.
MINUET_DEVICE void read_features(const VoxelizeParams& p, u32 point, i32 first,
                                 float (&values)[kPointChannels]) {
  const float* const row = p.points.points + i64{point} * p.points.ld + p.column;
  MINUET_UNROLL
  for (i32 c = 0; c < kPointChannels; ++c) values[c] = first + c < p.channels ? fresh(row + first + c) : 0;
}

/// Combines the points of a voxel, which all threads of the warp read together. All 32 threads must call it
/// with the same arguments.
template <PointReduction R>
MINUET_DEVICE void reduce_together(const VoxelizeParams& p, const VoxelPoints& points, bool sorted,
                                   i32 first_channel, double (&sums)[kPointChannels]) {
  for (i64 first = 0; first < points.count; first += 32) {
    const i64 k = first + (threadIdx.x & 31u);
    u32 point = points.point(p, k);
    // There is only one round if the points are not sorted.
    if (!sorted) point = order_in_warp(point);
    float values[kPointChannels] = {};
    if (k < points.count) read_features(p, point, first_channel, values);
    const i64 left = points.count - first;
    for (i32 lane = 0; lane < (left < 32 ? left : 32); ++lane) {
      MINUET_UNROLL
      for (i32 c = 0; c < kPointChannels; ++c)
        add_point<R>(sums[c], static_cast<double>(__shfl_sync(~0u, values[c], lane)), first + lane);
    }
  }
}

/// Combines the points of a voxel that has at most kFewPoints.
template <PointReduction R>
MINUET_DEVICE void reduce_alone(const VoxelizeParams& p, const VoxelPoints& points, i32 first_channel,
                                double (&sums)[kPointChannels]) {
  u32 numbers[kFewPoints];
  float values[kFewPoints][kPointChannels];
  // All loads are in flight before the first number is added.
  MINUET_UNROLL
  for (i32 k = 0; k < kFewPoints; ++k) numbers[k] = points.point(p, k);
  order_few(numbers);
  MINUET_UNROLL
  for (i32 k = 0; k < kFewPoints; ++k) {
    if (k < points.count) read_features(p, numbers[k], first_channel, values[k]);
  }
  MINUET_UNROLL
  for (i32 k = 0; k < kFewPoints; ++k) {
    if (k >= points.count) continue;
    MINUET_UNROLL
    for (i32 c = 0; c < kPointChannels; ++c) add_point<R>(sums[c], static_cast<double>(values[k][c]), k);
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
MINUET_DEVICE void store_voxel(const VoxelizeParams& p, i64 row, const VoxelPoints& points, i32 first_channel,
                               const double (&sums)[kPointChannels]) {
  MINUET_UNROLL
  for (i32 c = 0; c < kPointChannels; ++c) {
    const i32 channel = first_channel + c;
    if (channel >= p.channels) continue;
    store_feature<S.io>(p.features, row * p.features_ld + channel,
                        feature_of_points<S.reduction>(sums[c], points.count));
  }
  if (first_channel != 0) return;
  // All points of a voxel have the same cell, whatever their order is.
  Cell<S.ndim> cell;
  read_cell<S.ndim>(p.points, p.grid, points.point(p, 0), cell);
  i32* const coordinate = p.coordinates + row * (1 + S.ndim);
  coordinate[0] = cell.batch;
  MINUET_UNROLL
  for (i32 a = 0; a < S.ndim; ++a) coordinate[1 + a] = cell.at[a];
  if (p.points_of != nullptr) p.points_of[row] = static_cast<i32>(points.count);
}

/// Counts the points that count for the features of a voxel, and those that do not because it has enough. All
/// 32 threads of a warp must call it with the points of their voxels.
MINUET_DEVICE void count_kept(const VoxelizeParams& p, const VoxelPoints& points) {
  const u32 kept = __reduce_add_sync(~0u, static_cast<u32>(points.count));
  const u32 past = __reduce_add_sync(~0u, static_cast<u32>(points.listed - points.count));
  if ((threadIdx.x & 31u) != 0) return;
  u32* const counts = reinterpret_cast<u32*>(p.counts);
  if (kept != 0) atomicAdd(counts + kCountKept, kept);
  if (past != 0) atomicAdd(counts + kCountPastPoints, past);
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
  const i64 voxels = fresh(p.counts + kCountVoxels), lane = threadIdx.x & 31u;
  const i64 groups = p.channels <= kPointChannels ? 1 : (p.channels + kPointChannels - 1) / kPointChannels;
  const bool sorted = fresh(p.sort_count) != 0;
  // Each group of channels begins with a new warp.
  const i64 padded = (voxels + 31) / 32 * 32;
  for (i64 first = grid_thread(S.threads) - lane; first < padded * groups; first += grid_threads(S.threads)) {
    const i64 group = quotient(first, padded), first_row = first - group * padded, row = first_row + lane;
    const i32 channel = static_cast<i32>(group) * kPointChannels;
    VoxelPoints points;
    if (row < voxels) points = VoxelPoints(p, row);
    if (group == 0) count_kept(p, points);
    const bool is_long = points.listed > kFewPoints;
    if (points.listed > 0 && !is_long) {
      double sums[kPointChannels] = {};
      reduce_alone<S.reduction>(p, points, channel, sums);
      store_voxel<S>(p, row, points, channel, sums);
    }
    for (u32 todo = __ballot_sync(~0u, is_long); todo != 0; todo &= todo - 1) {
      const i32 leader = lowest_bit(todo);
      const VoxelPoints long_points(p, first_row + leader);
      double sums[kPointChannels] = {};
      reduce_together<S.reduction>(p, long_points, sorted, channel, sums);
      if (lane == leader) store_voxel<S>(p, row, long_points, channel, sums);
    }
  }
  pad_voxels<S>(p);
}

}  // namespace minuet
