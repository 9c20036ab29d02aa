// kernels.hpp: the wrapper passes on what it is given; and throws.
#include "include/minuet/kernels.hpp"

#include <gtest/gtest.h>

namespace {

TEST(HppKernels, OfAPlan) {
  const minuet::Context context;
  minuet_pooling_options options = MINUET_POOLING_OPTIONS_INIT;
  options.channels = 4;
  const minuet::Plan plan = minuet::Plan::pooling(context, options);
  int visits = 0;
  EXPECT_THROW(minuet::visit_kernels(plan, "cpu", [&](const minuet_kernel_code&) { ++visits; }),
               minuet::Exception);
  plan.compile("cpu");
  minuet::visit_kernels(plan, "cpu", [&](const minuet_kernel_code&) { ++visits; });
  EXPECT_EQ(visits, 0);
}

}  // namespace
