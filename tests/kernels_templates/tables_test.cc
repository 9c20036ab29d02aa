// Counts, compacted pairs and metadata tables, from random kernel maps, against plain loops.
#include <gtest/gtest.h>

#include "tests/kernels_templates/testing.h"
// testing.h first: it brings the shim's names.
#include "kernels_templates/map/compact_pairs.h"
#include "kernels_templates/map/count_pairs.h"
#include "kernels_templates/map/make_tables.h"

namespace minuet {
namespace {

struct Case {
  i64 queries, sources;
  i32 volume;
};
constexpr Case kCases[] = {{0, 0, 27},  {1, 1, 1},        {1, 1, 27}, {2, 5, 8},
                           {31, 40, 3}, {1000, 1100, 27}, {7, 3, 200}};

/// A map in which every offset sends queries to distinct sources, as a kernel map does.
std::vector<i32> random_map(Random& random, const Case& one) {
  std::vector<i32> map;
  for (i32 k = 0; k < one.volume; ++k) {
    std::vector<i32> rows(static_cast<std::size_t>(one.sources));
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<i32>(i);
    for (std::size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random.below(i)]);
    for (i64 q = 0; q < one.queries; ++q) {
      const bool hit = q < one.sources && random.below(3) != 0 && k % 7 != 3;  // some offsets have no pair
      map.push_back(hit ? rows[static_cast<std::size_t>(q)] : -1);
    }
  }
  return map;
}

TEST(CountPairs, HitsOfEachOffset) {
  for (const Case& one : kCases) {
    Random random(200 + static_cast<u64>(one.queries));
    const std::vector<i32> map = random_map(random, one);
    const std::vector<i32> positions = exclusive_sums(hits_of(map));
    const i32 queries = static_cast<i32>(one.queries);
    std::vector<i32> counts = poisoned<i32>(static_cast<std::size_t>(one.volume) + 1);
    shim::launch(&count_pairs<CountPairsSpec{64}>,
                 CountPairsParams{positions.data(), &queries, one.volume, counts.data()},
                 {.blocks = 1, .threads = 64});
    for (i32 k = 0; k < one.volume; ++k) {
      i32 hits = 0;
      for (i64 q = 0; q < one.queries; ++q) hits += map[static_cast<std::size_t>(k * one.queries + q)] >= 0;
      EXPECT_EQ(counts[k], hits);
    }
    EXPECT_EQ(counts.back(), poison<i32>());
  }
}

TEST(CompactPairs, OrderedByOffsetThenQuery) {
  for (const Case& one : kCases) {
    for (int variant = 0; variant < shim::kGridVariants; ++variant) {
      Random random(210 + static_cast<u64>(one.queries));
      const std::vector<i32> map = random_map(random, one);
      const std::vector<i32> positions = exclusive_sums(hits_of(map));
      std::vector<i32> expected_sources, expected_targets;
      for (std::size_t i = 0; i < map.size(); ++i) {
        if (map[i] < 0) continue;
        expected_sources.push_back(map[i]);
        expected_targets.push_back(static_cast<i32>(static_cast<i64>(i) % one.queries));
      }
      expected_sources.push_back(poison<i32>());
      expected_targets.push_back(poison<i32>());
      std::vector<i32> sources = poisoned<i32>(expected_sources.size()), targets = sources;
      CompactPairsParams params = {};
      params.count = 1;
      PairsJob& pairs = params.jobs[0];
      pairs.map = map.data();
      pairs.positions = positions.data();
      pairs.queries = one.queries;
      pairs.volume = one.volume;
      pairs.sources = sources.data();
      pairs.targets = targets.data();
      pairs.step = 1;
      pairs.capacity = static_cast<i64>(sources.size());
      shim::launch(&compact_pairs<CompactPairsSpec{32}>, params, shim::small_grid(variant, 32));
      EXPECT_EQ(sources, expected_sources);
      EXPECT_EQ(targets, expected_targets);
    }
  }
}

/// A map, and the pairs that compact_pairs lists of it up to a capacity.
struct NumberedList {
  NumberedList(const Case& one, bool fits) : queries(static_cast<i32>(one.queries)), volume(one.volume) {
    Random random(230 + static_cast<u64>(one.queries));
    map = random_map(random, one);
    positions = exclusive_sums(hits_of(map));
    for (i64 i = 0; i < one.sources; ++i) source_numbers.push_back(static_cast<i32>(7 * i + 3));
    for (i64 i = 0; i < one.queries; ++i) query_numbers.push_back(static_cast<i32>(5 * i + 1));
    capacity = fits ? positions.back() + 1 : positions.back() / 2;
    for (std::size_t i = 0; i < map.size(); ++i) {
      if (map[i] < 0 || static_cast<i64>(expected.size()) >= 3 * capacity) continue;
      expected.push_back(static_cast<i32>(static_cast<i64>(i) / one.queries));
      expected.push_back(source_numbers[map[i]]);
      expected.push_back(query_numbers[static_cast<std::size_t>(static_cast<i64>(i) % one.queries)]);
    }
    expected.resize(static_cast<std::size_t>(3 * (capacity + 1)), poison<i32>());
    list = poisoned<i32>(expected.size());
  }

