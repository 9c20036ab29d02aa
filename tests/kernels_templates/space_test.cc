// Space to channel and back in the shim, against plain loops, bit by bit.
#include <gtest/gtest.h>

#include "tests/kernels_templates/features.h"
// The kernels come after features.h, which defines the shim's names that they use.
#include "kernels_templates/space/channel_to_space.h"
#include "kernels_templates/space/space_to_channel.h"

namespace minuet {
namespace {

/// The memory of one launch, poisoned where the kernel writes.
template <DType T>
struct Launch {
  Launch(i64 count_of_rows, i64 rows_with_padding, i64 in_channels, i64 out_channels)
      : count(static_cast<i32>(count_of_rows)),
        output_rows(rows_with_padding),
        input_rows(count_of_rows + 7),
        input(input_rows, in_channels, in_channels + 16),
        output(rows_with_padding + 1, out_channels, out_channels + 32) {}

  SpaceParams params(const std::vector<i32>& rows) {
    SpaceParams given = {};
    given.input = input.elements(), given.input_ld = input.ld();
    given.rows = rows.data();
    given.output_count = &count, given.output_rows = output_rows;
    given.pads_output = output_rows > count ? 1 : 0;
    given.output = output.elements(), given.output_ld = output.ld();
    given.overflow = &overflow, given.overflow_mark = 5;
    return given;
  }
  void expect_poison_around(i64 channels) const {
    for (i64 row = 0; row < output_rows; ++row)
      ASSERT_TRUE(output.is_poison(row, channels)) << "past row " << row;
    ASSERT_TRUE(output.is_poison(output_rows, 0)) << "past the last row";
  }

  i32 count;
  i64 output_rows, input_rows;
  Matrix<T> input, output;
  u32 overflow = 0;
};

template <DType T, i32 Channels, i32 Volume, i32 VectorBytes>
void expect_side_by_side(i64 count, i64 output_rows, int variant) {
  constexpr SpaceToChannelSpec kSpec{
      .io = T, .channels = Channels, .volume = Volume, .vector_bytes = VectorBytes, .threads = 64};
  Random random(40 + static_cast<u64>(count) + Volume);
  Launch<T> launch(count, output_rows, Channels, Channels * Volume);
  launch.input.fill(random, launch.input_rows);
  std::vector<i32> rows(static_cast<std::size_t>(Volume * count));
  for (i32& row : rows)
    row = random.below(3) == 0 ? -1 : static_cast<i32>(random.below(static_cast<u64>(launch.input_rows)));
  shim::launch(&space_to_channel<kSpec>, launch.params(rows), shim::small_grid(variant, kSpec.threads));
  EXPECT_EQ(launch.overflow, 0u);
  for (i64 row = 0; row < output_rows; ++row) {
    for (i64 c = 0; c < Channels * Volume; ++c) {
      const i64 k = c / Channels;
      const i32 source = row < count ? rows[static_cast<std::size_t>(k * count + row)] : -1;
      const u32 expected = source < 0 ? 0 : launch.input.bits(source, c % Channels);
      ASSERT_EQ(launch.output.bits(row, c), expected) << row << " " << c;
    }
  }
  launch.expect_poison_around(Channels * Volume);
}

template <DType T, i32 Channels, i32 Volume, i32 VectorBytes>
void expect_parts(i64 count, i64 output_rows, int variant) {
  constexpr ChannelToSpaceSpec kSpec{
      .io = T, .channels = Channels, .volume = Volume, .vector_bytes = VectorBytes, .threads = 64};
  Random random(70 + static_cast<u64>(count) + Volume);
  Launch<T> launch(count, output_rows, Channels * Volume, Channels);
  launch.input.fill(random, launch.input_rows);
  std::vector<i32> rows(static_cast<std::size_t>(Volume * count), -1), offsets;
  for (i64 row = 0; row < count; ++row) {
    offsets.push_back(static_cast<i32>(random.below(Volume + 1)));  // Volume: the row has no parent
    if (offsets.back() == Volume) continue;
    rows[static_cast<std::size_t>(offsets.back() * count + row)] =
        static_cast<i32>(random.below(static_cast<u64>(launch.input_rows)));
  }
  shim::launch(&channel_to_space<kSpec>, launch.params(rows), shim::small_grid(variant, kSpec.threads));
  EXPECT_EQ(launch.overflow, 0u);
  for (i64 row = 0; row < output_rows; ++row) {
    const i32 k = row < count ? offsets[static_cast<std::size_t>(row)] : Volume;
    for (i64 c = 0; c < Channels; ++c) {
      const u32 expected =
          k == Volume ? 0
                      : launch.input.bits(rows[static_cast<std::size_t>(k * count + row)], k * Channels + c);
      ASSERT_EQ(launch.output.bits(row, c), expected) << row << " " << c;
    }
  }
  launch.expect_poison_around(Channels);
}

TEST(Space, ChildrenSideBySide) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    expect_side_by_side<DType::F32, 4, 8, 16>(100, 100, variant);
    expect_side_by_side<DType::F32, 3, 27, 4>(50, 64, variant);
    expect_side_by_side<DType::F16, 16, 2, 16>(33, 33, variant);
    expect_side_by_side<DType::BF16, 12, 64, 8>(5, 9, variant);
    expect_side_by_side<DType::F16, 5, 12, 2>(1, 9, variant);
    expect_side_by_side<DType::F16, 6, 8, 4>(0, 4, variant);
  }
}

