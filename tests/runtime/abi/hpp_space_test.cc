// space.hpp: the wrappers pass on what they are given; and throw.
#include "include/minuet/space.hpp"

#include <gtest/gtest.h>

namespace {

TEST(HppSpace, BothDirections) {
  const minuet::Context context;
  minuet_space_options options = MINUET_SPACE_OPTIONS_INIT;
  options.channels = 3;
  options.stride[0] = options.stride[1] = 2;
  EXPECT_EQ(minuet::space_to_channel(context, options).info().out_channels, 12);
  EXPECT_EQ(minuet::channel_to_space(context, options).info().in_channels, 12);
  options.stride[0] = options.stride[1] = 1;
  EXPECT_THROW(minuet::space_to_channel(context, options), minuet::Exception);
  EXPECT_THROW(minuet::channel_to_space(context, options), minuet::Exception);
}

}  // namespace
