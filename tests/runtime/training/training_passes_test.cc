// Tests what the passes of a training plan consist of: which sums and ReLUs batch norms compute.
#include <gmock/gmock.h>

#include "codegen/choose/ops/pointwise.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/training/training_passes.h"

namespace minuet::training_passes_test {
namespace {

using testing::ElementsAre;

TrainingPasses passes_of(const std::string& layers, const TrainingOptions& options = {},
                         const std::string& outputs = "") {
  const std::string json =
      R"({"name": "n", "ndim": 3, "in_channels": 16, )" + outputs + R"("layers": [)" + layers + "]}";
  NetworkProblem problem;
  problem.description = llvm::cantFail(parse_network(json));
  const auto plan = llvm::cantFail(Plan::create(problem, ParameterSource::without_values()));
  return llvm::cantFail(make_training_passes(*plan, options, /*tuning=*/nullptr));
}

/// A block that ends with its batch norm.
std::string block(const std::string& name, const std::string& more = "") {
  return R"({"op": "block", "name": ")" + name +
         R"(", "out_channels": 16, "kernel_size": 3, "activation": "none")" + more + "}";
}
/// The same, with a name for its result.
std::string saved(const std::string& name, const std::string& more = "") {
  return block(name, R"(, "save": ")" + name + "\"" + more);
}
std::string add(const std::string& other) { return R"(, {"op": "add", "with": ")" + other + "\"}"; }
/// What lets a block read the input of the network.
const char* const kInput = R"(, "input": "input")";
const char* const kRelu = R"(, {"op": "relu"})";
const char* const kGelu = R"(, {"op": "gelu"})";

/// The steps of a chain, as "add relu".
std::string steps_of(const PointwiseProblem& chain) {
  std::string steps;
  for (const PointwiseStep& step : chain.steps) {
    steps += (steps.empty() ? "" : " ") + std::string(pointwise_name(step.kind));
  }
  return steps;
}

/// What computes a tensor: a batch norm, a convolution, the steps of a chain, an input or a concat.
std::string name_of(const ForwardPass& pass, i32 tensor) {
  for (std::size_t i = 0; i < pass.program.inputs.size(); ++i) {
    if (pass.program.inputs[i] == tensor) return pass.program.input_names[i];
  }
  for (const ProgramLayer& layer : pass.program.layers) {
    const auto* const chain = layer.problem.get_if<PointwiseProblem>();
    if (layer.output == tensor) return chain ? steps_of(*chain) : layer.name;
  }
  for (const NormUse& norm : pass.norms) {
    if (norm.output == tensor) return norm.name;
  }
  return "concat";
}

/// The batch norms, as "a.bn + input, relu", and the chains, as "a.bn: add input". Both are numbered in the
/// order of the steps.
std::vector<std::string> lines_of(const ForwardPass& pass) {
  std::vector<std::string> lines;
  i32 next_norm = 0, next_layer = 0;
  for (const PassStep& step : pass.steps) {
    if (step.kind == StepKind::Layer) {
      EXPECT_EQ(step.number, next_layer++);
      const ProgramLayer& layer = pass.program.layers[step.number];
      const auto* const chain = layer.problem.get_if<PointwiseProblem>();
      if (chain == nullptr) continue;
      std::string line = name_of(pass, layer.input) + ": " + steps_of(*chain);
      for (const i32 operand : layer.operands) line += " " + name_of(pass, operand);
      lines.push_back(line);
      continue;
    }
    EXPECT_EQ(step.number, next_norm++);
    const NormUse& norm = pass.norms[step.number];
    const BatchNormProblem& problem = norm.choice.problem;
    EXPECT_EQ(problem.has_residual, norm.residual >= 0);
    EXPECT_EQ(norm.choice.normalize.has_residual, problem.has_residual);
    EXPECT_EQ(norm.choice.normalize.has_relu, problem.has_relu);
    std::string line = norm.name;
    if (problem.has_residual) line += " + " + name_of(pass, norm.residual);
    lines.push_back(line + (problem.has_relu ? ", relu" : ""));
  }
  return lines;
}
std::vector<std::string> lines(const std::string& layers, const std::string& outputs = "") {
  return lines_of(passes_of(layers, {}, outputs).forward);
}

i32 pointwise_layers(const Program& program) {
  return static_cast<i32>(llvm::count_if(program.layers, [](const ProgramLayer& layer) {
    return layer.problem.get_if<PointwiseProblem>() != nullptr;
  }));
}

