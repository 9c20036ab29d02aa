// Tests which tensors of a program get 8-bit elements, which scales they get, and which programs are refused.
#include <gmock/gmock.h>

#include "codegen/base/number_text.h"
#include "codegen/choose/ops/pooling.h"
#include "runtime/network/network_program.h"
#include "runtime/network/quantize_description.h"
#include "runtime/program/ops/convolution.h"
#include "tests/runtime/network/description_mistake.h"

namespace minuet::precisions {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kInt8 = R"("precision": "int8")";

llvm::Expected<Program> program_of(const std::string& layers, const std::string& outputs = "") {
  const std::string text =
      R"({"name": "n", "ndim": 3, "in_channels": 4, )" + outputs + R"("layers": [)" + layers + "]}";
  MINUET_ASSIGN(const NetworkDescription network, parse_network(text));
  return build_program(network, DType::F16, [](const std::string&, i32) { return 0; });
}
Program built(const std::string& layers, const std::string& outputs = "") {
  return llvm::cantFail(program_of(layers, outputs));
}

const ProgramLayer& layer(const Program& program, const std::string& name) {
  for (const ProgramLayer& each : program.layers) {
    if (each.name == name) return each;
  }
  ADD_FAILURE() << "no layer " << name;
  return program.layers.front();
}
const ConvolutionProblem& convolution(const Program& program, const std::string& name) {
  return *convolution_of(layer(program, name));
}
const StorageSpec& storage(const Program& program, i32 tensor) {
  return program.storages[program.tensors[tensor].storage];
}

std::string range(double number) { return "\"output_range\": " + general_text(number, 17); }

TEST(Precisions, OfAChain) {
  const Program program =
      built(block("a", range(51)) + "," +
            block("b", std::string(kInt8) + ", \"activation\": \"none\", " + range(12.7)) + "," +
            block("c", kInt8));
  const ConvolutionProblem &a = convolution(program, "a"), &b = convolution(program, "b"),
                           &c = convolution(program, "c");
  EXPECT_FALSE(a.input_type);
  EXPECT_EQ(a.output_type, DType::U8);
  EXPECT_EQ(a.output_factor, 1 / (51.0f / 255));
  EXPECT_EQ(b.input_type, DType::U8);
  EXPECT_EQ(b.output_type, DType::S8);
  EXPECT_EQ(c.input_type, DType::S8);
  EXPECT_FALSE(c.output_type);
  EXPECT_EQ(layer(program, "a").output_scale, 51.0f / 255);
  EXPECT_THAT(layer(program, "b").input_scales, Each(51.0f / 255));
  EXPECT_EQ(layer(program, "b").input_scales.size(), 8u);
  EXPECT_THAT(layer(program, "c").input_scales, Each(12.7f / 127));
  EXPECT_EQ(layer(program, "c").output_scale, 0);
  EXPECT_TRUE(layer(program, "a").input_scales.empty());
  EXPECT_EQ(storage(program, layer(program, "a").output).integers, DType::U8);
  EXPECT_EQ(element_bytes(program, storage(program, layer(program, "b").output)), 1);
  EXPECT_EQ(element_bytes(program, storage(program, layer(program, "c").output)), 2);
}

/// A range alone changes nothing.
TEST(Precisions, RangesWithoutReadersAreNotUsed) {
  const Program program = built(block("a", range(51)) + "," + block("b", range(1)));
  EXPECT_FALSE(has_integers(convolution(program, "a")));
  EXPECT_FALSE(has_integers(convolution(program, "b")));
}

TEST(Precisions, OfAResidualWithItsInputAsShortcut) {
  const Program program = built(block("a", range(2)) +
                                R"(, {"op": "residual", "name": "r", "out_channels": 8, "precision": "int8",
          "output_range": 4, "conv1": {"output_range": 3}}, )" +
                                block("b", kInt8));
  const ConvolutionProblem &first = convolution(program, "r.conv1"),
                           &second = convolution(program, "r.conv2");
  EXPECT_EQ(first.input_type, DType::U8);
  EXPECT_EQ(second.input_type, DType::U8);
  EXPECT_EQ(second.residual_type, DType::U8);
  EXPECT_EQ(second.output_type, DType::U8);
  EXPECT_THAT(layer(program, "r.conv2").input_scales, Each(3.0f / 255));
  EXPECT_EQ(layer(program, "r.conv2").residual_scale, 2.0f / 255);
  EXPECT_EQ(layer(program, "r.conv2").output_scale, 4.0f / 255);
}

