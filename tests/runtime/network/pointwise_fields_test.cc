// The pointwise ops of a description: what is refused with its place, and which ops become one op of the
// program.
#include <gmock/gmock.h>

#include "codegen/choose/ops/pointwise.h"
#include "runtime/network/network_program.h"

namespace minuet::pointwise_fields {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string described(const std::string& layers) {
  return R"({"name": "n", "ndim": 3, "in_channels": 4, "layers": [)" + layers + "]}";
}

llvm::Expected<Program> program_of(const std::string& layers) {
  MINUET_ASSIGN(const NetworkDescription description, parse_network(described(layers)));
  return build_program(
      description, DType::F16, [](const std::string&, i32) { return 3; }, {}, /*covers_chains=*/false);
}

std::vector<std::string> names_of(const std::string& layers) {
  const Program program = llvm::cantFail(program_of(layers));
  std::vector<std::string> names;
  for (const ProgramLayer& layer : program.layers) names.push_back(layer.name);
  return names;
}

void expect_refused(const std::string& layer, const std::string& place, const std::string& words) {
  const std::string first =
      R"({"op": "block", "name": "s", "out_channels": 4, "stride": 2, "output": "coarse"},
         {"op": "up", "name": "u", "out_channels": 4, "stride": 2, "onto": "input", "output": "fine"},
         {"op": "block", "name": "w", "out_channels": 6, "output": "wide"}, )";
  llvm::Expected<Program> program = program_of(first + layer);
  ASSERT_FALSE(program) << layer;
  const StatusError error = take_status(program.takeError());
  EXPECT_EQ(error.code(), StatusCode::InvalidArgument) << layer;
  EXPECT_THAT(error.message(), AllOf(HasSubstr(": " + place + ": "), HasSubstr(words))) << layer;
}

TEST(PointwiseFields, WhatIsWrongIsRefusedWithItsPlace) {
  expect_refused(R"({"op": "relu", "slope": 1})", "layers[3].slope",
                 "\"slope\" is not a field of the ops relu");
  expect_refused(R"({"op": "leaky_relu", "slope": "1"})", "layers[3].slope", "range of float32");
  expect_refused(R"({"op": "leaky_relu", "slope": 1e39})", "layers[3].slope", "range of float32");
  expect_refused(R"({"op": "gelu", "approximate": "erf"})", "layers[3].approximate", "\"none\" or \"tanh\"");
  expect_refused(R"({"op": "gelu", "approximate": true})", "layers[3].approximate", "must be a name");
  expect_refused(R"({"op": "add"})", "layers[3].with", "must be a name");
  expect_refused(R"({"op": "add", "with": "nothing"})", "layers[3].with", "no earlier layer");
  expect_refused(R"({"op": "multiply", "with": "coarse"})", "layers[3].with", "the same coordinate set");
  expect_refused(R"({"op": "add", "with": "fine"})", "layers[3].with",
                 "\"fine\" has 4 channels, but the layer's input has 6");
  expect_refused(R"({"op": "batch_norm"})", "layers[3].name", "must be a name");
  expect_refused(R"({"op": "batch_norm", "name": "n", "epsilon": 0})", "layers[3].epsilon", "above 0");
  expect_refused(R"({"op": "layer_norm", "name": "n", "affine": 1})", "layers[3].affine", "true or false");
  expect_refused(R"({"op": "layer_norm", "name": "n", "epsilon": "x"})", "layers[3].epsilon", "above 0");
  expect_refused(R"({"op": "scale_shift", "name": "n", "affine": true})", "layers[3].affine",
                 "is not a field");
  expect_refused(R"({"op": "layer_norm", "name": "n"}, {"op": "scale_shift", "name": "n"})", "layers[4].name",
                 "two layers have parameters called \"n.*\"");
  expect_refused(R"({"op": "argmax"}, {"op": "relu"})", "layers[4].input", "the result of argmax");
  expect_refused(R"({"op": "argmax"}, {"op": "block", "name": "b", "out_channels": 3})", "layers[4].input",
                 "the result of argmax");
  expect_refused(R"({"op": "argmax", "output": "m"}, {"op": "add", "input": "wide", "with": "m"})",
                 "layers[4].with", "the result of argmax");
  expect_refused(R"({"op": "argmax", "output": "m"}, {"op": "concat", "input": "wide", "with": "m"})",
                 "layers[4].with", "the result of argmax");
  expect_refused(R"({"op": "argmax", "output": "m"}, {"op": "relu", "input": "m"})", "layers[4].input",
                 "the result of argmax");
}

