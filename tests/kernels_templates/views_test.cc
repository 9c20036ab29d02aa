// Masks, ranks and transposed rows, from random kernel maps, against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "tests/kernels_templates/testing.h"
#include "tests/support/read_together.h"
// testing.h first: it brings the shim's names.
#include "kernels_templates/map/make_masks.h"
#include "kernels_templates/map/order_rows.h"
#include "kernels_templates/map/preset_rows.h"
#include "kernels_templates/map/rank_masks.h"
#include "kernels_templates/map/transpose_rows.h"

namespace minuet {
namespace {

struct ViewCase {
  i64 queries, sources;
  i32 volume;
};
constexpr ViewCase kViewCases[] = {{0, 0, 27},     {1, 1, 1},    {2, 5, 8},  {31, 40, 3},
                                   {300, 320, 27}, {70, 80, 33}, {7, 9, 200}};

/// A map in which every offset sends queries to distinct sources, as a kernel map does.
std::vector<i32> random_rows(Random& random, const ViewCase& one) {
  std::vector<i32> map;
  for (i32 k = 0; k < one.volume; ++k) {
    const i64 shift = one.sources > 0 ? static_cast<i64>(random.below(static_cast<u64>(one.sources))) : 0;
    for (i64 q = 0; q < one.queries; ++q) {
      const bool is_stretch = (q / 50 + k) % 4 == 0;  // where no query has the offset
      map.push_back(random.below(3) != 0 && !is_stretch ? static_cast<i32>((q + shift) % one.sources) : -1);
    }
  }
  return map;
}

std::vector<u32> masks_of(const std::vector<i32>& rows, const ViewCase& one) {
  std::vector<u32> masks(static_cast<std::size_t>(mask_words(one.volume) * one.queries));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const i64 k = static_cast<i64>(i) / one.queries, q = static_cast<i64>(i) % one.queries;
    if (rows[i] >= 0) masks[static_cast<std::size_t>(k / 32 * one.queries + q)] |= 1u << k % 32;
  }
  return masks;
}

TEST(MakeMasks, BitsAndCounts) {
  for (const ViewCase& one : kViewCases) {
    for (int variant = 0; variant < shim::kGridVariants; ++variant) {
      Random random(300 + static_cast<u64>(one.queries));
      const std::vector<i32> rows = random_rows(random, one);
      const std::vector<u32> expected = masks_of(rows, one);
      const i32 queries = static_cast<i32>(one.queries);
      std::vector<u32> masks = poisoned<u32>(expected.size());
      std::vector<u32> counts(static_cast<std::size_t>(one.volume), 5), sums = counts;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        sums[i / static_cast<std::size_t>(one.queries)] += rows[i] >= 0 ? 1u : 0u;
      }
      shim::launch(&make_masks<MakeMasksSpec{64}>,
                   MakeMasksParams{rows.data(), &queries, one.volume, masks.data(), counts.data()},
                   shim::small_grid(variant, 64));
      EXPECT_EQ(masks, expected);
      EXPECT_EQ(counts, sums);
    }
  }
}

constexpr u32 kFewRanks = 12288, kManyRanks = 1 << 20;

u32 rank_of(u32 code, const MaskRanks& ranks) {
  return rank_of_code(code, ranks, [&](u32 byte) { return byte_interval(byte, ranks.share); });
}

/// All cases as the views of one table; every third has no order, and every other no masks yet.
class Table {
 public:
  explicit Table(u64 seed) {
    Random random(seed);
    for (const ViewCase& one : kViewCases) {
      const auto j = static_cast<std::size_t>(params.job_count++);
      View& view = views[j];
      view.one = one;
      view.queries = static_cast<i32>(one.queries), view.sources = static_cast<i32>(one.sources);
      view.rows = random_rows(random, one);
      view.expected_masks = masks_of(view.rows, one);
      view.masks = view.expected_masks;
      ViewJob& job = params.jobs[j];
      job.query_count = &view.queries;
      job.geometry.volume = one.volume;
      job.ranked = std::min(one.volume, kMostRankedOffsets);
      job.has_masks = j % 2;
      if (!job.has_masks) view.masks = poisoned<u32>(view.masks.size());
      for (i32 i = 0; i < job.ranked; ++i) job.offsets[i] = static_cast<u16>(one.volume - 1 - i);
      view.order = poisoned<i32>(static_cast<std::size_t>(one.queries));
      job.rows = view.rows.data(), job.masks = view.masks.data();
      if (!is_ordered(j)) continue;
      job.order = view.order.data(), keys += one.queries;
      job.ranks = mask_ranks(job.ranked, j % 2 == 0 ? kFewRanks : kManyRanks), job.first_key = sort_keys;
      sort_keys += job.ranks.count;
    }
  }
  bool is_ordered(std::size_t j) const { return j % 3 != 2; }

