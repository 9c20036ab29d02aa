#include "runtime/cpu/index_ops.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <optional>

#include "runtime/cpu/radix_sort.h"

namespace minuet {
namespace {

/// Gives the number of bits of a voxel's number in its superblock (Superblock). These are 6 for the block
/// in the superblock and 6 for the voxel in the block.
constexpr i32 kPlaceBits = 12;
constexpr i32 kOrderBits = 32 + kPlaceBits;

template <class Work>
void for_parts(ThreadPool& pool, i64 items, const Work& work) {
  pool.run(cpu_chunks(items),
           [&](i64 chunk, i32) { work(chunk * kCpuChunk, std::min(items, (chunk + 1) * kCpuChunk)); });
}

/// Calls work(std::integral_constant<i32, ndim>()), so that `work` knows the number of axes as a constant.
template <class Work>
void with_ndim(i32 ndim, const Work& work) {
  switch (ndim) {
    case 1:
      return work(std::integral_constant<i32, 1>());
    case 2:
      return work(std::integral_constant<i32, 2>());
    case 3:
      return work(std::integral_constant<i32, 3>());
    default:
      return work(std::integral_constant<i32, 4>());
  }
}

/// Holds coordinates, sorted by the order of their voxels in an index. A `place` is a position in the
/// sorted sequence.
struct SortedVoxels {
  /// `orders` holds, for each sorted position, the hash of the superblock in the high bits and the voxel's
  /// number in the superblock in the low kPlaceBits bits. `keys` holds, for each input position, the key of
  /// the superblock, because different superblocks may have the same hash.
  std::vector<u64> orders, keys;
  std::vector<u32> points;  // Holds, for each sorted position, the coordinate's input position.

  template <i32 Ndim>
  void sort(ThreadPool& pool, const VoxelIndex& index, const IndexLevel& level, const i32* coordinates,
            i64 count) {
    std::vector<u64> other_orders(static_cast<std::size_t>(count));
    std::vector<u32> other_points(static_cast<std::size_t>(count));
    std::vector<u32> bins(static_cast<std::size_t>(radix_bins_bytes(std::max<i64>(count, 1))) / sizeof(u32));
    orders.resize(other_orders.size());
    keys.resize(other_orders.size());
    points.resize(other_points.size());
    for_parts(pool, count, [&](i64 first, i64 end) {
      for (i64 i = first; i < end; ++i) {
        const Voxel voxel = voxel_of<Ndim>(level, coordinates + i * (Ndim + 1));
        const SuperblockName name = superblock_name<Ndim>(index.keys, level, voxel);
        keys[i] = name.key;
        orders[i] =
            static_cast<u64>(name.hash) << kPlaceBits |
            static_cast<u64>(block_in_superblock<Ndim>(voxel) * kBlockVoxels + voxel_in_block<Ndim>(voxel));
        points[i] = static_cast<u32>(i);
      }
    });
    PingPong<u64> sorted{orders.data(), other_orders.data()};
    PingPong<u32> rows{points.data(), other_points.data()};
    radix_sort(pool, count, kOrderBits, sorted, rows, bins.data());
    if (sorted.now != orders.data()) {
      orders.swap(other_orders);
      points.swap(other_points);
    }
    separate_superblocks(count);
  }

  u64 key(i64 place) const { return keys[points[place]]; }
  bool is_new_voxel(i64 place) const {
    return place == 0 || orders[place] != orders[place - 1] || key(place) != key(place - 1);
  }
  bool is_new_superblock(i64 place) const {
    return place == 0 || orders[place] >> kPlaceBits != orders[place - 1] >> kPlaceBits ||
           key(place) != key(place - 1);
  }
  bool is_new_block(i64 place) const {
    return is_new_superblock(place) || orders[place] / kBlockVoxels != orders[place - 1] / kBlockVoxels;
  }

