// Levels that are unions of two others, in a program without a device.
#include <gmock/gmock.h>

#include "codegen/choose/ops/pointwise.h"
#include "runtime/program/program.h"

namespace minuet {
namespace {

LevelSpec level_below(i32 parent, const AxisArray& tensor_stride, i32 other_parent = -1) {
  LevelSpec level;
  level.tensor_stride = tensor_stride;
  level.parent = parent;
  level.other_parent = other_parent;
  return level;
}

LevelSpec dilated(i32 parent, const AxisArray& tensor_stride) {
  LevelSpec level = level_below(parent, tensor_stride);
  level.reach = ReachSpec{{3, 3, 3, 1}, {1, 1, 1, 1}, {1, 1, 1, 0}};
  return level;
}

/// Level 3 is the union of level 1, which a layer makes in each run, and level 2.
TEST(UnionLevels, ComeBehindBothParents) {
  Program program;
  program.levels = {LevelSpec(), level_below(0, {1, 1, 1, 1}), level_below(0, {2, 2, 2, 1}),
                    level_below(1, {1, 1, 1, 1}, 2)};
  program.levels[1].made_by = 0;
  program.tensors = {{0, 4, 0, 0}, {1, 4, 1, 0}};
  ProgramLayer layer{PointwiseProblem()};
  layer.output = 1;
  program.layers.push_back(layer);
  using Kind = Step::Kind;
  EXPECT_THAT(make_schedule(program),
              testing::ElementsAre(Step{Kind::MakeLevel, 0, false}, Step{Kind::MakeLevel, 2, false},
                                   Step{Kind::RunOp, 0, true}, Step{Kind::MakeLevel, 3, true}));
}

TEST(UnionLevels, AreFoundByBothParents) {
  Program program;
  program.levels = {LevelSpec(), level_below(0, {4, 4, 4, 1}), dilated(0, {1, 1, 1, 1}),
                    level_below(1, {1, 1, 1, 1}, 2), level_below(0, {1, 1, 1, 1}, 2)};
  // The other program comes to the same levels in two steps of 2.
  Program other;
  other.levels = {LevelSpec(), dilated(0, {1, 1, 1, 1}), level_below(0, {2, 2, 2, 1}),
                  level_below(2, {4, 4, 4, 1}), level_below(3, {1, 1, 1, 1}, 1)};
  EXPECT_EQ(find_same_level(program, other, 4), 3);
  EXPECT_EQ(find_same_level(other, program, 3), 4);
  EXPECT_EQ(find_same_level(other, program, 4), -1);
  // A union has more coordinates than a parent of the same tensor stride.
  EXPECT_EQ(find_same_level(program, program, 4), 4);
}

TEST(UnionLevels, HaveTheBoundsOfBoth) {
  const std::vector<SetSpec> sets = {SetSpec(), dilated(0, {2, 3, 4, 1}), level_below(0, {3, 2, 6, 1}),
                                     level_below(2, {1, 1, 2, 1}, 1)};
  Bounds bounds;
  for (i32 f = 1; f < 4; ++f) bounds.least[f] = -7, bounds.greatest[f] = 10;
  const std::vector<Bounds> all = llvm::cantFail(bounds_of_sets(3, bounds, sets));
  ASSERT_EQ(all.size(), 4u);
  const i32 least[] = {-9, -8, -12}, greatest[] = {10, 10, 10};
  for (i32 a = 0; a < 3; ++a) {
    EXPECT_EQ(all[3].least[a + 1], std::min(all[1].least[a + 1], all[2].least[a + 1])) << a;
    EXPECT_EQ(all[3].greatest[a + 1], std::max(all[1].greatest[a + 1], all[2].greatest[a + 1])) << a;
    EXPECT_EQ(all[2].least[a + 1], least[a]) << a;
    EXPECT_LE(all[2].greatest[a + 1], greatest[a]) << a;
    EXPECT_EQ(reach_margin(a, sets), 1) << a;
  }
  EXPECT_EQ(common_stride(sets[1].tensor_stride, sets[2].tensor_stride), (AxisArray{1, 1, 2, 1}));
}

}  // namespace
}  // namespace minuet
