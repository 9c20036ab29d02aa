// Tells how many bytes of workspace executions of a plan need, before there is an execution.
#include <algorithm>

#include "runtime/execution/execution.h"

namespace minuet {

llvm::Expected<i64> Execution::workspace_within_capacities(std::shared_ptr<const LoadedPlan> loaded,
                                                           const ExecutionOptions& options) {
  MINUET_ASSIGN(const std::unique_ptr<Execution> execution, create_unplaced(std::move(loaded), options));
  MINUET_TRY(execution->measure_room());
  return execution->needed_bytes();
}

/// Assumes that every coordinate set has as many rows as it may have at most, which are those of the input
/// for a set whose coordinates are rounded down, and that the groups of GEMMs (GroupPlan) have as much
/// padding as the grouping allows.
llvm::Expected<i64> Execution::workspace_bound(std::shared_ptr<const LoadedPlan> loaded,
                                               const ExecutionOptions& options, i64 points,
                                               double neighbours) {
  ExecutionOptions reserved = options;
  reserved.max_points = std::max(options.max_points, points);
  MINUET_ASSIGN(const std::unique_ptr<Execution> execution, create_unplaced(std::move(loaded), reserved));
  const Program& program = execution->program_;
  const i64 rows = std::max<i64>(points, 1);
  NetworkMaps* const maps = execution->network_maps_ ? &*execution->network_maps_ : nullptr;
  if (maps) maps->reserve_most_rows();
  static constexpr i32 kPermuted = 0;
  std::vector<i32> counts(execution->levels_.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    Level& level = execution->levels_[i];
    level.rows = maps ? maps->most_rows(static_cast<i32>(i), rows) : rows;
    // The addresses of the row counts must be distinct, because they identify the levels (coordinate sets).
    level.count = &counts[i];
    level.source_row = &kPermuted;
  }
  for (const Work& work : execution->works_) work.work->begin(execution->most_rows());
  execution->views_->begin();
  for (const MapSpec& map : program.maps) MINUET_TRY(check_cloud_rows(points, map.volume()));
  for (i32 i = 0; i < execution->layer_count(); ++i) {
    MINUET_TRY(execution->bound_layer(i, neighbours));
  }
  if (maps) maps->set_capacity(std::max(rows, reserved.max_points));
  execution->memory_.measure_capacity();
  execution->memory_.measure_cloud();
  return execution->needed_bytes();
}

}  // namespace minuet
