// index.hpp: the wrappers pass on what they are given; and throw.
#include "include/minuet/index.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

TEST(HppIndex, BytesOfAnIndex) {
  const std::int64_t capacities[] = {10000, 5000}, slots[] = {4096, 8192};
  minuet_index_options options = MINUET_INDEX_OPTIONS_INIT;
  options.level_capacity = capacities;
  options.level_count = 2;
  const minuet_index_sizes usual = minuet::index_bytes(options);
  options.level_slots = slots;
  const minuet_index_sizes declared = minuet::index_bytes(options);
  EXPECT_EQ(declared.slots, 4096 + 8192);
  EXPECT_GT(usual.slots, declared.slots);
  EXPECT_GT(usual.table, declared.table);
  EXPECT_EQ(usual.rows, declared.rows);
  EXPECT_GE(usual.points, 8 * 10000);
  options.level_count = 0;
  EXPECT_THROW(minuet::index_bytes(options), minuet::Exception);
}

TEST(HppIndex, SlotsForClouds) {
  const minuet::Context context;
  const minuet::Device device(context, "cpu");
  minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
  options.description = R"({"name": "n", "ndim": 3, "in_channels": 1, "channels": [2], "layers": [
      {"op": "block", "name": "a", "width": 0, "kernel_size": 3},
      {"op": "block", "name": "b", "width": 0, "kernel_size": 2, "stride": 2}]})";
  options.dtype = MINUET_F32;
  const minuet::Plan plan = minuet::Plan::network(context, options);
  plan.load(device);
  const minuet::Execution execution(plan, device);
  EXPECT_THROW(minuet::suggest_slots(execution, 1, 2), minuet::Exception);
  const minuet::Buffer<std::int32_t> coordinates(device, {0, 0, 0, 0, 0, 1, 0, 0, 0, 9, 9, 9});
  execution.prepare(coordinates.get(), 3);
  EXPECT_THAT(minuet::suggest_slots(execution, 2, 2), testing::ElementsAre(4096, 4096));
}

}  // namespace