/// A bare shortcut is signed although its partner is not. One kernel computes both if both have 8 bits only.
TEST(Precisions, OfAResidualWithAShortcut) {
  const auto residual = [](const std::string& conv1, const std::string& outputs = "") {
    return built(block("a", range(2)) +
                     R"(, {"op": "residual", "name": "r", "out_channels": 16, "precision": "int8",
                     "conv1": {"output_range": 3)" +
                     conv1 + R"(}, "shortcut": {"output_range": 5}})",
                 outputs);
  };
  const Program program = residual("");
  EXPECT_TRUE(convolution(program, "r.conv1").shortcut);
  EXPECT_TRUE(layer(program, "r.shortcut").may_join_last);
  EXPECT_EQ(convolution(program, "r.conv1").shortcut_type, DType::S8);
  EXPECT_EQ(convolution(program, "r.shortcut").output_type, DType::S8);
  EXPECT_EQ(convolution(program, "r.conv2").residual_type, DType::S8);
  EXPECT_EQ(layer(program, "r.conv2").residual_scale, 5.0f / 127);
  EXPECT_FALSE(convolution(program, "r.conv2").output_type);
  for (const Program& mixed :
       {residual(R"(, "precision": "float")"), residual("", R"("outputs": ["layer:r.conv1"], )")}) {
    EXPECT_FALSE(convolution(mixed, "r.conv1").shortcut);
    EXPECT_FALSE(convolution(mixed, "r.conv1").shortcut_type);
    EXPECT_FALSE(layer(mixed, "r.shortcut").may_join_last);
  }
}

/// The halves of a concat have scales of their own but one type, which a max pooling passes on.
TEST(Precisions, OfAConcatAndAPooling) {
  const Program program = built(
      block("a", range(2) + R"(, "output": "x")") + "," +
      block("b", std::string(kInt8) + R"(, "activation": "none", )" + range(4)) +
      R"(, {"op": "concat", "with": "x", "output": "y"}, {"op": "max_pool", "name": "p", "kernel_size": 2, "stride": 2}, )" +
      block("c", kInt8));
  const ProgramLayer& pooled = layer(program, "p");
  EXPECT_EQ(pooled.problem.get<PoolingProblem>().dtype, DType::S8);
  EXPECT_EQ(convolution(program, "a").output_type, DType::S8);
  EXPECT_EQ(convolution(program, "c").input_type, DType::S8);
  std::vector<float> scales(8, 4.0f / 127);
  scales.insert(scales.end(), 8, 2.0f / 127);
  EXPECT_EQ(layer(program, "c").input_scales, scales);
  EXPECT_EQ(pooled.problem.get<PoolingProblem>().input.ld, 16);
}

/// A tensor that is read in both forms is written twice, and the copy is part of the producer's kernel.
TEST(Precisions, OfATensorThatIsReadInBothForms) {
  const Program program = built(block("a", range(2) + R"(, "output": "x")") + "," + block("b", kInt8) + "," +
                                    block("c", R"("input": "x")"),
                                R"("outputs": ["x"], )");
  const ConvolutionProblem& a = convolution(program, "a");
  EXPECT_FALSE(a.output_type);
  EXPECT_TRUE(a.second_output);
  EXPECT_EQ(a.second_type, DType::U8);
  EXPECT_EQ(a.second_factor, 1 / (2.0f / 255));
  const ProgramLayer& copy = program.layers[1];
  EXPECT_EQ(copy.name, "a in 8 bits");
  EXPECT_TRUE(copy.may_join_last);
  EXPECT_EQ(copy.input, program.layers[0].output);
  EXPECT_EQ(layer(program, "b").input, copy.output);
  EXPECT_EQ(layer(program, "c").input, program.layers[0].output);
  EXPECT_FALSE(storage(program, program.outputs[0]).integers);
  EXPECT_EQ(storage(program, copy.output).integers, DType::U8);
  EXPECT_EQ(a.covered_output.ld, 8);
}

