// Tests which sets are made by rounding coordinates down although they are described as reached
// (rounded_where_equal()).
#include "runtime/engine/set_spec.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/support/random.h"

namespace minuet {
namespace {

/// A set that an op without padding and dilation reaches from set `parent`, by a kernel as large as its
/// stride.
SetSpec by_kernel_of_stride(i32 parent, const AxisArray& tensor_stride, const AxisArray& stride,
                            const AxisArray& shape = {}) {
  SetSpec set;
  set.tensor_stride = tensor_stride;
  set.parent = parent;
  set.reach = ReachSpec{stride, {1, 1, 1, 1}, {}};
  set.shape = shape;
  return set;
}

Bounds cube(i32 least, i32 greatest) {
  Bounds bounds;
  for (i32 f = 1; f < kMaxFields; ++f) bounds.least[f] = least, bounds.greatest[f] = greatest;
  return bounds;
}

/// Says for each set whether it is still made as a reached one.
std::vector<bool> reached(i32 ndim, const std::optional<Bounds>& bounds, const std::vector<SetSpec>& sets) {
  std::vector<bool> is_reached;
  const std::vector<SetSpec> made = rounded_where_equal(ndim, bounds, sets);
  EXPECT_EQ(made.size(), sets.size());
  for (std::size_t i = 0; i < sets.size(); ++i) {
    is_reached.push_back(made[i].reach.has_value());
    EXPECT_EQ(made[i].tensor_stride, sets[i].tensor_stride);
    EXPECT_EQ(made[i].parent, sets[i].parent);
    EXPECT_EQ(made[i].shape, sets[i].shape);
    EXPECT_TRUE(!made[i].reach || made[i].reach == sets[i].reach);
  }
  return is_reached;
}

using Flags = std::vector<bool>;

TEST(RoundedWhereEqual, AKernelAsLargeAsItsStride) {
  const SetSpec usual = by_kernel_of_stride(0, {2, 3, 1, 1}, {2, 3, 1, 1});
  EXPECT_EQ(reached(3, {}, {SetSpec(), usual}), (Flags{false, false}));
  // On one axis, another cell is reached, or one more.
  for (i32 a = 0; a < 3; ++a) {
    SetSpec other = usual;
    other.reach->padding[a] = 1;
    EXPECT_EQ(reached(3, {}, {SetSpec(), other}), (Flags{false, true})) << a;
    other = usual;
    ++other.reach->kernel_size[a];
    EXPECT_EQ(reached(3, {}, {SetSpec(), other}), (Flags{false, true})) << a;
    other = usual;
    other.tensor_stride[a] *= 2;
    EXPECT_EQ(reached(3, {}, {SetSpec(), other}), (Flags{false, true})) << a;
    other = usual;
    other.reach->dilation[a] = 2;
    // The dilation of a kernel of one cell does nothing.
    EXPECT_EQ(reached(3, {}, {SetSpec(), other}), (Flags{false, a < 2})) << a;
  }
  SetSpec generative = usual;
  generative.reach->is_generative = true;
  EXPECT_EQ(reached(3, {}, {SetSpec(), generative}), (Flags{false, true}));
}

/// Strides of sets are those of the caller's grid, and kernels are in cells of the parent.
TEST(RoundedWhereEqual, SetsOfSets) {
  const std::vector<SetSpec> sets = {SetSpec(), by_kernel_of_stride(0, {2, 2, 2, 1}, {2, 2, 2, 1}),
                                     by_kernel_of_stride(1, {6, 6, 6, 1}, {3, 3, 3, 1}),
                                     by_kernel_of_stride(1, {6, 6, 6, 1}, {6, 6, 6, 1}),
                                     by_kernel_of_stride(0, {6, 6, 6, 1}, {6, 6, 6, 1})};
  EXPECT_EQ(reached(3, {}, sets), (Flags{false, false, false, true, false}));
}

/// A shape lacks cells unless bounds say that no coordinate is there.
TEST(RoundedWhereEqual, Shapes) {
  const auto with_shape = [](i32 cells) {
    return std::vector<SetSpec>{SetSpec(),
                                by_kernel_of_stride(0, {2, 2, 2, 1}, {2, 2, 2, 1}, {cells, cells, cells, 0})};
  };
  const Flags is_reached{false, true}, is_rounded{false, false};
  EXPECT_EQ(reached(3, {}, with_shape(4)), is_reached);
  EXPECT_EQ(reached(3, cube(0, 7), with_shape(4)), is_rounded);
  EXPECT_EQ(reached(3, cube(0, 8), with_shape(4)), is_reached);
  EXPECT_EQ(reached(3, cube(0, 8), with_shape(5)), is_rounded);
  EXPECT_EQ(reached(3, cube(-1, 7), with_shape(4)), is_reached);
  EXPECT_EQ(reached(3, cube(3, 3), with_shape(4)), is_rounded);
  EXPECT_EQ(reached(3, cube(INT_MIN, INT_MAX), with_shape(4)), is_reached);
  for (i32 a = 0; a < 3; ++a) {
    Bounds bounds = cube(0, 7);
    bounds.greatest[a + 1] = 8;
    EXPECT_EQ(reached(3, bounds, with_shape(4)), is_reached) << a;
    bounds.greatest[a + 1] = 7, bounds.least[a + 1] = -1;
    EXPECT_EQ(reached(3, bounds, with_shape(4)), is_reached) << a;
  }
  // Without a shape, bounds do not matter.
  EXPECT_EQ(reached(3, cube(-5, 7), with_shape(0)), is_rounded);
  EXPECT_EQ(reached(1, cube(0, 7), with_shape(4)), is_rounded);
}

/// A level that loses its last cells is reached, and those made of it follow from the cells that are left.
TEST(RoundedWhereEqual, ShapesOfChains) {
  std::vector<SetSpec> sets(1);
  i32 cells = 42;  // 42, 21, 10, 5, 2
  for (i32 l = 1; l <= 4; ++l) {
    cells /= 2;
    sets.push_back(by_kernel_of_stride(l - 1, {1 << l, 1, 1, 1}, {2, 1, 1, 1}, {cells, 0, 0, 0}));
  }
  EXPECT_EQ(reached(1, cube(0, 41), sets), (Flags{false, false, true, false, true}));
}

/// Where a set is not reached any more, it has the coordinates of the definition, whatever the parent has.
TEST(RoundedWhereEqual, TheCoordinatesStay) {
  Random random(9);
  i32 rounded = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const i32 parent_stride = static_cast<i32>(random.between(1, 3)),
              stride = static_cast<i32>(random.between(1, 4));
    std::vector<SetSpec> sets(2);
    sets[1] = by_kernel_of_stride(0, {parent_stride, 1, 1, 1}, {parent_stride, 1, 1, 1});
    sets.push_back(by_kernel_of_stride(1, {parent_stride * stride, 1, 1, 1}, {1, 1, 1, 1}));
    SetSpec& set = sets.back();
    set.reach->kernel_size[0] = static_cast<i32>(random.between(1, 4));
    set.reach->dilation[0] = static_cast<i32>(random.between(1, 2));
    set.reach->padding[0] = static_cast<i32>(random.between(0, 1));
    if (random.below(2) == 0) set.shape[0] = static_cast<i32>(random.between(1, 6));
    std::optional<Bounds> bounds;
    i32 least = -30, greatest = 30;
    if (random.below(3) > 0) {
      least = static_cast<i32>(random.between(-4, 6)), greatest = least + static_cast<i32>(random.below(16));
      bounds = cube(least, greatest);
    }
    const std::vector<SetSpec> made = rounded_where_equal(1, bounds, sets);
    if (made[2].reach) continue;
    ++rounded;
    for (i32 x = least; x <= greatest; ++x) {
      const i32 parent = static_cast<i32>(floor_to_multiple(x, parent_stride));
      std::set<i32> expected;
      for (i32 number = 0; number < sources_of(1, sets, 2)[0].cells; ++number) {
        const i32 coordinate[2] = {0, parent};
        i32 cell[2];
        if (reached_cell(sources_of(1, sets, 2)[0], 1, coordinate, number, cell)) {
          expected.insert(cell[1] * parent_stride * stride);
        }
      }
      EXPECT_EQ(expected,
                (std::set<i32>{static_cast<i32>(floor_to_multiple(x, i64{parent_stride} * stride))}));
    }
  }
  EXPECT_GT(rounded, 100);
}

}  // namespace
}  // namespace minuet