 private:
  /// Sorts the voxels of superblocks that have the same hash by their superblocks' keys, so that the
  /// voxels of each superblock are adjacent.
  void separate_superblocks(i64 count) {
    for (i64 begin = 0, end = 0; begin < count; begin = end) {
      bool differ = false;
      for (end = begin; end < count && orders[end] >> kPlaceBits == orders[begin] >> kPlaceBits; ++end)
        differ = differ || key(end) != key(begin);
      if (!differ) continue;
      std::vector<i64> order(static_cast<std::size_t>(end - begin));
      std::iota(order.begin(), order.end(), begin);
      std::stable_sort(order.begin(), order.end(), [&](i64 a, i64 b) { return key(a) < key(b); });
      std::vector<u64> own_orders;
      std::vector<u32> own_points;
      for (const i64 place : order) own_orders.push_back(orders[place]), own_points.push_back(points[place]);
      std::copy(own_orders.begin(), own_orders.end(), orders.begin() + begin);
      std::copy(own_points.begin(), own_points.end(), points.begin() + begin);
    }
  }
};

/// Inserts a superblock (Superblock) into the hash table and returns its slot, or -1 if none is left. All
/// superblocks that precede it in the order of the rows must already be in the table.
i64 insert(const IndexLevel& level, u64 key, u32 hash, u32 first_block) {
  for (u32 slot = first_slot(level, hash); slot + 1 < level.slots; ++slot) {
    if (level.table[slot].key != 0) continue;
    level.table[slot] = {key, 0, first_block, {}};
    level.taken[slot / 32] |= 1u << slot % 32;
    return slot;
  }
  return -1;
}

/// Fills one level of an index from sorted voxels. Returns the number of rows, or -1 if the level has too
/// few slots or too little room for blocks (VoxelBlock).
template <i32 Ndim>
i64 fill_level(VoxelIndex& index, i32 number, const SortedVoxels& sorted, u32& status) {
  const IndexLevel& level = index.level[number];
  const i64 count = static_cast<i64>(sorted.orders.size());
  i64 rows = 0, blocks = 0, slot = -1;
  for (i64 place = 0; place < count; ++place) {
    const u64 order = sorted.orders[place];
    const u32 block = static_cast<u32>(order / kBlockVoxels % kBlockVoxels), voxel = order % kBlockVoxels;
    if (sorted.is_new_superblock(place)) {
      slot =
          insert(level, sorted.key(place), static_cast<u32>(order >> kPlaceBits), static_cast<u32>(blocks));
      if (slot < 0) status |= kStatusIndexFull;
      if (slot < 0) return -1;
    }
    const u32 of_block = static_cast<u32>(slot) * kBlockVoxels + block;
    if (sorted.is_new_block(place)) {
      if (blocks >= level.block_capacity) status |= kStatusPastCapacity;
      if (blocks >= level.block_capacity) return -1;
      level.table[slot].blocks |= u64{1} << block;
      level.blocks[blocks++] = {0, static_cast<i32>(rows), of_block};
    }
    if (!sorted.is_new_voxel(place)) continue;
    level.blocks[blocks - 1].voxels |= u64{1} << voxel;
    if (rows < level.capacity)
      level.rows[rows] = {static_cast<u32>((blocks - 1) * kBlockVoxels + voxel), of_block};
    ++rows;
  }
  index.blocks[number] = static_cast<i32>(blocks);
  index.rows[number] = static_cast<i32>(rows);
  if (rows > level.capacity) status |= kStatusPastCapacity;
  return rows;
}

template <i32 Ndim>
u32 check_coordinates(ThreadPool& pool, const IndexSetsRequest& request, i64 count) {
  const VoxelIndex& index = request.description;
  std::atomic<u32> status{0};
  for_parts(pool, count, [&](i64 first, i64 end) {
    u32 seen = 0;
    for (const i32* at = request.coordinates + first * (Ndim + 1);
         at < request.coordinates + end * (Ndim + 1); ++at) {
      const i64 field = (at - request.coordinates) % (Ndim + 1);
      if (field == 0 && *at < 0) {
        seen |= kStatusNegativeBatch;
      } else if (*at < index.least[field] || *at > index.greatest[field]) {
        seen |= request.outside_status;
      }
    }
    status.fetch_or(seen, std::memory_order_relaxed);
  });
  return status.load();
}

/// Finds rows of an index. It keeps the last superblock (Superblock), because the next row is often in it.
template <i32 Ndim>
class RowFinder {
 public:
  explicit RowFinder(const IndexSide& side) : index_(*side.index), level_(index_.level[side.level]) {}

