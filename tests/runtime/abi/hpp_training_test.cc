// training.hpp: the wrapper passes on what it is given; and throws.
#include "include/minuet/training.hpp"

#include <gtest/gtest.h>

#include <array>

#include "tests/runtime/abi/hpp_blocks.h"

namespace {

using minuet::abi::Block;
using minuet::abi::blocks;

constexpr const char* kLinear = R"({"name": "n", "ndim": 3, "in_channels": 2, "layers": [
  {"op": "linear", "name": "a", "out_channels": 2}]})";

minuet_array array_of(void* data, std::vector<std::int64_t> shape) {
  minuet_array array{};
  array.data = data;
  array.rank = static_cast<std::int32_t>(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) array.shape[i] = shape[i];
  array.element = MINUET_ELEMENT_F32;
  return array;
}

/// A linear layer of two rows on the CPU device, whose memory is the host's.
TEST(HppTraining, AStepOfALinearLayer) {
  const minuet::Context context;
  const minuet::Device device(context, "cpu");
  minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
  options.description = kLinear;
  options.without_values = 1;
  const minuet::Plan network = minuet::Plan::network(context, options);
  const minuet::Training training(context, network);
  EXPECT_STREQ(training.kept(0).name, "input");
  EXPECT_THROW(training.kept(1), minuet::Exception);
  const minuet::Pyramid pyramid = training.create_pyramid(std::vector<std::int64_t>{2});
  EXPECT_THROW(training.create_pyramid(std::vector<std::int64_t>{2, 2}), minuet::Exception);
  pyramid.load(device);
  const minuet::Pyramid::Bytes bytes = pyramid.bytes("cpu");
  const minuet_training_sizes sizes = training.bytes("cpu", pyramid);
  std::vector<Block> buffer = blocks(bytes.buffer), build_workspace = blocks(bytes.workspace);
  std::vector<Block> kept = blocks(sizes.kept), forward_workspace = blocks(sizes.forward_workspace),
                     backward_workspace = blocks(sizes.backward_workspace);
  const std::array<std::int32_t, 8> coordinates{0, 0, 0, 0, 0, 1, 0, 0};
  minuet_pyramid_arguments build = MINUET_PYRAMID_ARGUMENTS_INIT;
  build.buffer = buffer.data(), build.buffer_bytes = bytes.buffer;
  build.workspace = build_workspace.data(), build.workspace_bytes = bytes.workspace;
  build.coordinates = coordinates.data(), build.most = 2;
  pyramid.build(device, build);

  alignas(16) std::array<float, 4> weight{1, 2, 3, 4}, input{1, 2, 3, 4}, output{}, gradient{1, 0, 0, 1};
  alignas(16) std::array<float, 4> weight_gradient{};
  std::array<float, 2> bias{10, 20}, bias_gradient{};
  const std::array<minuet_array, 2> parameters{array_of(weight.data(), {1, 2, 2}),
                                               array_of(bias.data(), {2})};
  const std::array<minuet_array, 2> gradients{array_of(weight_gradient.data(), {1, 2, 2}),
                                              array_of(bias_gradient.data(), {2})};
  const minuet_array in = array_of(input.data(), {2, 2}), out = array_of(output.data(), {2, 2}),
                     out_gradient = array_of(gradient.data(), {2, 2});
  minuet_training_forward_arguments forward = MINUET_TRAINING_FORWARD_ARGUMENTS_INIT;
  forward.pyramid = pyramid.get();
  forward.buffer = buffer.data(), forward.buffer_bytes = bytes.buffer;
  forward.parameters = parameters.data(), forward.parameter_count = 2;
  forward.inputs = &in, forward.outputs = &out, forward.input_count = forward.output_count = 1;
  forward.kept = kept.data(), forward.kept_bytes = sizes.kept;
  forward.workspace = forward_workspace.data(), forward.workspace_bytes = sizes.forward_workspace;
  EXPECT_THROW(training.forward(device, forward), minuet::Exception);
  training.load(device);
  training.forward(device, forward);
  EXPECT_EQ(output, (std::array<float, 4>{17, 30, 25, 42}));

  minuet_training_backward_arguments backward = MINUET_TRAINING_BACKWARD_ARGUMENTS_INIT;
  backward.pyramid = pyramid.get();
  backward.buffer = buffer.data(), backward.buffer_bytes = bytes.buffer;
  backward.parameters = parameters.data(), backward.parameter_count = 2;
  backward.out_gradients = &out_gradient, backward.out_gradient_count = 1;
  backward.parameter_gradients = gradients.data();
  backward.kept = kept.data(), backward.kept_bytes = sizes.kept;
  backward.workspace = backward_workspace.data(), backward.workspace_bytes = sizes.backward_workspace;
  training.backward(device, backward);
  EXPECT_EQ(weight_gradient, (std::array<float, 4>{1, 3, 2, 4}));
  EXPECT_EQ(bias_gradient, (std::array<float, 2>{1, 1}));
  backward.accumulate = 2;
  EXPECT_THROW(training.backward(device, backward), minuet::Exception);
}

}  // namespace
