// Describes the gradients of devoxelizing, and of poolings whose outputs have the rows of a group each, such
// as the points of a voxel or the rows of a batch item. All functions are pure.
#pragma once

#include "codegen/choose/ops/points.h"
#include "kernels_templates/shared/row_gradient_kernels.h"

namespace minuet {

/// Gives each voxel the sum of the gradients of the points that read it, times their weights.
struct DevoxelizeGradientChoice {
  DevoxelizeProblem problem;
  ClearWordsSpec clear;
  IndexRowsSpec index;
  WeighCornersSpec weigh;
  KeyEntriesSpec key;
  FindEntriesSpec find;
  SumEntriesSpec sum;
};
DevoxelizeGradientChoice choose_devoxelize_gradient(const DevoxelizeProblem& problem);
void add_sources(SourceList& list, const DevoxelizeGradientChoice& choice);

/// Gives each row the gradient of its group, or its part of it.
struct GroupGradientProblem {
  i32 ndim = 3;              // Results do not depend on it.
  DType dtype = DType::F32;  // The gradients of groups have this type.
  i32 channels = 0;
  PointReduction reduction = PointReduction::Mean;
  bool rows_are_f32 = false;  // Says whether rows and their gradients are fp32 whatever `dtype` is.

  DType row_type() const { return rows_are_f32 ? DType::F32 : storage_type(dtype); }
};
struct GroupGradientChoice {
  GroupGradientProblem problem;
  ClearWordsSpec clear;
  CombineGroupsSpec combine;
  SpreadGroupsSpec spread;
};
llvm::Error validate(const GroupGradientProblem& problem);
GroupGradientChoice choose_group_gradient(const GroupGradientProblem& problem);
void add_sources(SourceList& list, const GroupGradientChoice& choice);

}  // namespace minuet
