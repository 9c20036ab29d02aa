// select.hpp: the wrapper passes on what it is given; and throws.
#include "include/minuet/select.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace {

struct alignas(16) WorkspaceBlock {
  char bytes[16];
};

TEST(HppSelect, KeepsWhatTheMaskSays) {
  const minuet::Context context;
  const minuet::Device device(context, "cpu");
  minuet_select_options options = MINUET_SELECT_OPTIONS_INIT;
  options.rule = MINUET_SELECT_MASK;
  const minuet::SelectOp op(context, options);
  op.load(device);
  std::vector<WorkspaceBlock> workspace(static_cast<size_t>(op.bytes("cpu", 3)) / sizeof(WorkspaceBlock) + 1);
  const int32_t coordinates[12] = {0, 1, 2, 3, 0, 4, 5, 6, 1, 7, 8, 9};
  const uint8_t mask[3] = {0, 1, 9};
  int32_t selected[12] = {}, places[3] = {}, count = -1;
  minuet_select_arguments given = MINUET_SELECT_ARGUMENTS_INIT;
  given.coordinates = coordinates, given.most_rows = 3, given.mask = mask;
  given.workspace = workspace.data();
  given.workspace_bytes = static_cast<int64_t>(workspace.size() * sizeof(WorkspaceBlock));
  given.capacity = 3;
  given.selected = selected, given.places = places, given.count = &count;
  op.run(device, given);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(selected[1], 4);
  EXPECT_EQ(selected[4], 1);
  EXPECT_EQ(places[0], -1);
  EXPECT_EQ(places[2], 1);
  given.mask = nullptr;
  EXPECT_THROW(op.run(device, given), minuet::Exception);
  options.best = 1;
  EXPECT_THROW(minuet::SelectOp(context, options), minuet::Exception);
}

}  // namespace
