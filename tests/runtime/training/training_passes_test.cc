// Tests what the passes of a training plan consist of: which sums and ReLUs batch norms compute, and what
// runs side by side.
#include <gmock/gmock.h>

#include <stdexcept>

#include "codegen/choose/ops/pointwise.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/training/training_passes.h"

namespace minuet::training_passes_test {
namespace {

using testing::ElementsAre;

/// Ends the test with the error if there is one.
template <class T>
T must(llvm::Expected<T> made) {
  if (!made) throw std::runtime_error(llvm::toString(made.takeError()));
  return std::move(*made);
}

TrainingPasses passes_of(const std::string& layers, const TrainingOptions& options = {},
                         const std::string& outputs = "") {
  const std::string json =
      R"({"name": "n", "ndim": 3, "in_channels": 16, )" + outputs + R"("layers": [)" + layers + "]}";
  NetworkProblem problem;
  problem.description = must(parse_network(json));
  const auto plan = must(Plan::create(problem, ParameterSource::without_values()));
  return must(make_training_passes(*plan, options, /*tuning=*/nullptr));
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

/// If both chains have as many steps, the later batch norm takes the sum.
TEST(FoldIntoNorms, TheBatchNormBehindTheLongerChainTakesTheSum) {
  EXPECT_THAT(lines(block("a") + ", " + saved("b") + ", " + block("side", kInput) + add("b") + kRelu),
              ElementsAre("a.bn", "side.bn", "b.bn + side.bn, relu"));
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
  const auto expected = ElementsAre("x.first.bn, relu", "x.side.bn", "x.second.bn + x.side.bn, relu",
                                    "z.bn + x.second.bn, relu");
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
  EXPECT_THAT(kept({"x"}), testing::UnorderedElementsAre("input", "x.second.bn", "z", "z.bn"));
  // The convolutions x.first and z are not kept, but what begins with a batch norm of no segment is.
  EXPECT_THAT(kept({"x.first", "z"}), testing::UnorderedElementsAre("input", "x.first.bn", "x.second",
                                                                    "x.side", "x.second.bn", "z.bn"));
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

/// The kind of convolution that each gradient of an input is, by the name of the layer.
std::vector<std::string> kinds_of_gradients(const std::string& layers) {
  TrainingOptions options;
  options.input_gradients = 1;
  std::vector<std::string> kinds;
  for (const ProgramLayer& layer : passes_of(layers, options).backward.program.layers) {
    const auto* const problem = layer.problem.get_if<ConvolutionProblem>();
    if (problem == nullptr) continue;
    const char* const kind = problem->kind == ConvolutionKind::Submanifold  ? "submanifold"
                             : problem->kind == ConvolutionKind::Transposed ? "transposed"
                             : problem->kind == ConvolutionKind::Strided    ? "strided"
                                                                            : "given outputs";
    kinds.push_back(layer.name + ": " + kind);
  }
  return kinds;
}

/// The gradient of a submanifold convolution with a symmetric kernel reads the view of the convolution.
TEST(InputGradients, OfSymmetricKernelsReadTheSameView) {
  const auto layer = [](const std::string& size) {
    return R"({"op": "block", "name": "a", "out_channels": 16, )" + size + "}";
  };
  for (const char* const kernel : {R"("kernel_size": 1)", R"("kernel_size": 5)",
                                   R"("kernel_size": [3, 1, 3])", R"("kernel_size": 3, "dilation": 2)"}) {
    EXPECT_THAT(kinds_of_gradients(layer(kernel)), ElementsAre("gradient of a: submanifold")) << kernel;
  }
  for (const char* const kernel : {R"("kernel_size": 2)", R"("kernel_size": [3, 2, 3])",
                                   R"("kernel_shape": "custom", "offsets": [[0, 0, 0], [0, 0, 1]])"}) {
    EXPECT_THAT(kinds_of_gradients(layer(kernel)), ElementsAre("gradient of a: transposed")) << kernel;
  }
  EXPECT_THAT(kinds_of_gradients(layer(R"("kernel_size": 3, "stride": 2)") +
                                 R"(, {"op": "inverse", "name": "b", "of": "a", "out_channels": 8})"),
              ElementsAre("gradient of b: strided", "gradient of a: transposed"));
}

/// The steps of the forward pass of a network with branches: "(" and "[" begin and resume a branch, ")" ends
/// it, and "|" joins it.
std::vector<std::string> steps_with_branches(const std::string& layers, bool has_branches = true) {
  TrainingOptions options;
  options.has_branches = has_branches;
  const ForwardPass pass = passes_of(layers, options).forward;
  std::vector<std::string> steps;
  for (const PassStep& step : pass.steps) {
    switch (step.kind) {
      case StepKind::Layer: {
        const ProgramLayer& layer = pass.program.layers[step.number];
        const auto* const chain = layer.problem.get_if<PointwiseProblem>();
        steps.push_back(chain ? steps_of(*chain) : layer.name);
        break;
      }
      case StepKind::Norm:
        steps.push_back(pass.norms[step.number].name);
        break;
      case StepKind::BeginBranch:
        steps.emplace_back("(");
        break;
      case StepKind::ResumeBranch:
        steps.emplace_back("[");
        break;
      case StepKind::EndBranch:
        steps.emplace_back(")");
        break;
      default:
        steps.emplace_back("|");
    }
  }
  return steps;
}

TEST(ForwardBranches, AShortcutRunsBesideItsBlock) {
  const std::string inside = block("first", kInput) + kRelu + ", ";
  // The shortcut comes first.
  const std::string early = saved("side", kInput) + ", " + inside + block("second") + add("side") + kRelu;
  EXPECT_THAT(steps_with_branches(early),
              ElementsAre("(", "side", "side.bn", ")", "first", "first.bn", "second", "|", "second.bn"));
  // The shortcut comes last.
  const std::string late = inside + saved("second") + ", " + block("side", kInput) + add("second") + kRelu;
  EXPECT_THAT(steps_with_branches(late), ElementsAre("(", ")", "first", "first.bn", "second", "[", "side",
                                                     "side.bn", ")", "|", "second.bn"));
  EXPECT_THAT(steps_with_branches(late, /*has_branches=*/false),
              ElementsAre("first", "first.bn", "second", "side", "side.bn", "second.bn"));
}

TEST(ForwardBranches, WhatNeedsEachOtherStaysInOneChain) {
  EXPECT_THAT(steps_with_branches(block("a", kInput) + kRelu + ", " + block("b") + add("input")),
              ElementsAre("a", "a.bn", "b", "b.bn"))
      << "the skip is not computed";
  EXPECT_THAT(steps_with_branches(saved("a") + ", " + saved("b") + ", " + block("c") + add("a")),
              ElementsAre("a", "a.bn", "b", "b.bn", "c", "c.bn"))
      << "c needs b, which needs a";
  // A step that both chains need is in front of them.
  EXPECT_THAT(steps_with_branches(saved("a") + ", " + saved("b") + ", " + block("c", R"(, "input": "a")") +
                                  add("b") + ", " + block("d")),
              ElementsAre("a", "a.bn", "(", ")", "b", "b.bn", "[", "c", ")", "|", "c.bn", "d", "d.bn"));
}

/// A chain's steps may read any columns of a concat, also where they are in a branch.
TEST(ForwardBranches, StepsOfLayersMayReadAnyColumns) {
  const std::string network =
      saved("s1", kInput) + ", " + saved("s2") + ", " + saved("s3") +
      R"(, {"op": "linear", "name": "l0", "out_channels": 8, "input": "input"}, {"op": "gelu", "save": "g"},
         {"op": "linear", "name": "l", "out_channels": 4, "input": "input"}, {"op": "gelu"},
         {"op": "concat", "with": "g"}, )" +
      block("m") + add("s3") + ", " + block("end");
  EXPECT_THAT(steps_with_branches(network), testing::Contains("("));
  EXPECT_THAT(steps_with_branches(network, /*has_branches=*/false), testing::Contains("m"));
}

/// The last batch norm counts the batch, which others may still read if it is in a branch or beside one.
TEST(ForwardBranches, TheLastBatchNormIsInNone) {
  const std::string sum = saved("a", kInput) + kGelu + R"(, {"op": "gelu", "save": "g"}, )" +
                          block("b", kInput) + kGelu + add("g");
  EXPECT_THAT(steps_with_branches(sum), testing::Not(testing::Contains("(")));
  EXPECT_THAT(steps_with_branches(sum + ", " + block("end")), testing::Contains("("));
}

/// Groups grow from 2 weights to 8, shrink again, and have all weights.
TEST(TrainingPasses, GroupsOfWeightsAreSmallAtBothEnds) {
  const auto groups_of = [](i32 all) {
    std::vector<i32> groups;
    for (i32 done = 0; done < all; done += groups.back()) {
      groups.push_back(std::min(group_weights(done, all), all - done));
    }
    return groups;
  };
  EXPECT_THAT(groups_of(0), ElementsAre());
  EXPECT_THAT(groups_of(1), ElementsAre(1));
  EXPECT_THAT(groups_of(3), ElementsAre(2, 1));
  EXPECT_THAT(groups_of(8), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(groups_of(49), ElementsAre(2, 2, 4, 8, 8, 8, 8, 4, 2, 2, 1));
}

}  // namespace
}  // namespace minuet::training_passes_test
