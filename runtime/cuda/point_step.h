// Makes voxels of points and gives features of voxels back to points on the GPU, with the kernels of
// kernels_templates/points and the radix sort of the Map step.
#pragma once

#include "runtime/cuda/kernels_by_spec.h"
#include "runtime/cuda/map_step.h"
#include "runtime/engine/point_operations.h"

namespace minuet {

/// Returns PointOperations::workspace_bytes() of an engine whose Map step has these kernels.
i64 point_workspace_bytes(const MapChoice& map32, const VoxelizeChoice& choice, i64 most_points);
i64 point_workspace_bytes(const DevoxelizeChoice& choice, i64 most_points, i64 most_rows);

class PointStep final : public PointOperations {
 public:
  /// `map32` holds the kernels for keys of 32 bits, of which those of the sort are used.
  PointStep(Launcher& launcher, const MapKernels& map32) : launcher_(launcher), map32_(map32) {}
  i64 workspace_bytes(const VoxelizeChoice& choice, i64 most_points) const override;
  i64 workspace_bytes(const DevoxelizeChoice& choice, i64 most_points, i64 most_rows) const override;
  llvm::Error voxelize(const VoxelizeRequest& request) override;
  llvm::Error devoxelize(const DevoxelizeRequest& request) override;

 private:
  llvm::Error clear(llvm::ArrayRef<ClearedArray> arrays);

  Launcher& launcher_;
  const MapKernels& map32_;
  KernelsBySpec<ClearWordsSpec> clear_;
  KernelsBySpec<InsertPointsSpec> insert_;
  KernelsBySpec<NumberVoxelsSpec> number_;
  KernelsBySpec<AssignRowsSpec> assign_;
  KernelsBySpec<ReduceVoxelsSpec> reduce_;
  KernelsBySpec<IndexRowsSpec> index_;
  KernelsBySpec<WeighCornersSpec> weigh_;
  KernelsBySpec<DevoxelizeSpec> devoxelize_;
};

}  // namespace minuet
