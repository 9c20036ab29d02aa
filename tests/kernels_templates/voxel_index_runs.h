// Runs the kernels of an index of voxels (voxel_index.h) in the shim, and says in which order its rows are.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "tests/kernels_templates/testing.h"
// testing.h first: it brings the shim's names.
#include "kernels_templates/map/clear_index.h"
#include "kernels_templates/map/list_voxels.h"
#include "kernels_templates/map/mark_blocks.h"
#include "kernels_templates/map/mark_voxels.h"
#include "kernels_templates/map/number_blocks.h"
#include "kernels_templates/map/number_points.h"
#include "kernels_templates/map/number_rows.h"
#include "kernels_templates/map/order_voxels.h"
#include "kernels_templates/map/rank_masks.h"
#include "kernels_templates/map/reach_blocks.h"
#include "kernels_templates/map/reach_voxels.h"
#include "kernels_templates/map/search_voxels.h"
#include "runtime/engine/set_index.h"

namespace minuet {

inline constexpr i32 kThreads = 64;
using Stride = AxisArray;

/// The order that voxel_index.h promises, from a coordinate alone.
template <i32 Ndim>
auto order_key(const Point& point, const Stride& stride) {
  Voxel voxel{};
  i32 superblock[Ndim + 1] = {point[0]};
  voxel.at[0] = point[0];
  std::array<i32, kMaxFields> coordinates{};
  coordinates[0] = point[0];
  for (i32 a = 0; a < Ndim; ++a) {
    voxel.at[a + 1] = voxel_of(point[a + 1], stride[a], -1);
    coordinates[a + 1] = superblock[a + 1] = superblock_of<Ndim>(voxel, a);
  }
  return std::tuple(hash_of<Ndim>(superblock), coordinates, block_in_superblock<Ndim>(voxel),
                    voxel_in_block<Ndim>(voxel));
}

/// Returns the unique points of a level in the order of its rows.
template <i32 Ndim>
std::vector<Point> rows_of_level(const std::vector<Point>& points, const Stride& stride) {
  std::set<Point> unique;
  for (Point point : points) {
    for (i32 a = 0; a < Ndim; ++a)
      point[a + 1] = static_cast<i32>(floor_to_multiple(point[a + 1], stride[a]));
    unique.insert(point);
  }
  std::vector<Point> rows(unique.begin(), unique.end());
  std::sort(rows.begin(), rows.end(), [&](const Point& a, const Point& b) {
    return order_key<Ndim>(a, stride) < order_key<Ndim>(b, stride);
  });
  return rows;
}

template <i32 Ndim>
class Index {
 public:
  static std::vector<SetSpec> rounded_down(const std::vector<Stride>& strides) {
    std::vector<SetSpec> sets;
    for (const Stride& stride : strides) {
      SetSpec& set = sets.emplace_back();
      set.tensor_stride = stride;
      if (sets.size() > 1) set.parent = 0;
    }
    return sets;
  }
  Index(const std::vector<Stride>& strides, std::vector<i64> level_capacities, int variant,
        const Bounds& bounds = default_index_bounds(Ndim))
      : Index(bounds, rounded_down(strides), std::move(level_capacities), variant) {}
  Index(const Bounds& bounds, std::vector<SetSpec> sets, std::vector<i64> level_capacities, int variant)
      : capacities(std::move(level_capacities)),
        sets_(std::move(sets)),
        grid_(shim::small_grid(variant, kThreads)) {
    auto described = describe_index(Ndim, bounds, sets_);
    if (!described) throw std::runtime_error(llvm::toString(described.takeError()));
    description_ = *described;
    levels = static_cast<i32>(sets_.size());
    for (const i64 capacity : capacities) {
      blocks_.push_back(poisoned<VoxelBlock>(capacity + 1));  // one past the end stays as it is
      places_.push_back(poisoned<RowPlace>(capacity + 1));
      slots_ += level_slots(capacity);
    }
    table_.resize(slots_);
    taken_.resize(slots_ / 32);
    sums_ = poisoned<u32>(slots_ + 64 * levels);
    memory_.table = table_.data(), memory_.taken = taken_.data(), memory_.sums = sums_.data();
    for (i32 l = 0; l < levels; ++l)
      memory_.blocks[l] = blocks_[l].data(), memory_.rows[l] = places_[l].data();
    assign_memory(description_, memory_, capacities);
  }

