// Lists of random pairs, and their steps from the kernel list_steps in the shim, for the tests of gradients
// of weights.
#pragma once

#include "tests/kernels_templates/features.h"
// The kernel comes after features.h, which defines the shim's names that it uses.
#include "kernels_templates/gradient/list_steps.h"

namespace minuet {

struct Pairs {
  i32 volume = 0;
  std::vector<i32> list;  // [pairs][3]
  i64 count() const { return static_cast<i64>(list.size()) / 3; }
};

/// Pairs of random rows, of which a few are not there. `counts` has the pairs of each offset. Only pairs
/// whose output row is not there have the last input row.
inline Pairs random_pairs(Random& random, const std::vector<i32>& counts, i64 input_rows, i64 output_rows) {
  Pairs pairs{static_cast<i32>(counts.size()), {}};
  const auto row_below = [&](i64 rows) { return static_cast<i32>(random.below(static_cast<u64>(rows))); };
  for (i32 k = 0; k < pairs.volume; ++k) {
    for (i32 i = 0; i < counts[static_cast<std::size_t>(k)]; ++i) {
      const bool has_input = random.below(50) != 0, has_output = random.below(50) != 0;
      const i32 in = has_output ? row_below(input_rows - 1) : static_cast<i32>(input_rows - 1);
      const i32 out = has_output ? row_below(output_rows) : static_cast<i32>(output_rows);
      pairs.list.insert(pairs.list.end(), {k, has_input ? in : -1, out});
    }
  }
  return pairs;
}

inline constexpr ListStepsSpec kList{.threads = 128};

struct Steps {
  std::vector<i32> list, first_pair, first_step;

  explicit Steps(const Pairs& pairs, i64 more = 0, const i32* count = nullptr) {
    const StepsOfList of = prepare(pairs, more, count);
    launch({of});
  }
  /// Lists the steps of several lists with one launch.
  static std::vector<Steps> of_lists(const std::vector<Pairs>& lists) {
    std::vector<Steps> all(lists.size());
    std::vector<StepsOfList> given;
    for (std::size_t i = 0; i < lists.size(); ++i) given.push_back(all[i].prepare(lists[i], 0, nullptr));
    launch(given);
    return all;
  }
  Steps() = default;
  i32 steps() const { return first_step.back(); }

 private:
  StepsOfList prepare(const Pairs& pairs, i64 more, const i32* count) {
    list = pairs.list;
    list.resize(list.size() + static_cast<std::size_t>(3 * more), poison<i32>());
    first_pair = poisoned<i32>(static_cast<std::size_t>(pairs.volume + 1));
    first_step = poisoned<i32>(static_cast<std::size_t>(pairs.volume + 1));
    return {{list.data(), count, pairs.count() + more}, pairs.volume, first_pair.data(), first_step.data()};
  }
  static void launch(const std::vector<StepsOfList>& lists) {
    ListStepsParams params = {};
    std::copy(lists.begin(), lists.end(), params.lists);
    shim::launch(&list_steps<kList>, params,
                 {.blocks = static_cast<i32>(lists.size()), .threads = kList.threads});
  }
};

}  // namespace minuet
