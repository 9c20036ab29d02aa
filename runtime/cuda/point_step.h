// Makes voxels of points and gives features of voxels back to points on the GPU, with the kernels of
// kernels_templates/points and the radix sort of the Map step.
#pragma once

#include <vector>

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
  /// Holds a kernel of a Spec that was used. Kernels are kept, because finding one by its name takes a
  /// string.
  template <class Spec>
  struct Found {
    Spec spec;
    Kernel<typename KernelRow<Spec>::Params> kernel;
  };
  template <class Spec>
  llvm::Expected<Kernel<typename KernelRow<Spec>::Params>> find(std::vector<Found<Spec>>& found,
                                                                const Spec& spec);
  llvm::Error clear(llvm::ArrayRef<ClearedArray> arrays);

  Launcher& launcher_;
  const MapKernels& map32_;
  std::vector<Found<ClearWordsSpec>> clear_;
  std::vector<Found<InsertPointsSpec>> insert_;
  std::vector<Found<NumberVoxelsSpec>> number_;
  std::vector<Found<AssignRowsSpec>> assign_;
  std::vector<Found<ReduceVoxelsSpec>> reduce_;
  std::vector<Found<IndexRowsSpec>> index_;
  std::vector<Found<WeighCornersSpec>> weigh_;
  std::vector<Found<DevoxelizeSpec>> devoxelize_;
};

}  // namespace minuet