TEST(FoldIntoNorms, ABatchNormTakesTheSumAndTheReluBehindIt) {
  EXPECT_THAT(lines(block("a") + add("input") + kRelu), ElementsAre("a.bn + input, relu"));
  EXPECT_THAT(lines(block("a") + add("input")), ElementsAre("a.bn + input"));
  EXPECT_THAT(lines(saved("a") + kRelu), ElementsAre("a.bn, relu"));
  // The named sum divides the chain.
  EXPECT_THAT(lines(block("a") + R"(, {"op": "add", "with": "input", "save": "s"})" + kRelu),
              ElementsAre("a.bn + input, relu"));
  // The rest of a chain stays.
  EXPECT_THAT(lines(block("a") + add("input") + kGelu), ElementsAre("a.bn + input", "a.bn: gelu"));
  EXPECT_THAT(lines(block("a") + add("input") + kRelu + add("input")),
              ElementsAre("a.bn + input, relu", "a.bn: add input"));
  // The block has a sum already.
  const std::string residual =
      R"({"op": "residual", "name": "r", "out_channels": 16, "activation": "none", "save": "r"})";
  EXPECT_THAT(lines(residual + kRelu), ElementsAre("r.bn1", "r.bn2 + input, relu"));
}

TEST(FoldIntoNorms, NeitherPassHasAChainForTheSum) {
  const TrainingPasses passes = passes_of(block("a") + add("input") + kRelu);
  EXPECT_EQ(passes.forward.steps.size(), 2u);
  EXPECT_EQ(pointwise_layers(passes.backward.program), 0);
  EXPECT_EQ(passes.backward.norms.size(), 1u);
  EXPECT_GE(passes.backward.norms[0].output, 0);  // A ReLU behind a sum is seen in the result.
}

TEST(FoldIntoNorms, TheBatchNormMayBeEitherTerm) {
  EXPECT_THAT(lines(saved("a") + R"(, {"op": "gelu", "input": "input"})" + add("a") + kRelu),
              ElementsAre("input: gelu", "a.bn + gelu, relu"));
}

TEST(FoldIntoNorms, OfTwoBatchNormsTheLaterOneTakesTheSum) {
  EXPECT_THAT(lines(saved("a") + ", " + block("b", kInput) + add("a") + kRelu),
              ElementsAre("a.bn", "b.bn + a.bn, relu"));
  EXPECT_THAT(lines(saved("a") + ", " + saved("b", kInput) + R"(, {"op": "relu", "input": "a"})" + add("b")),
              ElementsAre("a.bn, relu", "b.bn + a.bn"));
}

/// The batch norms are listed in the order in which they run, because the last one counts the batch.
TEST(FoldIntoNorms, ABatchNormMovesBehindWhatItAdds) {
  EXPECT_THAT(lines(saved("a") + ", " + block("b", kInput) + kGelu + add("a")),
              ElementsAre("b.bn", "b.bn: gelu", "a.bn + gelu"));
}

TEST(FoldIntoNorms, WhatIsReadElsewhereStays) {
  const std::string sum = saved("a") + add("input") + kRelu;
  EXPECT_THAT(lines(sum + add("a")), ElementsAre("a.bn", "a.bn: add relu input", "add relu: add a.bn"));
  EXPECT_THAT(lines(sum + R"(, {"op": "concat", "with": "a"})" + kGelu),
              ElementsAre("a.bn", "a.bn: add relu input", "concat: gelu"));
  EXPECT_THAT(lines(saved("a") + add("a") + kRelu), ElementsAre("a.bn", "a.bn: add relu a.bn"));
  EXPECT_THAT(lines(sum, R"("outputs": ["a"], )"), ElementsAre("a.bn", "a.bn: add relu input"));
  // Behind a ReLU there is no other sum, and behind a sum no second one.
  EXPECT_THAT(lines(block("a") + kRelu + add("input")), ElementsAre("a.bn, relu", "a.bn: add input"));
  EXPECT_THAT(lines(block("a") + add("input") + add("input")),
              ElementsAre("a.bn + input", "a.bn: add input"));
}