  struct View {
    ViewCase one = {};
    i32 queries = 0, sources = 0;
    std::vector<i32> rows, order;
    std::vector<u32> masks, expected_masks;
  };
  View views[std::size(kViewCases)];
  ViewsParams params = {};
  i64 keys = 0;  // of all orders
  u32 sort_keys = 0;
};

TEST(RankMasks, AllViewsAtOnce) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    Table table(330);
    const auto size = static_cast<std::size_t>(table.keys);
    std::vector<u32> keys = poisoned<u32>(size), queries = keys, state = poisoned<u32>(1000);
    i32 key_count = -1;
    ViewsParams& params = table.params;
    params.keys = keys.data(), params.queries = queries.data(), params.key_count = &key_count;
    params.sort_state = state.data(), params.sort_state_words = 999;
    shim::launch(&rank_masks<RankMasksSpec{.threads = 64}>, params, shim::small_grid(variant, 64));
    EXPECT_EQ(key_count, table.keys);
    std::size_t i = 0;
    for (std::size_t j = 0; j < std::size(kViewCases); ++j) {
      const Table::View& view = table.views[j];
      if (!table.is_ordered(j)) {
        if (!params.jobs[j].has_masks) {
          EXPECT_EQ(view.masks, poisoned<u32>(view.masks.size()));
        }
        continue;
      }
      EXPECT_EQ(view.masks, view.expected_masks) << "view " << j;
      for (i64 q = 0; q < view.one.queries; ++q, ++i) {
        u32 code = 0;
        for (i32 r = 0; r < params.jobs[j].ranked; ++r) {
          const i64 k = params.jobs[j].offsets[r];
          if (view.rows[static_cast<std::size_t>(k * view.one.queries + q)] >= 0) code |= 1u << (31 - r);
        }
        EXPECT_EQ(keys[i], params.jobs[j].first_key + rank_of(code, params.jobs[j].ranks));
        EXPECT_EQ(queries[i], static_cast<u32>(q));
      }
    }
    EXPECT_EQ(i, size);
    EXPECT_EQ(state.back(), poison<u32>());
    state.pop_back();
    EXPECT_EQ(state, std::vector<u32>(state.size(), 0));
  }
}

/// Of one view, in many ranks.
std::vector<u32> keys_of(const std::vector<u32>& masks, i32 queries, i32 volume,
                         const std::vector<u16>& offsets) {
  std::vector<u32> keys = poisoned<u32>(static_cast<std::size_t>(queries)), numbers = keys, made = masks;
  i32 key_count = 0, order = 0;
  ViewsParams params = {};
  params.job_count = 1;
  ViewJob& job = params.jobs[0];
  job.query_count = &queries, job.masks = made.data(), job.has_masks = 1, job.order = &order;
  job.geometry.volume = volume, job.ranked = static_cast<i32>(offsets.size());
  job.ranks = mask_ranks(job.ranked, kManyRanks);
  std::copy(offsets.begin(), offsets.end(), job.offsets);
  params.keys = keys.data(), params.queries = numbers.data(), params.key_count = &key_count;
  shim::launch(&rank_masks<RankMasksSpec{.threads = 64}>, params, shim::small_grid(1, 64));
  return keys;
}

TEST(RankMasks, NeighboursInTheOrderDifferInOneOffset) {
  constexpr i32 kOffsets = 7;
  constexpr i64 kAll = 1 << kOffsets;
  std::vector<u32> masks, by_key(kAll);
  for (u32 mask = 0; mask < kAll; ++mask) masks.push_back(mask);
  const std::vector<u32> keys = keys_of(masks, kAll, kOffsets, {3, 6, 0, 1, 2, 4, 5});
  for (u32 q = 0; q < kAll; ++q) by_key.at(keys[q]) = masks[q];
  for (std::size_t i = 0; i < kAll; ++i) {
    EXPECT_EQ(by_key[i] >> 3 & 1u, i < kAll / 2 ? 1u : 0u) << "the first offset splits all";
    if (i > 0) {
      EXPECT_EQ(__builtin_popcount(by_key[i] ^ by_key[i - 1]), 1);
    }
  }
}

