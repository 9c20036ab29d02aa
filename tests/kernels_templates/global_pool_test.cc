// Tests the pooling of whole batch items in the shim against plain loops.
#include <gtest/gtest.h>

#include "tests/kernels_templates/features.h"
// The kernels come after features.h, which defines the shim's names that they use.
#include "kernels_templates/pool/join_items.h"
#include "kernels_templates/pool/list_item_rows.h"
#include "kernels_templates/pool/pool_items.h"
#include "kernels_templates/pool/start_item_rows.h"

namespace minuet {
namespace {

/// Returns the batch item of each row, in random order. Some items have no row, and one has most.
std::vector<i32> draw_items(Random& random, i64 rows, i32 batch) {
  std::vector<i32> items;
  for (i64 row = 0; row < rows; ++row) {
    const i32 item = static_cast<i32>(random.below(static_cast<u64>(batch)));
    items.push_back(random.below(3) == 0 ? batch / 2 : item % 5 == 3 ? 0 : item);
  }
  return items;
}

struct List {
  i32 splits = 1;
  std::vector<u32> places;
  std::vector<i32> rows;
};

/// Runs the kernels that list the first `count` rows. The other rows must not be listed.
List list_rows(const std::vector<i32>& items, i32 count, i32 batch, i32 splits, int variant) {
  constexpr ItemRowsSpec kCount{.ndim = 2, .threads = 64}, kList{.ndim = 2, .lists = true, .threads = 64};
  constexpr StartItemRowsSpec kStart{.threads = 64};
  std::vector<i32> coordinates;
  for (const i32 item : items) coordinates.insert(coordinates.end(), {item, -7, 9});
  List list{splits, std::vector<u32>(static_cast<std::size_t>(batch) * static_cast<std::size_t>(splits)),
            poisoned<i32>(items.size() + 1)};
  ItemRowsParams params = {};
  params.coordinates = coordinates.data();
  params.count = &count;
  params.batch = batch;
  params.splits = splits;
  params.places = list.places.data();
  params.rows = list.rows.data();
  shim::launch(&list_item_rows<kCount>, params, shim::small_grid(variant, kCount.threads));
  const StartItemRowsParams start{list.places.data(), static_cast<i64>(list.places.size())};
  shim::launch(&start_item_rows<kStart>, start, shim::Grid{1, kStart.threads, {}});
  shim::launch(&list_item_rows<kList>, params, shim::small_grid(variant, kList.threads));
  return list;
}

/// Returns the rows item by item, in ascending order within an item.
std::vector<i32> plain_list(const std::vector<i32>& items, i32 count, i32 batch) {
  std::vector<i32> rows;
  for (i32 item = 0; item < batch; ++item) {
    for (i32 row = 0; row < count; ++row) {
      if (items[static_cast<std::size_t>(row)] == item) rows.push_back(row);
    }
  }
  return rows;
}

TEST(GlobalPool, RowsAreListedByItem) {
  Random random(5);
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    for (const auto& [rows, batch, splits] :
         {std::tuple{1000, 7, 3}, {1000, 7, 40}, {500, 300, 5}, {3, 2, 9}, {0, 4, 2}, {700, 1, 6}}) {
      std::vector<i32> items = draw_items(random, rows + 20, batch);
      // Rows of no batch item are left out.
      if (rows > 2) items[1] = batch, items[2] = -1;
      const List list = list_rows(items, rows, batch, splits, variant);
      std::vector<i32> expected = plain_list(items, rows, batch);
      for (i32 item = 0; item < batch; ++item) {
        const auto end = std::count_if(expected.begin(), expected.end(),
                                       [&](i32 row) { return items[static_cast<std::size_t>(row)] <= item; });
        ASSERT_EQ(list.places[static_cast<std::size_t>((item + 1) * splits - 1)], end) << item;
      }
      expected.resize(list.rows.size(), poison<i32>());
      ASSERT_EQ(list.rows, expected) << rows << " " << batch << " " << splits;
    }
  }
}

TEST(GlobalPool, WordsFitTheirLimit) {
  EXPECT_EQ(item_splits(1, INT_MAX), kMostItemSplits);
  EXPECT_EQ(item_splits(4096, INT_MAX), kMostItemWords / 4096);
  EXPECT_EQ(item_splits(kMostItemWords, INT_MAX), 1);
  EXPECT_EQ(item_splits(INT_MAX, INT_MAX), 1);
  EXPECT_EQ(item_splits(2, 0), 1);
  EXPECT_EQ(item_splits(2, 3 * kLeastSplitRows + 1), 4);
  for (const i64 rows : {i64{1}, i64{64}, i64{65}, i64{32768}, i64{32769}, i64{INT_MAX}}) {
    EXPECT_LE(pieces_of(rows), kMostPieces) << rows;
    EXPECT_GE(pieces_of(rows) * rows_of_piece(rows), rows);
  }
  EXPECT_EQ(pieces_of(0), 0);
}

struct Shape {
  i32 rows, batch, output_rows;
  int variant;
};

/// Pools `shape.rows` rows of items and compares with plain loops. Rows past the count are NaN.
template <PoolItemsSpec S>
void expect_pooled(const Shape& shape) {
  constexpr JoinItemsSpec kJoin{S.io, S.channels, S.vector_bytes, S.reduction, S.threads};
  SCOPED_TRACE(testing::Message() << shape.rows << " rows of " << shape.batch << " items, variant "
                                  << shape.variant << ", reduction " << static_cast<int>(S.reduction));
  Random random(17 + static_cast<u64>(shape.rows));
  const i64 all_rows = shape.rows + 9;
  Matrix<S.io> input(all_rows, S.channels, S.channels + 16);
  Matrix<S.io> output(shape.output_rows + 1, S.channels, S.channels + 32);
  input.fill(random, all_rows);
  for (i64 row = shape.rows; row < all_rows; ++row) {
    for (i32 c = 0; c < S.channels; ++c) input.set(row, c, std::nanf(""));
  }
  const std::vector<i32> items = draw_items(random, all_rows, shape.batch);
  const List list = list_rows(items, shape.rows, shape.batch, 3, shape.variant);
  std::vector<float> partials(static_cast<std::size_t>(2 * kMostPieces * S.channels) + 4, std::nanf(""));
  u32 overflow = 0;
  PoolItemsParams params = {};
  params.input = input.elements();
  params.input_ld = input.ld();
  params.input_count = &shape.rows;
  params.rows = shape.batch > 1 ? list.rows.data() : nullptr;
  params.places = shape.batch > 1 ? list.places.data() : nullptr;
  params.splits = list.splits;
  params.output_count = &shape.batch;
  params.output_rows = shape.output_rows;
  params.pads_output = shape.output_rows > shape.batch ? 1 : 0;
  params.output = output.elements();
  params.output_ld = output.ld();
  // Partial results begin on a multiple of 16 bytes, as in the arena.
  params.partials = partials.data() + (16 - reinterpret_cast<std::uintptr_t>(partials.data()) % 16) % 16 / 4;
  params.overflow = &overflow;
  params.overflow_mark = 5;
  shim::launch(&pool_items<S>, params, shim::small_grid(shape.variant, S.threads));
  shim::launch(&join_items<kJoin>, params, shim::small_grid(shape.variant, S.threads));
  EXPECT_EQ(overflow, 0u);
  std::vector<double> results(static_cast<std::size_t>(shape.output_rows) * S.channels);
  std::vector<i64> counts(static_cast<std::size_t>(shape.output_rows));
  for (i64 row = 0; row < shape.rows; ++row) {
    const auto item = static_cast<std::size_t>(items[static_cast<std::size_t>(row)]);
    for (i32 c = 0; c < S.channels; ++c) {
      double& result = results[item * S.channels + static_cast<std::size_t>(c)];
      const double value = input.at(row, c);
      const bool is_max = S.reduction == Reduction::Max;
      result = counts[item] == 0 ? value : is_max ? std::max(result, value) : result + value;
    }
    ++counts[item];
  }
  for (i64 row = 0; row < shape.output_rows; ++row) {
    const i64 count = counts[static_cast<std::size_t>(row)];
    for (i32 c = 0; c < S.channels; ++c) {
      double expected = results[static_cast<std::size_t>(row * S.channels + c)];
      if (S.reduction == Reduction::Average && count > 0) expected /= static_cast<double>(count);
      const double bound = S.io == DType::F32 ? 1e-5 : S.io == DType::F16 ? 4e-3 : 3e-2;
      ASSERT_NEAR(output.at(row, c), expected, bound * std::max(1.0, std::abs(expected))) << row << " " << c;
    }
    ASSERT_TRUE(output.is_poison(row, S.channels)) << "past the row";
  }
  ASSERT_TRUE(output.is_poison(shape.output_rows, 0)) << "past the last row";
}

template <Reduction R>
void expect_all(int variant) {
  constexpr PoolItemsSpec kWide{
      .io = DType::F16, .channels = 24, .vector_bytes = 16, .reduction = R, .threads = 64};
  constexpr PoolItemsSpec kNarrow{
      .io = DType::F32, .channels = 3, .vector_bytes = 4, .reduction = R, .threads = 64};
  // Two blocks share a row, and a lane has all threads of a block.
  constexpr PoolItemsSpec kChunks{
      .io = DType::BF16, .channels = 70, .vector_bytes = 2, .reduction = R, .threads = 64};
  constexpr PoolItemsSpec kTwo{
      .io = DType::F16, .channels = 10, .vector_bytes = 4, .reduction = R, .threads = 64};
  for (const auto& [rows, batch, output_rows] :
       {std::tuple{700, 6, 6}, {700, 1, 1}, {300, 40, 45}, {64, 2, 2}, {1, 3, 3}, {0, 2, 5}, {0, 1, 1}}) {
    const Shape shape{rows, batch, output_rows, variant};
    expect_pooled<kWide>(shape);
    expect_pooled<kNarrow>(shape);
    expect_pooled<kTwo>(shape);
    if (rows < 500) expect_pooled<kChunks>(shape);
  }
}

TEST(GlobalPool, EveryReduction) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    expect_all<Reduction::Max>(variant);
    expect_all<Reduction::Average>(variant);
    expect_all<Reduction::Sum>(variant);
  }
}

