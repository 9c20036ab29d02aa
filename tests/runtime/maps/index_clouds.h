// Clouds that are hard for an index of voxels (kernels_templates/shared/voxel_index.h).
#pragma once

#include <algorithm>
#include <array>
#include <unordered_map>
#include <vector>

#include "kernels_templates/shared/voxel_index.h"
#include "tests/support/abi.h"
#include "tests/support/random.h"
#include "tests/support/row_order.h"

namespace minuet::abi {

using Points = std::vector<int32_t>;  // [n, 1 + ndim]

inline constexpr int32_t kOneBatch = 0;  // of clouds that have one batch only

/// Appends a point whose axes are what `coordinate` returns for them.
template <class Coordinate>
void add_point(Points& points, int ndim, int32_t batch, const Coordinate& coordinate) {
  points.push_back(batch);
  for (int a = 0; a < ndim; ++a) points.push_back(coordinate(a));
}

/// Voxels one after the other along the first axis, through many superblocks.
inline Points make_line(int ndim) {
  Points points;
  for (int32_t i = -100; i < 100; ++i) {
    add_point(points, ndim, kOneBatch, [&](int axis) { return axis == 0 ? i : -1; });
  }
  return points;
}

/// Every voxel of a cube around the origin, where superblocks meet.
inline Points make_cube(int ndim) {
  constexpr int32_t kEdges[] = {0, 300, 20, 8, 5};
  const int32_t edge = kEdges[ndim];
  int32_t volume = 1;
  for (int a = 0; a < ndim; ++a) volume *= edge;
  Points points;
  for (int32_t i = 0; i < volume; ++i) {
    int32_t rest = i;
    add_point(points, ndim, kOneBatch, [&](int) {
      const int32_t at = rest % edge - edge / 2;
      rest /= edge;
      return at;
    });
  }
  return points;
}

/// Pairs of neighbours in all corners of the range that keys have by default, or of about that; or in those
/// of a smaller one, which keys of voxels hold, too.
inline Points make_corners(int ndim, bool is_smaller) {
  constexpr int32_t kHalf[] = {0, 1 << 30, 1 << 30, 1 << 20, 1 << 14};
  constexpr int32_t kSuperblock[] = {0, 4096, 64, 16, 16};
  const int32_t half = is_smaller ? kHalf[ndim] / 8 : kHalf[ndim];
  const int32_t least = -half, greatest = half - kSuperblock[ndim] - 1;
  Points points;
  for (int32_t corner = 0; corner < 1 << ndim; ++corner) {
    for (const int32_t inward : {0, 1}) {
      add_point(points, ndim,
                corner % 2 == 0 ? 0
                : is_smaller    ? 1
                                : 8191,
                [&](int a) { return corner >> a & 1 ? greatest - inward : least + inward; });
    }
  }
  return points;
}

inline Points make_one_voxel(int ndim) {
  Points points;
  add_point(points, ndim, 3, [](int axis) { return 7 - 5 * axis; });
  return points;
}

/// The same two neighbours in 300 batches.
inline Points make_batches(int ndim) {
  Points points;
  for (int32_t batch = 0; batch < 300; ++batch) {
    for (const int32_t at : {0, 1}) add_point(points, ndim, batch, [&](int) { return at; });
  }
  return points;
}

/// Different voxels of a random cloud, dense in the middle, with far ones around.
inline Points make_random(int ndim, int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<Points> all;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t extent = i % 4 == 0 ? 5000 : 24;
    Points point;
    add_point(point, ndim, static_cast<int32_t>(random.below(2)), [&](int) {
      return static_cast<int32_t>(random.below(static_cast<uint64_t>(extent))) - extent / 2;
    });
    all.push_back(point);
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random.below(i)]);
  Points points;
  for (const Points& point : all) points.insert(points.end(), point.begin(), point.end());
  return points;
}

/// `count` of the 2^24 voxels of a cube around the origin, each once, in an order without pattern.
inline Points make_large(int ndim, int64_t count) {
  constexpr uint32_t kCellBits = 24, kCells = 1u << kCellBits;
  const uint32_t bits = kCellBits / static_cast<uint32_t>(ndim);
  Points points;
  points.reserve(static_cast<size_t>(count * (1 + ndim)));
  for (uint32_t i = 0; i < static_cast<uint32_t>(count); ++i) {
    uint32_t cell = i;  // then another permutation of the cells
    for (const uint32_t factor : {0x9e3779b1u, 0x85ebca6bu}) {
      cell = cell * factor % kCells;
      cell ^= cell >> kCellBits / 2;
    }
    add_point(points, ndim, kOneBatch, [&](int a) {
      return static_cast<int32_t>(cell >> a * bits & ((1u << bits) - 1)) - (1 << (bits - 1));
    });
  }
  return points;
}