/// Of more offsets than a rank looks at, and in several words.
TEST(RankMasks, TakesTheOffsetsItIsGiven) {
  const std::vector<u32> masks{0, 1u << 31, 4, 0,
                               0, 0,        0, 0};  // [4][2]: bit 34 of the first, bit 31 of the second
  std::vector<u16> offsets;
  for (i32 i = 0; i < kMostRankedOffsets; ++i) offsets.push_back(static_cast<u16>(i + 8));
  const std::vector<u32> keys = keys_of(masks, 2, 100, offsets);
  const MaskRanks ranks = mask_ranks(kMostRankedOffsets, kManyRanks);
  EXPECT_EQ(keys[0], rank_of(1u << (31 - 26), ranks)) << "offset 34 is the last";
  EXPECT_EQ(keys[1], rank_of(1u << (31 - 23), ranks));
}

/// Codes in the order of a Gray code, of which some share a rank.
TEST(RankMasks, RanksKeepTheOrderOfAGrayCode) {
  for (i32 ranked = 1; ranked <= kMostRankedOffsets; ++ranked) {
    for (const u32 most : {kFewRanks, kManyRanks}) {
      SCOPED_TRACE(std::to_string(ranked) + " offsets, " + std::to_string(most) + " ranks");
      const MaskRanks ranks = mask_ranks(ranked, most);
      EXPECT_LE(ranks.count, most);
      const u32 all = 1u << ranked;
      const bool is_exact = ranks.count == all;
      EXPECT_EQ(is_exact, all <= most);
      Random random(400 + static_cast<u64>(ranked));
      std::vector<u32> numbers{0, all - 1};  // in the Gray code's order
      for (int i = 0; i < 20000; ++i) numbers.push_back(static_cast<u32>(random.below(all)));
      std::sort(numbers.begin(), numbers.end());
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const u32 rank = rank_of((numbers[i] ^ numbers[i] >> 1) << (32 - ranked), ranks);
        ASSERT_LT(rank, ranks.count);
        if (is_exact) {
          ASSERT_EQ(rank, all - 1 - numbers[i]);
        } else if (i > 0) {
          ASSERT_LE(rank, rank_of((numbers[i - 1] ^ numbers[i - 1] >> 1) << (32 - ranked), ranks));
        }
      }
    }
  }
}

/// Of 27 offsets, masks that have few: what a Gray code's highest bits would take for one.
TEST(RankMasks, RareMasksHaveRanksOfTheirOwn) {
  std::set<u32> ranks, few_ranks;
  int masks = 0;
  for (i32 a = 0; a < 26; ++a) {
    for (i32 b = a + 1; b < 26; ++b, ++masks) {  // and the centre, the last
      const u32 code = 1u << (31 - a) | 1u << (31 - b) | 1u << (31 - 26);
      ranks.insert(rank_of(code, mask_ranks(27, kManyRanks)));
      few_ranks.insert(rank_of(code, mask_ranks(27, kFewRanks)));
    }
  }
  EXPECT_EQ(static_cast<int>(ranks.size()), masks);
  EXPECT_GT(static_cast<int>(few_ranks.size()), masks * 4 / 5);
}

TEST(RankMasks, TheFirstOffsetSplitsManyToo) {
  constexpr i32 kOffsets = 27;
  Random random(420);
  std::vector<u32> masks;
  for (int i = 0; i < 500; ++i) masks.push_back(static_cast<u32>(random.below(1u << kOffsets)) >> i % 20);
  std::vector<u16> offsets;
  for (i32 k = 0; k < kOffsets; ++k) offsets.push_back(static_cast<u16>((k + 9) % kOffsets));
  const std::vector<u32> keys = keys_of(masks, static_cast<i32>(masks.size()), kOffsets, offsets);
  u32 last_with = 0, first_without = ~0u;
  for (std::size_t q = 0; q < masks.size(); ++q) {
    if ((masks[q] >> 9 & 1u) != 0) {
      last_with = std::max(last_with, keys[q]);
    } else {
      first_without = std::min(first_without, keys[q]);
    }
  }
  EXPECT_LT(last_with, first_without);
  EXPECT_LT(first_without, kManyRanks);
}

