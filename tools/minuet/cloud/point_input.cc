#include "tools/minuet/cloud/point_input.h"

#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/voxelize.h"

namespace minuet::tool {

llvm::Expected<VoxelCloud> point_input(const std::vector<Point>& points, int columns, bool skip_invalid,
                                       const Position& origin) {
  VoxelCloud cloud;
  cloud.holds_points = true;
  cloud.channels = columns == 3 ? 3 : 4;
  cloud.points = static_cast<int64_t>(points.size());
  cloud.row_of_point.reserve(points.size());
  cloud.features.reserve(points.size() * static_cast<size_t>(cloud.channels));
  for (size_t i = 0; i < points.size(); ++i) {
    const Point& point = points[i];
    if (!is_finite(point)) {
      if (!skip_invalid) return refuse_not_finite(point, static_cast<int64_t>(i));
      cloud.row_of_point.push_back(-1);
      ++cloud.skipped;
      continue;
    }
    MINUET_TRY(check_intensity(point, static_cast<int64_t>(i)));
    cloud.row_of_point.push_back(static_cast<int64_t>(i) - cloud.skipped);
    append_point(cloud.features, {point[0] - origin[0], point[1] - origin[1], point[2] - origin[2]},
                 point[3]);
    if (cloud.channels == 3) cloud.features.pop_back();
  }
  return cloud;
}

}  // namespace minuet::tool
