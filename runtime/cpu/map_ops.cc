#include "runtime/cpu/map_ops.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <mutex>
#include <numeric>
#include <utility>

#include "runtime/engine/arena.h"

namespace minuet {
namespace {

i64 scratch_chunks(const MapLimits& limits) {
  return std::max<i64>(1, limits.max_volume) * std::max<i64>(1, cpu_chunks(limits.most_keys()));
}

/// Calls work(first, end, chunk) for chunks of fixed size that cover [0, items).
template <class Work>
void for_chunks(ThreadPool& pool, i64 items, const Work& work) {
  pool.run(cpu_chunks(items),
           [&](i64 chunk, i32) { work(chunk * kCpuChunk, std::min(items, (chunk + 1) * kCpuChunk), chunk); });
}

/// Replaces `values` by their exclusive prefix sums and returns the total.
i64 exclusive_sums(i64* values, i64 count) {
  i64 sum = 0;
  for (i64 i = 0; i < count; ++i) {
    const i64 value = values[i];
    values[i] = sum;
    sum += value;
  }
  return sum;
}

/// Describes where unique keys are stored. Keys beyond the capacity of `coords` set kStatusPastCapacity and
/// are dropped.
struct UniqueTarget {
  Coords coords;
  u32* status = nullptr;
  u32 duplicate_status = 0;  // These status bits are set if a key occurs twice.
  i32* source_row = nullptr;
  i32* row_of = nullptr;
};

/// Stores each distinct key of `keys`, which must be sorted, in `target`. `rows`, which may be null, holds
/// the caller's row of each key.
template <class Key>
void keep_unique(ThreadPool& pool, const MapScratch& scratch, const Key* keys, const u32* rows, i64 count,
                 const UniqueTarget& target) {
  auto is_head = [&](i64 i) { return i == 0 || keys[i] != keys[i - 1]; };
  for_chunks(pool, count, [&](i64 first, i64 end, i64 chunk) {
    i64 heads = 0;
    for (i64 i = first; i < end; ++i) heads += is_head(i) ? 1 : 0;
    scratch.chunks[chunk] = heads;
  });
  const i64 heads = exclusive_sums(scratch.chunks, cpu_chunks(count)), capacity = target.coords.capacity;
  if (heads > capacity) *target.status |= kStatusPastCapacity;
  if (heads < count && target.duplicate_status != 0) *target.status |= target.duplicate_status;
  *target.coords.count = static_cast<i32>(std::min(heads, capacity));
  Key* unique = static_cast<Key*>(target.coords.keys);
  for_chunks(pool, count, [&](i64 first, i64 end, i64 chunk) {
    // This is the row of the last unique key so far, which may be in an earlier chunk.
    i64 row = scratch.chunks[chunk] - 1;
    for (i64 i = first; i < end; ++i) {
      if (is_head(i) && ++row < capacity) {
        unique[row] = keys[i];
        // The sort is stable, so the first of equal keys is the one that the caller gave first.
        if (target.source_row != nullptr) target.source_row[row] = static_cast<i32>(rows[i]);
      }
      if (target.row_of != nullptr) target.row_of[rows[i]] = static_cast<i32>(row);
    }
  });
}

/// Returns the kStatus... bits for the errors of one coordinate, or 0 if it has none.
u32 check_coordinate(const CloudLayout& cloud, const i32* coordinate) {
  u32 status = coordinate[0] < 0 ? kStatusNegativeBatch : 0;
  for (i32 f = 0; f < cloud.keys.fields; ++f) {
    if (coordinate[f] < cloud.least[f] || coordinate[f] > cloud.greatest[f]) status |= kStatusOutOfBounds;
  }
  return status;
}

/// Returns the row of `key` in the sorted keys [first, end), or -1 if it is not there. Moves `first` forward
/// to the first key that is not less than `key`, as a merge does.
template <class Key>
i32 find_from(const Key* keys, i64 end, Key key, i64& first) {
  // The step doubles, because the next key is usually close, but a large gap must not cost a linear scan.
  i64 step = 1;
  while (first + step < end && keys[first + step] < key) {
    first += step;
    step *= 2;
  }
  first = std::lower_bound(keys + first, keys + std::min(end, first + step + 1), key) - keys;
  return first < end && keys[first] == key ? static_cast<i32>(first) : -1;
}

}  // namespace

MapScratch place_map_scratch(const MapLimits& limits, void* workspace) {
  const i64 capacity = std::max<i64>(1, limits.most_keys());
  Placement parts(static_cast<char*>(workspace));
  MapScratch scratch;
  for (void*& keys : scratch.keys) keys = parts.take<char>(capacity * key_bytes(limits.key()));
  for (u32*& rows : scratch.rows) rows = parts.take<u32>(capacity);
  scratch.bins = parts.take<u32>(radix_bins_bytes(capacity) / static_cast<i64>(sizeof(u32)));
  scratch.chunks = parts.take<i64>(scratch_chunks(limits));
  scratch.bytes = parts.bytes();
  return scratch;
}

void find_bounds_cpu(ThreadPool& pool, i32 ndim, const i32* coordinates, i64 count, i32* bounds) {
  std::fill(bounds, bounds + kMaxFields, INT_MAX);
  std::fill(bounds + kMaxFields, bounds + 2 * kMaxFields, INT_MIN);
  const i32 fields = ndim + 1;
  std::mutex mutex;
  for_chunks(pool, count, [&](i64 first, i64 end, i64) {
    i32 least[kMaxFields], greatest[kMaxFields];
    std::copy(coordinates + first * fields, coordinates + (first + 1) * fields, least);
    std::copy(least, least + fields, greatest);
    for (i64 i = first; i < end; ++i) {
      for (i32 f = 0; f < fields; ++f) {
        least[f] = std::min(least[f], coordinates[i * fields + f]);
        greatest[f] = std::max(greatest[f], coordinates[i * fields + f]);
      }
    }
    std::lock_guard<std::mutex> lock(mutex);
    for (i32 f = 0; f < fields; ++f) {
      bounds[f] = std::min(bounds[f], least[f]);
      bounds[kMaxFields + f] = std::max(bounds[kMaxFields + f], greatest[f]);
    }
  });
}

void find_layout_cpu(ThreadPool& pool, i32 ndim, const LayoutRequest& request) {
  const CloudState& state = request.cloud;
  const i64 count = request.given_count ? *request.given_count : request.most;
  const bool fits = count >= 0 && count <= request.most;
  *state.points = fits ? static_cast<i32>(count) : 0;
  *state.status = fits ? 0 : kStatusPastCapacity;
  Bounds bounds;
  if (request.declared) {
    bounds = *request.declared;
  } else {
    find_bounds_cpu(pool, ndim, request.coordinates, *state.points, state.bounds);
    if (*state.points > 0) bounds = read_bounds(state.bounds);
  }
  CloudLayout cloud = make_bounded_layout(ndim, bounds.least, bounds.greatest, request.guard, request.period);
  u32 status = layout_status(cloud, ndim, request.period, request.key_bits);
  for (i32 f = 0; f <= ndim && request.limits && !request.declared && *state.points > 0; ++f) {
    const bool is_inside =
        bounds.least[f] >= request.limits->least[f] && bounds.greatest[f] <= request.limits->greatest[f];
    if (!is_inside) status |= kStatusOutOfBounds;
  }
  if (status != 0) {
    *state.status |= status;
    *state.points = 0;
    cloud.keys = KeyLayout{};
  }
  *state.layout = cloud;
}

template <class Key>
void build_coords_cpu(ThreadPool& pool, const MapScratch& scratch, const BuildCoordsRequest& request) {
  PingPong<Key> keys{static_cast<Key*>(scratch.keys[0]), static_cast<Key*>(scratch.keys[1])};
  PingPong<u32> rows{scratch.rows[0], scratch.rows[1]};
  const CloudLayout& cloud = *request.layout;
  const i64 count = *request.count;
  std::atomic<u32> status{0};
  for_chunks(pool, count, [&](i64 first, i64 end, i64) {
    u32 seen = 0;
    for (i64 i = first; i < end; ++i) {
      const i32* coordinate = request.coordinates + i * cloud.keys.fields;
      const u32 bad = check_coordinate(cloud, coordinate);
      // A coordinate that is out of bounds has no key, so the key of cloud.least, a valid coordinate, is
      // stored instead. The coordinate set is not used, because the status reports an error.
      keys.now[i] = pack_key<Key>(cloud.keys, bad == 0 ? coordinate : cloud.least);
      rows.now[i] = static_cast<u32>(i);
      seen |= bad;
    }
    status.fetch_or(seen, std::memory_order_relaxed);
  });
  if (request.status != nullptr) *request.status |= status.load();
  radix_sort(pool, count, cloud.keys.total_bits, keys, rows, scratch.bins);
  keep_unique(pool, scratch, keys.now, rows.now, count,
              {request.coords, request.status, request.refuses_duplicates ? kStatusDuplicate : 0,
               request.source_row, request.row_of});
}

/// Makes the set of all cells that follow from DownsampleRequest::sources.
template <class Key>
void reach_cpu(ThreadPool& pool, const MapScratch& scratch, const DownsampleRequest& request) {
  PingPong<Key> keys{static_cast<Key*>(scratch.keys[0]), static_cast<Key*>(scratch.keys[1])};
  PingPong<u32> rows;
  const KeyLayout& layout = request.layout->keys;
  const i32 ndim = layout.fields - 1;
  i64 count = 0;
  for (std::size_t i = 0; i < request.sources.size(); ++i) {
    const LevelSource& source = request.sources[i];
    const Coords& parent = request.parent(i);
    for (i64 row = 0; row < *parent.count; ++row) {
      i32 coordinate[kMaxFields], cell[kMaxFields];
      unpack_key(layout, static_cast<const Key*>(parent.keys)[row], coordinate);
      for (i32 number = 0; number < source.cells; ++number) {
        if (!reached_cell(source, ndim, coordinate, number, cell)) continue;
        for (i32 a = 0; a < ndim; ++a) cell[a + 1] *= source.stride[a];
        const Key key = pack_key<Key>(layout, cell);
        const Key* const others = static_cast<const Key*>(request.other.keys);
        if (source.also_in >= 0 && !std::binary_search(others, others + *request.other.count, key)) continue;
        keys.now[count++] = key;
      }
    }
  }
  radix_sort(pool, count, layout.total_bits, keys, rows, scratch.bins);
  keep_unique(pool, scratch, keys.now, static_cast<const u32*>(nullptr), count,
              {request.coarse, request.status});
}

template <class Key>
void downsample_cpu(ThreadPool& pool, const MapScratch& scratch, const DownsampleRequest& request) {
  if (!request.sources.empty()) return reach_cpu<Key>(pool, scratch, request);
  PingPong<Key> keys{static_cast<Key*>(scratch.keys[0]), static_cast<Key*>(scratch.keys[1])};
  PingPong<u32> rows;
  const Key* fine = static_cast<const Key*>(request.fine.keys);
  const KeyLayout& layout = request.layout->keys;
  const i64 count = *request.fine.count;
  for_chunks(pool, count, [&](i64 first, i64 end, i64) {
    for (i64 i = first; i < end; ++i) keys.now[i] = floor_key(layout, fine[i], request.stride.data());
  });
  radix_sort(pool, count, layout.total_bits, keys, rows, scratch.bins);
  keep_unique(pool, scratch, keys.now, static_cast<const u32*>(nullptr), count,
              {request.coarse, request.status});
}

/// Returns offset k of a map as a number to add to a key.
template <class Key>
Key delta_of(const KeyLayout& layout, const MapView& map, i32 k) {
  if (map.offsets.empty()) return offset_key<Key>(layout, map.geometry, k);
  AxisArray cells{};
  for (i32 a = 0; a < map.geometry.ndim; ++a) cells[a] = map.offsets[k][a] * map.geometry.step[a];
  return listed_key<Key>(layout, cells.data());
}

template <class Key>
void search_cpu(ThreadPool& pool, const SearchRequest& request) {
  const Key* sources = static_cast<const Key*>(request.sources.keys);
  const Key* queries = static_cast<const Key*>(request.queries.keys);
  const i64 source_count = *request.sources.count, query_count = *request.queries.count;
  const MapView& map = *request.map;
  const i64 chunks = cpu_chunks(query_count);
  // Queries remain sorted when one offset is added to all of them. Each chunk therefore finds the position of
  // its first query once and then moves forward.
  pool.run(map.geometry.volume * chunks, [&](i64 task, i32) {
    const i64 k = task / chunks, first = task % chunks * kCpuChunk;
    const Key delta = delta_of<Key>(request.layout->keys, map, static_cast<i32>(k));
    i32* row = map.rows + k * query_count;
    i64 place = 0;
    for (i64 q = first; q < std::min(query_count, first + kCpuChunk); ++q) {
      row[q] = find_from(sources, source_count, static_cast<Key>(queries[q] + delta), place);
    }
  });
}

template <class Key>
void unpack_cpu(ThreadPool& pool, const Coords& coords, const KeyLayout& layout, i32* coordinates) {
  const Key* keys = static_cast<const Key*>(coords.keys);
  for_chunks(pool, *coords.count, [&](i64 first, i64 end, i64) {
    for (i64 i = first; i < end; ++i) unpack_key(layout, keys[i], coordinates + i * layout.fields);
  });
}

void count_pairs_cpu(ThreadPool& pool, const MapScratch& scratch, i64 query_count, const MapView& map) {
  const i64 chunks = cpu_chunks(query_count);
  // Returns the range [first, end) of the map's [volume][queries] entries that a task processes.
  const auto entries = [&](i64 task) {
    const i64 k = task / chunks, first = task % chunks * kCpuChunk;
    return std::pair(k * query_count + first, k * query_count + std::min(query_count, first + kCpuChunk));
  };
  pool.run(map.geometry.volume * chunks, [&](i64 task, i32) {
    const auto [first, end] = entries(task);
    scratch.chunks[task] = std::count_if(map.rows + first, map.rows + end, [](i32 row) { return row >= 0; });
  });
  for (i64 k = 0; k < map.geometry.volume; ++k) {
    const i64* of_offset = scratch.chunks + k * chunks;
    map.counts[k] = static_cast<i32>(std::accumulate(of_offset, of_offset + chunks, i64{0}));
  }
  const i64 pairs = exclusive_sums(scratch.chunks, map.geometry.volume * chunks);
  map.positions[map.geometry.volume * query_count] = static_cast<i32>(pairs);
  pool.run(map.geometry.volume * chunks, [&](i64 task, i32) {
    const auto [first, end] = entries(task);
    i64 position = scratch.chunks[task];
    for (i64 i = first; i < end; ++i) {
      map.positions[i] = static_cast<i32>(position);
      position += map.rows[i] >= 0 ? 1 : 0;
    }
  });
}

void compact_pairs_cpu(ThreadPool& pool, const PairsRequest& request) {
  const MapView* const map = request.map;
  const i64 queries = request.query_count ? *request.query_count : request.most_queries;
  const auto number_of = [](const i32* numbers, i64 row) {
    return numbers ? numbers[row] : static_cast<i32>(row);
  };
  const i64 entries = (map ? map->geometry.volume : 1) * queries;
  const auto row_of = [&](i64 entry) { return map ? map->rows[entry] : static_cast<i32>(entry); };
  const auto position_of = [&](i64 entry) { return map ? map->positions[entry] : static_cast<i32>(entry); };
  if (request.pair_count) *request.pair_count = position_of(entries);
  for_chunks(pool, entries, [&](i64 first, i64 end, i64) {
    for (i64 i = first; i < end; ++i) {
      if (row_of(i) < 0 || position_of(i) >= request.capacity) continue;
      const i64 place = position_of(i) * request.step;
      if (request.offsets) request.offsets[place] = static_cast<i32>(i / queries);
      request.sources[place] = number_of(request.source_numbers, row_of(i));
      request.targets[place] = number_of(request.query_numbers, i % queries);
    }
  });
}

MINUET_CPU_MAP_OPS(, u32)
MINUET_CPU_MAP_OPS(, u64)

}  // namespace minuet
