// Describes how voxels are made of points, and how features of voxels are given back to points. All functions
// are pure.
//
// A network has these ops as layers too. They lead from one stage of its program to another one
// (runtime/program/stages.h), so the candidate of such a layer is run by an execution of all stages.
#pragma once

#include "codegen/choose/candidates.h"
#include "codegen/choose/choice.h"
#include "kernels_templates/shared/point_kernels.h"

namespace minuet {

/// Makes the unique voxels of a cloud of points, in the order of their first points.
struct VoxelizeProblem {
  static const OpKind kKind;

  i32 ndim = 3;
  DType dtype = DType::F32;  // The features of the voxels have this type. Those of the points are fp32.
  i32 column = 0;            // The features of a point are `channels` columns of its row from this one on.
  i32 channels = 0;
  PointReduction reduction = PointReduction::Mean;
  PointGrid grid = {};
  i32 batch_size = 0;             // Counts the batch items, or is 0 if their number is not limited.
  i64 most_points_per_voxel = 0;  // Limits the points of a voxel that count. 0 means that all count.
  i64 most_voxels = 0;            // Limits the voxels. 0 means that all are kept.
};
struct VoxelizeChoice {
  static const OpFamily kKind;

  VoxelizeProblem problem;
  ClearWordsSpec clear;
  InsertPointsSpec insert;
  NumberVoxelsSpec number;
  AssignRowsSpec assign;
  ReduceVoxelsSpec reduce;
};
/// Returns OutOfRange if an op cannot have this number of points or of rows, which messages call `name`.
llvm::Error check_point_count(i64 count, const char* name);
/// Completes a grid of which low, high and size are known: sets `cells`. Returns InvalidArgument if a number
/// is not finite, a size is not positive, or a range has no cell or more cells than coordinates may have.
llvm::Error complete_grid(i32 ndim, PointGrid& grid);
llvm::Error validate(const VoxelizeProblem& problem);
VoxelizeChoice choose_voxelize(const VoxelizeProblem& problem);
void add_sources(SourceList& list, const VoxelizeChoice& choice);

/// Gives each point the features of its voxel, or of the voxels around it.
struct DevoxelizeProblem {
  static const OpKind kKind;

  i32 ndim = 3;
  DType dtype = DType::F32;
  i32 channels = 0;
  PointBlend blend = PointBlend::Nearest;
  PointGrid grid = {};  // Only `low` and `size` are read, and only if voxels are blended.
  AxisArray tensor_stride{1, 1, 1, 1};

  bool blends() const { return blend != PointBlend::Nearest; }
  i32 corners() const { return blends() ? 1 << ndim : 1; }
};
struct DevoxelizeChoice {
  static const OpFamily kKind;

  DevoxelizeProblem problem;
  ClearWordsSpec clear;
  IndexRowsSpec index;
  WeighCornersSpec weigh;
  DevoxelizeSpec devoxelize;
};
llvm::Error validate(const DevoxelizeProblem& problem);
DevoxelizeChoice choose_devoxelize(const DevoxelizeProblem& problem);
void add_sources(SourceList& list, const DevoxelizeChoice& choice);

}  // namespace minuet
