#include "codegen/choose/ops/points.h"

#include <cmath>

#include "codegen/base/number_text.h"

namespace minuet {
namespace {

constexpr i64 kMostPoints = (i64{1} << 30) - 1;  // A sort has fewer than 2^30 keys.

llvm::Error check_type(i32 ndim, i32 channels) {
  if (ndim < 1 || ndim > kMaxDim) {
    return make_error(StatusCode::InvalidArgument, "the points have {0} axes; they must have 1 to {1}", ndim,
                      kMaxDim);
  }
  if (channels >= 1 && channels <= kMostChannels) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "channels is {0}; it must be 1 to {1}", channels,
                    kMostChannels);
}

llvm::Error check_limit(i64 limit, const char* name) {
  if (limit >= 0) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "{0} is {1}; it must be 0, for no limit, or more", name,
                    limit);
}

}  // namespace

llvm::Error check_point_count(i64 count, const char* name) {
  if (count >= 0 && count <= kMostPoints) return llvm::Error::success();
  return make_error(StatusCode::OutOfRange, "{0} is {1}; there can be 0 to {2}", name, count, kMostPoints);
}

llvm::Error complete_grid(i32 ndim, PointGrid& grid) {
  for (i32 a = 0; a < kMaxDim; ++a) {
    grid.cells[a] = 1;
    if (a >= ndim) continue;
    if (!std::isfinite(grid.size[a]) || !(grid.size[a] > 0)) {
      return make_error(StatusCode::InvalidArgument,
                        "voxel_size of axis {0} is {1}; it must be a positive finite number", a,
                        general_text(grid.size[a], 9));
    }
    if (!std::isfinite(grid.low[a]) || !std::isfinite(grid.high[a])) {
      return make_error(StatusCode::InvalidArgument,
                        "low and high of axis {0} are {1} and {2}; both must be finite", a,
                        general_text(grid.low[a], 9), general_text(grid.high[a], 9));
    }
    if (grid.has_range == 0) continue;
    const double cells = std::round((static_cast<double>(grid.high[a]) - grid.low[a]) / grid.size[a]);
    if (!(cells >= 1 && cells <= kMostCells)) {
      return make_error(StatusCode::InvalidArgument,
                        "the range of axis {0}, from {1} to {2}, has {3} voxels of {4}; it must have 1 to "
                        "{5}",
                        a, general_text(grid.low[a], 9), general_text(grid.high[a], 9),
                        general_text(cells, 9), general_text(grid.size[a], 9), kMostCells);
    }
    grid.cells[a] = static_cast<i32>(cells);
  }
  return llvm::Error::success();
}

llvm::Error validate(const VoxelizeProblem& problem) {
  MINUET_TRY(check_type(problem.ndim, problem.channels));
  if (problem.column < 0 || problem.column > kMostChannels) {
    return make_error(StatusCode::InvalidArgument, "first_column is {0}; it must be 0 to {1}", problem.column,
                      kMostChannels);
  }
  MINUET_TRY(check_limit(problem.most_points_per_voxel, "most_points_per_voxel"));
  return check_limit(problem.most_voxels, "most_voxels");
}

[[gnu::cold]] VoxelizeChoice choose_voxelize(const VoxelizeProblem& problem) {
  VoxelizeChoice choice{problem, {}, {}, {}, {}, {}};
  choice.insert.ndim = choice.reduce.ndim = problem.ndim;
  choice.reduce.io = storage_type(problem.dtype);  // Nothing is multiplied, so nothing is rounded to tf32.
  choice.reduce.reduction = problem.reduction;
  return choice;
}

[[gnu::cold]] void add_sources(SourceList& list, const VoxelizeChoice& choice) {
  list.add(choice.clear);
  list.add(choice.insert);
  list.add(choice.number);
  list.add(choice.assign);
  list.add(choice.reduce);
}

llvm::Error validate(const DevoxelizeProblem& problem) {
  MINUET_TRY(check_type(problem.ndim, problem.channels));
  for (i32 a = 0; a < problem.ndim; ++a) {
    const i32 stride = problem.tensor_stride[a];
    if (stride >= 1 && stride <= kMostCells) continue;
    return make_error(StatusCode::InvalidArgument, "tensor_stride of axis {0} is {1}; it must be 1 to {2}", a,
                      stride, kMostCells);
  }
  return llvm::Error::success();
}

[[gnu::cold]] DevoxelizeChoice choose_devoxelize(const DevoxelizeProblem& problem) {
  DevoxelizeChoice choice{problem, {}, {}, {}, {}};
  choice.index.ndim = choice.weigh.ndim = problem.ndim;
  choice.weigh.at_centres = problem.blend == PointBlend::Centres;
  choice.devoxelize.io = storage_type(problem.dtype);
  choice.devoxelize.corners = problem.corners();
  const Columns rows{problem.channels, 0};
  choice.devoxelize.vector_bytes = widest_vector(dtype_bytes(choice.devoxelize.io), problem.channels, {rows});
  return choice;
}

[[gnu::cold]] void add_sources(SourceList& list, const DevoxelizeChoice& choice) {
  list.add(choice.devoxelize);
  if (!choice.problem.blends()) return;
  list.add(choice.clear);
  list.add(choice.index);
  list.add(choice.weigh);
}

}  // namespace minuet