TEST(PointwiseFields, RowsThatDoNotFitIntoRegistersAreRefused) {
  llvm::Expected<Program> program =
      program_of(R"({"op": "block", "name": "a", "out_channels": 16385}, {"op": "softmax"})");
  ASSERT_FALSE(program);
  const StatusError error = take_status(program.takeError());
  EXPECT_EQ(error.code(), StatusCode::Unimplemented);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("layers[1]"), HasSubstr("16384")));
}

/// Consecutive ops are one op, unless something else reads what is between them.
TEST(PointwiseFields, ConsecutiveOpsAreMerged) {
  EXPECT_THAT(
      names_of(R"({"op": "relu"}, {"op": "gelu"}, {"op": "add", "with": "input"}, {"op": "softmax"})"),
      ElementsAre("relu+gelu+add+softmax 0"));
  EXPECT_THAT(names_of(R"({"op": "relu", "output": "r"}, {"op": "gelu"}, {"op": "tanh"})"),
              ElementsAre("relu 0", "gelu+tanh 1"));
  EXPECT_THAT(names_of(R"({"op": "relu"}, {"op": "tanh", "input": "input"}, {"op": "tanh"})"),
              ElementsAre("relu 0", "tanh+tanh 1"));
  EXPECT_THAT(names_of(R"({"op": "relu"}, {"op": "block", "name": "a", "out_channels": 3}, {"op": "tanh"})"),
              ElementsAre("relu 0", "a", "tanh 2"));
  std::string many = R"({"op": "relu"})";
  for (int i = 0; i < 8; ++i) many += R"(, {"op": "tanh"})";
  EXPECT_THAT(names_of(many), ElementsAre(StartsWith("relu+tanh+"), "tanh 1"));
  EXPECT_THAT(
      names_of(R"({"op": "relu"}, {"op": "argmax", "output": "m"}, {"op": "tanh", "input": "input"})"),
      ElementsAre("relu+argmax 0", "tanh 1"));
}

/// Operands live until the chain that reads them, and an argmax has storage of its own.
TEST(PointwiseFields, StoragesAndColumns) {
  const Program program = llvm::cantFail(program_of(
      R"({"op": "block", "name": "a", "out_channels": 4, "output": "a"}, {"op": "relu", "output": "r"},
         {"op": "block", "name": "b", "out_channels": 4}, {"op": "tanh"}, {"op": "multiply", "with": "r"},
         {"op": "add", "with": "a"}, {"op": "argmax"})"));
  ASSERT_EQ(program.layers.size(), 4u);
  const ProgramLayer& chain = program.layers[3];
  EXPECT_THAT(chain.operands, ElementsAre(program.layers[1].output, program.layers[0].output));
  const auto& problem = chain.problem.get<PointwiseProblem>();
  ASSERT_EQ(problem.operands.size(), 2u);
  EXPECT_EQ(problem.operands[0].ld, 4);
  for (const i32 operand : chain.operands) {
    EXPECT_EQ(program.storages[program.tensors[operand].storage].last, 3);
  }
  const TensorSpec& output = program.tensors[chain.output];
  EXPECT_EQ(output.channels, 1);
  EXPECT_TRUE(program.storages[output.storage].holds_integers);
  EXPECT_EQ(problem.output.ld, 1);
}

}  // namespace
}  // namespace minuet::pointwise_fields
