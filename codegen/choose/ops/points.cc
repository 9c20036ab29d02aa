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

// The functions make_op_kind() and make_op_family() find the following functions by argument-dependent
// lookup, which does not search unnamed namespaces.
static llvm::Expected<std::vector<Candidate>> candidates(const VoxelizeProblem& problem,
                                                         const CandidateOptions& /*options*/) {
  return std::vector<Candidate>{{choose_voxelize(problem), {"a hash table of cells and one sort of points"}}};
}

static llvm::Expected<std::vector<Candidate>> candidates(const DevoxelizeProblem& problem,
                                                         const CandidateOptions& /*options*/) {
  const char* const reason = problem.blends()
                                 ? "a hash table of rows, in which each point finds the voxels around it"
                                 : "one pass over the points";
  return std::vector<Candidate>{{choose_devoxelize(problem), {reason}}};
}

static const WindowProblem* window(const VoxelizeProblem&) { return nullptr; }
static const WindowProblem* window(const DevoxelizeProblem&) { return nullptr; }

static OperandShape shape(const VoxelizeProblem& problem) {
  return {.in_channels = problem.channels, .out_channels = problem.channels};
}
static OperandShape shape(const DevoxelizeProblem& problem) {
  return {.in_channels = problem.channels, .out_channels = problem.channels};
}

// These ops read and write matrices of their own, whatever the columns of the program's matrices are.
static VoxelizeProblem at_columns(VoxelizeProblem problem, const OperandColumns&) { return problem; }
static DevoxelizeProblem at_columns(DevoxelizeProblem problem, const OperandColumns&) { return problem; }

static bool is_same(const VoxelizeChoice& a, const VoxelizeChoice& b) {
  return a.insert == b.insert && a.reduce == b.reduce;
}
static bool is_same(const DevoxelizeChoice& a, const DevoxelizeChoice& b) {
  return a.devoxelize == b.devoxelize && a.weigh == b.weigh;
}

const OpFamily VoxelizeChoice::kKind = make_op_family<VoxelizeChoice>("voxelize");
const OpFamily DevoxelizeChoice::kKind = make_op_family<DevoxelizeChoice>("devoxelize");
const OpKind VoxelizeProblem::kKind = make_op_kind<VoxelizeProblem>("voxelize");
const OpKind DevoxelizeProblem::kKind = make_op_kind<DevoxelizeProblem>("devoxelize");

}  // namespace minuet
