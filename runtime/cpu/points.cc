#include "runtime/cpu/points.h"

#include <algorithm>
#include <limits>

#include "kernels_templates/shared/elements.h"
#include "kernels_templates/shared/map_kernels.h"
#include "runtime/cpu/corners.h"
#include "runtime/cpu/dispatch.h"
#include "runtime/engine/arena.h"

namespace minuet {
namespace {

template <class Body>
void with_reduction(PointReduction reduction, const Body& body) {
  switch (reduction) {
    case PointReduction::Mean:
      return body.template operator()<PointReduction::Mean>();
    case PointReduction::Max:
      return body.template operator()<PointReduction::Max>();
    case PointReduction::Sum:
      return body.template operator()<PointReduction::Sum>();
    case PointReduction::First:
      return body.template operator()<PointReduction::First>();
  }
}

/// Divides the workspace of voxelize().
struct VoxelPlaces {
  i32 *slots, *coordinates, *row_of, *ends, *listed;
  i64 bytes;
  VoxelPlaces(i32 ndim, i64 points, char* base) {
    Placement parts(base, /*idle=*/false);
    slots = parts.take<i32>(point_slots(points));
    coordinates = parts.take<i32>(points * (1 + ndim));
    row_of = parts.take<i32>(points);
    ends = parts.take<i32>(points + 1);
    listed = parts.take<i32>(points);
    bytes = parts.bytes();
  }
};

/// Finds the row of each point among all voxels, or -1, and returns the number of voxels.
template <i32 Ndim>
i64 find_rows(const VoxelizeRequest& request, i64 points, const VoxelPlaces& places) {
  const VoxelizeProblem& problem = request.choice->problem;
  RowTable<Ndim> table(places.slots, point_slots(request.points.most), places.coordinates);
  table.clear();
  i64 voxels = 0;
  for (i64 i = 0; i < points; ++i) {
    i32* const coordinate = places.coordinates + voxels * (1 + Ndim);
    coordinate[0] = request.points.batch ? request.points.batch[i] : 0;
    const float* const position = request.points.points + i * request.points.ld;
    const PointFate fate = cell_of_point<Ndim>(problem.grid, position, coordinate + 1);
    places.row_of[i] = -1;
    if (fate == PointFate::NotFinite) {
      ++request.counts[kCountNotFinite];
    } else if (fate == PointFate::Outside) {
      ++request.counts[kCountOutside];
    } else if (coordinate[0] < 0) {
      *request.status |= kStatusNegativeBatch;
    } else if (problem.batch_size > 0 && coordinate[0] >= problem.batch_size) {
      *request.status |= kStatusOutOfBounds;
    } else {
      i32& slot = table.slot_of(coordinate);
      if (slot == kFreeSlot) slot = static_cast<i32>(voxels++);
      places.row_of[i] = slot;
    }
  }
  return voxels;
}

/// Counts and drops the points past the limits, and lists the others by row. Afterwards the points of row r
/// are those from ends[r - 1], or 0, to ends[r].
void list_points(const VoxelizeRequest& request, i64 points, i64 voxels, const VoxelPlaces& places) {
  const i64 limit = request.choice->problem.most_points_per_voxel;
  std::fill_n(places.ends, voxels + 1, 0);
  for (i64 i = 0; i < points; ++i) {
    i32& row = places.row_of[i];
    if (row >= voxels) {
      row = -1;
      ++request.counts[kCountPastVoxels];
    }
    if (row < 0) continue;
    i32& size = places.ends[row + 1];
    const bool is_past = limit > 0 && size >= limit;
    ++request.counts[is_past ? kCountPastPoints : kCountKept];
    if (!is_past) ++size;
  }
  for (i64 r = 0; r < voxels; ++r) places.ends[r + 1] += places.ends[r];
  // Each point moves ends[row], which is the beginning of the row, towards the end of the row.
  std::copy_n(places.ends, voxels, places.slots);
  for (i64 i = 0; i < points; ++i) {
    const i32 row = places.row_of[i];
    if (row >= 0 && places.slots[row] < places.ends[row + 1])
      places.listed[places.slots[row]++] = static_cast<i32>(i);
  }
}

template <DType T, PointReduction R>
void reduce_row(const VoxelizeRequest& request, const VoxelPlaces& places, i64 row) {
  using Type = Element<T>;
  const VoxelizeProblem& problem = request.choice->problem;
  const i32 *const begin = places.listed + places.ends[row], *const end =
                                                                 places.listed + places.ends[row + 1];
  auto* const features = static_cast<typename Type::Stored*>(request.features) + row * request.features_ld;
  for (i32 c = 0; c < problem.channels; ++c) {
    double sum = 0;
    for (const i32* point = begin; point != end; ++point) {
      const i64 at = *point * request.points.ld + problem.column + c;
      add_point<R>(sum, static_cast<double>(request.points.points[at]), point - begin);
    }
    features[c] = Type::store(feature_of_points<R>(sum, end - begin));
  }
  if (request.points_of) request.points_of[row] = static_cast<i32>(end - begin);
}

void pad(const VoxelizeRequest& request, i64 voxels) {
  const VoxelizeProblem& problem = request.choice->problem;
  const i64 bytes = dtype_bytes(storage_type(problem.dtype));
  for (i64 row = voxels; row < request.capacity; ++row) {
    std::fill_n(static_cast<char*>(request.features) + row * request.features_ld * bytes,
                problem.channels * bytes, 0);
    std::fill_n(request.coordinates + row * (1 + problem.ndim), 1 + problem.ndim, 0);
    if (request.points_of) request.points_of[row] = 0;
  }
}

/// Adds up the features of the corners. `sums` has room for a row.
template <DType T>
void add_corners(const DevoxelizeRequest& request, const Corners& corners, float* sums, void* output) {
  using Type = Element<T>;
  const DevoxelizeProblem& problem = request.choice->problem;
  std::fill_n(sums, problem.channels, 0.0f);
  for (i32 k = 0; k < problem.corners(); ++k) {
    if (corners.rows[k] < 0) continue;
    const auto* const row =
        static_cast<const typename Type::Stored*>(request.features) + i64{corners.rows[k]} * problem.channels;
    for (i32 c = 0; c < problem.channels; ++c)
      sums[c] = rounded_sum(sums[c], rounded_product(corners.weights[k], Type::load(row[c])));
  }
  std::transform(sums, sums + problem.channels, static_cast<typename Type::Stored*>(output), Type::store);
}

}  // namespace

i64 CpuPoints::workspace_bytes(const VoxelizeChoice& choice, i64 most_points) const {
  return VoxelPlaces(choice.problem.ndim, most_points, nullptr).bytes;
}

i64 CpuPoints::workspace_bytes(const DevoxelizeChoice& choice, i64, i64 most_rows) const {
  const auto word = static_cast<i64>(sizeof(i32));
  return choice.problem.blends()
             ? (point_slots(most_rows) + i64{choice.problem.channels} * pool_.threads()) * word
             : 0;
}

llvm::Error CpuPoints::voxelize(const VoxelizeRequest& request) {
  const VoxelizeProblem& problem = request.choice->problem;
  const VoxelPlaces places(problem.ndim, request.points.most, static_cast<char*>(request.workspace));
  std::fill_n(request.counts, kPointCounts, 0);
  *request.status = 0;
  const i64 points = count_within(request.points.count, request.points.most);
  if (request.points.count && *request.points.count != points) *request.status |= kStatusPastCapacity;
  i64 voxels = 0;
  with_axes(problem.ndim, [&]<i32 Ndim>() { voxels = find_rows<Ndim>(request, points, places); });
  if (problem.most_voxels > 0) voxels = std::min(voxels, problem.most_voxels);
  if (*request.status == 0 && voxels > request.capacity) *request.status = kStatusPastCapacity;
  const bool is_valid = *request.status == 0;
  if (!is_valid) voxels = 0;
  request.counts[kCountVoxels] = static_cast<i32>(voxels);
  if (is_valid) list_points(request, points, voxels, places);
  if (request.rows) {
    std::fill_n(request.rows, request.points.most, -1);
    if (is_valid) std::copy_n(places.row_of, points, request.rows);
  }
  std::copy_n(places.coordinates, voxels * (1 + problem.ndim), request.coordinates);
  pool_.run((voxels + kPointRowsPerTask - 1) / kPointRowsPerTask, [&](i64 task, i32) {
    with_storage(problem.dtype, [&]<DType T>() {
      with_reduction(problem.reduction, [&]<PointReduction R>() {
        for (i64 row = task * kPointRowsPerTask; row < std::min(voxels, (task + 1) * kPointRowsPerTask);
             ++row)
          reduce_row<T, R>(request, places, row);
      });
    });
  });
  pad(request, voxels);
  return llvm::Error::success();
}

llvm::Error CpuPoints::devoxelize(const DevoxelizeRequest& request) {
  const DevoxelizeProblem& problem = request.choice->problem;
  const i64 points = count_within(request.points.count, request.points.most);
  const i64 rows = count_within(request.row_count, request.most_rows);
  const i64 row_bytes = i64{problem.channels} * dtype_bytes(storage_type(problem.dtype));
  char* const output = static_cast<char*>(request.output);
  std::fill_n(output + points * row_bytes, (request.points.most - points) * row_bytes, 0);
  const i64 tasks = (points + kPointRowsPerTask - 1) / kPointRowsPerTask;
  if (!problem.blends()) {
    pool_.run(tasks, [&](i64 task, i32) {
      for (i64 i = task * kPointRowsPerTask; i < std::min(points, (task + 1) * kPointRowsPerTask); ++i) {
        const i64 row = request.rows[i];
        const bool is_there = row >= 0 && row < rows;
        if (is_there) {
          std::copy_n(static_cast<const char*>(request.features) + row * row_bytes, row_bytes,
                      output + i * row_bytes);
        } else {
          std::fill_n(output + i * row_bytes, row_bytes, 0);
        }
      }
    });
    return llvm::Error::success();
  }
  const i64 slots = point_slots(request.most_rows);
  auto* const words = static_cast<i32*>(request.workspace);
  auto* const sums = reinterpret_cast<float*>(words + slots);
  with_axes(problem.ndim, [&]<i32 Ndim>() {
    RowTable<Ndim> table(words, slots, request.coordinates);
    table.clear();
    table.add_rows(rows);
    pool_.run(tasks, [&](i64 task, i32 thread) {
      float* const own = sums + i64{thread} * problem.channels;
      Corners corners;
      for (i64 i = task * kPointRowsPerTask; i < std::min(points, (task + 1) * kPointRowsPerTask); ++i) {
        find_corners<Ndim>(problem, request.points, table, i, corners);
        with_storage(problem.dtype,
                     [&]<DType T>() { add_corners<T>(request, corners, own, output + i * row_bytes); });
      }
    });
  });
  return llvm::Error::success();
}

}  // namespace minuet
