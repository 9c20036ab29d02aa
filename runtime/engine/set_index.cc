#include "runtime/engine/set_index.h"

#include <algorithm>
#include <functional>

#include "runtime/engine/arena.h"

namespace minuet {
namespace {

constexpr i32 kDefaultBatchBits = 13;

i64 next_multiple(i64 value, i64 step) { return (value + step - 1) / step * step; }
i64 most_blocks(i64 capacity) { return std::min(capacity, kMostIndexSlots); }
i64 row_tiles_of(i64 capacity) { return (most_blocks(capacity) + kBlockTile - 1) / kBlockTile + 1; }

/// Returns the coordinate, on one axis, of the superblock (Superblock) that contains `coordinate`.
i32 superblock_of_coordinate(i32 ndim, i32 axis, i32 coordinate, i32 stride) {
  return voxel_of(coordinate, stride, -1) >> 2 * block_bits(ndim, axis);
}

/// Returns true if all blocks and voxels of the coarser level are unions of those of the finer one.
bool is_nested(const AxisArray& fine, const AxisArray& coarse, i32 ndim) {
  for (i32 a = 0; a < ndim; ++a) {
    if (coarse[a] % fine[a] != 0) return false;
  }
  return true;
}

}  // namespace

Bounds default_index_bounds(i32 ndim) {
  // Each bit goes to the axis with the narrowest range, so that all axes have about the same range.
  i32 bits[kMaxDim] = {};
  const auto range_bits = [&](i32 axis) { return bits[axis] + 2 * block_bits(ndim, axis); };
  constexpr i32 kMostRangeBits = 31;
  for (i32 left = kMostKeyBits - kDefaultBatchBits; left > 0; --left) {
    i32 narrowest = 0;
    for (i32 a = 1; a < ndim; ++a) {
      if (range_bits(a) < range_bits(narrowest)) narrowest = a;
    }
    if (range_bits(narrowest) == kMostRangeBits) break;
    ++bits[narrowest];
  }
  Bounds bounds;
  bounds.greatest[0] = (1 << kDefaultBatchBits) - 1;
  for (i32 a = 0; a < ndim; ++a) {
    const i64 half = i64{1} << (range_bits(a) - 1), superblock = i64{1} << 2 * block_bits(ndim, a);
    bounds.least[a + 1] = static_cast<i32>(-half);
    // The range has one superblock less than the bits allow, because the key field 0 is not used.
    bounds.greatest[a + 1] = static_cast<i32>(half - superblock - 1);
  }
  return bounds;
}

Bounds widened(const Bounds& bounds, i32 ndim) {
  Bounds wide = bounds;
  for (i32 f = 0; f <= ndim; ++f) {
    const i64 span = static_cast<i64>(bounds.greatest[f]) - bounds.least[f];
    constexpr i64 kLeast = -(i64{1} << 30), kGreatest = (i64{1} << 30) - 1;
    // The result is never narrower than `bounds`, even where these exceed the limits.
    wide.least[f] =
        static_cast<i32>(std::min<i64>(bounds.least[f], std::max(bounds.least[f] - span, kLeast)));
    wide.greatest[f] =
        static_cast<i32>(std::max<i64>(bounds.greatest[f], std::min(bounds.greatest[f] + span, kGreatest)));
  }
  wide.least[0] = std::min(bounds.least[0], 0);
  return wide;
}

i32 levels_of_points(llvm::ArrayRef<SetSpec> sets) {
  return static_cast<i32>(llvm::find_if(sets, std::mem_fn(&SetSpec::is_reached_or_combined)) - sets.begin());
}

llvm::Expected<VoxelIndex> describe_index(i32 ndim, const Bounds& bounds, llvm::ArrayRef<SetSpec> sets) {
  if (sets.size() > kMostIndexedLevels) {
    return make_error(StatusCode::OutOfRange, "an index has at most {0} levels, and {1} are needed",
                      kMostIndexedLevels, sets.size());
  }
  VoxelIndex index{};
  std::copy_n(bounds.least, kMaxFields, index.least);
  std::copy_n(bounds.greatest, kMaxFields, index.greatest);
  index.levels = static_cast<i32>(sets.size());
  for (const SetSpec& set : sets.take_front(static_cast<std::size_t>(levels_of_points(sets)))) {
    const AxisArray& stride = set.tensor_stride;
    const i64 multiple[kMaxDim] = {stride[0], stride[1], stride[2], stride[3]};
    MINUET_TRY(check_least(ndim, bounds, multiple));
  }
  MINUET_ASSIGN(const std::vector<Bounds> ranges, bounds_of_sets(ndim, bounds, sets));
  i32 total = 0;
  for (i32 a = ndim - 1; a >= 0; --a) {
    i64 most = 0;  // Gives the largest key field of all levels.
    for (std::size_t l = 0; l < sets.size(); ++l) {
      const i32 stride = sets[l].tensor_stride[a];
      IndexLevel& level = index.level[l];
      level.lowest[a] = ranges[l].least[a + 1];
      level.highest[a] = ranges[l].greatest[a + 1];
      const i64 least = superblock_of_coordinate(ndim, a, level.lowest[a], stride);
      const i64 greatest = superblock_of_coordinate(ndim, a, level.highest[a], stride);
      most = std::max(most, greatest - least + 1);
      level.stride[a] = stride;
      level.shift[a] = log2_or_none(stride);
      level.least[a] = static_cast<i32>(least - 1);
    }
    index.keys.shift[a + 1] = total;
    index.keys.bits[a + 1] = bit_width_of(static_cast<u64>(most));
    total += index.keys.bits[a + 1];
  }
  index.keys.shift[0] = total;
  index.keys.bits[0] = bit_width_of(static_cast<u64>(bounds.greatest[0]));
  MINUET_TRY(check_key_bits(ndim, bounds, index.keys.bits));
  // The other fields may take all 64 bits, and a shift by 64 bits is undefined.
  if (index.keys.bits[0] == 0) index.keys.shift[0] = 0;
  const auto of_points = static_cast<std::size_t>(levels_of_points(sets));
  for (std::size_t l = of_points; l-- > 0;) {
    const bool rest = l + 1 == of_points || index.level[l + 1].rest_is_nested != 0;
    const bool nested = l == 0 || is_nested(sets[l - 1].tensor_stride, sets[l].tensor_stride, ndim);
    index.level[l].rest_is_nested = rest && nested ? 1 : 0;
  }
  return index;
}

Bounds narrowed(i32 ndim, const Bounds& bounds, llvm::ArrayRef<SetSpec> sets) {
  const auto is_too_wide = [&](const Bounds& tried) {
    return llvm::errorToBool(describe_index(ndim, tried, sets).takeError());
  };
  if (!is_too_wide(bounds)) return bounds;
  // A set that is reached is often wider than its parent by a few cells, for which a key needs a bit more.
  Bounds narrow = bounds;
  for (i32 f = 1; f <= ndim; ++f) {
    // An axis with a shape begins at 0 and keeps its whole range.
    if (bounds.least[f] < 0)
      narrow.least[f] -= narrow.least[f] / 64, narrow.greatest[f] -= narrow.greatest[f] / 64;
  }
  if (!is_too_wide(narrow)) return narrow;
  narrow = bounds;
  while (is_too_wide(narrow)) {
    if (narrow.greatest[0] > narrow.least[0]) {
      narrow.greatest[0] = narrow.least[0] + (narrow.greatest[0] - narrow.least[0]) / 2;
      continue;
    }
    bool is_shorter = false;
    for (i32 f = 1; f <= ndim; ++f) {
      is_shorter = is_shorter || narrow.least[f] != narrow.greatest[f];
      narrow.least[f] /= 2, narrow.greatest[f] /= 2;
    }
    if (!is_shorter) return bounds;
  }
  return narrow;
}

i64 default_level_slots(i64 capacity) {
  return std::min(next_multiple(2 * capacity + kSlotTile / 4, kSlotTile), kMostIndexSlots);
}

i64 level_slots(i64 capacity, i64 declared) {
  if (declared == 0) return default_level_slots(capacity);
  const i64 least = (capacity + kMostRowsPerSlot - 1) / kMostRowsPerSlot;
  return std::min(next_multiple(std::max(declared, least), kSlotTile), kMostIndexSlots);
}

llvm::Error check_slots(i64 declared) {
  if (declared < 0) {
    return make_error(StatusCode::InvalidArgument,
                      "the number of slots is {0}; it must be 0, which stands for the default, or more",
                      declared);
  }
  if (declared > kMostIndexSlots) {
    return make_error(StatusCode::OutOfRange,
                      "{0} slots are more than the {1} that a level of an index can have: declare fewer",
                      declared, kMostIndexSlots);
  }
  return llvm::Error::success();
}

void place_index_table(Placement& parts, llvm::ArrayRef<i64> capacities, IndexMemory& memory,
                       llvm::ArrayRef<i64> declared_slots) {
  memory.slots = memory.sum_words = 0;
  for (std::size_t l = 0; l < capacities.size(); ++l) {
    const i64 slots = level_slots(capacities[l], slots_declared_for(l, declared_slots));
    memory.slots += slots;
    memory.sum_words += slots / kSlotTile + row_tiles_of(capacities[l]);
  }
  memory.index = reinterpret_cast<VoxelIndex*>(
      parts.take<char>(index_header_bytes(static_cast<i64>(capacities.size()))));
  memory.taken = parts.take<u32>(memory.slots / 32);
  memory.table = parts.take<Superblock>(memory.slots);
  memory.sums = parts.take<u32>(memory.sum_words);
}

void place_index_rows(Placement& parts, i64 capacity, i32 level, IndexMemory& memory) {
  memory.rows[level] = parts.take<RowPlace>(capacity);
}

void place_index_blocks(Placement& parts, i64 capacity, i32 level, IndexMemory& memory) {
  memory.blocks[level] = parts.take<VoxelBlock>(most_blocks(capacity));
}

void assign_memory(VoxelIndex& description, const IndexMemory& memory, llvm::ArrayRef<i64> capacities,
                   llvm::ArrayRef<i64> declared_slots) {
  i64 slot = 0, sum = 0;
  for (std::size_t l = 0; l < capacities.size(); ++l) {
    const i64 slots = level_slots(capacities[l], slots_declared_for(l, declared_slots));
    IndexLevel& level = description.level[l];
    // The last slots of the table are for superblocks that linear probing pushes past the range of the
    // hashes.
    level.hash_slots = static_cast<u32>(slots - kSlotTile / 4);
    level.slots = static_cast<u32>(slots);
    level.capacity = static_cast<u32>(capacities[l]);
    level.block_capacity = static_cast<u32>(most_blocks(capacities[l]));
    level.table = memory.table + slot;
    level.taken = memory.taken + slot / 32;
    level.slot_sums = memory.sums + sum;
    level.block_sums = level.slot_sums + slots / kSlotTile;
    level.blocks = memory.blocks[l];
    level.rows = memory.rows[l];
    slot += slots;
    sum += slots / kSlotTile + row_tiles_of(capacities[l]);
  }
}

IndexSizes measure_index(llvm::ArrayRef<i64> capacities, llvm::ArrayRef<i64> declared_slots) {
  IndexMemory memory;
  Placement table(nullptr), rows(nullptr);
  place_index_table(table, capacities, memory, declared_slots);
  for (std::size_t l = 0; l < capacities.size(); ++l) {
    place_index_rows(rows, capacities[l], static_cast<i32>(l), memory);
    place_index_blocks(rows, capacities[l], static_cast<i32>(l), memory);
  }
  return {memory.slots, table.bytes(), rows.bytes()};
}

bool fills_voxels(i32 ndim, const AxisArray& kernel_size, const AxisArray& dilation,
                  const AxisArray& fine_stride, const AxisArray& coarse_stride) {
  for (i32 a = 0; a < ndim; ++a) {
    const i32 size = kernel_size[a];
    if (size > 2 || dilation[a] != 1 || coarse_stride[a] != size * fine_stride[a]) return false;
  }
  return true;
}

}  // namespace minuet