  PairsJob params(i32 first_block) {
    PairsJob pairs = {};
    pairs.first_block = first_block;
    pairs.map = map.data();
    pairs.positions = positions.data();
    pairs.query_count = &queries;
    pairs.queries = -1;  // Must not be read.
    pairs.volume = volume;
    pairs.source_numbers = source_numbers.data();
    pairs.query_numbers = query_numbers.data();
    pairs.offsets = list.data();
    pairs.sources = list.data() + 1;
    pairs.targets = list.data() + 2;
    pairs.step = 3;
    pairs.capacity = capacity;
    pairs.pair_count = &count;
    return pairs;
  }

  void expect_listed() const {
    EXPECT_EQ(count, positions.back());
    EXPECT_EQ(list, expected);
  }

  i32 queries, volume, count = -1;
  i64 capacity = 0;
  std::vector<i32> map, positions, source_numbers, query_numbers, expected, list;
};

TEST(CompactPairs, ListsNumberedPairsUpToACapacity) {
  for (const Case& one : kCases) {
    for (const bool fits : {true, false}) {
      NumberedList list(one, fits);
      CompactPairsParams params = {};
      params.count = 1;
      params.jobs[0] = list.params(0);
      shim::launch(&compact_pairs<CompactPairsSpec{32}>, params, {.blocks = 2, .threads = 32});
      list.expect_listed();
    }
  }
}

/// Each map has blocks of its own, one or more.
TEST(CompactPairs, ListsSeveralMapsAtOnce) {
  std::vector<NumberedList> lists;
  while (lists.size() < kMostPairsJobs) {
    for (const Case& one : kCases) lists.emplace_back(one, lists.size() % 2 == 0);
  }
  CompactPairsParams params = {};
  i32 blocks = 0;
  for (i32 i = 0; i < kMostPairsJobs; ++i) {
    params.jobs[params.count++] = lists[static_cast<std::size_t>(i)].params(blocks);
    blocks += 1 + i % 3;
  }
  shim::launch(&compact_pairs<CompactPairsSpec{32}>, params, {.blocks = blocks, .threads = 32});
  for (i32 i = 0; i < kMostPairsJobs; ++i) lists[static_cast<std::size_t>(i)].expect_listed();
}

void expect_tables(const Case& one, i32 direct_offset, int variant) {
  Random random(220 + static_cast<u64>(one.queries));
  const std::vector<i32> map = random_map(random, one);
  const std::vector<i32> positions = exclusive_sums(hits_of(map));
  // Bases in no particular order, past 2^30, with gaps for padding.
  std::vector<i32> row_base;
  for (i32 k = 0; k < one.volume; ++k)
    row_base.push_back(((one.volume - k) * 5003 + 11) | (k == 0 ? 1 << 30 : 0));
  std::vector<i32> source_table(static_cast<std::size_t>(one.volume * one.sources), -1);
  std::vector<i32> query_table = poisoned<i32>(map.size());
  std::vector<i32> expected_source = source_table, expected_query(map.size(), -1);
  for (i32 k = 0; k < one.volume; ++k) {
    i32 next = row_base[static_cast<std::size_t>(k)];
    for (i64 q = 0; q < one.queries; ++q) {
      const std::size_t entry = static_cast<std::size_t>(k * one.queries + q);
      if (map[entry] < 0 || k == direct_offset) continue;
      expected_source[static_cast<std::size_t>(k * one.sources + map[entry])] = next;
      expected_query[entry] = next++;
    }
  }
  shim::launch(&make_tables<MakeTablesSpec{32}>,
               MakeTablesParams{map.data(), positions.data(), row_base.data(), one.queries, one.sources,
                                one.volume, direct_offset, source_table.data(), query_table.data()},
               shim::small_grid(variant, 32));
  EXPECT_EQ(source_table, expected_source);
  EXPECT_EQ(query_table, expected_query);
}
TEST(MakeTables, RowsFollowTheBasesAndTheDirectOffsetIsLeftOut) {
  for (const Case& one : kCases) {
    for (int variant = 0; variant < shim::kGridVariants; ++variant) {
      expect_tables(one, -1, variant);
      expect_tables(one, one.volume / 2, variant);
    }
  }
}

}  // namespace
}  // namespace minuet