  void build(const std::vector<Point>& points, u32 duplicate_status = 0, i32 given_count = -1) {
    const std::vector<i32> coordinates = flatten(points, Ndim);
    const std::size_t most = std::max<std::size_t>(points.size(), 1);
    status = poison<u32>();
    count_ = poison<i32>();
    index = poisoned<VoxelIndex>(1)[0];
    source_row = poisoned<i32>(capacities[0]);
    row_of = poisoned<i32>(most);
    counts.assign(levels, 0);
    ClearIndexParams clear{};
    clear.index = description_, clear.to = &index;
    clear.table = table_.data(), clear.taken = taken_.data();
    clear.taken_words = static_cast<i64>(taken_.size());
    clear.sums = sums_.data(), clear.sum_words = static_cast<i64>(sums_.size());
    clear.source_row = source_row.data(), clear.most_rows = capacities[0];
    const i32 count = given_count < 0 ? static_cast<i32>(points.size()) : given_count;
    clear.cloud = {&count, static_cast<i64>(points.size()), &status, &count_, nullptr};
    shim::launch(&clear_index<ClearIndexSpec{kThreads}>, clear, grid_);
    IndexParams params{};
    params.coordinates = coordinates.data(), params.points = &count_, params.status = &status;
    params.index = &index, params.description = description_;
    params.outside_status = kStatusOutsideKeys, params.duplicate_status = duplicate_status;
    params.source_row = source_row.data(), params.row_of = row_of.data();
    for (i32 l = 0; l < levels; ++l) params.counts[l] = &counts[l];
    // The last word must stay. There are more words than a warp has lanes.
    std::vector<i32> voided(40, 7);
    params.voided = voided.data(), params.voided_words = 39;
    const i32 of_points = levels_of_points(sets_);
    i32 slot_tiles = 0, block_tiles = 0;
    const auto set_levels = [&](i32 first, i32 end) {
      params.first_level = first, params.end_level = end;
      slot_tiles = block_tiles = 0;
      for (i32 l = first; l < end; ++l) {
        slot_tiles += static_cast<i32>(description_.level[l].slots / kSlotTile);
        block_tiles += row_tiles(description_.level[l]);
        params.slot_tiles_end[l] = static_cast<u32>(slot_tiles);
        params.block_tiles_end[l] = static_cast<u32>(block_tiles);
      }
    };
    const auto number_all_blocks = [&] {
      shim::launch(&number_blocks<NumberBlocksSpec{Ndim, 128}>, params,
                   {.blocks = slot_tiles, .threads = 128});
    };
    const auto number_all_rows = [&] {
      shim::launch(&number_rows<NumberRowsSpec{kBlockTile}>, params,
                   {.blocks = block_tiles, .threads = kBlockTile});
    };
    set_levels(0, of_points);
    shim::launch(&mark_blocks<MarkBlocksSpec{Ndim, kThreads}>, params, grid_);
    number_all_blocks();
    shim::launch(&mark_voxels<MarkVoxelsSpec{Ndim, kThreads}>, params, grid_);
    number_all_rows();
    shim::launch(&number_points<NumberPointsSpec{kThreads}>, params, grid_);
    EXPECT_EQ(std::count(voided.begin(), voided.end(), status != 0 ? 0 : 7), status != 0 ? 39 : 40);
    EXPECT_EQ(voided.back(), 7);
    for (i32 l = of_points; l < levels; ++l) {
      set_levels(l, l + 1);
      const LevelSources sources = sources_of(Ndim, sets_, static_cast<std::size_t>(l));
      params.rows_status = kStatusPastCapacity;
      for (const LevelSource& source : sources) {
        params.source = source;
        shim::launch(&reach_blocks<ReachBlocksSpec{Ndim, kThreads}>, params, grid_);
      }
      number_all_blocks();
      for (const LevelSource& source : sources) {
        params.source = source;
        shim::launch(&reach_voxels<ReachVoxelsSpec{Ndim, kThreads}>, params, grid_);
      }
      number_all_rows();
    }
    for (i32 l = 0; l < levels; ++l) {
      EXPECT_EQ(blocks_[l].back().voxels, poison<u64>());
      EXPECT_EQ(places_[l].back().voxel, poison<u32>());
    }
  }

  std::vector<Point> points_of(i32 level) const {
    std::vector<i32> coordinates = poisoned<i32>(counts[level] * (Ndim + 1));
    shim::launch(&list_voxels<ListVoxelsSpec{Ndim, kThreads}>,
                 ListVoxelsParams{&index, level, &counts[level], coordinates.data()}, grid_);
    std::vector<Point> points(counts[level], Point{});
    for (std::size_t i = 0; i < coordinates.size(); ++i)
      points[i / (Ndim + 1)][i % (Ndim + 1)] = coordinates[i];
    return points;
  }

  struct Maps {
    std::vector<std::vector<i32>> rows;
    std::vector<std::vector<u32>> masks, counts;
    std::vector<std::vector<i32>> children, parents;
  };
  struct Wanted {
    i32 sources, queries;
    KernelGeometry geometry;
    bool wants_rows = true;
    const Index* source_index = nullptr;  // null: this index
    bool has_children = false;            // the offsets are the places of sources in a query's voxel
  };
  Maps search(const std::vector<Wanted>& wanted) const {
    Maps maps;
    for (const Wanted& map : wanted) {
      const std::size_t queries = counts[map.queries], volume = map.geometry.volume;
      maps.rows.push_back(poisoned<i32>(map.wants_rows ? volume * queries : 0));
      maps.masks.push_back(poisoned<u32>(mask_words(map.geometry.volume) * queries));
      maps.counts.emplace_back(volume, 5);  // added to
      maps.children.push_back(poisoned<i32>(map.has_children ? queries : 0));
      maps.parents.push_back(poisoned<i32>(map.has_children ? counts[map.sources] : 0));
    }
    for (const bool rows : {false, true}) search(wanted, rows, maps);
    return maps;
  }

