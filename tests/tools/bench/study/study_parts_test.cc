// What the studies compute without a device: the baseline's table and searches, and groups of GEMMs.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tools/bench/study/baseline_table.h"
#include "tools/bench/study/grouped_gemms.h"

namespace minuet::tool {
namespace {

/// A table with these keys, row i to key i.
struct Filled {
  std::vector<u64> keys;
  std::vector<i32> rows;
  std::vector<u32> claims;
  study::HashTable table() {
    return {keys.data(), rows.data(), claims.data(), static_cast<u32>(keys.size() - 1)};
  }

  Filled(const std::vector<u64>& all, std::size_t slots)
      : keys(slots, study::kEmptyKey), rows(slots), claims(slots) {
    const auto claim = [](u32* address) { return (*address)++; };
    for (std::size_t i = 0; i < all.size(); ++i)
      study::insert_key(table(), all[i], static_cast<i32>(i), claim);
  }
};

TEST(BaselineTable, FindsWhatIsThereAndNothingElse) {
  std::mt19937_64 random(7);
  std::set<u64> unique;
  while (unique.size() < 500) unique.insert(random() % 4096);
  std::vector<u64> keys(unique.begin(), unique.end());
  std::shuffle(keys.begin(), keys.end(), random);
  Filled filled(keys, 512);  // nearly full, so that runs of taken slots are long
  const std::vector<u64> sorted(unique.begin(), unique.end());
  for (u64 key = 0; key < 4096; ++key) {
    const auto at = std::find(keys.begin(), keys.end(), key);
    const auto ascending = unique.find(key);
    EXPECT_EQ(study::find_in_table(filled.table(), key), at == keys.end() ? -1 : at - keys.begin());
    EXPECT_EQ(study::find_sorted(sorted.data(), 500, key),
              ascending == unique.end() ? -1 : std::distance(unique.begin(), ascending));
  }
  EXPECT_EQ(study::find_sorted(sorted.data(), 0, 1), -1);
}

GroupingChoice grouping(double threshold, i32 step) {
  GroupingChoice choice;
  choice.padding_threshold = threshold;
  choice.height_step = step;
  return choice;
}

TEST(GroupedGemms, SortedOffsetsPadLess) {
  const std::vector<int64_t> pairs = {100, 10, 0, 100, 10};
  // 10 10 | 100 100
  EXPECT_EQ(group_offsets(pairs, /*by_size=*/true, grouping(0.25, 1)), (GroupedGemms{220, 0, 2}));
  // 100 | 10 | 100 | 10, for neighbours differ
  EXPECT_EQ(group_offsets(pairs, /*by_size=*/false, grouping(0.25, 1)), (GroupedGemms{220, 0, 4}));
  // One group of four: 400 rows.
  EXPECT_EQ(group_offsets(pairs, /*by_size=*/false, grouping(1, 1)), (GroupedGemms{220, 180, 1}));
}

TEST(GroupedGemms, HeightsAreRoundedUp) {
  EXPECT_EQ(group_offsets({10, 11}, /*by_size=*/true, grouping(0.25, 64)), (GroupedGemms{21, 107, 1}));
  EXPECT_EQ(group_offsets({}, /*by_size=*/true, grouping(0.25, 64)), (GroupedGemms{0, 0, 0}));
}

}  // namespace
}  // namespace minuet::tool