/// The same where only one half of a concat is read in both forms, and behind a pooling.
TEST(Precisions, OnlyTheHalvesThatAreReadInBothFormsAreWrittenTwice) {
  const Program program =
      built(block("a", range(2) + R"(, "output": "x")") + "," + block("b", R"("stride": 2, "output": "u")") +
                "," + block("c", R"("input": "x", )" + range(1)) + R"(, {"op": "concat", "with": "x"}, )" +
                block("d", kInt8),
            R"("outputs": ["u"], )");
  EXPECT_TRUE(convolution(program, "a").second_output);
  EXPECT_FALSE(convolution(program, "c").second_output);
  EXPECT_EQ(convolution(program, "c").output_type, DType::U8);
  EXPECT_EQ(convolution(program, "c").output.ld, 16);
  const Program pooled =
      built(block("a", range(2)) +
                R"(, {"op": "max_pool", "name": "p", "kernel_size": 2, "stride": 2, "output": "y"}, )" +
                block("b", kInt8),
            R"("outputs": ["y"], )");
  EXPECT_EQ(pooled.layers.size(), 5u);
  EXPECT_EQ(layer(pooled, "p").problem.get<PoolingProblem>().dtype, DType::F16);
  EXPECT_EQ(layer(pooled, "p in 8 bits").problem.get<PoolingProblem>().dtype, DType::U8);
}

TEST(Precisions, WhatCannotBeIsRefusedWithItsPlace) {
  const std::string fields = R"("in_channels": 4)";
  const std::string a = block("a", range(1)) + ", ", bare = block("a", R"("bias": true)") + ", ";
  const Mistake mistakes[] = {
      {block("a", kInt8), fields, "layers[0].precision: block a: ", "the network's input \"input\""},
      {bare + block("b", kInt8), fields,
       "layers[1].precision: block b: ", "\"a\", which has no \"output_range\""},
      {a + block("dw", R"("groups": 8, )" + range(1)) +
           R"(, {"op": "max_pool", "name": "p", "kernel_size": 3}, )" + block("b", kInt8),
       fields, "layers[3].precision: block b: ", "\"dw\", which has groups"},
      {a + R"({"op": "average_pool", "name": "p", "kernel_size": 3}, )" + block("b", kInt8), fields,
       "layers[2].precision: block b: ", "\"p\", which computes in floating numbers"},
      {a + R"({"op": "residual", "name": "r", "out_channels": 8, "precision": "int8"})", fields,
       "layers[1].conv2.precision: residual r: ", "\"r.conv1\", which has no \"output_range\""},
      {block("a", range(1) + R"(, "output": "x")") + "," + block("b", std::string(kInt8) + "," + range(2)) +
           R"(, {"op": "concat", "with": "x"}, {"op": "residual", "name": "r", "out_channels": 16, "precision": "int8",
               "conv1": {"output_range": 1}})",
       fields,
       "layers[3].conv2.precision: residual r: ", "it adds a concat of results with different ranges"},
      {R"({"op": "max_pool", "name": "p", "kernel_size": 2, "stride": 2, "output": "z"}, )" +
           block("a", range(1) + R"(, "output": "x")") + "," + block("b", R"("input": "z", )" + range(2)) +
           R"(, {"op": "concat", "with": "x"}, {"op": "channel_to_space", "name": "c", "onto": "input"}, )" +
           block("d", kInt8),
       fields, "layers[5].precision: block d: ",
       "\"c\", whose channels come from convolutions with different ranges"},
  };
  for (const Mistake& mistake : mistakes) {
    EXPECT_THAT(error_of(mistake), testing::AllOf(HasSubstr(mistake.place), HasSubstr(mistake.words)));
  }
}

