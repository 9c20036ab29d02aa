#include "tools/minuet/commands/bench_times.h"

#include "codegen/base/number_text.h"
#include "tools/minuet/library/report.h"

namespace minuet::tool {

llvm::json::Object times_json(const BenchCloud& cloud, const VoxelRange& voxels,
                              const std::vector<double>& wall_ms) {
  return llvm::json::Object{
      {"cloud", cloud.name},
      {"origin", cloud.origin},
      {"voxel_size", size_json(cloud.voxel_size)},
      {"voxels",
       llvm::json::Object{{"unthinned", voxels.unthinned}, {"min", voxels.least}, {"max", voxels.greatest}}},
      {"variants", static_cast<int64_t>(wall_ms.size())},
      {"wall_ms", spread_json(wall_ms)},
  };
}

std::string milliseconds(double time) { return fixed_text(time, 3); }

}  // namespace minuet::tool
