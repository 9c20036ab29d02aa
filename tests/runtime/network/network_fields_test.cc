// The fields of a description that say what follows a convolution: how they are read, what is refused, and
// what the program has of them.
#include <gmock/gmock.h>

#include <cmath>

#include "codegen/base/number_text.h"
#include "runtime/network/network_program.h"
#include "runtime/network/shipped_network.h"
#include "runtime/plan/parameters.h"
#include "runtime/program/ops/convolution.h"

namespace minuet {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string described(const std::string& layers) {
  return R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [4, 8, 16], "batch_norm_epsilon": 1e-4,
      "layers": [)" +
         layers + "]}";
}

llvm::Expected<Program> program_of(const std::string& layers, DType dtype = DType::F16) {
  MINUET_ASSIGN(const NetworkDescription description, parse_network(described(layers)));
  return build_program(description, dtype, [](const std::string&, i32) { return 3; });
}

StatusError refusal_of(const std::string& layers) {
  llvm::Expected<Program> program = program_of(layers);
  if (!program) return take_status(program.takeError());
  ADD_FAILURE() << layers << " is taken";
  return StatusError(StatusCode::Ok, "");
}

std::string block_of(const std::string& fields) {
  return R"({"op": "block", "name": "a", "width": 1, "kernel_size": 3, )" + fields + "}";
}
std::string residual_of(const std::string& fields) {
  return R"({"op": "residual", "name": "a", "width": 1, )" + fields + "}";
}

/// A custom kernel is printed without the kernel size and the dilation, which it may not have.
TEST(NetworkFields, KernelShapesArePrinted) {
  const auto printed = [](const std::string& fields) {
    const std::string layer = R"({"op": "block", "name": "a", "out_channels": 8, )" + fields + "}";
    return print_network(llvm::cantFail(parse_network(described(layer))));
  };
  const std::string cross = printed(R"("kernel_shape": "cross", "kernel_size": [3, 1, 5], "dilation": 2)");
  EXPECT_THAT(cross, HasSubstr("\"kernel_shape\": \"cross\""));
  EXPECT_THAT(cross, HasSubstr("\"kernel_size\": ["));
  EXPECT_THAT(cross, HasSubstr("\"dilation\": 2"));
  const std::string custom = printed(R"("kernel_shape": "custom", "offsets": [[0, -9, 1], [2, 0, 0]])");
  EXPECT_THAT(custom, HasSubstr("\"kernel_shape\": \"custom\""));
  EXPECT_THAT(custom, HasSubstr("-9"));
  EXPECT_THAT(custom, testing::Not(HasSubstr("kernel_size")));
  EXPECT_THAT(custom, testing::Not(HasSubstr("dilation")));
  EXPECT_THAT(printed(R"("kernel_shape": "box", "kernel_size": 3)"), testing::Not(HasSubstr("kernel_shape")));
}

struct Refusal {
  std::string layer;
  StatusCode code;
  const char* words;
};

TEST(NetworkFields, WhatIsWrongIsRefusedWithItsPlaceAndReason) {
  constexpr StatusCode kWrong = StatusCode::InvalidArgument, kUnbuilt = StatusCode::Unimplemented;
  const Refusal refusals[] = {
      {block_of(R"("bias": 1)"), kWrong, "\"bias\" must be true or false"},
      {block_of(R"("bias": null)"), kWrong, "\"bias\" must be true or false"},
      {block_of(R"("norm": "batchnorm")"), kWrong, "\"norm\" must be \"batch_norm\" or \"none\""},
      {block_of(R"("norm": false)"), kWrong, "\"norm\" must be \"batch_norm\" or \"none\""},
      {block_of(R"("norm": "layer_norm")"), kUnbuilt, "statistics of its input features"},
      {block_of(R"("norm": "instance_norm")"), kUnbuilt, "\"instance_norm\", which is not supported"},
      {block_of(R"("norm": "group_norm")"), kUnbuilt, "cannot be folded"},
      {block_of(R"("affine": "no")"), kWrong, "\"affine\" must be true or false"},
      {block_of(R"("norm": "none", "affine": true)"), kWrong, "\"affine\" belongs to a batch norm"},
      {block_of(R"("norm": "none", "epsilon": 1e-3)"), kWrong, "\"epsilon\" belongs to a batch norm"},
      {block_of(R"("norm": "none", "track_running_stats": true)"), kWrong,
       "\"track_running_stats\" belongs to"},
      {block_of(R"("epsilon": 0)"), kWrong, "\"epsilon\" must be a number above 0 and below 1"},
      {block_of(R"("epsilon": "1e-3")"), kWrong, "\"epsilon\" must be a number above 0 and below 1"},
      {block_of(R"("track_running_stats": false)"), kUnbuilt,
       "a batch norm without running statistics normalizes"},
      {block_of(R"("track_running_stats": 0)"), kWrong, "\"track_running_stats\" must be true or false"},
      {block_of(R"("groups": 3)"), kWrong, "layers[1].groups: block a: groups is 3, but in_channels is 4"},
      {block_of(R"("groups": 0)"), kWrong, "\"groups\" must be"},
      {residual_of(R"("groups": 2)"), kWrong, "set it in \"conv1\""},
      {residual_of(R"("conv1": {"groups": 3})"), kWrong, "layers[1].conv1.groups: residual a: groups is 3"},
      {R"({"op": "head", "name": "a", "groups": 1})", kWrong, "\"groups\" is not a field of the op head"},
      {block_of(R"("activation": "relu6")"), kWrong,
       "\"activation\" must be \"relu\", \"leaky_relu\", \"gelu\", \"gelu_tanh\", \"silu\", \"sigmoid\", "
       "\"tanh\" or \"none\""},
      {block_of(R"("activation": null)"), kWrong, "\"activation\" must be"},
      {block_of(R"("activation": "gelu", "slope": 0.1)"), kWrong, "but the activation is \"gelu\""},
      {block_of(R"("slope": 0.1)"), kWrong,
       "\"slope\" belongs to the activation \"leaky_relu\", but the activation is \"relu\""},
      {block_of(R"("activation": "none", "slope": 0.1)"), kWrong, "but the activation is \"none\""},
      {block_of(R"("activation": "leaky_relu", "slope": "0.1")"), kWrong, "\"slope\" must be a number"},
      {block_of(R"("activation": "leaky_relu", "slope": 1e39)"), kWrong, "\"slope\" must be a number"},
      {block_of(R"("precision": "fp16")"), kWrong, "\"precision\" must be \"float\" or \"int8\""},
      {block_of(R"("precision": null)"), kWrong, "layers[1].precision: block a: \"precision\" must be"},
      {block_of(R"("output_range": 0)"), kWrong, "\"output_range\" must be a number from 1e-30 to 1e+30"},
      {block_of(R"("output_range": -1)"), kWrong, "\"output_range\" must be a number"},
      {block_of(R"("output_range": 1e31)"), kWrong, "\"output_range\" must be a number"},
      {block_of(R"("output_range": [1, 2])"), kWrong, "\"output_range\" must be a number"},
      {block_of(R"("groups": 4, "precision": "int8")"), kUnbuilt, "4 groups, which no kernel of 8 bits"},
      {residual_of(R"("precision": "int8", "conv1": {"groups": 4})"), kUnbuilt,
       "layers[1].conv1.precision: residual a: \"conv1\": \"precision\" is \"int8\""},
      {residual_of(R"("conv2": {"output_range": 1})"), kWrong,
       "layers[1].conv2.output_range: residual a: the result of \"conv2\" is the layer's result"},
      {R"({"op": "bottleneck", "name": "a", "width": 1, "inner_width": 0, "conv3": {"output_range": 1}})",
       kWrong, "layers[1].conv3.output_range"},
      {R"({"op": "max_pool", "name": "a", "precision": "int8"})", kWrong, "\"precision\" is not a field"},
      {R"({"op": "blok", "name": "a", "width": 0})", kWrong,
       "op \"blok\" is unknown: use block, residual, up, concat, head, max_pool, average_pool, sum_pool, "
       "generative_up, bottleneck, inverse, to_dense, birds_eye, from_dense, linear, unpool, upsample, "
       "collapse, union, "
       "global_pool, relu, "
       "leaky_relu, gelu, silu, sigmoid, tanh, "
       "add, multiply, softmax, argmax, batch_norm, scale_shift, layer_norm, "
       "intersection, voxelize, devoxelize, prune, subdivide, space_to_channel, channel_to_space"},
      {block_of(R"("shortcut": {})"), kWrong, "\"shortcut\" is not a field of the op block"},
      {block_of(R"("inner_width": 0)"), kWrong, "\"inner_width\" is not a field of the op block"},
      {residual_of(R"("inner_width": 0)"), kWrong, "\"inner_width\" is not a field of the op residual"},
      {residual_of(R"("conv3": {})"), kWrong, "\"conv3\" is not a field of the op residual"},
      {residual_of(R"("conv1": true)"), kWrong, "\"conv1\" must be an object of fields"},
      {residual_of(R"("conv1": {"width": 1})"), kWrong, "\"width\" is not a field of \"conv1\""},
      {residual_of(R"("conv1": {"slope": 1})"), kWrong, "\"conv1\": \"slope\" belongs to"},
      {residual_of(R"("conv2": {"activation": "none"})"), kWrong,
       "\"conv2\": \"activation\" is not allowed here"},
      {residual_of(R"("shortcut": {"slope": 1})"), kWrong, "\"shortcut\": \"slope\" is not allowed here"},
      {residual_of(R"("norm": "none", "shortcut": {"affine": false})"), kWrong,
       "\"shortcut\": \"affine\" belongs to"},
      {R"({"op": "residual", "name": "a", "width": 0, "shortcut": {}})", kWrong,
       "the shortcut is the input itself"},
      {R"({"op": "bottleneck", "name": "a", "width": 0})", kWrong,
       "\"inner_width\" must be an index into the 3"},
      {R"({"op": "bottleneck", "name": "a", "width": 0, "inner_width": 3})", kWrong,
       "\"inner_width\" must be"},
      {R"({"op": "bottleneck", "name": "a", "width": 0, "inner_width": 1, "conv3": {"slope": 1}})", kWrong,
       "\"conv3\": \"slope\" is not allowed here"},
      {R"({"op": "head", "name": "a", "norm": "none"})", kWrong, "\"norm\" is not a field of the op head"},
      {R"({"op": "head", "name": "a", "slope": 1})", kWrong, "the activation is \"none\""},
      {R"({"op": "max_pool", "name": "a", "bias": true})", kWrong,
       "\"bias\" is not a field of the ops max_pool, average_pool and sum_pool"},
      {R"({"op": "concat", "with": "s", "bias": true})", kWrong,
       "\"bias\" is not a field of the op concat: possible fields are op, with, save"},
  };
  for (const Refusal& refusal : refusals) {
    const StatusError error = refusal_of(R"({"op": "block", "name": "first", "width": 0}, )" + refusal.layer);
    EXPECT_EQ(error.code(), refusal.code) << refusal.layer;
    EXPECT_THAT(error.message(), AllOf(HasSubstr("layers[1]."), HasSubstr(refusal.words))) << refusal.layer;
  }
}

/// A program's layers, one line for each: the name, then what follows the convolution.
std::vector<std::string> summary(const std::string& layers) {
  const Program program = llvm::cantFail(program_of(layers));
  std::vector<std::string> lines;
  for (const ProgramLayer& layer : program.layers) {
    const ConvolutionProblem& problem = *convolution_of(layer);
    std::string line = layer.name;
    if (!layer.bias.empty()) line += " +" + layer.bias;
    if (!layer.batch_norm.empty()) {
      line += llvm::formatv(" {0} {1:e0}{2}", layer.batch_norm, layer.batch_norm_epsilon,
                            layer.is_affine ? "" : " not affine");
    }
    if (problem.scale_shift) line += " scaled";
    if (problem.residual) line += " + " + std::to_string(layer.residual);
    if (problem.activation == Activation::LeakyReLU) {
      line += llvm::formatv(" leaky {0:f3}", real(problem.slope));
    } else if (problem.activation != Activation::None) {
      line += std::string(" ") + kActivationNames[static_cast<int>(problem.activation)];
    }
    if (layer.may_join_last) line += " with the layer before";
    lines.push_back(std::move(line));
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(NetworkFields, OfABlock) {
  EXPECT_EQ(summary(block_of(R"("save": "s")")), (Lines{"a a.bn 1e-04 scaled relu"}));
  EXPECT_EQ(summary(block_of(R"("bias": true)")), (Lines{"a +a.conv.bias a.bn 1e-04 scaled relu"}));
  EXPECT_EQ(summary(block_of(R"("bias": true, "norm": "none")")), (Lines{"a +a.conv.bias scaled relu"}));
  EXPECT_EQ(summary(block_of(R"("norm": "none")")), (Lines{"a relu"}));
  EXPECT_EQ(summary(block_of(R"("norm": "none", "activation": "none")")), (Lines{"a"}));
  EXPECT_EQ(summary(block_of(R"("affine": false, "epsilon": 1e-2, "track_running_stats": true)")),
            (Lines{"a a.bn 1e-02 not affine scaled relu"}));
  EXPECT_EQ(summary(block_of(R"("activation": "leaky_relu")")), (Lines{"a a.bn 1e-04 scaled leaky 0.010"}));
  EXPECT_EQ(summary(block_of(R"("activation": "leaky_relu", "slope": -2)")),
            (Lines{"a a.bn 1e-04 scaled leaky -2.000"}));
}

/// A slope of 0, also one that float32 rounds to 0, makes a ReLU, as a negative_slope of 0 does for a single
/// convolution: minus infinity becomes 0 and not NaN. A part that says "leaky_relu" has the layer's slope.
TEST(NetworkFields, ASlopeOfZeroIsARelu) {
  for (const char* const zero : {"0", "-0.0", "0e5", "1e-60", "-1e-60"}) {
    SCOPED_TRACE(zero);
    const std::string leaky = std::string(R"("activation": "leaky_relu", "slope": )") + zero;
    EXPECT_EQ(summary(block_of(leaky)), (Lines{"a a.bn 1e-04 scaled relu"}));
    EXPECT_EQ(summary(R"({"op": "head", "name": "h", "bias": false, )" + leaky + "}"), (Lines{"h relu"}));
    for (const std::string& part :
         {std::string(), std::string(R"(, "conv1": {"activation": "leaky_relu"})")}) {
      EXPECT_EQ(summary(residual_of(leaky + part)),
                (Lines{"a.conv1 a.bn1 1e-04 scaled relu",
                       "a.shortcut a.shortcut.bn 1e-04 scaled with the layer before",
                       "a.conv2 a.bn2 1e-04 scaled + 2 relu"}));
    }
    EXPECT_EQ(summary(residual_of(leaky + R"(, "conv1": {"slope": 0.5})"))[0],
              "a.conv1 a.bn1 1e-04 scaled leaky 0.500");
    const Program program = llvm::cantFail(program_of(block_of(leaky)));
    EXPECT_FALSE(std::signbit(convolution_of(program.layers[0])->slope)) << "kernels are named by it";
  }
  EXPECT_EQ(summary(block_of(R"("activation": "leaky_relu", "slope": 1e-30)")),
            (Lines{"a a.bn 1e-04 scaled leaky 0.000"}));
}

TEST(NetworkFields, OfAnUpAndAHead) {
  const std::string down = R"({"op": "block", "name": "a", "width": 1, "save": "s"},
      {"op": "block", "name": "b", "width": 1, "kernel_size": 2, "stride": 2},)";
  EXPECT_EQ(
      summary(down + R"({"op": "up", "name": "c", "width": 1, "kernel_size": 2, "stride": 2, "onto": "s",
                               "bias": true, "norm": "none", "activation": "none"})")
          .back(),
      "c +c.conv.bias scaled");
  EXPECT_EQ(summary(R"({"op": "head", "name": "h"})"), (Lines{"h +h.bias scaled"}));
  EXPECT_EQ(summary(R"({"op": "head", "name": "h", "bias": false})"), (Lines{"h"}));
  EXPECT_EQ(summary(R"({"op": "head", "name": "h", "bias": false, "activation": "relu"})"),
            (Lines{"h relu"}));
}

/// The fields of the layer hold for all of its convolutions, and those of a part come first. Tensor 0 is the
/// input.
TEST(NetworkFields, OfAResidual) {
  EXPECT_EQ(
      summary(residual_of(R"("save": "s")")),
      (Lines{"a.conv1 a.bn1 1e-04 scaled relu", "a.shortcut a.shortcut.bn 1e-04 scaled with the layer before",
             "a.conv2 a.bn2 1e-04 scaled + 2 relu"}));
  EXPECT_EQ(
      summary(residual_of(R"("bias": true, "epsilon": 1e-2, "activation": "leaky_relu", "slope": 0.5)")),
      (Lines{"a.conv1 +a.conv1.bias a.bn1 1e-02 scaled leaky 0.500",
             "a.shortcut +a.shortcut.conv.bias a.shortcut.bn 1e-02 scaled with the layer before",
             "a.conv2 +a.conv2.bias a.bn2 1e-02 scaled + 2 leaky 0.500"}));
  EXPECT_EQ(summary(residual_of(
                R"("activation": "none", "conv1": {"activation": "relu", "norm": "none", "bias": true},
                                "conv2": {"affine": false}, "shortcut": {"epsilon": 1e-2})")),
            (Lines{"a.conv1 +a.conv1.bias scaled relu",
                   "a.shortcut a.shortcut.bn 1e-02 scaled with the layer before",
                   "a.conv2 a.bn2 1e-04 not affine scaled + 2"}));
  // A slope of the layer holds where a part says "leaky_relu" too; else it is the usual one.
  EXPECT_EQ(summary(residual_of(
                R"("activation": "leaky_relu", "slope": 0.5, "conv1": {"activation": "leaky_relu"})"))[0],
            "a.conv1 a.bn1 1e-04 scaled leaky 0.500");
  EXPECT_EQ(summary(residual_of(R"("conv1": {"activation": "leaky_relu"})"))[0],
            "a.conv1 a.bn1 1e-04 scaled leaky 0.010");
}

/// One kernel may compute a first convolution and the shortcut, so that it scales both or neither.
TEST(NetworkFields, AShortcutScalesAsTheFirstConvolutionDoes) {
  EXPECT_EQ(summary(residual_of(R"("shortcut": {"norm": "none"})"))[1],
            "a.shortcut scaled with the layer before");
  EXPECT_EQ(summary(residual_of(R"("conv1": {"norm": "none"})"))[0], "a.conv1 scaled relu");
  EXPECT_EQ(summary(residual_of(R"("norm": "none")")),
            (Lines{"a.conv1 relu", "a.shortcut with the layer before", "a.conv2 + 2 relu"}));
  const Program program = llvm::cantFail(program_of(residual_of(R"("shortcut": {"norm": "none"})")));
  const LayerParameters bare = llvm::cantFail(ParameterSource(1).layer(program.layers[1]));
  EXPECT_EQ(bare.scale, std::vector<float>(8, 1));
  EXPECT_EQ(bare.shift, std::vector<float>(8, 0));
}

/// With a stride the block's first convolution leads to other rows than the shortcut starts from, so that
/// each runs by itself.
TEST(NetworkFields, OfAResidualWithAStride) {
  const std::string strided = R"({"op": "residual", "name": "a", "width": 0, "stride": 2, "kernel_size": 5})";
  EXPECT_EQ(summary(strided),
            (Lines{"a.conv1 a.bn1 1e-04 scaled relu", "a.shortcut a.shortcut.bn 1e-04 scaled",
                   "a.conv2 a.bn2 1e-04 scaled + 2 relu"}));
  const Program program = llvm::cantFail(program_of(strided));
  const auto shape_of = [&](size_t layer) {
    const ConvolutionProblem& problem = *convolution_of(program.layers[layer]);
    const MapSpec& map = program.maps[program.layers[layer].map];
    EXPECT_EQ(problem.kernel_size, map.kernel_size);
    return std::array{problem.kernel_size[0], problem.stride[0], map.fine, map.coarse};
  };
  EXPECT_EQ(shape_of(0), (std::array{5, 2, 0, 1}));
  EXPECT_EQ(shape_of(1), (std::array{1, 2, 0, 1}));
  EXPECT_EQ(shape_of(2), (std::array{5, 1, 1, 1}));
  EXPECT_EQ(convolution_of(program.layers[1])->kind, ConvolutionKind::Strided);
  EXPECT_FALSE(convolution_of(program.layers[0])->shortcut);
}

TEST(NetworkFields, GroupsOfChannels) {
  const auto groups_of = [](const std::string& layers) {
    std::vector<i32> groups;
    for (const ProgramLayer& layer : llvm::cantFail(program_of(layers)).layers) {
      groups.push_back(convolution_of(layer)->groups);
    }
    return groups;
  };
  EXPECT_EQ(groups_of(block_of(R"("groups": 2)")), (std::vector<i32>{2}));
  // The shortcut comes before the convolution that adds its result.
  const std::string parts = residual_of(R"("conv1": {"groups": 4}, "shortcut": {"groups": 2})");
  EXPECT_EQ(groups_of(parts), (std::vector<i32>{4, 2, 1}));
  const Program program = llvm::cantFail(program_of(parts));
  EXPECT_FALSE(convolution_of(program.layers[0])->shortcut)
      << "one kernel would need the same weights' shape";
  EXPECT_FALSE(program.layers[1].may_join_last);
  EXPECT_EQ(parameter_counts(program.layers[0]).weight, 27 * 1 * 8);
  EXPECT_EQ(parameter_counts(program.layers[1]).weight, 2 * 8);
}

TEST(NetworkFields, OfABottleneck) {
  const std::string first =
      R"({"op": "bottleneck", "name": "a", "width": 2, "inner_width": 0, "stride": [2, 1, 1]},
      {"op": "bottleneck", "name": "b", "width": 2, "inner_width": 1, "dilation": 2, "activation": "none",
       "conv2": {"activation": "leaky_relu", "slope": 0.25}, "conv3": {"bias": true}})";
  EXPECT_EQ(summary(first),
            (Lines{"a.conv1 a.bn1 1e-04 scaled relu", "a.conv2 a.bn2 1e-04 scaled relu",
                   "a.shortcut a.shortcut.bn 1e-04 scaled", "a.conv3 a.bn3 1e-04 scaled + 3 relu",
                   "b.conv1 b.bn1 1e-04 scaled", "b.conv2 b.bn2 1e-04 scaled leaky 0.250",
                   "b.conv3 +b.conv3.bias b.bn3 1e-04 scaled + 4"}));
  const Program program = llvm::cantFail(program_of(first));
  const std::vector<std::array<i32, 4>> expected = {{4, 4, 1, 1},  {4, 4, 3, 1}, {4, 16, 1, 1}, {4, 16, 1, 1},
                                                    {16, 8, 1, 1}, {8, 8, 3, 2}, {8, 16, 1, 1}};
  ASSERT_EQ(program.layers.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const ConvolutionProblem& problem = *convolution_of(program.layers[i]);
    EXPECT_EQ(
        (std::array{problem.in_channels, problem.out_channels, problem.kernel_size[2], problem.dilation[2]}),
        expected[i])
        << i;
    EXPECT_EQ(problem.stride[0], i == 1 || i == 2 ? 2 : 1) << i;
  }
  EXPECT_EQ(program.levels[1].tensor_stride, (AxisArray{2, 1, 1, 1}));
}

/// What today's descriptions say nothing of is as it was.
TEST(NetworkFields, ShippedNetworksHaveBatchNormAndReluEverywhere) {
  for (const char* name : {"minkunet42", "sparseresnet21d"}) {
    const NetworkDescription description =
        llvm::cantFail(parse_network(llvm::cantFail(shipped_network(name))));
    const Program program =
        llvm::cantFail(build_program(description, DType::F32, [](const std::string&, i32) { return 0; }));
    for (const ProgramLayer& layer : program.layers) {
      EXPECT_TRUE(convolution_of(layer)->scale_shift && layer.is_affine && layer.bias.empty()) << layer.name;
      EXPECT_EQ(layer.batch_norm_epsilon, 1e-5);
      EXPECT_EQ(convolution_of(layer)->activation, layer.may_join_last ? Activation::None : Activation::ReLU);
    }
  }
}

/// bn(conv + b), and a norm's weight and bias are 1 and 0 where it has none.
TEST(NetworkFields, BiasIsFoldedInFrontOfTheNorm) {
  const auto fold = [](const std::string& fields) {
    const Program program = llvm::cantFail(program_of(block_of(fields)));
    return llvm::cantFail(ParameterSource(3).layer(program.layers[0]));
  };
  const LayerParameters bias = fold(R"("bias": true, "norm": "none")"), norm = fold(R"("epsilon": 1e-2)"),
                        both = fold(R"("bias": true, "epsilon": 1e-2)"),
                        bare = fold(R"("affine": false, "epsilon": 1e-2)");
  EXPECT_EQ(bias.scale, std::vector<float>(8, 1));
  EXPECT_EQ(both.scale, norm.scale);
  for (size_t c = 0; c < 8; ++c) {
    EXPECT_NE(bias.shift[c], 0);
    EXPECT_NEAR(both.shift[c], norm.shift[c] + bias.shift[c] * norm.scale[c], 1e-6);
    EXPECT_NEAR(bare.scale[c], 1, 0.2);
  }
  EXPECT_NE(bare.scale, norm.scale);
  EXPECT_EQ(fold(R"("norm": "none")").scale, std::vector<float>());
}

}  // namespace
}  // namespace minuet