/// A convolution with groups computes in floating numbers beside those of 8 bits, and reads what they write.
TEST(Precisions, AConvolutionWithGroupsKeepsFloatingNumbers) {
  const Program program =
      built(block("a", range(2) + R"(, "output": "x")") + "," + block("dw", R"("groups": 8, )" + range(2)) +
            "," + block("b", std::string(kInt8) + R"(, "input": "x")"));
  EXPECT_FALSE(has_integers(convolution(program, "dw")));
  EXPECT_TRUE(convolution(program, "a").second_output);
  EXPECT_EQ(convolution(program, "b").input_type, DType::U8);
}

// ---- descriptions of quantized networks

constexpr const char* kNetwork = R"({"name": "n", "ndim": 3, "in_channels": 4, "layers": [
    {"op": "block", "name": "a", "out_channels": 8, "kernel_size": 3, "output": "x"},
    {"op": "residual", "name": "r", "out_channels": 8},
    {"op": "residual", "name": "s", "out_channels": 16},
    {"op": "batch_norm", "name": "n"}, {"op": "relu"},
    {"op": "block", "name": "g", "out_channels": 16, "groups": 16},
    {"op": "linear", "name": "h", "out_channels": 16},
    {"op": "average_pool", "name": "p", "kernel_size": 2, "stride": 2},
    {"op": "linear", "name": "l", "out_channels": 4}]})";

const HeadChannels kNoHead = [](const std::string&, i32) { return 0; };

Program program_of(const NetworkDescription& network) {
  return llvm::cantFail(build_program(network, DType::F16, kNoHead));
}

TEST(Precisions, ObservedNetworksGiveTheResultsOfAllConvolutions) {
  const NetworkDescription network = llvm::cantFail(parse_network(kNetwork));
  const Program plain = program_of(network);
  const NetworkDescription observed = llvm::cantFail(observe_network(network, plain));
  EXPECT_THAT(observed.outputs,
              ElementsAre("output", "layer:a", "layer:r.conv1", "layer:r.conv2", "layer:s.conv1",
                          "layer:s.shortcut", "layer:s.conv2", "layer:g", "layer:h", "layer:l"));
  const NetworkDescription again = llvm::cantFail(parse_network(print_network(observed)));
  const Program program = program_of(again);
  ASSERT_EQ(program.layers.size(), plain.layers.size());
  for (std::size_t i = 0; i < program.layers.size(); ++i) {
    EXPECT_EQ(program.layers[i].name, plain.layers[i].name);
    EXPECT_EQ(program.layers[i].covered_steps, plain.layers[i].covered_steps);
  }
  for (std::size_t i = 1; i < program.outputs.size(); ++i)
    EXPECT_EQ(program.outputs[i], layer(program, observed.outputs[i].substr(6)).output);
  const NetworkDescription wrong =
      llvm::cantFail(parse_network(R"({"name": "n", "ndim": 3, "in_channels": 4, "layers": [)" +
                                   block("a", R"("save": "layer:a")") + "]}"));
  EXPECT_THAT(llvm::toString(observe_network(wrong, program_of(wrong)).takeError()),
              HasSubstr("called \"layer:a\""));
}

LayerPrecision precision_of(const char* name, bool is_int8 = true) { return {name, 2, is_int8, ""}; }

std::vector<LayerPrecision> all_precisions() {
  std::vector<LayerPrecision> precisions;
  for (const char* name : {"a", "r.conv1", "r.conv2", "s.conv1", "s.shortcut", "s.conv2", "g", "h", "l"})
    precisions.push_back(precision_of(name));
  return precisions;
}

/// Says that 8 bits can hold all weights.
llvm::Expected<std::vector<PrecisionFault>> no_weight_faults(const Program&) {
  return std::vector<PrecisionFault>();
}

