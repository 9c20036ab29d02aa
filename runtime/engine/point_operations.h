// Declares the work on the points of a cloud: voxels are made of them, and features of voxels are given back
// to them. It has the gradients of both, too.
#pragma once

#include "codegen/base/error.h"
#include "codegen/choose/ops/points.h"
#include "codegen/choose/ops/row_gradient.h"

namespace minuet {

/// Requests the voxels of a cloud of points.
struct VoxelizeRequest {
  const VoxelizeChoice* choice = nullptr;
  PointArray points = {};
  void* workspace = nullptr;  // Has workspace_bytes() bytes.
  i64 capacity = 0;           // Counts the rows of the following three arrays.
  i32* coordinates = nullptr;
  void* features = nullptr;
  i64 features_ld = 0;
  i32* points_of = nullptr;  // Receives the number of points of each voxel that count. It may be null.
  i32* rows = nullptr;       // Receives the row of each of points.most points, or -1. It may be null.
  i32* counts = nullptr;     // Receives kPointCounts words (PointCount).
  u32* status = nullptr;     // Receives one word of kStatus... bits.
};

/// Requests the features of points.
struct DevoxelizeRequest {
  const DevoxelizeChoice* choice = nullptr;
  /// Only the number of points is read if the choice does not blend voxels.
  PointArray points = {};
  const i32* rows = nullptr;         // Holds the row of each point, or -1. It is null if voxels are blended.
  const i32* coordinates = nullptr;  // Has the shape [most_rows, 1 + ndim]. It is null for the nearest voxel.
  const i32* row_count = nullptr;    // Points to the number of rows. Null means that it is `most_rows`.
  i64 most_rows = 0;
  const void* features = nullptr;  // Has the shape [most_rows, channels].
  void* output = nullptr;          // Receives [points.most, channels] numbers.
  void* workspace = nullptr;
};

/// Requests the gradient of the features that a devoxelize read.
struct DevoxelizeGradientRequest {
  const DevoxelizeGradientChoice* choice = nullptr;
  /// These members are as in DevoxelizeRequest.
  PointArray points = {};
  const i32* rows = nullptr;
  const i32* coordinates = nullptr;
  const i32* row_count = nullptr;
  i64 most_rows = 0;
  const void* out_gradient = nullptr;  // Has the shape [points.most, channels].
  void* output = nullptr;              // Receives [most_rows, channels] numbers.
  void* workspace = nullptr;           // Has workspace_bytes() bytes.
};

/// Requests the gradients of the rows of groups. The members `words`, `keys` and `vectors` of `params` are
/// not set.
struct GroupGradientRequest {
  const GroupGradientChoice* choice = nullptr;
  GroupsParams params = {};
  void* workspace = nullptr;  // Has workspace_bytes() bytes.
};
/// Returns the size of the workspace of a GroupGradientRequest on any device. It is GroupsParams::words or
/// GroupsParams::keys. With the sizes of the groups, a mean needs none.
inline i64 group_gradient_bytes(const GroupGradientProblem& problem, i64 most_groups) {
  if (problem.reduction == PointReduction::Sum) return 0;
  if (problem.reduction != PointReduction::Max) return most_groups * static_cast<i64>(sizeof(u32));
  return most_groups * problem.channels * static_cast<i64>(sizeof(u64));
}

/// The functions that take a request are called between Engine::begin() and Engine::end(). They only enqueue
/// work, allocate nothing, and may be captured into a CUDA graph.
class PointOperations {
 public:
  virtual ~PointOperations() = default;
  virtual i64 workspace_bytes(const VoxelizeChoice& choice, i64 most_points) const = 0;
  virtual i64 workspace_bytes(const DevoxelizeChoice& choice, i64 most_points, i64 most_rows) const = 0;
  virtual llvm::Error voxelize(const VoxelizeRequest& request) = 0;
  virtual llvm::Error devoxelize(const DevoxelizeRequest& request) = 0;
  virtual i64 workspace_bytes(const DevoxelizeGradientChoice& choice, i64 most_points,
                              i64 most_rows) const = 0;
  /// Adds the gradients of a voxel in the order of the corners, and then in that of the points.
  virtual llvm::Error devoxelize_gradient(const DevoxelizeGradientRequest& request) = 0;
  virtual llvm::Error group_gradient(const GroupGradientRequest& request) = 0;
};

}  // namespace minuet
