// Makes voxels of points and gives features of voxels back to points on the GPU, with the kernels of
// kernels_templates/points and the radix sort of the Map step.
#pragma once

#include "runtime/cuda/found_kernels.h"
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
  Launcher& launcher_;
  const MapKernels& map32_;
  FoundKernels<ClearWordsSpec> clear_;
  FoundKernels<InsertPointsSpec> insert_;
  FoundKernels<NumberVoxelsSpec> number_;
  FoundKernels<AssignRowsSpec> assign_;
  FoundKernels<ReduceVoxelsSpec> reduce_;
  FoundKernels<IndexRowsSpec> index_;
  FoundKernels<WeighCornersSpec> weigh_;
  FoundKernels<DevoxelizeSpec> devoxelize_;
};

}  // namespace minuet
