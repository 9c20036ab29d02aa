// Makes voxels of points, and gives features of voxels back to points, on the CPU.
#pragma once

#include "codegen/base/thread_pool.h"
#include "runtime/engine/point_operations.h"

namespace minuet {

class CpuPoints final : public PointOperations {
 public:
  explicit CpuPoints(ThreadPool& pool) : pool_(pool) {}
  i64 workspace_bytes(const VoxelizeChoice& choice, i64 most_points) const override;
  i64 workspace_bytes(const DevoxelizeChoice& choice, i64 most_points, i64 most_rows) const override;
  llvm::Error voxelize(const VoxelizeRequest& request) override;
  llvm::Error devoxelize(const DevoxelizeRequest& request) override;
  i64 workspace_bytes(const DevoxelizeGradientChoice& choice, i64 most_points, i64 most_rows) const override;
  llvm::Error devoxelize_gradient(const DevoxelizeGradientRequest& request) override;
  llvm::Error group_gradient(const GroupGradientRequest& request) override;

 private:
  ThreadPool& pool_;
};

}  // namespace minuet