/// More rows than the least that fill all pieces.
TEST(GlobalPool, PiecesGrowWithTheRows) {
  constexpr PoolItemsSpec kSpec{
      .io = DType::F32, .channels = 1, .vector_bytes = 4, .reduction = Reduction::Sum, .threads = 64};
  expect_pooled<kSpec>({kMostPieces * kLeastPieceRows + 5000, 3, 3, 2});
  expect_pooled<kSpec>({kMostPieces * kLeastPieceRows + 5000, 1, 1, 1});
}

/// Nothing is pooled if a cloud has failed, whose counts are 0.
TEST(GlobalPool, WithoutItemsTheOutputIsZero) {
  constexpr PoolItemsSpec kSpec{.io = DType::F32, .channels = 4, .threads = 64};
  constexpr JoinItemsSpec kJoin{.io = DType::F32, .channels = 4, .threads = 64};
  Matrix<DType::F32> input(4, 4, 4), output(3, 4, 4);
  const i32 none = 0;
  u32 overflow = 0;
  PoolItemsParams params = {};
  params.input = input.elements(), params.input_ld = input.ld();
  params.input_count = params.output_count = &none;
  params.output_rows = 3, params.pads_output = 1;
  params.output = output.elements(), params.output_ld = output.ld();
  params.overflow = &overflow, params.overflow_mark = 5;
  shim::launch(&pool_items<kSpec>, params, shim::small_grid(0, 64));
  shim::launch(&join_items<kJoin>, params, shim::small_grid(0, 64));
  for (i64 row = 0; row < 3; ++row) {
    for (i32 c = 0; c < 4; ++c) EXPECT_EQ(output.bits(row, c), 0u);
  }
}

