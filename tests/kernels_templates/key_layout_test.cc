// The packed key: order, round trip, guard cells, flooring of negatives; 1 to 4 dimensions, both widths.
#include <gtest/gtest.h>

#include "tests/kernels_templates/testing.h"

namespace minuet {
namespace {

/// A random layout whose fields are small enough for the key, and a point anywhere inside its bounds.
struct Sample {
  i32 ndim;
  Point least{}, greatest{};
  std::array<i64, kMaxDim> guard{}, period{};
  KeyLayout layout;

  Sample(Random& random, i32 ndim_, i32 key_bits) : ndim(ndim_) {
    const i64 widest = 1ll << (key_bits / (ndim + 1) - 3);
    greatest[0] = static_cast<i32>(random.below(4));
    for (i32 a = 0; a < ndim; ++a) {
      const i64 extent = static_cast<i64>(random.below(static_cast<u64>(widest)));
      const i64 corner = random.between(-1000000, 1000000);
      least[a + 1] = static_cast<i32>(corner);
      greatest[a + 1] = static_cast<i32>(corner + extent);
      guard[a] = static_cast<i64>(random.below(9));
      period[a] = 1ll << random.below(4);
    }
    layout = make_key_layout(ndim, least.data(), greatest.data(), guard.data(), period.data());
  }
  Point inside(Random& random, i64 beyond = 0) const {
    Point point{};
    for (i32 f = 0; f <= ndim; ++f) {
      const i64 margin = f == 0 ? 0 : std::min(beyond, guard[f - 1]);
      point[f] = static_cast<i32>(random.between(least[f] - margin, greatest[f] + margin));
    }
    return point;
  }
};

template <class Key>
void expect_layout_properties(u64 seed) {
  Random random(seed);
  for (i32 trial = 0; trial < 4000; ++trial) {
    const Sample sample(random, 1 + trial % 4, static_cast<i32>(sizeof(Key)) * 8);
    SCOPED_TRACE("seed " + std::to_string(seed) + " trial " + std::to_string(trial));
    ASSERT_LE(sample.layout.total_bits, static_cast<i32>(sizeof(Key)) * 8);
    const Point a = sample.inside(random, 8), b = sample.inside(random, 8);
    const Key key_a = pack_key<Key>(sample.layout, a.data()), key_b = pack_key<Key>(sample.layout, b.data());
    Point back{};
    unpack_key<Key>(sample.layout, key_a, back.data());
    ASSERT_EQ(back, a);
    ASSERT_EQ(key_a < key_b, a < b);
    ASSERT_EQ(key_a == key_b, a == b);
    // with_ndim changes nothing but what the compiler knows.
    if (sample.ndim == 3) {
      ASSERT_EQ(pack_key<Key>(with_ndim<3>(sample.layout), a.data()), key_a);
    }
  }
}
TEST(KeyLayout, RoundTripAndOrder) {
  expect_layout_properties<u32>(10);
  expect_layout_properties<u64>(11);
}

template <class Key>
void expect_offsets_stay_in_their_field(u64 seed) {
  Random random(seed);
  for (i32 trial = 0; trial < 3000; ++trial) {
    SCOPED_TRACE("seed " + std::to_string(seed) + " trial " + std::to_string(trial));
    Sample sample(random, 1 + trial % 4, static_cast<i32>(sizeof(Key)) * 8);
    KernelGeometry geometry;
    geometry.ndim = sample.ndim;
    for (i32 a = 0; a < sample.ndim; ++a) {
      geometry.kernel_size[a] = 1 + static_cast<i32>(random.below(5));
      geometry.step[a] = 1 + static_cast<i32>(random.below(3));
      geometry.origin[a] = static_cast<i32>(random.below(13)) - 8;
      geometry.volume *= geometry.kernel_size[a];
      sample.guard[a] = axis_reach(geometry, a);
    }
    sample.layout = make_key_layout(sample.ndim, sample.least.data(), sample.greatest.data(),
                                    sample.guard.data(), sample.period.data());
    if (sample.layout.total_bits > static_cast<i32>(sizeof(Key)) * 8) continue;
    // A corner of the bounds as often as not: that is where a borrow or a carry would show.
    Point point = sample.inside(random);
    for (i32 f = 0; f <= sample.ndim; ++f) {
      const u64 pick = random.below(4);
      if (pick < 2) point[f] = pick == 0 ? sample.least[f] : sample.greatest[f];
    }
    const i32 k = static_cast<i32>(random.below(static_cast<u64>(geometry.volume)));
    const Key moved = static_cast<Key>(pack_key<Key>(sample.layout, point.data()) +
                                       offset_key<Key>(sample.layout, geometry, k));
    Point back{};
    unpack_key<Key>(sample.layout, moved, back.data());
    ASSERT_EQ(back, sum(point, offset_of(geometry, k)));
  }
}
TEST(KeyLayout, OffsetsNeitherBorrowNorCarry) {
  expect_offsets_stay_in_their_field<u32>(12);
  expect_offsets_stay_in_their_field<u64>(13);
}

TEST(KeyLayout, FlooredKeyIsFlooredCoordinate) {
  Random random(14);
  for (i32 trial = 0; trial < 4000; ++trial) {
    const Sample sample(random, 1 + trial % 4, 64);
    const Point point = sample.inside(random);
    i32 stride[kMaxDim] = {1, 1, 1, 1};
    Point expected = point;
    for (i32 a = 0; a < sample.ndim; ++a) {
      stride[a] = static_cast<i32>(
          1ll << random.below(static_cast<u64>(bit_width_of(static_cast<u64>(sample.period[a])))));
      i32 floored = point[a + 1] / stride[a];
      if (floored * stride[a] > point[a + 1]) --floored;
      expected[a + 1] = floored * stride[a];
    }
    const u64 floored = floor_key<u64>(sample.layout, pack_key<u64>(sample.layout, point.data()), stride);
    Point back{};
    unpack_key<u64>(sample.layout, floored, back.data());
    ASSERT_EQ(back, expected) << "trial " << trial;
  }
}

TEST(KeyLayout, ExtremeBoundsAreMeasuredNotWrapped) {
  const i32 least[] = {0, INT_MIN, INT_MIN, 0}, greatest[] = {0, INT_MAX, INT_MAX, 0};
  const i64 guard[] = {0, 0, 0}, period[] = {1, 1, 1};
  const KeyLayout fits = make_key_layout(3, least, greatest, guard, period);
  EXPECT_EQ(fits.total_bits, 64);
  const i32 corner[] = {0, INT_MAX, INT_MIN, 0};
  i32 back[4];
  unpack_key<u64>(fits, pack_key<u64>(fits, corner), back);
  EXPECT_TRUE(std::equal(corner, corner + 4, back));
  const i64 wide_guard[] = {1, 1, 1};
  EXPECT_GT(make_key_layout(3, least, greatest, wide_guard, period).total_bits, 64);
  EXPECT_EQ(floor_to_multiple(-1, 4), -4);
  EXPECT_EQ(floor_to_multiple(-4, 4), -4);
  EXPECT_EQ(floor_to_multiple(7, 4), 4);
}

TEST(KeyLayout, OffsetsAscendForEveryKernelSize) {
  const KernelGeometry centred = geometry_of(4, {2, 3, 4, 1}, 2);
  EXPECT_EQ(axis_offset(centred, 0, 0), 0);
  EXPECT_EQ(axis_offset(centred, 0, 1), 2);
  EXPECT_EQ(axis_offset(centred, 1, 0), -2);
  EXPECT_EQ(axis_offset(centred, 2, 0), -2);
  EXPECT_EQ(axis_offset(centred, 2, 3), 4);
  EXPECT_EQ(axis_reach(centred, 0), 2);
  EXPECT_EQ(axis_reach(centred, 2), 4);
  EXPECT_EQ(axis_reach(centred, 3), 0);
  const KernelGeometry geometry = geometry_of(3, {3, 2, 4, 1}, 2);
  const KeyLayout layout =
      layout_of({Point{0, -5, -5, -5, 0}, Point{0, 9, 9, 9, 0}}, 3, reach_of(geometry), 1).keys;
  const Point center{};
  u64 before = 0;
  for (i32 k = 0; k < geometry.volume; ++k) {
    const u64 key = pack_key<u64>(layout, center.data()) + offset_key<u64>(layout, geometry, k);
    if (k > 0) {
      EXPECT_GT(key, before);
    }
    before = key;
  }
}

}  // namespace
}  // namespace minuet
