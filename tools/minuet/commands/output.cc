#include "tools/minuet/commands/output.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/writers/npy.h"

namespace minuet::tool {
namespace {

std::vector<int32_t> integers_of(const Output& output) {
  return std::vector<int32_t>(output.features.begin(), output.features.end());
}

}  // namespace

std::vector<int32_t> labels_of(const Output& output) {
  if (output.holds_integers && output.channels() == 1) return integers_of(output);
  std::vector<int32_t> labels(static_cast<size_t>(output.rows()), 0);
  const auto channels = static_cast<size_t>(output.channels());
  for (size_t row = 0; row < labels.size(); ++row) {
    const float* features = output.features.data() + row * channels;
    if (!std::all_of(features, features + channels, [](float value) { return std::isfinite(value); })) {
      labels[row] = -1;
      continue;
    }
    labels[row] = static_cast<int32_t>(std::max_element(features, features + channels) - features);
  }
  return labels;
}

int64_t count_non_finite(const Output& output) {
  return std::count_if(output.features.begin(), output.features.end(),
                       [](float value) { return !std::isfinite(value); });
}

std::string features_npy(const Output& output) {
  if (output.holds_integers) return npy_bytes(integers_of(output), output.shape);
  return npy_bytes(output.features, output.shape);
}

Output by_point(const Output& output, const std::vector<int64_t>& row_of_point) {
  Output points;
  points.shape = {static_cast<int64_t>(row_of_point.size()), output.channels()};
  const auto channels = static_cast<size_t>(output.channels());
  points.holds_integers = output.holds_integers;
  points.is_of_points = true;
  points.features.assign(row_of_point.size() * channels,
                         output.holds_integers ? -1.0f : std::numeric_limits<float>::quiet_NaN());
  for (size_t i = 0; i < row_of_point.size(); ++i) {
    if (row_of_point[i] < 0) continue;
    const auto row = output.features.begin() + row_of_point[i] * output.channels();
    std::copy(row, row + output.channels(), points.features.begin() + static_cast<int64_t>(i * channels));
  }
  return points;
}

llvm::Error check_coordinates(llvm::StringRef flag, const Input& input) {
  if (input.shift()) return llvm::Error::success();
  return bad_input(
      "{0} counts voxels from position 0, but --origin is not a whole number of voxels of "
      "{1} m: change --origin, or write the positions with --output to a .ply file",
      flag, size_text(input.frame.voxel_size));
}

llvm::Expected<std::string> coordinates_npy(llvm::StringRef flag, const Output& output, const Input& input) {
  std::vector<int32_t> coordinates = output.coordinates;
  const std::array<int64_t, 3> shift = *input.shift();
  const size_t width = 1 + output.axes.size();
  for (size_t i = 0; i < coordinates.size(); ++i) {
    if (i % width == 0) continue;
    const auto axis = static_cast<size_t>(output.axes[i % width - 1]);
    if (axis >= shift.size()) continue;
    const int64_t moved = coordinates[i] + shift[axis];
    if (moved != static_cast<int32_t>(moved)) {
      return bad_input(
          "{0}: the coordinate {1} on axis {2} is outside int32, the type of the file; use "
          "--output with a .ply file instead",
          flag, moved, "xyz"[axis]);
    }
    coordinates[i] = static_cast<int32_t>(moved);
  }
  return npy_bytes(coordinates, {output.rows(), static_cast<int64_t>(width)});
}

}  // namespace minuet::tool
