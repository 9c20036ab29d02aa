// Masks, ranks and transposed rows, from random kernel maps, against plain loops.
#include <gtest/gtest.h>

#include "tests/kernels_templates/testing.h"
// testing.h first: it brings the shim's names.
#include "kernels_templates/map/make_masks.h"
#include "kernels_templates/map/order_rows.h"
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
      map.push_back(random.below(3) != 0 ? static_cast<i32>((q + shift) % one.sources) : -1);
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
      for (const bool counted : {true, false}) {
        std::vector<u32> masks = poisoned<u32>(expected.size());
        std::vector<u32> counts(static_cast<std::size_t>(one.volume), 5), sums = counts;
        for (std::size_t i = 0; counted && i < rows.size(); ++i) {
          sums[i / static_cast<std::size_t>(one.queries)] += rows[i] >= 0 ? 1u : 0u;
        }
        shim::launch(&make_masks<MakeMasksSpec{64}>,
                     MakeMasksParams{rows.data(), &queries, one.volume, masks.data(),
                                     counted ? counts.data() : nullptr},
                     shim::small_grid(variant, 64));
        EXPECT_EQ(masks, expected);
        EXPECT_EQ(counts, sums);
      }
    }
  }
}

TEST(RankMasks, NeighboursInTheOrderDifferInOneOffset) {
  constexpr i32 kOffsets = 7;
  constexpr i64 kAll = 1 << kOffsets;
  const i32 queries = kAll;
  std::vector<u32> masks, keys = poisoned<u32>(kAll), numbers = keys, by_key(kAll);
  for (u32 mask = 0; mask < kAll; ++mask) masks.push_back(mask);
  RankMasksParams params{masks.data(),          &queries,    kOffsets,
                         {3, 6, 0, 1, 2, 4, 5}, keys.data(), numbers.data()};
  shim::launch(&rank_masks<RankMasksSpec{32}>, params, shim::small_grid(1, 32));
  for (u32 q = 0; q < kAll; ++q) {
    EXPECT_EQ(numbers[q], q);
    by_key.at(keys[q]) = masks[q];
  }
  for (std::size_t i = 0; i < kAll; ++i) {
    EXPECT_EQ(by_key[i] >> 3 & 1u, i < kAll / 2 ? 1u : 0u) << "the first offset splits all";
    if (i > 0) {
      EXPECT_EQ(__builtin_popcount(by_key[i] ^ by_key[i - 1]), 1);
    }
  }
}

/// Of more offsets than a rank looks at, and in several words.
TEST(RankMasks, TakesTheOffsetsItIsGiven) {
  const i32 queries = 2;
  const std::vector<u32> masks{0, 1u << 31, 4, 0,
                               0, 0,        0, 0};  // [4][2]: bit 34 of the first, bit 31 of the second
  std::vector<u32> keys(2), numbers(2);
  RankMasksParams params{masks.data(), &queries, kMostRankedOffsets, {}, keys.data(), numbers.data()};
  for (i32 i = 0; i < kMostRankedOffsets; ++i) params.offsets[i] = i + 3;
  shim::launch(&rank_masks<RankMasksSpec{32}>, params, shim::small_grid(0, 32));
  EXPECT_EQ(keys[0], ~gray_rank(1)) << "offset 34 is the last";
  EXPECT_EQ(keys[1], ~gray_rank(1u << 3));
}

TEST(OrderRows, ColumnsGoByPlace) {
  for (const ViewCase& one : kViewCases) {
    for (int variant = 0; variant < shim::kGridVariants; ++variant) {
      Random random(320 + static_cast<u64>(one.queries));
      const std::vector<i32> rows = random_rows(random, one);
      const std::vector<u32> masks = masks_of(rows, one);
      std::vector<i32> order;
      for (i64 q = 0; q < one.queries; ++q) order.push_back(static_cast<i32>(one.queries - 1 - q));
      const i64 stride = one.queries + variant;  // rows past the count are left alone
      const auto by_place = [&](const auto& values, auto& expected) {
        for (i64 i = 0; i < static_cast<i64>(expected.size()); ++i) {
          const i64 place = i % stride;
          if (place >= one.queries) continue;
          expected[static_cast<std::size_t>(i)] = values[static_cast<std::size_t>(
              i / stride * one.queries + order[static_cast<std::size_t>(place)])];
        }
      };
      std::vector<i32> ordered_rows = poisoned<i32>(static_cast<std::size_t>(one.volume * stride));
      std::vector<u32> ordered_masks =
          poisoned<u32>(static_cast<std::size_t>(mask_words(one.volume) * stride));
      std::vector<i32> expected_rows = ordered_rows;
      std::vector<u32> expected_masks = ordered_masks;
      by_place(rows, expected_rows);
      by_place(masks, expected_masks);
      const i32 queries = static_cast<i32>(one.queries);
      shim::launch(&order_rows<OrderRowsSpec{32}>,
                   OrderRowsParams{rows.data(), masks.data(), order.data(), &queries, one.volume, stride,
                                   ordered_rows.data(), ordered_masks.data()},
                   shim::small_grid(variant, 32));
      EXPECT_EQ(ordered_rows, expected_rows);
      EXPECT_EQ(ordered_masks, expected_masks);
    }
  }
}

TEST(TransposeRows, EverySourceFindsItsQuery) {
  for (const ViewCase& one : kViewCases) {
    for (int variant = 0; variant < shim::kGridVariants; ++variant) {
      Random random(310 + static_cast<u64>(one.queries));
      const std::vector<i32> rows = random_rows(random, one);
      std::vector<i32> transposed(static_cast<std::size_t>(one.volume * one.sources), -1),
          expected = transposed;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const i64 k = static_cast<i64>(i) / one.queries, q = static_cast<i64>(i) % one.queries;
        if (rows[i] >= 0) expected[static_cast<std::size_t>(k * one.sources + rows[i])] = static_cast<i32>(q);
      }
      const i32 queries = static_cast<i32>(one.queries), sources = static_cast<i32>(one.sources);
      shim::launch(&transpose_rows<TransposeRowsSpec{32}>,
                   TransposeRowsParams{rows.data(), &queries, &sources, one.volume, transposed.data()},
                   shim::small_grid(variant, 32));
      EXPECT_EQ(transposed, expected);
    }
  }
}

}  // namespace
}  // namespace minuet
