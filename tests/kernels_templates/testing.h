// What the kernel tests share: poisoned outputs, random clouds, and keys made of them.
#pragma once

#include "tests/support/shim/shim.h"
// The shim comes first: kernels use the names it defines.

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <map>
#include <vector>

#include "kernels_templates/shared/key_layout.h"
#include "kernels_templates/shared/map_kernels.h"
#include "kernels_templates/shared/view_kernels.h"
#include "tests/support/random.h"

namespace minuet {

/// What no kernel should ever leave behind.
constexpr unsigned char kPoison = 0xcd;

template <class T>
std::vector<T> poisoned(std::size_t count) {
  std::vector<T> data(count);
  if (count > 0) std::memset(data.data(), kPoison, count * sizeof(T));
  return data;
}
template <class T>
T poison() {
  return poisoned<T>(1)[0];
}

using Point = std::array<i32, kMaxFields>;  // batch, then axes; unused axes are 0

/// `count` points, not sorted, with duplicates unless `distinct`, around the origin (negatives too).
inline std::vector<Point> random_points(Random& random, i64 count, i32 ndim, i32 batches, i32 half_extent,
                                        bool distinct) {
  std::map<Point, bool> seen;
  std::vector<Point> points;
  while (static_cast<i64>(points.size()) < count) {
    Point point{};
    point[0] = static_cast<i32>(random.below(static_cast<std::uint64_t>(batches)));
    for (i32 a = 1; a <= ndim; ++a) point[a] = static_cast<i32>(random.between(-half_extent, half_extent));
    if (distinct && !seen.emplace(point, true).second) continue;
    points.push_back(point);
  }
  return points;
}

inline std::vector<i32> flatten(const std::vector<Point>& points, i32 ndim) {
  std::vector<i32> coordinates;
  for (const Point& point : points)
    coordinates.insert(coordinates.end(), point.begin(), point.begin() + ndim + 1);
  return coordinates;
}

struct PointBounds {
  Point least, greatest;
};
inline PointBounds bounds_of(const std::vector<Point>& points) {
  PointBounds bounds{{}, {}};
  if (!points.empty()) bounds = {points[0], points[0]};
  for (const Point& point : points) {
    for (i32 f = 0; f < kMaxFields; ++f) {
      bounds.least[f] = std::min(bounds.least[f], point[f]);
      bounds.greatest[f] = std::max(bounds.greatest[f], point[f]);
    }
  }
  return bounds;
}

/// A layout for the points with the same guard and period on every axis.
inline CloudLayout layout_of(const std::vector<Point>& points, i32 ndim, i64 guard, i64 period) {
  const PointBounds bounds = bounds_of(points);
  const std::array<i64, kMaxDim> guards{guard, guard, guard, guard};
  const std::array<i64, kMaxDim> periods{period, period, period, period};
  return make_bounded_layout(ndim, bounds.least.data(), bounds.greatest.data(), guards.data(),
                             periods.data());
}

template <class Key>
std::vector<Key> keys_of(const std::vector<Point>& points, const CloudLayout& layout) {
  std::vector<Key> keys;
  for (const Point& point : points) keys.push_back(pack_key<Key>(layout.keys, point.data()));
  return keys;
}

/// Kernel offset k by plain enumeration, last axis fastest.
inline Point offset_of(const KernelGeometry& geometry, i32 k) {
  Point offset{};
  for (i32 a = geometry.ndim; a >= 1; --a) {
    const i32 size = geometry.kernel_size[a - 1];
    offset[a] = geometry.origin[a - 1] + k % size * geometry.step[a - 1];
    k /= size;
  }
  return offset;
}

inline Point sum(Point point, const Point& offset) {
  for (i32 f = 0; f < kMaxFields; ++f) point[f] += offset[f];
  return point;
}

/// Orders points in any way. Without optimization, as under the sanitizers, std::array's own order takes
/// several times as long.
struct ByBytes {
  bool operator()(const Point& a, const Point& b) const {
    return std::memcmp(a.data(), b.data(), sizeof(Point)) < 0;
  }
};

/// map[k][q] = row of queries[q] + offset k among the sources, or -1; by std::map.
inline std::vector<i32> plain_kernel_map(const std::vector<Point>& sources, const std::vector<Point>& queries,
                                         const KernelGeometry& geometry) {
  std::map<Point, i32, ByBytes> rows;
  for (const Point& source : sources) rows.emplace(source, static_cast<i32>(rows.size()));
  std::vector<i32> map;
  for (i32 k = 0; k < geometry.volume; ++k) {
    const Point offset = offset_of(geometry, k);
    for (const Point& query : queries) {
      const auto found = rows.find(sum(query, offset));
      map.push_back(found == rows.end() ? -1 : found->second);
    }
  }
  return map;
}

inline KernelGeometry geometry_of(i32 ndim, std::array<i32, kMaxDim> kernel_size, i32 step) {
  KernelGeometry geometry;
  geometry.ndim = ndim;
  for (i32 a = 0; a < ndim; ++a) {
    geometry.kernel_size[a] = kernel_size[a];
    geometry.step[a] = step;
    geometry.origin[a] = centred_origin(kernel_size[a]) * step;
    geometry.volume *= kernel_size[a];
  }
  return geometry;
}
inline i64 reach_of(const KernelGeometry& geometry) {
  i64 reach = 0;
  for (i32 a = 0; a < geometry.ndim; ++a) {
    reach = std::max(reach, axis_reach(geometry, a));
  }
  return reach;
}

/// Exclusive sums with the total last: the scan kernel's stand-in.
inline std::vector<i32> exclusive_sums(const std::vector<i32>& values) {
  std::vector<i32> sums{0};
  for (const i32 value : values) sums.push_back(sums.back() + value);
  return sums;
}
inline std::vector<i32> hits_of(const std::vector<i32>& map) {
  std::vector<i32> hits;
  for (const i32 row : map) hits.push_back(row >= 0);
  return hits;
}

}  // namespace minuet
