// The kernels of gradients of rows in the shim, against plain loops.
#include "tests/kernels_templates/features.h"
// The kernels come after features.h, which defines the shim's names that they use.
#include <gtest/gtest.h>

#include <numeric>

#include "kernels_templates/points/combine_groups.h"
#include "kernels_templates/points/find_entries.h"
#include "kernels_templates/points/key_entries.h"
#include "kernels_templates/points/spread_groups.h"
#include "kernels_templates/points/sum_entries.h"

namespace minuet {
namespace {

/// Sums entries of random rows and weights. Points past `points`, and rows past `rows`, are not there.
template <DType T, i32 Corners, i32 Channels, i32 VectorBytes>
void expect_sums(i64 points, i64 rows, int variant) {
  Random random(90 + static_cast<u64>(variant));
  const i64 most = points + 3, most_rows = rows + 2, entries = Corners * most;
  Matrix<T> gradient(most, Channels, Channels), output(most_rows + 1, Channels, Channels);
  gradient.fill(random, points);
  std::vector<i32> entry_rows(static_cast<std::size_t>(entries), 0);
  std::vector<float> weights(static_cast<std::size_t>(entries), 1);
  for (i64 entry = 0; entry < entries; ++entry) {
    const auto at = static_cast<std::size_t>(entry);
    entry_rows[at] = static_cast<i32>(random.between(-1, most_rows - 1));
    weights[at] = static_cast<float>(random.uniform());
  }
  std::vector<u32> keys = poisoned<u32>(static_cast<std::size_t>(entries)), values = keys, sorted = keys,
                   list = keys, begins = poisoned<u32>(static_cast<std::size_t>(most_rows + 2));
  const i32 count = static_cast<i32>(points), row_count = static_cast<i32>(rows);
  i32 sort_count = -1;
  EntriesParams params = {};
  params.rows = entry_rows.data(), params.weights = weights.data();
  params.count = &count, params.most = most, params.entries = entries;
  params.row_count = &row_count, params.most_rows = most_rows;
  params.keys = keys.data(), params.values = values.data();
  params.past_key = static_cast<u32>(most_rows), params.sort_count = &sort_count;
  params.sorted_keys = sorted.data(), params.list = list.data(), params.begins = begins.data();
  params.out_gradient = gradient.elements(), params.output = output.elements();
  params.vectors = Channels * dtype_bytes(T) / VectorBytes;
  constexpr KeyEntriesSpec kKey{.threads = 64};
  constexpr FindEntriesSpec kFind{.threads = 64};
  constexpr SumEntriesSpec kSum{.io = T, .weighs = Corners > 1, .vector_bytes = VectorBytes, .threads = 64};
  shim::launch(&key_entries<kKey>, params, shim::small_grid(variant, 64));
  ASSERT_EQ(sort_count, entries);
  std::iota(list.begin(), list.end(), 0u);
  ASSERT_EQ(values, list);
  std::stable_sort(list.begin(), list.end(), [&](u32 a, u32 b) { return keys[a] < keys[b]; });
  std::transform(list.begin(), list.end(), sorted.begin(), [&](u32 entry) { return keys[entry]; });
  shim::launch(&find_entries<kFind>, params, shim::small_grid(variant, 64));
  EXPECT_EQ(begins.back(), poison<u32>());
  shim::launch(&sum_entries<kSum>, params, shim::small_grid(variant, 64));
  for (i64 row = 0; row < most_rows; ++row) {
    for (i64 c = 0; c < Channels; ++c) {
      double sum = 0;
      for (i64 entry = 0; entry < entries; ++entry) {
        const i64 point = entry % most;
        const auto at = static_cast<std::size_t>(entry);
        if (point >= points || row >= rows || entry_rows[at] != row) continue;
        sum += (Corners > 1 ? static_cast<double>(weights[at]) : 1) * gradient.at(point, c);
      }
      Matrix<T> expected(1, 1, 1);
      expected.set(0, 0, static_cast<float>(sum));
      ASSERT_EQ(output.bits(row, c), expected.bits(0, 0)) << "row " << row << " channel " << c;
    }
  }
  EXPECT_TRUE(output.is_poison(most_rows, 0));
}

TEST(RowGradients, SumsOfEntries) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    expect_sums<DType::F32, 1, 4, 16>(100, 20, variant);
    expect_sums<DType::F32, 8, 3, 4>(60, 30, variant);
    expect_sums<DType::F16, 1, 24, 16>(100, 1, variant);
    expect_sums<DType::F16, 2, 5, 2>(40, 20, variant);
    expect_sums<DType::BF16, 4, 8, 16>(50, 200, variant);
    expect_sums<DType::BF16, 1, 1, 2>(0, 3, variant);
    expect_sums<DType::F32, 1, 4, 16>(9, 0, variant);
  }
}

