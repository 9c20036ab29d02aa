// Finds the row of a voxel among those that were added before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace minuet::tool {

/// Maps voxels to their rows by a hash table with open addressing. A slot holds a row, or -1 if it is free.
/// The keys are the coordinates of the rows, so the table does not store them.
class VoxelIndex {
 public:
  explicit VoxelIndex(size_t points) {
    size_t slots = 16;
    while (slots < 2 * points) slots *= 2;
    slots_.assign(slots, -1);
  }

  /// Returns the voxel's row in `coordinates` [rows, 4], and appends the voxel if it is new. Returns -1
  /// instead if the voxel is new and there are `most` rows already; the value 0 means no limit.
  int64_t row_of(const int32_t (&voxel)[3], std::vector<int32_t>& coordinates, int64_t most = 0) {
    const size_t mask = slots_.size() - 1;
    for (size_t slot = hash(voxel) & mask;; slot = (slot + 1) & mask) {
      const int64_t row = slots_[slot];
      if (row < 0) {
        if (most > 0 && static_cast<int64_t>(coordinates.size() / 4) >= most) return -1;
        slots_[slot] = static_cast<int64_t>(coordinates.size() / 4);
        coordinates.insert(coordinates.end(), {0, voxel[0], voxel[1], voxel[2]});
        return slots_[slot];
      }
      const int32_t* known = coordinates.data() + 4 * row + 1;
      if (known[0] == voxel[0] && known[1] == voxel[1] && known[2] == voxel[2]) return row;
    }
  }

 private:
  static size_t hash(const int32_t (&voxel)[3]) {
    uint64_t state = 0;
    for (const int32_t axis : voxel) {
      state = (state ^ static_cast<uint32_t>(axis)) * 0x9e3779b97f4a7c15u;
      state ^= state >> 32;
    }
    return static_cast<size_t>(state);
  }

  std::vector<int64_t> slots_;
};

}  // namespace minuet::tool
