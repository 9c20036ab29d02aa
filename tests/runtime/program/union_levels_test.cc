// Levels that are unions of two others, in a program without a device.
#include <gmock/gmock.h>

#include "codegen/choose/ops/pointwise.h"
#include "runtime/maps/pyramid.h"
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

TEST(UnionLevels, AreFoundByBothParents) {
  Program program;
  program.levels = {LevelSpec(), level_below(0, {4, 4, 4, 1}), dilated(0, {1, 1, 1, 1}),
                    level_below(1, {1, 1, 1, 1}, 2), level_below(0, {1, 1, 1, 1}, 2)};
  // The other program comes to the same levels in two steps of 2.
  Program other;
  other.levels = {LevelSpec(), dilated(0, {1, 1, 1, 1}), level_below(0, {2, 2, 2, 1}),
                  level_below(2, {4, 4, 4, 1}), level_below(1, {1, 1, 1, 1}, 3)};
  EXPECT_EQ(find_same_level(program, other, 4), 3);
  EXPECT_EQ(find_same_level(other, program, 3), 4);
  EXPECT_EQ(find_same_level(other, program, 4), -1);
  // A union has more coordinates than a parent of the same tensor stride.
  EXPECT_EQ(find_same_level(program, program, 4), 4);
}

/// Levels 1 and 4 have the same coordinates, so levels 5 and 6 are unions of one pair of sets. Level 7 is the
/// union of another pair, which has one set in common with it.
TEST(UnionLevels, OfOnePairOfSetsAreOne) {
  Program program;
  program.levels = {LevelSpec(),
                    level_below(0, {4, 4, 4, 1}),
                    dilated(0, {1, 1, 1, 1}),
                    level_below(0, {2, 2, 2, 1}),
                    level_below(3, {4, 4, 4, 1}),
                    level_below(1, {1, 1, 1, 1}, 2),
                    level_below(2, {1, 1, 1, 1}, 4),
                    level_below(2, {1, 1, 1, 1}, 3)};
  EXPECT_EQ(find_same_level(program, program, 6), 5);
  EXPECT_EQ(find_same_level(program, program, 7), 7);
}

TEST(UnionLevels, HaveTheBoundsOfBoth) {
  const std::vector<SetSpec> sets = {SetSpec(), dilated(0, {2, 3, 4, 1}), level_below(0, {3, 2, 6, 1}),
                                     level_below(2, {1, 1, 2, 1}, 1), dilated(3, {1, 1, 2, 1})};
  Bounds bounds;
  for (i32 f = 1; f < 4; ++f) bounds.least[f] = -7, bounds.greatest[f] = 10;
  const std::vector<Bounds> all = llvm::cantFail(bounds_of_sets(3, bounds, sets));
  ASSERT_EQ(all.size(), 5u);
  const i32 least[] = {-9, -8, -12}, greatest[] = {9, 10, 6}, margin[] = {2, 2, 3};
  for (i32 a = 0; a < 3; ++a) {
    EXPECT_EQ(all[3].least[a + 1], std::min(all[1].least[a + 1], all[2].least[a + 1])) << a;
    EXPECT_EQ(all[3].greatest[a + 1], std::max(all[1].greatest[a + 1], all[2].greatest[a + 1])) << a;
    EXPECT_EQ(all[2].least[a + 1], least[a]) << a;
    EXPECT_EQ(all[2].greatest[a + 1], greatest[a]) << a;
    // Set 4 reaches one cell of the union farther than set 1, which reaches 1.
    EXPECT_EQ(reach_margin(a, sets), margin[a]) << a;
  }
  EXPECT_EQ(common_stride(sets[1].tensor_stride, sets[2].tensor_stride), (AxisArray{1, 1, 2, 1}));
}

/// Returns the message with which a pyramid of a level of stride 2 and of `last` is refused.
std::string refused(const PyramidLevel& last) {
  PyramidDescription description;
  description.levels.resize(2);
  description.levels[1].parent = 0;
  description.levels[1].stride = {2, 2, 2, 1};
  description.levels.push_back(last);
  for (PyramidLevel& level : description.levels) level.capacity = 8;
  llvm::Expected<std::shared_ptr<const Pyramid>> pyramid = Pyramid::create(std::move(description));
  return pyramid ? "" : llvm::toString(pyramid.takeError());
}

TEST(UnionLevels, PyramidsCheckBothParents) {
  PyramidLevel both;
  both.parent = 0;
  both.other_parent = 1;
  EXPECT_EQ(refused(both), "");
  for (const i32 other : {-2, 2, 99}) {
    both.other_parent = other;
    EXPECT_THAT(refused(both), testing::HasSubstr("the other parent of level 2 is " + std::to_string(other)));
  }
  both.other_parent = 1;
  both.reach = ReachSpec{{3, 3, 3, 1}, {1, 1, 1, 1}, {1, 1, 1, 0}};
  EXPECT_THAT(refused(both), testing::HasSubstr("level 2 is a union of two levels, but it has a reach too"));
}

}  // namespace
}  // namespace minuet
