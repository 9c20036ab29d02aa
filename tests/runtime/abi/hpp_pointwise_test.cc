// pointwise.hpp: the wrapper passes on what it is given; and throws.
#include "include/minuet/pointwise.hpp"

#include <gtest/gtest.h>

namespace {

TEST(HppPointwise, AChain) {
  const minuet::Context context;
  const minuet::Device device(context, "cpu");
  const minuet_pointwise_step steps[] = {{MINUET_POINTWISE_ADD, 0, nullptr, nullptr},
                                         {MINUET_POINTWISE_RELU, 0, nullptr, nullptr}};
  minuet_pointwise_options options = MINUET_POINTWISE_OPTIONS_INIT;
  options.channels = 2;
  options.steps = steps, options.step_count = 2;
  const minuet::Plan plan = minuet::pointwise(context, options);
  plan.load(device);
  EXPECT_EQ(plan.info().inputs, 2);
  options.step_count = 9;
  EXPECT_THROW(minuet::pointwise(context, options), minuet::Exception);
}

}  // namespace