  /// Returns the row of a coordinate, whose first element is the batch index, or -1 if it has no row.
  i32 find(const i64* coordinate) {
    i32 narrow[Ndim + 1];
    for (i32 f = 0; f <= Ndim; ++f) {
      narrow[f] = static_cast<i32>(coordinate[f]);
      if (narrow[f] != coordinate[f]) return -1;
    }
    if (narrow[0] < index_.least[0] || narrow[0] > index_.greatest[0]) return -1;
    const Voxel voxel = voxel_of<Ndim>(level_, narrow);
    for (i32 a = 0; a < Ndim; ++a) {
      if (i64{voxel.at[a + 1]} * level_.stride[a] != coordinate[a + 1]) return -1;
      if (!is_field(index_.keys, a, superblock_of<Ndim>(voxel, a) - level_.least[a])) return -1;
    }
    const SuperblockName name = superblock_name<Ndim>(index_.keys, level_, voxel);
    if (name.key != key_) {
      u32 slot = first_slot(level_, name.hash);
      while (level_.table[slot].key != name.key && level_.table[slot].key != 0) ++slot;
      found_ = &level_.table[slot];
      key_ = name.key;
    }
    const u64 block_bit = u64{1} << block_in_superblock<Ndim>(voxel),
              voxel_bit = u64{1} << voxel_in_block<Ndim>(voxel);
    if ((found_->blocks & block_bit) == 0) return -1;
    const VoxelBlock& block =
        level_.blocks[found_->first_block + __builtin_popcountll(found_->blocks & (block_bit - 1))];
    if ((block.voxels & voxel_bit) == 0) return -1;
    return block.first_row + __builtin_popcountll(block.voxels & (voxel_bit - 1));
  }