/// The kernels of batch norms read whole vectors. A tensor behind 4 channels of 16 bits begins within one.
TEST(FoldIntoNorms, ASumThatBeginsWithinAVectorStays) {
  const auto concat = [](const std::string& channels) {
    return R"({"op": "linear", "name": "l", "save": "l", "out_channels": )" + channels + "}, " +
           block("a", kInput) + add("input") + R"(, {"op": "relu", "save": "s"},
           {"op": "gelu", "input": "l"}, {"op": "concat", "with": "s"}, )" +
           block("end");
  };
  EXPECT_THAT(lines(concat("4")), ElementsAre("a.bn", "a.bn: add relu input", "l: gelu", "end.bn"));
  EXPECT_THAT(lines(concat("8")), ElementsAre("a.bn + input, relu", "l: gelu", "end.bn"));
  const auto residual = [](const std::string& channels) {
    return R"({"op": "gelu", "save": "g"}, {"op": "linear", "name": "l", "input": "input", "out_channels": )" +
           channels + R"(}, {"op": "concat", "with": "g"}, )" + block("end") + ", " + block("a", kInput) +
           add("g");
  };
  EXPECT_THAT(lines(residual("4")), ElementsAre("input: gelu", "end.bn", "a.bn", "a.bn: add gelu"));
  EXPECT_THAT(lines(residual("8")), ElementsAre("input: gelu", "end.bn", "a.bn + gelu"));
}

/// The gradient of a sum may begin within a vector, and is copied for the kernels of the batch norm.
TEST(FoldIntoNorms, AGradientThatBeginsWithinAVectorIsCopied) {
  const std::string layers = R"({"op": "linear", "name": "l", "save": "l", "out_channels": 4}, )" +
                             block("a", kInput) + add("input") + R"(, {"op": "relu", "save": "s"})" +
                             R"(, {"op": "add", "with": "input", "save": "t"}, {"op": "gelu", "input": "l"},
                             {"op": "concat", "with": "t"}, )" +
                             block("end");
  const TrainingPasses passes = passes_of(layers);
  EXPECT_THAT(lines_of(passes.forward),
              ElementsAre("a.bn + input, relu", "a.bn: add input", "l: gelu", "end.bn"));
  EXPECT_EQ(llvm::count_if(passes.backward.program.layers,
                           [](const ProgramLayer& layer) { return layer.name.starts_with("copy of "); }),
            1);
}

/// Options do not change bits, and so not what is folded. A sum behind a segment that is computed again is
/// the segment's result, so that nothing else of the segment is kept.
TEST(FoldIntoNorms, ASegmentMayEndWithASum) {
  const std::string layers = saved("x.first", kInput) + kRelu + ", " + saved("x.second") + ", " +
                             block("x.side", kInput) + add("x.second") +
                             R"(, {"op": "relu", "save": "y"}, )" + block("z") + add("y") + kRelu;
  const auto expected = ElementsAre("x.first.bn, relu", "x.second.bn", "x.side.bn + x.second.bn, relu",
                                    "z.bn + x.side.bn, relu");
  EXPECT_THAT(lines(layers), expected);
  TrainingOptions options;
  const auto kept = [&](const std::vector<std::string>& recomputed) {
    options.recomputed = recomputed;
    const TrainingPasses passes = passes_of(layers, options);
    EXPECT_THAT(lines_of(passes.forward), expected);
    std::vector<std::string> names;
    for (const KeptTensor& tensor : passes.kept) names.push_back(tensor.name);
    return names;
  };
  EXPECT_THAT(kept({"x"}), testing::UnorderedElementsAre("input", "x.side.bn", "z", "z.bn"));
  // The convolutions x.first and z are not kept, but what begins with a batch norm of no segment is.
  EXPECT_THAT(kept({"x.first", "z"}), testing::UnorderedElementsAre("input", "x.first.bn", "x.second",
                                                                    "x.side", "x.side.bn", "z.bn"));
}

/// What is within a segment is computed again, also by a batch norm that stood outside.
TEST(FoldIntoNorms, ASumWithinASegmentStaysThere) {
  TrainingOptions options;
  options.recomputed = {"y"};
  const TrainingPasses passes =
      passes_of(saved("n") + ", " + block("y.1", kInput) + kGelu + add("n") + ", " + block("y.2"), options);
  EXPECT_THAT(lines_of(passes.forward), ElementsAre("y.1.bn", "y.1.bn: gelu", "n.bn + gelu", "y.2.bn"));
  std::vector<std::string> names;
  for (const KeptTensor& tensor : passes.kept) names.push_back(tensor.name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("input", "n"));
}

}  // namespace
}  // namespace minuet::training_passes_test
