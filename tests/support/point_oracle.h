// Voxels of points, and features of points, by plain loops; and random clouds of points with all that may be
// wrong with them.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "tests/support/random.h"

namespace minuet::oracle {

enum class PointFeature { Mean, Max, Sum, First };

struct PointCloud {
  int ndim = 3, columns = 4;
  std::vector<float> points;   // [count, columns]
  std::vector<int32_t> batch;  // empty: all 0
  int64_t count() const { return static_cast<int64_t>(points.size()) / columns; }
  float at(int64_t point, int column) const {
    return points[static_cast<std::size_t>(point * columns + column)];
  }
};

struct VoxelRules {
  std::array<float, 4> low{}, high{}, size{1, 1, 1, 1};
  bool has_range = false;
  int first_column = 0, channels = 4;
  PointFeature feature = PointFeature::Mean;
  int64_t batch_size = 0, most_points = 0, most_voxels = 0;
};

struct Voxels {
  std::vector<int32_t> coordinates;  // [rows, 1 + ndim]
  std::vector<float> features;       // [rows, channels], before they are rounded to a dtype
  std::vector<int32_t> points_of, rows;
  std::array<int32_t, 6> counts{};  // voxels, kept, outside, not finite, past points, past voxels
  uint32_t status = 0;              // 1: past the batch size, 2: negative batch
};

/// 0: in a cell, 1: outside, 2: not finite.
inline int cell_of(const PointCloud& cloud, const VoxelRules& rules, int64_t point,
                   std::vector<int32_t>& cell) {
  int fate = 0;
  for (int axis = 0; axis < cloud.ndim; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    const float p = cloud.at(point, axis);
    if (!std::isfinite(p)) return 2;
    const float moved = p - rules.low[a];
    const float at = std::floor(moved / rules.size[a]);
    const double cells = std::round((static_cast<double>(rules.high[a]) - static_cast<double>(rules.low[a])) /
                                    static_cast<double>(rules.size[a]));
    const bool fits = static_cast<double>(at) >= -2147483648.0 && static_cast<double>(at) <= 2147483647.0;
    const bool in_range =
        !rules.has_range || (p >= rules.low[a] && p < rules.high[a] && static_cast<double>(at) < cells);
    if (!fits || !in_range) fate = 1;
    if (fits) cell[1 + a] = static_cast<int32_t>(at);
  }
  return fate;
}

inline Voxels voxels_of(const PointCloud& cloud, const VoxelRules& rules) {
  Voxels result;
  std::map<std::vector<int32_t>, int32_t> known;
  std::vector<std::vector<int64_t>> members;
  for (int64_t i = 0; i < cloud.count(); ++i) {
    std::vector<int32_t> cell(static_cast<std::size_t>(1 + cloud.ndim), 0);
    result.rows.push_back(-1);
    const int fate = cell_of(cloud, rules, i, cell);
    if (fate != 0) {
      ++result.counts[fate == 1 ? 2 : 3];
      continue;
    }
    if (!cloud.batch.empty()) cell[0] = cloud.batch[static_cast<std::size_t>(i)];
    if (cell[0] < 0 || (rules.batch_size > 0 && cell[0] >= rules.batch_size)) {
      result.status |= cell[0] < 0 ? 2 : 1;
      continue;
    }
    const auto [place, is_new] = known.emplace(cell, static_cast<int32_t>(known.size()));
    const int32_t row = place->second;
    if (rules.most_voxels > 0 && row >= rules.most_voxels) {
      ++result.counts[5];
      continue;
    }
    if (is_new) {
      members.emplace_back();
      result.coordinates.insert(result.coordinates.end(), cell.begin(), cell.end());
    }
    result.rows.back() = row;
    std::vector<int64_t>& own = members[static_cast<std::size_t>(row)];
    const bool is_past = rules.most_points > 0 && static_cast<int64_t>(own.size()) >= rules.most_points;
    ++result.counts[is_past ? 4 : 1];
    if (!is_past) own.push_back(i);
  }
  for (const std::vector<int64_t>& own : members) {
    for (int c = rules.first_column; c < rules.first_column + rules.channels; ++c) {
      double sum = static_cast<double>(cloud.at(own[0], c));
      for (std::size_t k = 1; k < own.size() && rules.feature != PointFeature::First; ++k) {
        const auto value = static_cast<double>(cloud.at(own[k], c));
        if (rules.feature != PointFeature::Max) {
          sum += value;
        } else if (std::isnan(value) || value > sum) {
          sum = value;
        }
      }
      if (rules.feature == PointFeature::Mean) sum /= static_cast<double>(own.size());
      result.features.push_back(static_cast<float>(sum));
    }
    result.points_of.push_back(static_cast<int32_t>(own.size()));
  }
  result.counts[0] = static_cast<int32_t>(members.size());
  if (result.status != 0) {
    result.coordinates.clear(), result.features.clear(), result.points_of.clear();
    result.rows.assign(result.rows.size(), -1);
    result.counts[0] = 0;
  }
  return result;
}

/// The features of points, in float64, from the voxels around each. With `at_centres` a voxel is at the
/// centre of its cell, else at its corner. `weight_sums`, if given, receives the sum of the weights of each
/// point's voxels that exist.
inline std::vector<double> blended(const PointCloud& cloud, const VoxelRules& rules, bool at_centres,
                                   const std::vector<int32_t>& strides,
                                   const std::vector<int32_t>& coordinates,
                                   const std::vector<float>& features, int channels,
                                   std::vector<double>* weight_sums = nullptr) {
  const auto width = static_cast<std::size_t>(1 + cloud.ndim);
  std::map<std::vector<int32_t>, std::size_t> rows;
  for (std::size_t row = 0; row * width < coordinates.size(); ++row) {
    rows.emplace(std::vector<int32_t>(coordinates.begin() + static_cast<std::ptrdiff_t>(row * width),
                                      coordinates.begin() + static_cast<std::ptrdiff_t>((row + 1) * width)),
                 row);
  }
  std::vector<double> result;
  for (int64_t i = 0; i < cloud.count(); ++i) {
    std::vector<double> sums(static_cast<std::size_t>(channels), 0.0), below, part;
    double weights = 0;
    bool is_near = true;
    for (int a = 0; a < cloud.ndim; ++a) {
      const auto axis = static_cast<std::size_t>(a);
      // In float32, which decides between which voxels a point is, and whether it is exactly at one of them.
      float at = (cloud.at(i, a) - rules.low[axis]) / rules.size[axis] / static_cast<float>(strides[axis]);
      if (at_centres) at -= 0.5f;
      is_near = is_near && std::abs(at) < 1e8f;
      below.push_back(static_cast<double>(std::floor(at)));
      const float rest = at - std::floor(at);
      part.push_back(static_cast<double>(rest));
    }
    for (int k = 0; is_near && k < 1 << cloud.ndim; ++k) {
      std::vector<int32_t> cell{cloud.batch.empty() ? 0 : cloud.batch[static_cast<std::size_t>(i)]};
      double weight = 1;
      for (int a = 0; a < cloud.ndim; ++a) {
        const auto axis = static_cast<std::size_t>(a);
        const int next = k >> a & 1;
        cell.push_back((static_cast<int32_t>(below[axis]) + next) * strides[axis]);
        weight *= next != 0 ? part[axis] : 1 - part[axis];
      }
      const auto found = rows.find(cell);
      if (found == rows.end()) continue;
      weights += weight;
      for (int c = 0; c < channels; ++c) {
        const auto channel = static_cast<std::size_t>(c);
        sums[channel] += weight * static_cast<double>(
                                      features[found->second * static_cast<std::size_t>(channels) + channel]);
      }
    }
    for (const double sum : sums) result.push_back(weights > 0 ? sum / weights : 0);
    if (weight_sums) weight_sums->push_back(weights);
  }
  return result;
}

/// Points around 0, some of them at the edges of cells, and with `is_wild` some that are not finite, or far
/// away.
inline PointCloud random_points_of(Random& random, int64_t count, int ndim, int columns, double extent,
                                   int batches, bool is_wild) {
  PointCloud cloud;
  cloud.ndim = ndim, cloud.columns = columns;
  constexpr float kWild[] = {std::numeric_limits<float>::quiet_NaN(),
                             std::numeric_limits<float>::infinity(),
                             -std::numeric_limits<float>::infinity(),
                             3e38f,
                             -0.0f,
                             1e-40f};
  for (int64_t i = 0; i < count; ++i) {
    for (int c = 0; c < columns; ++c) {
      float value = static_cast<float>(random.uniform(-extent, extent));
      if (random.below(8) == 0) value = std::round(value);
      if (is_wild && random.below(40) == 0) value = kWild[random.below(6)];
      cloud.points.push_back(value);
    }
    if (batches > 0) {
      // One of the batch items has no points.
      const auto item = static_cast<int32_t>(random.below(static_cast<uint64_t>(batches)));
      cloud.batch.push_back(item == 1 ? 0 : item);
    }
  }
  return cloud;
}

}  // namespace minuet::oracle