TEST(Space, PartsOfTheParent) {
  for (int variant = 0; variant < shim::kGridVariants; ++variant) {
    expect_parts<DType::F32, 4, 8, 16>(100, 100, variant);
    expect_parts<DType::F32, 3, 27, 4>(50, 64, variant);
    expect_parts<DType::F16, 16, 2, 16>(33, 33, variant);
    expect_parts<DType::BF16, 12, 64, 8>(20, 23, variant);
    expect_parts<DType::F16, 5, 12, 2>(1, 9, variant);
    expect_parts<DType::F16, 6, 8, 4>(0, 4, variant);
  }
}

/// Infinite and NaN numbers keep their bits, and are reported. Those that are not copied are not.
TEST(Space, NumbersThatAreNotFinite) {
  constexpr SpaceToChannelSpec kDown{
      .io = DType::F16, .channels = 8, .volume = 2, .vector_bytes = 16, .threads = 64};
  constexpr ChannelToSpaceSpec kUp{
      .io = DType::F16, .channels = 8, .volume = 2, .vector_bytes = 16, .threads = 64};
  for (const u16 word : {u16{0x7c00}, u16{0xfc00}, u16{0x7e01}}) {
    for (const bool is_copied : {false, true}) {
      Launch<DType::F16> down(2, 2, 8, 16), up(2, 2, 16, 8);
      Random random(1);
      down.input.fill(random, down.input_rows), up.input.fill(random, up.input_rows);
      const i32 source = is_copied ? 4 : 5;
      down.input.elements()[4 * down.input.ld() + 7] = word;
      up.input.elements()[4 * up.input.ld() + 15] = word;
      const std::vector<i32> of_down{0, 1, source, 2}, of_up{0, -1, -1, source};
      shim::launch(&space_to_channel<kDown>, down.params(of_down), shim::small_grid(0, kDown.threads));
      shim::launch(&channel_to_space<kUp>, up.params(of_up), shim::small_grid(0, kUp.threads));
      EXPECT_EQ(down.overflow, is_copied ? 5u : 0u);
      EXPECT_EQ(up.overflow, is_copied ? 5u : 0u);
      if (!is_copied) continue;
      EXPECT_EQ(down.output.bits(0, 15), word);
      EXPECT_EQ(up.output.bits(1, 7), word);
    }
  }
}

}  // namespace
}  // namespace minuet
