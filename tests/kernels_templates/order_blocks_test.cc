// Orders of the blocks of ordered views, from random masks, against a sort.
#include <gtest/gtest.h>

#include "tests/kernels_templates/testing.h"
// testing.h first: it brings the shim's names.
#include "kernels_templates/map/order_blocks.h"

namespace minuet {
namespace {

struct OrderedView {
  i32 queries, volume;
  i64 capacity;
  std::vector<u32> masks = {}, block_masks = {};
  std::vector<i32> orders = {};
};

/// Some blocks have many offsets, some few.
void fill(OrderedView& view, Random& random) {
  const i32 words = mask_words(view.volume);
  view.masks = poisoned<u32>(static_cast<std::size_t>(words * view.capacity));
  for (i64 place = 0; place < view.queries; ++place) {
    for (i32 word = 0; word < words; ++word) {
      const i32 bits = std::min(view.volume - word * 32, 32);
      u32 mask = 0;
      for (i32 bit = 0; bit < bits; ++bit)
        mask |= static_cast<u32>(random.below(60) < static_cast<u64>(place / 40 * 7 % 11)) << bit;
      view.masks[static_cast<std::size_t>(word * view.capacity + place)] = mask;
    }
  }
  const i64 blocks = blocks_of_height(view.capacity, kLeastBlockHeight);
  view.block_masks = poisoned<u32>(static_cast<std::size_t>(words * blocks));
  for (i64 place = 0; place < view.queries; ++place) {
    for (i32 word = 0; word < words; ++word) {
      u32& united = view.block_masks[static_cast<std::size_t>(word * blocks + place / kLeastBlockHeight)];
      if (place % kLeastBlockHeight == 0) united = 0;
      united |= view.masks[static_cast<std::size_t>(word * view.capacity + place)];
    }
  }
  view.orders =
      poisoned<i32>(static_cast<std::size_t>(block_order_begin(view.capacity, kBlockHeightCount)) + 1);
}

i32 weight_of(const OrderedView& view, i64 block, i32 height) {
  i32 offsets = 0;
  for (i32 word = 0; word < mask_words(view.volume); ++word) {
    u32 all = 0;
    for (i64 place = block * height; place < std::min<i64>((block + 1) * height, view.queries); ++place)
      all |= view.masks[static_cast<std::size_t>(word * view.capacity + place)];
    offsets += __builtin_popcount(all);
  }
  return block_weight(offsets, view.volume);
}

void launch(const ViewsParams& params, int variant) {
  shim::Grid grid = shim::small_grid(variant, 64);
  grid.blocks = params.job_count * kBlockHeightCount;
  shim::launch(&order_blocks<OrderBlocksSpec{64}>, params, grid);
}

TEST(OrderBlocks, ThoseWithTheMostOffsetsComeFirst) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    Random random(410 + static_cast<u64>(variant));
    OrderedView views[] = {{0, 27, 0},     {0, 27, 70},     {1, 1, 1},        {63, 27, 64},
                           {700, 27, 811}, {500, 200, 530}, {2000, 63, 2000}, {300, 27, 300}};
    ViewsParams params = {};
    i32 order = 0;
    for (OrderedView& view : views) {
      fill(view, random);
      ViewJob& job = params.jobs[params.job_count++];
      job.query_count = &view.queries, job.geometry.volume = view.volume, job.ordered_stride = view.capacity;
      job.block_masks = view.block_masks.data(), job.block_orders = view.orders.data();
      job.order = params.job_count == 8 ? nullptr : &order;  // the last view has none
    }
    launch(params, variant);
    for (const OrderedView& view : views) {
      SCOPED_TRACE(testing::Message()
                   << view.queries << " of " << view.capacity << ", volume " << view.volume);
      if (&view == &views[7]) {
        EXPECT_EQ(view.orders, poisoned<i32>(view.orders.size()));
        continue;
      }
      EXPECT_EQ(view.orders.back(), poisoned<i32>(1)[0]);
      for (i32 which = 0; which < kBlockHeightCount; ++which) {
        const i32 height = kBlockHeights[which];
        const i32* const blocks = view.orders.data() + block_order_begin(view.capacity, which);
        const i64 all = blocks_of_height(view.capacity, height),
                  used = blocks_of_height(view.queries, height);
        std::vector<i32> seen(blocks, blocks + all);
        for (i64 i = used; i < all; ++i) EXPECT_EQ(blocks[i], i);
        for (i64 i = 1; i < used; ++i)
          EXPECT_LE(weight_of(view, blocks[i - 1], height), weight_of(view, blocks[i], height));
        std::sort(seen.begin(), seen.end());
        for (i64 i = 0; i < all; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
      }
    }
  }
}

TEST(OrderBlocks, ManyKeepTheirPlaces) {
  Random random(409);
  OrderedView view{static_cast<i32>(kMostSortedBlocks) * kLeastBlockHeight + 1, 3, 0};
  view.capacity = view.queries + 40;
  fill(view, random);
  ViewsParams params = {};
  i32 order = 0;
  ViewJob& job = params.jobs[params.job_count++];
  job.query_count = &view.queries, job.geometry.volume = view.volume, job.ordered_stride = view.capacity;
  job.block_masks = view.block_masks.data(), job.block_orders = view.orders.data(), job.order = &order;
  launch(params, 2);
  for (i64 i = 0; i < blocks_of_height(view.capacity, kLeastBlockHeight); ++i) ASSERT_EQ(view.orders[i], i);
  const i32* const higher = view.orders.data() + block_order_begin(view.capacity, 1);
  EXPECT_FALSE(std::is_sorted(higher, higher + blocks_of_height(view.queries, kBlockHeights[1])));
}

TEST(OrderBlocks, WeightsOfManyOffsetsAreTold) {
  for (const i32 volume : {1, 27, 63, 64, 125, 4096}) {
    EXPECT_EQ(block_weight(volume, volume), 0);
    for (i32 offsets = 0; offsets < volume; ++offsets) {
      EXPECT_GE(block_weight(offsets, volume), block_weight(offsets + 1, volume));
      EXPECT_LT(block_weight(offsets, volume), kMostBlockWeights);
    }
  }
}

}  // namespace
}  // namespace minuet
