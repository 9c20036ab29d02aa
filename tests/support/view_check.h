// A view of a kernel map on a device against plain loops over the map's rows.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "codegen/choose/offset_order.h"
#include "tests/support/layer_run.h"
#include "tests/support/read_together.h"

namespace minuet {

template <class T>
std::vector<T> read_words(Device& device, const T* address, i64 count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  take(device.download(values.data(), address, count * static_cast<i64>(sizeof(T))));
  return values;
}

/// rows[k][source] = the query that has the source at offset k, or -1.
inline std::vector<i32> transpose(const std::vector<i32>& rows, i64 volume, i64 sources) {
  std::vector<i32> transposed(static_cast<std::size_t>(volume * sources), -1);
  const i64 queries = static_cast<i64>(rows.size()) / volume;
  for (i64 i = 0; i < volume * queries; ++i) {
    if (rows[i] >= 0) transposed[i / queries * sources + rows[i]] = static_cast<i32>(i % queries);
  }
  return transposed;
}

/// Masks, order, and what goes by it, whose rows lie `stride` apart. `list` is that of
/// WindowProblem::offsets.
inline void check_view(Device& device, const std::vector<i32>& rows, const KernelGeometry& geometry,
                       i64 stride, const NeighbourView& view, const MaskRanks& ranks,
                       const OffsetList& list = {}) {
  const i64 volume = geometry.volume, words = mask_words(geometry.volume);
  const i64 queries = static_cast<i64>(rows.size()) / volume;
  std::vector<u32> masks(static_cast<std::size_t>(words * queries));
  for (i64 i = 0; i < volume * queries; ++i) {
    const i64 k = i / queries;
    if (rows[i] >= 0) masks[k / 32 * queries + i % queries] |= 1u << k % 32;
  }
  EXPECT_EQ(read_words(device, view.masks, words * queries), masks);
  const OffsetOrder offsets = order_offsets(geometry, list);
  std::vector<u32> numbers;
  for (i64 q = 0; q < queries; ++q) {
    const u32 code = mask_code(masks.data(), queries, q, offsets.offsets, offsets.ranked);
    numbers.push_back(rank_of_code(code, ranks, [&](u32 byte) { return byte_interval(byte, ranks.share); }));
  }
  std::vector<i32> order(static_cast<std::size_t>(queries));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](i32 a, i32 b) { return numbers[a] < numbers[b]; });
  EXPECT_EQ(read_words(device, view.order, queries), order);
  const auto expect_by_place = [&](const auto& values, const auto* address, i64 words_of_a_query,
                                   const auto& is_there) {
    const auto ordered = read_words(device, address, words_of_a_query * stride);
    for (i64 k = 0; k < words_of_a_query; ++k) {
      for (i64 i = 0; i < queries; ++i) {
        if (!is_there(k, i)) continue;
        ASSERT_EQ(ordered[k * stride + i], values[k * queries + order[i]]) << "row " << k << ", place " << i;
      }
    }
  };
  expect_by_place(rows, view.ordered_rows, volume, [&](i64 k, i64 i) {
    return any_together(i, queries, [&](i64 place) { return rows[k * queries + order[place]] >= 0; });
  });
  expect_by_place(masks, view.ordered_masks, words, [](i64, i64) { return true; });
  if (device.info().arch.empty()) return;  // the CPU takes rows as they come
  const std::vector<i32> blocks =
      read_words(device, view.block_orders, block_order_begin(stride, kBlockHeightCount));
  for (i32 which = 0; which < kBlockHeightCount; ++which) {
    const i32 height = kBlockHeights[which];
    const i32* const of_height = blocks.data() + block_order_begin(stride, which);
    const auto weight = [&](i64 block) {
      i32 offsets = 0;
      for (i64 k = 0; k < volume; ++k) {
        bool has = false;
        for (i64 i = block * height; i < std::min((block + 1) * height, queries); ++i)
          has = has || rows[k * queries + order[i]] >= 0;
        offsets += has;
      }
      return block_weight(offsets, static_cast<i32>(volume));
    };
    std::vector<bool> seen(static_cast<std::size_t>(blocks_of_height(stride, height)), false);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      ASSERT_LT(static_cast<u32>(of_height[i]), seen.size());
      EXPECT_FALSE(seen[of_height[i]]) << "block " << of_height[i] << " twice";
      seen[of_height[i]] = true;
      if (i > 0 && static_cast<i64>(i) < blocks_of_height(queries, height)) {
        EXPECT_LE(weight(of_height[i - 1]), weight(of_height[i]));
      }
    }
  }
}

}  // namespace minuet