TEST(OrderRows, ColumnsGoByPlace) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    Table table(320);
    struct Ordered {
      std::vector<i32> rows, expected_rows, expected_order;
      std::vector<u32> masks, expected_masks, block_masks, expected_block_masks;
    } ordered[std::size(kViewCases)];
    std::vector<u32> sorted;
    for (std::size_t j = 0; j < std::size(kViewCases); ++j) {
      Table::View& view = table.views[j];
      ViewJob& job = table.params.jobs[j];
      view.masks = view.expected_masks;
      const i64 queries = view.one.queries;
      job.ordered_stride = queries + variant;  // rows past the count are left alone
      Ordered& to = ordered[j];
      to.rows = poisoned<i32>(static_cast<std::size_t>(job.geometry.volume * job.ordered_stride));
      to.masks =
          poisoned<u32>(static_cast<std::size_t>(mask_words(job.geometry.volume) * job.ordered_stride));
      const i64 blocks = blocks_of_height(job.ordered_stride, kLeastBlockHeight);
      to.block_masks = poisoned<u32>(static_cast<std::size_t>(mask_words(job.geometry.volume) * blocks));
      to.expected_rows = to.rows, to.expected_masks = to.masks, to.expected_order = view.order;
      to.expected_block_masks = to.block_masks, job.block_masks = to.block_masks.data();
      job.masks = view.masks.data(), job.ordered_rows = to.rows.data(), job.ordered_masks = to.masks.data();
      if (!table.is_ordered(j)) continue;
      for (i64 i = 0; i < queries; ++i) {
        const i64 query = queries - 1 - i;
        sorted.push_back(static_cast<u32>(query));
        to.expected_order[static_cast<std::size_t>(i)] = static_cast<i32>(query);
        for (i64 k = 0; k < job.geometry.volume; ++k) {
          const auto has = [&](i64 place) {
            return view.rows[static_cast<std::size_t>(k * queries + queries - 1 - place)] >= 0;
          };
          if (any_together(i, queries, has)) {
            to.expected_rows[static_cast<std::size_t>(k * job.ordered_stride + i)] =
                view.rows[static_cast<std::size_t>(k * queries + query)];
          }
        }
        for (i64 word = 0; word < mask_words(job.geometry.volume); ++word) {
          to.expected_masks[static_cast<std::size_t>(word * job.ordered_stride + i)] =
              view.masks[static_cast<std::size_t>(word * queries + query)];
        }
        for (i64 word = 0; word < mask_words(job.geometry.volume); ++word) {
          u32& united =
              to.expected_block_masks[static_cast<std::size_t>(word * blocks + i / kLeastBlockHeight)];
          if (i % kLeastBlockHeight == 0) united = 0;
          united |= view.masks[static_cast<std::size_t>(word * queries + query)];
        }
      }
    }
    table.params.sorted = sorted.data();
    shim::launch(&order_rows<OrderRowsSpec{64}>, table.params, shim::small_grid(variant, 64));
    for (std::size_t j = 0; j < std::size(kViewCases); ++j) {
      EXPECT_EQ(table.views[j].order, ordered[j].expected_order) << "view " << j;
      EXPECT_EQ(ordered[j].rows, ordered[j].expected_rows) << "view " << j;
      EXPECT_EQ(ordered[j].masks, ordered[j].expected_masks) << "view " << j;
      EXPECT_EQ(ordered[j].block_masks, ordered[j].expected_block_masks) << "view " << j;
    }
  }
}

/// Every other view is not a transposed one: its rows are left alone.
TEST(TransposeRows, EverySourceFindsItsQuery) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    Table table(310);
    std::vector<i32> transposed[std::size(kViewCases)], expected[std::size(kViewCases)];
    for (std::size_t j = 0; j < std::size(kViewCases); ++j) {
      const Table::View& view = table.views[j];
      ViewJob& job = table.params.jobs[j];
      const i64 volume = view.one.volume, sources = view.one.sources;
      // The other side asks.
      job.query_count = &view.sources;
      expected[j] = poisoned<i32>(static_cast<std::size_t>(volume * sources));
      transposed[j] = expected[j];
      job.rows = transposed[j].data();
      if (j % 2) continue;
      job.forward_rows = view.rows.data();
      job.forward_count = &view.queries;
      std::fill(expected[j].begin(), expected[j].end(), -1);
      for (std::size_t i = 0; i < view.rows.size(); ++i) {
        const i64 k = static_cast<i64>(i) / view.one.queries, q = static_cast<i64>(i) % view.one.queries;
        if (view.rows[i] >= 0)
          expected[j][static_cast<std::size_t>(k * sources + view.rows[i])] = static_cast<i32>(q);
      }
    }
    shim::launch(&preset_rows<PresetRowsSpec{32}>, table.params, shim::small_grid(variant, 32));
    shim::launch(&transpose_rows<TransposeRowsSpec{32}>, table.params, shim::small_grid(variant, 32));
    for (std::size_t j = 0; j < std::size(kViewCases); ++j)
      EXPECT_EQ(transposed[j], expected[j]) << "view " << j;
  }
}

}  // namespace
}  // namespace minuet
