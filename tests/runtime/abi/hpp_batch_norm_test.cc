// batch_norm.hpp: the wrapper passes on what it is given; and throws.
#include "include/minuet/batch_norm.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/runtime/abi/hpp_blocks.h"

namespace {

using minuet::abi::Block;
using minuet::abi::blocks;

TEST(HppBatchNorm, OfTwoRows) {
  const minuet::Context context;
  const minuet::Device device(context, "cpu");
  minuet_batch_norm_options options = MINUET_BATCH_NORM_OPTIONS_INIT;
  options.channels = 1, options.eps = 0.75f;
  const minuet::BatchNormOp op(context, options);
  op.load(device);
  std::vector<Block> workspace = blocks(op.bytes("cpu", 2));
  alignas(16) float input[] = {1, 2}, output[2] = {}, out_gradient[] = {1, 5}, input_gradient[2] = {};
  float moments[3] = {}, saved[3] = {}, sums[2] = {};
  minuet_batch_norm_arguments given = MINUET_BATCH_NORM_ARGUMENTS_INIT;
  given.input = {input, 2, 0, 1, MINUET_F32};
  given.output = {output, 2, 0, 1, MINUET_F32};
  given.moments = moments, given.all_moments = moments, given.ranks = 1;
  given.saved = saved;
  given.workspace = workspace.data();
  given.workspace_bytes = static_cast<int64_t>(workspace.size() * sizeof(Block));
  op.sum(device, given);
  EXPECT_EQ(moments[0], 1.5f);
  EXPECT_EQ(moments[1], 0.5f);
  EXPECT_EQ(moments[2], 2);
  op.apply(device, given);
  EXPECT_EQ(output[0], -0.5f);
  EXPECT_EQ(output[1], 0.5f);
  output[0] = output[1] = 9;
  op.forward(device, given);
  EXPECT_EQ(output[0], -0.5f);
  EXPECT_EQ(saved[1], 1);
  minuet_batch_norm_gradient_arguments backward = MINUET_BATCH_NORM_GRADIENT_ARGUMENTS_INIT;
  backward.input = given.input, backward.saved = saved;
  backward.out_gradient = {out_gradient, 2, 0, 1, MINUET_F32};
  backward.input_gradient = {input_gradient, 2, 0, 1, MINUET_F32};
  backward.sums = sums;
  backward.workspace = given.workspace, backward.workspace_bytes = given.workspace_bytes;
  op.sum_gradients(device, backward);
  EXPECT_EQ(sums[0], 6);
  EXPECT_EQ(sums[1], 2);
  op.apply_gradients(device, backward);
  EXPECT_EQ(input_gradient[0], -1.5f);
  EXPECT_EQ(input_gradient[1], 1.5f);
  input_gradient[0] = 9;
  op.backward(device, backward);
  EXPECT_EQ(input_gradient[0], -1.5f);
  given.saved = nullptr;
  EXPECT_THROW(op.forward(device, given), minuet::Exception);
  options.channels = 0;
  EXPECT_THROW(minuet::BatchNormOp(context, options), minuet::Exception);
}

}  // namespace