 private:
  const VoxelIndex& index_;
  const IndexLevel& level_;
  u64 key_ = 0;
  const Superblock* found_ = nullptr;
};

/// Writes the coordinate of a row of an index to `coordinate`, whose first element is the batch index.
template <i32 Ndim>
void read_row(const IndexSide& side, i64 row, i32* coordinate) {
  const IndexLevel& level = side.index->level[side.level];
  const RowPlace place = level.rows[row];
  const Voxel voxel = voxel_at<Ndim>(side.index->keys, level, level.table[place.block / kBlockVoxels].key,
                                     static_cast<i32>(place.block % kBlockVoxels),
                                     static_cast<i32>(place.voxel % kBlockVoxels));
  coordinate[0] = voxel.at[0];
  for (i32 a = 0; a < Ndim; ++a) coordinate[a + 1] = voxel.at[a + 1] * level.stride[a];
}

/// Returns the coordinates that follow from the rows of levels of an index. The same coordinate may occur
/// several times.
template <i32 Ndim>
std::vector<i32> reached_coordinates(const VoxelIndex& index, llvm::ArrayRef<LevelSource> sources) {
  std::vector<i32> reached;
  for (const LevelSource& source : sources) {
    std::optional<RowFinder<Ndim>> other;
    if (source.also_in >= 0) other.emplace(IndexSide{&index, source.also_in});
    for (i64 row = 0; row < index.rows[source.parent]; ++row) {
      i32 coordinate[Ndim + 1], cell[Ndim + 1];
      read_row<Ndim>({&index, source.parent}, row, coordinate);
      for (i32 number = 0; number < source.cells; ++number) {
        if (!reached_cell(source, Ndim, coordinate, number, cell)) continue;
        for (i32 a = 0; a < Ndim; ++a) cell[a + 1] *= source.stride[a];
        if (other) {
          const std::vector<i64> wide(cell, cell + Ndim + 1);
          if (other->find(wide.data()) < 0) continue;
        }
        reached.insert(reached.end(), cell, cell + Ndim + 1);
      }
    }
  }
  return reached;
}

template <i32 Ndim>
void index_sets(ThreadPool& pool, const IndexSetsRequest& request) {
  const i64 given = request.given_count ? *request.given_count : request.most;
  const bool fits = given >= 0 && given <= request.most;
  const i64 count = fits ? given : 0;
  std::fill_n(request.zeros, request.zero_words, 0);
  *request.points = static_cast<i32>(count);
  *request.status = (fits ? 0 : kStatusPastCapacity) | check_coordinates<Ndim>(pool, request, count);
  for (i64 word = 0; word < request.memory.slots / 32; ++word) {
    if (request.memory.taken[word] == 0) continue;
    request.memory.taken[word] = 0;
    std::fill_n(request.memory.table + word * 32, 32, Superblock{});
  }
  VoxelIndex& index = *request.memory.index;
  std::memcpy(&index, &request.description,
              static_cast<std::size_t>(index_header_bytes(request.description.levels)));
  if (*request.status != 0) return;
  std::vector<i32> finest;  // Holds the coordinates of level 0, from which the other levels are made.
  for (i32 l = 0; l < index.levels; ++l) {
    SortedVoxels sorted;
    std::vector<i32> reached;
    const bool is_of_points = l < request.levels_of_points();
    if (!is_of_points) {
      reached = reached_coordinates<Ndim>(
          index, request.sources[static_cast<std::size_t>(l - request.levels_of_points())]);
    }
    const std::vector<i32>& made_of = is_of_points ? finest : reached;
    const i32* const coordinates = l == 0 ? request.coordinates : made_of.data();
    sorted.sort<Ndim>(pool, index, index.level[l], coordinates,
                      l == 0 ? count : static_cast<i64>(made_of.size()) / (Ndim + 1));
    const i64 rows = fill_level<Ndim>(index, l, sorted, *request.status);
    if (*request.status != 0) return;
    *request.counts[static_cast<std::size_t>(l)] = static_cast<i32>(rows);
    if (l > 0) continue;
    i32 row = -1;
    for (i64 place = 0; place < count; ++place) {
      const u32 point = sorted.points[place];
      if (sorted.is_new_voxel(place)) {
        ++row;
        if (request.source_row) request.source_row[row] = static_cast<i32>(point);
        finest.insert(finest.end(), coordinates + i64{point} * (Ndim + 1),
                      coordinates + (i64{point} + 1) * (Ndim + 1));
      }
      request.row_of[point] = row;
    }
    if (request.refuses_duplicates && rows < count) *request.status |= kStatusDuplicate;
  }
}

template <i32 Ndim>
void search_index(ThreadPool& pool, const IndexedSearch& search) {
  const MapView& map = *search.map;
  const i64 queries = *search.queries.count;
  const i32 volume = map.geometry.volume;
  for_parts(pool, queries, [&](i64 first, i64 end) {
    std::vector<i32> counts(static_cast<std::size_t>(volume));
    RowFinder<Ndim> finder(search.sources.side);
    for (i64 q = first; q < end; ++q) {
      i32 query[Ndim + 1];
      read_row<Ndim>(search.queries.side, q, query);
      for (i32 word = 0; map.masks && word < mask_words(volume); ++word) map.masks[word * queries + q] = 0;
      for (i32 k = 0; k < volume; ++k) {
        i64 coordinate[Ndim + 1] = {query[0]};
        i32 rest = k;
        for (i32 a = Ndim - 1; a >= 0; --a) {
          const i32 size = map.geometry.kernel_size[a];
          coordinate[a + 1] =
              query[a + 1] + (map.offsets.empty() ? axis_offset(map.geometry, a, rest % size)
                                                  : i64{map.offsets[k][a]} * map.geometry.step[a]);
          rest /= size;
        }
        const i32 row = finder.find(coordinate);
        if (map.rows) map.rows[k * queries + q] = row;
        if (row < 0) continue;
        ++counts[k];
        if (map.masks) map.masks[k / 32 * queries + q] |= 1u << k % 32;
      }
    }
    for (i32 k = 0; k < volume && map.counts; ++k)
      __atomic_fetch_add(map.counts + k, counts[k], __ATOMIC_RELAXED);
  });
}

}  // namespace

void index_sets_cpu(ThreadPool& pool, i32 ndim, const IndexSetsRequest& request) {
  with_ndim(ndim, [&](auto axes) { index_sets<axes.value>(pool, request); });
}

void search_index_cpu(ThreadPool& pool, i32 ndim, const IndexedSearch& search) {
  with_ndim(ndim, [&](auto axes) { search_index<axes.value>(pool, search); });
}

void list_voxels_cpu(ThreadPool& pool, i32 ndim, const Coords& coords, i32* coordinates) {
  with_ndim(ndim, [&](auto axes) {
    for_parts(pool, *coords.count, [&](i64 first, i64 end) {
      for (i64 row = first; row < end; ++row)
        read_row<axes.value>(coords.side, row, coordinates + row * (axes.value + 1));
    });
  });
}

}  // namespace minuet