  /// Searches the maps whose rows are wanted, or the others, in one launch.
  void search(const std::vector<Wanted>& wanted, bool rows, Maps& maps) const {
    SearchVoxelsParams params{};
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i].wants_rows != rows) continue;
      const Index& sources = wanted[i].source_index ? *wanted[i].source_index : *this;
      params.searches[params.search_count++] = {{&index, wanted[i].queries},
                                                {&sources.index, wanted[i].sources},
                                                &counts[wanted[i].queries],
                                                wanted[i].geometry,
                                                wanted[i].wants_rows ? maps.rows[i].data() : nullptr,
                                                maps.masks[i].data(),
                                                maps.counts[i].data(),
                                                wanted[i].has_children ? maps.children[i].data() : nullptr,
                                                wanted[i].has_children ? maps.parents[i].data() : nullptr};
    }
    if (params.search_count == 0) return;
    if (rows) {
      shim::launch(&search_voxels<SearchVoxelsSpec{Ndim, true, kThreads}>, params, grid_);
    } else {
      shim::launch(&search_voxels<SearchVoxelsSpec{Ndim, false, kThreads}>, params, grid_);
    }
  }

  struct Ordered {
    std::vector<i32> order, rows;  // names; [volume][stride]
    std::vector<u32> masks, block_masks;
    i64 stride = 0;
  };
  /// Makes views whose rows are looked up, with the queries in reverse order. For `parents` the finer side is
  /// the query side, and rank_masks makes the masks. Every second view has names: the row's number plus 1000.
  std::vector<Ordered> order(const std::vector<Wanted>& wanted, const std::vector<bool>& parents) {
    Maps maps = search(wanted);
    std::vector<Ordered> ordered(wanted.size());
    std::vector<std::vector<u32>> masks(maps.masks);
    std::vector<i32> names(row_of.size() + 1000);
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = static_cast<i32>(i) + 1000;
    ViewsParams params{};
    params.index = &index;
    std::vector<u32> sorted;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const Wanted& map = wanted[i];
      const i32 asks = parents[i] ? map.sources : map.queries, queries = counts[asks];
      const i32 words = mask_words(map.geometry.volume);
      Ordered& to = ordered[i];
      to.stride = queries + 5;
      to.order = poisoned<i32>(to.stride);
      to.rows = poisoned<i32>(map.geometry.volume * to.stride);
      to.masks = poisoned<u32>(words * to.stride);
      to.block_masks = poisoned<u32>(words * blocks_of_height(to.stride, kLeastBlockHeight));
      ViewJob& job = params.jobs[params.job_count++];
      job.geometry = map.geometry;
      job.query_count = &counts[asks];
      job.source = parents[i]         ? RowSource::Parents
                   : map.has_children ? RowSource::Children
                                      : RowSource::Neighbours;
      if (map.has_children) job.rows = parents[i] ? maps.parents[i].data() : maps.children[i].data();
      job.query_level = asks;
      job.source_level = parents[i] ? map.queries : map.sources;
      job.has_masks = parents[i] ? 0 : 1;
      job.ranked = 1;
      if (parents[i]) masks[i] = poisoned<u32>(queries);
      job.masks = masks[i].data(), job.order = to.order.data();
      job.ordered_rows = to.rows.data(), job.ordered_masks = to.masks.data();
      job.ordered_stride = to.stride, job.block_masks = to.block_masks.data();
      if (i % 2) job.query_ids = job.row_ids = names.data();
      for (i32 q = queries; q > 0; --q) sorted.push_back(static_cast<u32>(q - 1));
    }
    std::vector<u32> ranks(sorted.size()), numbers(sorted.size());
    i32 count = 0;
    params.keys = ranks.data(), params.queries = numbers.data(), params.key_count = &count;
    shim::launch(&rank_masks<RankMasksSpec{Ndim, kThreads}>, params, grid_);
    EXPECT_EQ(count, static_cast<i32>(sorted.size()));
    params.sorted = sorted.data();
    shim::launch(&order_voxels<OrderVoxelsSpec{Ndim, kThreads}>, params, grid_);
    return ordered;
  }

  i32 levels = 0;
  std::vector<i64> capacities;
  u32 status = 0;
  VoxelIndex index;
  std::vector<i32> counts, source_row, row_of;

 private:
  const std::vector<SetSpec> sets_;
  shim::Grid grid_;
  VoxelIndex description_;
  IndexMemory memory_;
  i64 slots_ = 0;
  i32 count_ = 0;
  std::vector<Superblock> table_;
  std::vector<u32> taken_, sums_;
  std::vector<std::vector<VoxelBlock>> blocks_;
  std::vector<std::vector<RowPlace>> places_;
};

inline std::vector<i64> capacities_for(const std::vector<Point>& points, std::size_t levels) {
  return std::vector<i64>(levels, std::max<i64>(1, static_cast<i64>(points.size())));
}

}  // namespace minuet
