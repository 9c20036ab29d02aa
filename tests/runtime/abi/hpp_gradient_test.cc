// gradient.hpp: the wrapper passes on what it is given; and throws.
#include "include/minuet/gradient.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/runtime/abi/hpp_blocks.h"

namespace {

using minuet::abi::Block;
using minuet::abi::blocks;

TEST(HppGradient, OfTwoVoxels) {
  const minuet::Context context;
  const minuet::Device device(context, "cpu");
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  options.in_channels = 1, options.out_channels = 2, options.submanifold = 1;
  const minuet::GradientOp op(context, options, MINUET_GRADIENT_WEIGHT | MINUET_GRADIENT_BIAS);
  op.load(device);
  const int32_t coordinates[] = {0, 0, 0, 0, 0, 0, 0, 1};
  const minuet_coordinates_options of_set = MINUET_COORDINATES_OPTIONS_INIT;
  const minuet_kernel_map_options of_map = MINUET_KERNEL_MAP_OPTIONS_INIT;
  const minuet::Coordinates set(device, of_set, coordinates, 2);
  const minuet::KernelMap map(set, set, of_map);
  int32_t pairs[6] = {}, count = 0;
  minuet::list_pairs(map, pairs, 2, &count);
  EXPECT_EQ(count, 2);
  std::vector<Block> workspace = blocks(op.bytes("cpu", 2, 2));
  alignas(16) const float input[] = {2, 3};
  alignas(16) const float gradient[] = {1, 10, 100, 1000};
  float weight[2] = {}, bias[2] = {};
  minuet_array array{};
  array.data = weight, array.rank = 3;
  array.shape[0] = array.shape[1] = 1, array.shape[2] = 2;
  minuet_gradient_arguments given = MINUET_GRADIENT_ARGUMENTS_INIT;
  given.pairs = pairs, given.most_pairs = 2;
  given.input = {const_cast<float*>(input), 2, 0, 1, MINUET_F32};
  given.out_gradient = {const_cast<float*>(gradient), 2, 0, 2, MINUET_F32};
  given.weight_gradient = &array, given.bias_gradient = bias;
  given.workspace = workspace.data();
  given.workspace_bytes = static_cast<int64_t>(workspace.size() * sizeof(Block));
  op.compute(device, given);
  EXPECT_EQ(weight[0], 302);
  EXPECT_EQ(weight[1], 3020);
  EXPECT_EQ(bias[1], 1010);
  given.bias_gradient = nullptr;
  EXPECT_THROW(op.compute(device, given), minuet::Exception);
  EXPECT_THROW(minuet::GradientOp(context, options, MINUET_GRADIENT_INPUT), minuet::Exception);
}

TEST(HppGradient, OfAnAffineStep) {
  const minuet::Context context;
  const minuet::Device device(context, "cpu");
  minuet_affine_gradient_options options = MINUET_AFFINE_GRADIENT_OPTIONS_INIT;
  options.channels = 2;
  const minuet::GradientOp op(context, options, MINUET_GRADIENT_WEIGHT);
  op.load(device);
  std::vector<Block> workspace = blocks(op.bytes("cpu", 0, 2));
  alignas(16) const float input[] = {2, 3, 4, 5};
  alignas(16) const float gradient[] = {1, 10, 100, 1000};
  float scale[2] = {};
  minuet_array array{};
  array.data = scale, array.rank = 1, array.shape[0] = 2;
  minuet_gradient_arguments given = MINUET_GRADIENT_ARGUMENTS_INIT;
  given.input = {const_cast<float*>(input), 2, 0, 2, MINUET_F32};
  given.out_gradient = {const_cast<float*>(gradient), 2, 0, 2, MINUET_F32};
  given.weight_gradient = &array;
  given.workspace = workspace.data();
  given.workspace_bytes = static_cast<int64_t>(workspace.size() * sizeof(Block));
  op.compute(device, given);
  EXPECT_EQ(scale[0], 402);
  EXPECT_EQ(scale[1], 5030);
  options.channels = 0;
  EXPECT_THROW(minuet::GradientOp(context, options, MINUET_GRADIENT_WEIGHT), minuet::Exception);
}

TEST(HppGradient, OfAPooling) {
  const minuet::Context context;
  minuet_pooling_options options = MINUET_POOLING_OPTIONS_INIT;
  options.channels = 2;
  const minuet::Plan plan = minuet::pooling_gradient(context, options);
  EXPECT_STREQ(plan.input(1).name, "winners");
  options.winners = 1;
  EXPECT_THROW(minuet::pooling_gradient(context, options), minuet::Exception);
}

}  // namespace