/// Returns the numbers of `count` rows in another order.
inline std::vector<int32_t> shuffled_rows(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<int32_t> rows(static_cast<size_t>(count));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int32_t>(i);
  for (size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random.below(i)]);
  return rows;
}
/// Returns the cloud's rows in another order.
inline Points shuffled(const Points& points, int ndim, uint64_t seed) {
  return take_rows(points, shuffled_rows(static_cast<int64_t>(points.size()) / (1 + ndim), seed));
}
/// Returns the cloud with each row `copies` times, in an order without pattern.
inline Points repeated(const Points& points, int ndim, int copies, uint64_t seed) {
  Points all;
  for (int copy = 0; copy < copies; ++copy) all.insert(all.end(), points.begin(), points.end());
  return shuffled(all, ndim, seed);
}

template <int Ndim>
inline Points find_equal_hashes() {
  constexpr int32_t kPairs = 8, kEdge = 1 << 2 * block_bits(Ndim, 0);
  std::unordered_map<u32, std::pair<int32_t, int32_t>> first;
  first.reserve(size_t{1} << 19);
  Points points;
  for (int32_t x = 0, pairs = 0; pairs < kPairs; ++x) {
    for (int32_t y = 0; y < 1000 && pairs < kPairs; ++y) {
      const i32 superblock[Ndim + 1] = {0, x, y};
      const auto [other, is_new] = first.insert({hash_of<Ndim>(superblock), {x, y}});
      if (is_new) continue;
      ++pairs;
      for (const auto& [at_x, at_y] : {other->second, std::pair{x, y}}) {
        for (int32_t i = 0; i < 3; ++i) {
          const int32_t at[] = {at_x * kEdge + 5 * i, at_y * kEdge + 1, 3 - i, 1};
          add_point(points, Ndim, kOneBatch, [&](int axis) { return at[axis]; });
        }
      }
    }
  }
  return points;
}
/// The same, searched for once a process, because that takes long.
template <int Ndim>
inline const Points& make_equal_hashes() {
  static const Points points = find_equal_hashes<Ndim>();
  return points;
}
/// Three voxels in each of some superblocks that have the hash of another one. With one axis there are
/// none, and the cloud is a line.
inline Points make_equal_hashes(int ndim) {
  if (ndim == 4) return make_equal_hashes<4>();
  if (ndim == 3) return make_equal_hashes<3>();
  return ndim == 2 ? make_equal_hashes<2>() : make_line(ndim);
}

/// Gives the number of slots from the last one that hashes lead to up to the empty one at the end.
inline constexpr int64_t kSlotsAtTheEnd = kSlotTile / 4;
/// One point in each of `count` superblocks of a level whose hashes lead to the last slot that any hash leads
/// to, if the level has `slots` slots. `stride` is that of the level's voxels.
inline Points make_points_at_the_last_slot(int64_t count, int64_t slots,
                                           const std::array<int32_t, kMaxDim>& stride) {
  IndexLevel level{};
  level.hash_slots = static_cast<u32>(slots - kSlotsAtTheEnd);
  Points points;
  for (int32_t i = 0; static_cast<int64_t>(points.size()) < 4 * count; ++i) {
    const i32 superblock[] = {0, i % 256 - 128, i / 256 % 256 - 128, i / 65536};
    if (first_slot(level, hash_of<3>(superblock)) != level.hash_slots - 1) continue;
    add_point(points, 3, kOneBatch,
              [&](int a) { return superblock[a + 1] * 16 * stride[static_cast<size_t>(a)]; });
  }
  return points;
}

/// Whether a test makes few clouds only: on the software device and under the sanitizers, where each takes
/// long.
inline bool takes_few_clouds(const Machine& machine) { return machine.is_software() || kSanitized; }

struct NamedCloud {
  const char* name;
  Points points;
};
inline std::vector<NamedCloud> make_clouds(int ndim, bool sorts = false) {
  return {{"a line", make_line(ndim)},
          {"a full cube", make_cube(ndim)},
          {"corners of the range", make_corners(ndim, sorts)},
          {"one voxel", make_one_voxel(ndim)},
          {"300 batches", make_batches(ndim)},
          {"equal hashes", make_equal_hashes(ndim)},
          {"a random cloud", make_random(ndim, 200, 61)}};
}

}  // namespace minuet::abi