TEST(Precisions, QuantizedNetworksComputeInEightBitsWhatTheyCan) {
  const NetworkDescription network = llvm::cantFail(parse_network(kNetwork));
  std::vector<LayerPrecision> precisions = all_precisions();
  const NetworkDescription quantized =
      llvm::cantFail(quantize_network(network, kNoHead, precisions, no_weight_faults));
  std::string taken;
  for (const LayerPrecision& precision : precisions) taken += precision.is_int8 ? precision.layer + " " : "";
  EXPECT_EQ(taken, "r.conv1 r.conv2 s.conv1 s.shortcut s.conv2 ");
  EXPECT_EQ(precisions[0].reason, "it reads the network's input \"input\", which has floating numbers");
  EXPECT_EQ(precisions[1].reason, "");
  EXPECT_EQ(precisions[6].reason, "it has groups, and kernels with groups compute in floating numbers");
  EXPECT_THAT(precisions[7].reason,
              HasSubstr("it reads the result of \"g\", which has groups, and no kernel"));
  EXPECT_THAT(precisions[8].reason, HasSubstr("which computes in floating numbers"));
  const std::string printed = print_network(quantized);
  const Program program = program_of(llvm::cantFail(parse_network(printed)));
  EXPECT_EQ(convolution(program, "s.conv2").input_type, DType::U8);
  EXPECT_EQ(convolution(program, "s.conv2").residual_type, DType::S8);
  for (const char* name : {"g", "h", "l"}) EXPECT_FALSE(has_integers(convolution(program, name))) << name;
  EXPECT_EQ(convolution(program, "a").output_type, DType::U8);
  // An exclusion leaves the others as they are.
  precisions[1] = precision_of("r.conv1", false);
  for (LayerPrecision& precision : llvm::MutableArrayRef(precisions).drop_front(2)) precision.is_int8 = true;
  const NetworkDescription mixed =
      llvm::cantFail(quantize_network(quantized, kNoHead, precisions, no_weight_faults));
  const Program of_mixed = program_of(llvm::cantFail(parse_network(print_network(mixed))));
  EXPECT_FALSE(convolution(of_mixed, "r.conv1").input_type);
  EXPECT_EQ(convolution(of_mixed, "r.conv1").output_type, DType::U8);
  EXPECT_TRUE(convolution(of_mixed, "a").second_output);
  EXPECT_EQ(convolution(of_mixed, "r.conv2").residual_type, DType::U8);
  precisions = {precision_of("none")};
  EXPECT_THAT(llvm::toString(quantize_network(network, kNoHead, precisions, no_weight_faults).takeError()),
              HasSubstr("no convolution \"none\""));
  precisions = {precision_of("a"), precision_of("a")};
  EXPECT_THAT(llvm::toString(quantize_network(network, kNoHead, precisions, no_weight_faults).takeError()),
              HasSubstr("\"a\" is listed twice"));
}

/// Weights are looked at in the network that would compute in 8 bits, again behind each layer that is left
/// out.
TEST(Precisions, LayersWithUnfitWeightsAreLeftOut) {
  const NetworkDescription network = llvm::cantFail(parse_network(kNetwork));
  std::vector<LayerPrecision> precisions = all_precisions();
  std::string asked;
  const auto weight_faults = [&](const Program& program) -> llvm::Expected<std::vector<PrecisionFault>> {
    for (const ProgramLayer& each : program.layers) asked += each.is_int8 ? each.name + " " : "";
    asked += "; ";
    if (layer(program, "s.conv1").is_int8) return std::vector<PrecisionFault>{{"s.conv1", "too large", ""}};
    return std::vector<PrecisionFault>();
  };
  const NetworkDescription quantized =
      llvm::cantFail(quantize_network(network, kNoHead, precisions, weight_faults));
  EXPECT_EQ(asked, "r.conv1 r.conv2 s.conv1 s.shortcut s.conv2 ; r.conv1 r.conv2 s.shortcut s.conv2 ; ");
  EXPECT_FALSE(precisions[3].is_int8);
  EXPECT_EQ(precisions[3].reason, "too large");
  EXPECT_FALSE(convolution(program_of(quantized), "s.conv1").input_type);
}

}  // namespace
}  // namespace minuet::precisions
