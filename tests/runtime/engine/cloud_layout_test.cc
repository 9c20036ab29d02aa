#include "runtime/engine/cloud_layout.h"

#include <gtest/gtest.h>

#include <climits>

#include "kernels_templates/shared/map_kernels.h"

namespace minuet {
namespace {

StatusError layout_error(const Bounds& bounds, i64 guard) {
  const i64 guards[kMaxDim] = {guard, guard, guard, guard}, periods[kMaxDim] = {16, 16, 16, 16};
  llvm::Expected<KeyLayout> layout = make_cloud_layout(3, bounds, guards, periods);
  EXPECT_FALSE(static_cast<bool>(layout));
  return layout ? StatusError(StatusCode::Ok, "") : take_status(layout.takeError());
}

TEST(CloudLayout, RefusalsSayWhy) {
  Bounds huge{{0, INT_MIN + 64, INT_MIN + 64, 0}, {0, INT_MAX, INT_MAX, 100}};
  StatusError error = layout_error(huge, 16);
  EXPECT_EQ(error.code(), StatusCode::OutOfRange);
  EXPECT_NE(error.message().find("64-bit key"), std::string::npos);

  error = layout_error({{-1, 0, 0, 0}, {0, 1, 1, 1}}, 1);
  EXPECT_EQ(error.code(), StatusCode::InvalidArgument);
  EXPECT_NE(error.message().find("batch index -1"), std::string::npos);
}

TEST(CloudLayout, KeyWidthFollowsTheCloud) {
  const i64 guard[kMaxDim] = {16, 16, 16, 16}, period[kMaxDim] = {16, 16, 16, 16};
  const KeyLayout small =
      llvm::cantFail(make_cloud_layout(3, {{0, -700, -700, -20}, {0, 700, 700, 60}}, guard, period));
  EXPECT_EQ(key_type_of(small.total_bits), KeyType::U32);
  const KeyLayout large =
      llvm::cantFail(make_cloud_layout(3, {{0, -70000, -700, -20}, {3, 70000, 700, 60}}, guard, period));
  EXPECT_EQ(key_type_of(large.total_bits), KeyType::U64);
}

TEST(CloudLayout, DeclaredBoundsMustHoldSomething) {
  const i32 least[kMaxFields] = {0, 5, 0, 0, 0}, greatest[kMaxFields] = {0, 4, 0, 0, 0};
  llvm::Expected<Bounds> bounds = declared_bounds(3, least, greatest);
  ASSERT_FALSE(static_cast<bool>(bounds));
  EXPECT_NE(take_status(bounds.takeError()).message().find("least[1] is 5 and greatest[1] is 4"),
            std::string::npos);
}

TEST(CloudLayout, EntriesOfAMapStayInside31Bits) {
  for (const i64 volume : {8, 27, 343}) {
    const i64 most = most_map_rows(volume);
    EXPECT_LT(volume * most + 1, i64{INT_MAX});  // the entries, and one more
    EXPECT_FALSE(llvm::errorToBool(check_cloud_rows(most, volume)));
    EXPECT_EQ(take_status(check_cloud_rows(most + 1, volume)).code(), StatusCode::OutOfRange);
  }
}

TEST(CloudLayout, NoStatusOfAFailedCloudPasses) {
  const auto code_of = [](u32 status) { return take_status(check_coordinate_status(status)).code(); };
  EXPECT_EQ(code_of(kStatusNegativeBatch), StatusCode::InvalidArgument);
  EXPECT_EQ(code_of(kStatusNegativeBatch | kStatusOutsideKeys), StatusCode::InvalidArgument);
  EXPECT_EQ(code_of(kStatusOutOfBounds), StatusCode::OutOfRange);
  EXPECT_EQ(code_of(kStatusOutsideKeys), StatusCode::OutOfRange);
  EXPECT_EQ(code_of(kStatusIndexFull), StatusCode::ResourceExhausted);
  EXPECT_EQ(code_of(kStatusPastCapacity), StatusCode::ResourceExhausted);
  EXPECT_FALSE(llvm::errorToBool(check_coordinate_status(0)));
}

TEST(CloudLayout, KeyBitsAreWholeDigits) {
  for (const auto& [bits, rounded] :
       {std::pair{0, 8}, {1, 8}, {8, 8}, {9, 16}, {32, 32}, {33, 40}, {64, 64}}) {
    KeyLayout layout;
    layout.total_bits = bits;
    EXPECT_EQ(rounded_key_bits(layout), rounded) << bits;
  }
}

TEST(KeyBits, GrowAtOnceAndShrinkAfterManyThatNeedFewer) {
  KeyBits bits;
  EXPECT_EQ(bits.bits(), 0);
  bits.note(24);
  EXPECT_EQ(bits.bits(), 24);
  bits.note(48);
  EXPECT_EQ(bits.bits(), 48);
  for (int turn = 0; turn < 100; ++turn) {  // in turn
    bits.note(24);
    ASSERT_EQ(bits.bits(), 48);
    bits.note(48);
    ASSERT_EQ(bits.bits(), 48);
  }
  for (i32 i = 1; i < KeyBits::kPatience; ++i) {
    bits.note(i == 3 ? 32 : 24);
    ASSERT_EQ(bits.bits(), 48) << i;
  }
  bits.note(24);
  EXPECT_EQ(bits.bits(), 32) << "the most of those";
  for (i32 i = 0; i < KeyBits::kPatience; ++i) bits.note(24);
  EXPECT_EQ(bits.bits(), 24);
}

}  // namespace
}  // namespace minuet