/// NaN passes through every reduction, from any row, and is marked. fp16 holds no sum of 70,000.
TEST(GlobalPool, WhatIsNotFiniteIsMarked) {
  constexpr PoolItemsSpec kMax{
      .io = DType::F16, .channels = 1, .vector_bytes = 2, .reduction = Reduction::Max, .threads = 64};
  constexpr JoinItemsSpec kJoinMax{DType::F16, 1, 2, Reduction::Max, 64};
  constexpr PoolItemsSpec kSum{
      .io = DType::F16, .channels = 1, .vector_bytes = 2, .reduction = Reduction::Sum, .threads = 64};
  constexpr JoinItemsSpec kJoinSum{DType::F16, 1, 2, Reduction::Sum, 64};
  const i32 rows = 200, one = 1;
  for (const i32 nan_at : {-1, 0, 63, 130, 199}) {
    Matrix<DType::F16> input(rows, 1, 8), output(1, 1, 8);
    for (i32 row = 0; row < rows; ++row) input.set(row, 0, row == nan_at ? std::nanf("") : 350.0f);
    std::vector<float> partials(2 * kMostPieces);
    u32 overflow = 0;
    PoolItemsParams params = {};
    params.input = input.elements(), params.input_ld = input.ld();
    params.input_count = &rows, params.output_count = &one;
    params.output_rows = 1;
    params.output = output.elements(), params.output_ld = output.ld();
    params.partials = partials.data();
    params.overflow = &overflow, params.overflow_mark = 7;
    shim::launch(nan_at < 0 ? &pool_items<kSum> : &pool_items<kMax>, params, shim::small_grid(2, 64));
    shim::launch(nan_at < 0 ? &join_items<kJoinSum> : &join_items<kJoinMax>, params, shim::small_grid(2, 64));
    EXPECT_EQ(overflow, 7u) << nan_at;
    EXPECT_EQ(std::isnan(output.at(0, 0)), nan_at >= 0);
  }
}

}  // namespace
}  // namespace minuet
