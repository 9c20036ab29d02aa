// Makes voxels of points and gives features of voxels back to points on the GPU, with the kernels of
// kernels_templates/points and the radix sort of the Map step.
#pragma once

#include <algorithm>

#include "runtime/cuda/found_kernels.h"
#include "runtime/cuda/map_step.h"
#include "runtime/engine/arena.h"
#include "runtime/engine/point_operations.h"

namespace minuet {

/// Returns PointOperations::workspace_bytes() of an engine whose Map step has these kernels.
i64 point_workspace_bytes(const MapChoice& map32, const VoxelizeChoice& choice, i64 most_points);
i64 point_workspace_bytes(const DevoxelizeChoice& choice, i64 most_points, i64 most_rows);
i64 point_workspace_bytes(const MapChoice& map32, const DevoxelizeGradientChoice& choice, i64 most_points,
                          i64 most_rows);

/// Divides the memory with which the voxels around points are looked up. It is empty for the nearest voxel.
struct CornerPlaces {
  i32 *table = nullptr, *rows = nullptr;
  float* weights = nullptr;
  i64 slots = 0;

  CornerPlaces(const DevoxelizeProblem& problem, i64 most_points, i64 most_rows, Placement& parts);
};

class PointStep final : public PointOperations {
 public:
  /// `map32` holds the kernels for keys of 32 bits, of which those of the sort are used.
  PointStep(Launcher& launcher, const MapKernels& map32) : launcher_(launcher), map32_(map32) {}
  i64 workspace_bytes(const VoxelizeChoice& choice, i64 most_points) const override;
  i64 workspace_bytes(const DevoxelizeChoice& choice, i64 most_points, i64 most_rows) const override;
  llvm::Error voxelize(const VoxelizeRequest& request) override;
  llvm::Error devoxelize(const DevoxelizeRequest& request) override;
  i64 workspace_bytes(const DevoxelizeGradientChoice& choice, i64 most_points, i64 most_rows) const override;
  llvm::Error devoxelize_gradient(const DevoxelizeGradientRequest& request) override;
  llvm::Error group_gradient(const GroupGradientRequest& request) override;

 private:
  /// Looks the voxels around the points of a request up. Choice and Request are those of devoxelizing or of
  /// its gradient.
  template <class Choice, class Request>
  llvm::Error find_corners(const Choice& choice, const Request& request, const CornerPlaces& places) {
    CornersParams corners = {};
    corners.points = request.points;
    corners.grid = choice.problem.grid;
    std::copy(choice.problem.tensor_stride.begin(), choice.problem.tensor_stride.end(),
              corners.tensor_stride);
    corners.coordinates = request.coordinates;
    corners.row_count = request.row_count;
    corners.most_rows = request.most_rows;
    corners.table = places.table;
    corners.slots = static_cast<u32>(places.slots);
    corners.rows = places.rows;
    corners.weights = places.weights;
    MINUET_TRY(
        clear_words(launcher_, clear_, choice.clear,
                    {{reinterpret_cast<u32*>(places.table), places.slots, static_cast<u32>(kFreeSlot)}}));
    MINUET_ASSIGN(const Kernel<CornersParams> index, index_.find(launcher_, choice.index));
    MINUET_ASSIGN(const Kernel<CornersParams> weigh, weigh_.find(launcher_, choice.weigh));
    MINUET_TRY(launcher_.launch_stride(index, request.most_rows, corners));
    return launcher_.launch_stride(weigh, request.points.most, corners);
  }

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
  FoundKernels<KeyEntriesSpec> key_;
  FoundKernels<FindEntriesSpec> find_;
  FoundKernels<SumEntriesSpec> sum_;
  FoundKernels<CombineGroupsSpec> combine_;
  FoundKernels<SpreadGroupsSpec> spread_;
};

}  // namespace minuet
