#include "tools/minuet/library/view_levels.h"

#include <algorithm>
#include <numeric>

#include "tools/minuet/base/error.h"

namespace minuet::tool {
namespace {

struct Pair {
  int32_t offset, input, output;
};
static_assert(sizeof(Pair) == 3 * sizeof(int32_t));

llvm::Expected<std::vector<Pair>> pairs_of(minuet_coordinates* input, minuet_coordinates* output,
                                           int kernel_size) {
  minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
  for (int axis = 0; axis < 3; ++axis) options.kernel_size[axis] = kernel_size;
  minuet_kernel_map* made = nullptr;
  MINUET_TRY(check(minuet_kernel_map_create(input, output, &options, nullptr, &made)));
  const MapHandle map(made);
  int64_t count = 0;
  MINUET_TRY(check(minuet_kernel_map_query_pairs(map.get(), &count)));
  std::vector<Pair> pairs(static_cast<size_t>(count));
  if (count > 0) MINUET_TRY(check(minuet_kernel_map_export(map.get(), &pairs.front().offset, nullptr)));
  return pairs;
}

llvm::Expected<ViewLevel> describe_level(minuet_device* device, minuet_coordinates* set, int stride,
                                         int kernel_size) {
  ViewLevel level;
  level.stride = stride;
  const int64_t rows = minuet_coordinates_rows(set);
  level.coordinates.resize(4 * static_cast<size_t>(rows));
  MINUET_ASSIGN(const DeviceBuffer memory, DeviceBuffer::allocate(device, 4 * level.coordinates.size()));
  MINUET_TRY(check(minuet_coordinates_export(set, static_cast<int32_t*>(memory.get()), nullptr)));
  MINUET_TRY(check(minuet_device_synchronize(device, nullptr)));
  MINUET_TRY(memory.download(level.coordinates.data()));
  MINUET_ASSIGN(const std::vector<Pair> pairs, pairs_of(set, set, kernel_size));
  level.pairs = static_cast<int64_t>(pairs.size());
  level.neighbours.resize(static_cast<size_t>(rows));
  for (const Pair& pair : pairs) ++level.neighbours[static_cast<size_t>(pair.output)];
  return level;
}

/// Removes rows that repeat a voxel, which have no neighbours because they are in no kernel map. Returns the
/// new index of each row, or -1 if the row was removed.
std::vector<int32_t> drop_duplicates(ViewLevel& level) {
  std::vector<int32_t> places;
  size_t kept = 0;
  for (size_t row = 0; row < level.neighbours.size(); ++row) {
    places.push_back(level.neighbours[row] > 0 ? static_cast<int32_t>(kept) : -1);
    if (places.back() < 0) continue;
    std::copy_n(level.coordinates.begin() + static_cast<int64_t>(4 * row), 4,
                level.coordinates.begin() + static_cast<int64_t>(4 * kept));
    level.neighbours[kept++] = level.neighbours[row];
  }
  level.neighbours.resize(kept);
  level.coordinates.resize(4 * kept);
  return places;
}

}  // namespace

llvm::Expected<std::vector<ViewLevel>> make_levels(minuet_device* device, const VoxelCloud& voxels,
                                                   int kernel_size, bool keep_first_duplicate) {
  MINUET_ASSIGN(const DeviceBuffer memory, upload_coordinates(device, voxels));
  minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
  options.keep_first_duplicate = keep_first_duplicate;
  minuet_coordinates* made = nullptr;
  MINUET_TRY(check(minuet_coordinates_create(device, &options, static_cast<const int32_t*>(memory.get()),
                                             voxels.count(), nullptr, &made)));
  CoordinatesHandle set(made);
  MINUET_ASSIGN(ViewLevel finest, describe_level(device, set.get(), 1, kernel_size));
  finest.parents = drop_duplicates(finest);
  // Maps each row of the coordinate set `set` to its row in the last one of `levels`.
  std::vector<int32_t> places = finest.parents;
  std::vector<ViewLevel> levels = {std::move(finest)};
  while (levels.size() < kViewStrides.size()) {
    const int32_t by_two[MINUET_MAX_DIM] = {2, 2, 2, 1};
    MINUET_TRY(check(minuet_coordinates_downsample(set.get(), by_two, nullptr, &made)));
    CoordinatesHandle coarse(made);
    // From a coarse voxel, a kernel of size 2 reaches exactly the voxels inside it.
    MINUET_ASSIGN(const std::vector<Pair> pairs, pairs_of(set.get(), coarse.get(), 2));
    std::vector<int32_t> parents(levels.back().neighbours.size(), -1);
    for (const Pair& pair : pairs)
      parents[static_cast<size_t>(places[static_cast<size_t>(pair.input)])] = pair.output;
    set = std::move(coarse);
    MINUET_ASSIGN(ViewLevel level,
                  describe_level(device, set.get(), kViewStrides[levels.size()], kernel_size));
    level.parents = std::move(parents);
    places.resize(level.neighbours.size());
    std::iota(places.begin(), places.end(), 0);
    levels.push_back(std::move(level));
  }
  return levels;
}

}  // namespace minuet::tool