/// `run` rows after one another have the same group, about.
template <DType T, DType Out, PointReduction R, i32 Channels, i32 VectorBytes>
void expect_spread(i64 rows, i64 groups, i64 run, bool has_sizes, int variant) {
  Random random(95 + static_cast<u64>(variant));
  constexpr i64 kLd = 2, kMore = 3;
  Matrix<T> gradient(groups + kMore, Channels, Channels);
  Matrix<Out> input(rows + kMore, Channels, Channels + 1), output(rows + kMore + 1, Channels, Channels);
  gradient.fill(random, groups);
  for (i64 row = 0; row < rows; ++row) {
    for (i64 c = 0; c < Channels; ++c) {
      const bool is_nan = random.below(17) == 0;
      input.set(row, c, is_nan ? std::nanf("") : static_cast<float>(random.between(-2, 2)) * -1.0f);
    }
  }
  std::vector<i32> group_of(static_cast<std::size_t>((rows + kMore) * kLd), 0);
  std::vector<i32> sizes(static_cast<std::size_t>(groups + kMore), 0);
  i32 group = 0;
  for (i64 row = 0; row < rows; ++row) {
    if (row % run == 0) group = static_cast<i32>(random.between(-1, groups + kMore - 1));
    group_of[static_cast<std::size_t>(row * kLd)] = group;
    if (group >= 0) ++sizes[static_cast<std::size_t>(group)];
  }
  constexpr bool kIsFirst = R == PointReduction::First;
  std::vector<u32> words(static_cast<std::size_t>(groups + kMore), kIsFirst ? kNoFirstRow : 0);
  std::vector<u64> keys(words.size() * Channels, 0);
  const i32 row_count = static_cast<i32>(rows), group_count = static_cast<i32>(groups);
  GroupsParams params = {};
  params.groups = group_of.data(), params.groups_ld = kLd;
  params.row_count = &row_count, params.most_rows = rows + kMore;
  params.group_count = &group_count, params.most_groups = groups + kMore;
  params.sizes = has_sizes ? sizes.data() : nullptr;
  params.words = words.data(), params.keys = keys.data();
  params.input = input.elements(), params.input_ld = Channels + 1;
  params.channels = Channels, params.vectors = Channels * dtype_bytes(Out) / VectorBytes;
  params.out_gradient = gradient.elements(), params.output = output.elements();
  constexpr CombineGroupsSpec kCombine{.io = Out, .reduction = R, .threads = 64};
  constexpr SpreadGroupsSpec kSpread{
      .io = T, .out = Out, .reduction = R, .vector_bytes = VectorBytes, .threads = 64};
  if (R != PointReduction::Sum && !has_sizes)
    shim::launch(&combine_groups<kCombine>, params, shim::small_grid(variant, 64));
  shim::launch(&spread_groups<kSpread>, params, shim::small_grid(variant, 64));
  for (i64 row = 0; row < rows + kMore; ++row) {
    const i32 own = row < rows ? group_of[static_cast<std::size_t>(row * kLd)] : -1;
    for (i64 c = 0; c < Channels; ++c) {
      i64 winner = -1;
      for (i64 other = 0; other < rows && own >= 0; ++other) {
        if (group_of[static_cast<std::size_t>(other * kLd)] != own) continue;
        const double value = input.at(other, c), best = winner < 0 ? 0 : input.at(winner, c);
        const bool is_larger = value > best || (std::isnan(value) && !std::isnan(best));
        if (winner < 0 || (!kIsFirst && is_larger)) winner = other;
      }
      double want = own >= 0 && own < groups ? gradient.at(own, c) : 0;
      if (R == PointReduction::Mean && want != 0) want /= sizes[static_cast<std::size_t>(own)];
      if ((R == PointReduction::Max || kIsFirst) && winner != row) want = 0;
      Matrix<Out> expected(1, 1, 1);
      expected.set(0, 0, static_cast<float>(want));
      ASSERT_EQ(output.bits(row, c), expected.bits(0, 0)) << "row " << row << " channel " << c;
    }
  }
  EXPECT_TRUE(output.is_poison(rows + kMore, 0));
}

template <DType T, DType Out, i32 Channels, i32 VectorBytes>
void expect_all(i64 rows, i64 groups, i64 run, int variant) {
  expect_spread<T, Out, PointReduction::Sum, Channels, VectorBytes>(rows, groups, run, false, variant);
  expect_spread<T, Out, PointReduction::Mean, Channels, VectorBytes>(rows, groups, run, false, variant);
  expect_spread<T, Out, PointReduction::Mean, Channels, VectorBytes>(rows, groups, run, true, variant);
  expect_spread<T, Out, PointReduction::Max, Channels, VectorBytes>(rows, groups, run, false, variant);
  expect_spread<T, Out, PointReduction::First, Channels, VectorBytes>(rows, groups, run, false, variant);
}

TEST(RowGradients, PartsOfGroups) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    expect_all<DType::F32, DType::F32, 4, 16>(150, 40, 1, variant);
    expect_all<DType::F16, DType::F32, 3, 4>(150, 3, 50, variant);
    expect_all<DType::F16, DType::F16, 24, 16>(140, 5, 7, variant);
    expect_all<DType::BF16, DType::F32, 8, 16>(100, 2, 60, variant);
    expect_all<DType::BF16, DType::BF16, 1, 2>(100, 1, 1, variant);
    expect_all<DType::F32, DType::F32, 4, 16>(0, 2, 1, variant);
  }
}

}  // namespace
}  // namespace minuet
