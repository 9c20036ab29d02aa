// Tests which chains of pointwise steps convolutions compute, and what the program is then.
#include "runtime/network/cover_chains.h"

#include <gmock/gmock.h>

#include <random>
#include <set>

#include "codegen/choose/ops/pointwise.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/network/network_program.h"
#include "runtime/network/shipped_network.h"
#include "runtime/network/weights_check.h"
#include "runtime/plan/compiled_plan.h"
#include "runtime/program/ops/convolution.h"

namespace minuet::cover_chains_test {
namespace {

using testing::ElementsAre;

Program build(const std::string& layers, bool covers_chains = true, const std::string& fields = "") {
  const std::string json =
      R"({"name": "n", "ndim": 3, "in_channels": 4, )" + fields + R"("layers": [)" + layers + "]}";
  const NetworkDescription description = llvm::cantFail(parse_network(json));
  return llvm::cantFail(build_program(
      description, DType::F16, [](const std::string&, i32) { return 3; }, {}, covers_chains));
}

/// A block that ends with the convolution.
std::string bare(const std::string& name, const std::string& more = "") {
  return R"({"op": "block", "name": ")" + name +
         R"(", "out_channels": 4, "kernel_size": 3, "norm": "none", "activation": "none")" + more + "}";
}
std::string norm(const std::string& name, const std::string& more = "") {
  return R"(, {"op": "batch_norm", "name": ")" + name + "\"" + more + "}";
}
const char* const kRelu = R"(, {"op": "relu"})";

/// "a: affine "n" + relu", with "(second: silu)" for a second output, and "a chain" for those that are left.
std::vector<std::string> lines_of(const Program& program) {
  std::vector<std::string> lines;
  for (const ProgramLayer& layer : program.layers) {
    std::string line = layer.name;
    if (!layer.covered_steps.empty()) line += ": " + layer.covered_steps;
    const ConvolutionProblem* const problem = convolution_of(layer);
    if (problem != nullptr && problem->second_output) {
      line +=
          std::string(" (second: ") + kActivationNames[static_cast<int>(problem->second_activation)] + ")";
    }
    if (layer.may_join_last) line += " joins";
    lines.push_back(line);
  }
  return lines;
}
std::vector<std::string> lines(const std::string& layers, const std::string& fields = "") {
  return lines_of(build(layers, true, fields));
}

TEST(CoverChains, WithoutItChainsAreOpsOfTheirOwn) {
  EXPECT_THAT(lines_of(build(bare("a") + norm("n") + kRelu, false)), ElementsAre("a", "affine+relu 1"));
}

TEST(CoverChains, AConvolutionTakesNormAddAndActivation) {
  const Program program = build(bare("a", R"(, "output": "x")") + ", " + bare("b") +
                                norm("n", R"(, "epsilon": 0.25, "affine": false)") +
                                R"(, {"op": "add", "with": "x"}, {"op": "leaky_relu", "slope": 0.5})");
  EXPECT_THAT(lines_of(program), ElementsAre("a", "b: affine \"n\" + add + leaky_relu"));
  const ProgramLayer& layer = program.layers[1];
  const ConvolutionProblem& problem = *convolution_of(layer);
  EXPECT_EQ(layer.batch_norm, "n");
  EXPECT_EQ(layer.batch_norm_epsilon, 0.25);
  EXPECT_FALSE(layer.is_affine);
  EXPECT_EQ(layer.residual, program.layers[0].output);
  EXPECT_EQ(layer.output, program.outputs[0]);
  EXPECT_TRUE(problem.scale_shift);
  EXPECT_TRUE(problem.residual);
  EXPECT_EQ(problem.activation, Activation::LeakyReLU);
  EXPECT_EQ(problem.slope, 0.5f);
  EXPECT_EQ(problem.residual_input.ld, 4);
  EXPECT_EQ(problem.output.ld, 4);
}

TEST(CoverChains, AnyActivationIsTaken) {
  for (const char* const op : {"relu", "gelu", "silu", "sigmoid", "tanh"}) {
    EXPECT_THAT(lines(bare("a") + R"(, {"op": ")" + op + "\"}"), ElementsAre(std::string("a: ") + op));
  }
  EXPECT_THAT(lines(bare("a") + R"(, {"op": "gelu", "approximate": "tanh"})"), ElementsAre("a: gelu_tanh"));
  // A slope of 0 makes a ReLU.
  const Program program = build(bare("a") + R"(, {"op": "leaky_relu", "slope": 0})");
  EXPECT_EQ(convolution_of(program.layers[0])->activation, Activation::ReLU);
}

TEST(CoverChains, AScaleAndShiftKeepsItsNames) {
  const Program program = build(bare("a", R"(, "bias": true)") + R"(, {"op": "scale_shift", "name": "s"})");
  EXPECT_THAT(lines_of(program), ElementsAre("a: affine \"s.weight\""));
  std::vector<std::string> names;
  for (const ParameterName& name : parameter_names(program.layers[0])) names.push_back(name.name);
  EXPECT_THAT(names, ElementsAre("a.conv.weight", "a.conv.bias", "s.weight", "s.bias"));
}

TEST(CoverChains, OnlyWhatFitsBehindTheEpilogueIsTaken) {
  const std::string x = bare("x", R"(, "output": "x")") + ", ";
  EXPECT_THAT(lines(bare("a") + kRelu + R"(, {"op": "softmax"})"), ElementsAre("a: relu", "softmax 1"));
  EXPECT_THAT(lines(bare("a") + R"(, {"op": "softmax"})"), ElementsAre("a", "softmax 1"));
  EXPECT_THAT(lines(bare("a") + kRelu + kRelu), ElementsAre("a: relu", "relu 1"));
  EXPECT_THAT(lines(bare("a") + kRelu + R"(, {"op": "argmax"})"), ElementsAre("a: relu", "argmax 1"));
  EXPECT_THAT(lines(bare("a") + norm("n") + norm("m") + kRelu),
              ElementsAre("a: affine \"n\" (second: relu)", "affine+relu 1 joins"));
  EXPECT_THAT(lines(x + bare("a") + R"(, {"op": "multiply", "with": "x"})"),
              ElementsAre("x", "a", "multiply 2"));
  // The epilogue would scale before it adds.
  EXPECT_THAT(lines(x + bare("a") + R"(, {"op": "add", "with": "x"})" + norm("n")),
              ElementsAre("x", "a: add (second: none)", "affine 2 joins"));
  // The convolution has these already.
  const std::string normed = R"({"op": "block", "name": "a", "out_channels": 4, "activation": "none"})";
  EXPECT_THAT(lines(normed + norm("n") + kRelu), ElementsAre("a (second: relu)", "affine+relu 1 joins"));
  EXPECT_THAT(lines(normed + kRelu), ElementsAre("a: relu"));
  const std::string activated = R"({"op": "block", "name": "a", "out_channels": 4, "norm": "none"})";
  EXPECT_THAT(lines(activated + kRelu), ElementsAre("a", "relu 1"));
  EXPECT_THAT(lines(x + activated + R"(, {"op": "add", "with": "x"})"), ElementsAre("x", "a", "add 2"));
  const std::string residual = R"({"op": "residual", "name": "r", "out_channels": 4, "activation": "none"})";
  EXPECT_THAT(lines(x + residual + R"(, {"op": "add", "with": "x"})" + kRelu),
              ElementsAre("x", "r.conv1", "r.conv2", "add+relu 3"));
  EXPECT_THAT(lines(x + residual + kRelu), ElementsAre("x", "r.conv1", "r.conv2: relu"));
}

TEST(CoverChains, NothingElseMayReadWhatIsTaken) {
  const std::string named = bare("a", R"(, "output": "a")");
  EXPECT_THAT(lines(named + kRelu, R"("outputs": ["a"], )"), ElementsAre("a", "relu 1"));
  EXPECT_THAT(lines(named + kRelu + R"(, {"op": "add", "with": "a"})"), ElementsAre("a", "relu+add 1"));
  EXPECT_THAT(lines(named + kRelu + R"(, {"op": "block", "name": "b", "input": "a", "out_channels": 4})"),
              ElementsAre("a", "relu 1", "b"));
  EXPECT_THAT(lines(named + R"(, {"op": "relu", "output": "r"}, {"op": "concat", "with": "a"})" + kRelu),
              ElementsAre("a", "relu 1", "relu 2"));
  // A name alone is no reader.
  EXPECT_THAT(lines(named + kRelu), ElementsAre("a: relu"));
  // Pools have no epilogue.
  EXPECT_THAT(lines(R"({"op": "max_pool", "name": "p", "kernel_size": 2, "stride": 2})" + std::string(kRelu)),
              ElementsAre("p", "relu 1"));
  EXPECT_THAT(lines(R"({"op": "relu"})"), ElementsAre("relu 0"));
}

TEST(CoverChains, AConvolutionMovesBehindItsResidual) {
  const Program program =
      build(bare("a", R"(, "output": "a")") + ", " + bare("b", R"(, "input": "input", "output": "b")") +
            R"(, {"op": "add", "input": "a", "with": "b"})" + kRelu);
  EXPECT_THAT(lines_of(program), ElementsAre("b", "a: add + relu"));
  EXPECT_EQ(program.layers[1].residual, program.layers[0].output);
}

TEST(CoverChains, AConvolutionWritesASecondOutput) {
  const std::string text = bare("a", R"(, "output": "a")") + ", " + bare("b", R"(, "output": "b")") +
                           norm("n", R"(, "input": "a")") + R"(, {"op": "silu"}, )" + bare("c") +
                           R"(, {"op": "add", "with": "a"})";
  const Program program = build(text);
  EXPECT_THAT(lines_of(program), ElementsAre("a (second: silu)", "affine+silu 2 joins", "b", "c: add"));
  const ConvolutionProblem& problem = *convolution_of(program.layers[0]);
  const i32 second = program.layers[1].output;
  EXPECT_EQ(problem.covered_output.ld, 4);
  EXPECT_EQ(problem.activation, Activation::None);
  EXPECT_EQ(program.layers[2].input, program.layers[0].output);
  EXPECT_EQ(program.layers[3].input, second);
  // Both outputs exist at the same time.
  EXPECT_EQ(program.storages[program.tensors[second].storage].first, 0);
  for (const ProgramLayer& layer : program.layers) {
    EXPECT_EQ(llvm::toString(validate(layer.problem)), "");
  }
}

TEST(CoverChains, ASecondOutputIsAColumnRange) {
  const Program program = build(bare("a", R"(, "output": "a")") + norm("n", R"(, "output": "n")") +
                                R"(, {"op": "concat", "with": "a"}, )" + bare("b"));
  EXPECT_THAT(lines_of(program), ElementsAre("a (second: none)", "affine 1 joins", "b"));
  const ConvolutionProblem& problem = *convolution_of(program.layers[0]);
  EXPECT_EQ(problem.output.ld, 8);
  EXPECT_EQ(problem.covered_output.ld, 8);
  EXPECT_EQ(problem.output.column + problem.covered_output.column, 4);
}

TEST(CoverChains, ThereIsOneSecondOutputAtMost) {
  const std::string a = bare("a", R"(, "output": "a")");
  EXPECT_THAT(lines(a + norm("n", R"(, "output": "n")") + norm("m", R"(, "input": "a")") +
                    R"(, {"op": "add", "with": "n"})"),
              ElementsAre("a (second: none)", "affine 1 joins", "affine+add 2"));
  EXPECT_THAT(lines(a + norm("n", R"(, "output": "n")") + norm("m", R"(, "input": "a", "output": "m")") +
                    R"(, {"op": "add", "with": "n"})"),
              ElementsAre("a (second: none)", "affine 1 joins", "affine 2", "add 3"));
  // A concatenation is not the result of one convolution.
  EXPECT_THAT(lines(a + ", " + bare("b") + R"(, {"op": "concat", "with": "a"})" + norm("n") + kRelu),
              ElementsAre("a", "b", "affine+relu 2"));
}

/// On every architecture and for any number of rows, so that a chain needs no kernel of its own.
TEST(CoverChains, ReasonsTellWhatIsCovered) {
  const Program program =
      build(bare("a", R"(, "output": "a")") + norm("n") + kRelu + R"(, )" + bare("b") + norm("m") +
            R"(, {"op": "silu"}, )" + bare("c") + R"(, {"op": "add", "with": "a"})");
  for (const char* const arch : {"", "sm_80", "sm_90a"}) {
    const auto compiled = llvm::cantFail(CompiledPlan::create(program, arch, nullptr));
    ASSERT_EQ(compiled->candidates.size(), 4u);
    EXPECT_THAT(compiled->candidates[1], testing::IsEmpty()) << arch;
    for (const Candidate& candidate : compiled->candidates[0]) {
      EXPECT_EQ(candidate.covers, 1);
      EXPECT_THAT(candidate.reasons, testing::Contains(kSecondOutputReason)) << arch;
    }
    for (const Candidate& candidate : compiled->candidates[2]) {
      EXPECT_EQ(candidate.covers, 0);
      EXPECT_THAT(candidate.reasons,
                  testing::Contains("the epilogue computes steps of the chain behind the convolution: "
                                    "affine \"m\" + silu"))
          << arch;
    }
  }
}

/// Every tensor is made before it is read, and no parameter is lost.
void expect_sound(const Program& covered, const Program& plain) {
  std::set<i32> made(covered.inputs.begin(), covered.inputs.end());
  const auto is_made = [&](i32 tensor) {
    const TensorSpec& wanted = covered.tensors[tensor];
    i32 columns = 0;
    for (const i32 other : made) {
      const TensorSpec& given = covered.tensors[other];
      if (given.storage == wanted.storage && given.column >= wanted.column &&
          given.column + given.channels <= wanted.column + wanted.channels)
        columns += given.channels;
    }
    return columns >= wanted.channels;
  };
  std::set<std::string> names, wanted_names;
  for (const ProgramLayer& layer : covered.layers) {
    EXPECT_TRUE(is_made(layer.input)) << layer.name;
    EXPECT_TRUE(layer.residual < 0 || is_made(layer.residual)) << layer.name;
    for (const i32 operand : layer.operands) EXPECT_TRUE(is_made(operand)) << layer.name;
    made.insert(layer.output);
    for (const ParameterName& name : parameter_names(layer)) {
      EXPECT_TRUE(names.insert(name.name).second) << name.name;
    }
    EXPECT_EQ(llvm::toString(validate(layer.problem)), "") << layer.name;
  }
  for (const ProgramLayer& layer : plain.layers) {
    for (const ParameterName& name : parameter_names(layer)) wanted_names.insert(name.name);
  }
  EXPECT_EQ(names, wanted_names);
}

/// Chains behind one convolution each, with readers beside them and concatenations.
TEST(CoverChains, RandomProgramsStaySound) {
  std::mt19937 random(7);
  const auto below = [&](std::size_t count) { return std::size_t{random()} % count; };
  for (int trial = 0; trial < 300; ++trial) {
    std::string text = bare("l0", R"(, "output": "r0")");
    std::vector<std::size_t> channels{4};
    const std::size_t count = 3 + below(14);
    for (std::size_t i = 1; i < count; ++i) {
      const std::string name = "l" + std::to_string(i), own = "r" + std::to_string(i);
      const std::size_t from = below(3) == 0 ? below(i) : i - 1;
      const std::string ends = R"(, "input": "r)" + std::to_string(from) + R"(", "output": ")" + own + "\"}";
      std::size_t partner = below(i);
      std::size_t out = channels[from];
      switch (below(7)) {
        case 0:
        case 1:
          text += ", " + bare(name, ends.substr(0, ends.size() - 1));
          out = 4;
          break;
        case 2:
          text += R"(, {"op": "batch_norm", "name": ")" + name + "\"" + ends;
          break;
        case 3:
          text += R"(, {"op": "scale_shift", "name": ")" + name + "\"" + ends;
          break;
        case 4:
          if (channels[partner] == out) {
            text += R"(, {"op": "add", "with": "r)" + std::to_string(partner) + "\"" + ends;
            break;
          }
          [[fallthrough]];
        default:
          text += R"(, {"op": "tanh")" + ends;
      }
      channels.push_back(out);
    }
    SCOPED_TRACE(text);
    expect_sound(build(text), build(text, false));
    if (testing::Test::HasFailure()) return;
  }
}

/// In the shipped network of pre-activation blocks, only the chains that read a concatenation are left.
TEST(CoverChains, SoftGroup) {
  const NetworkDescription description = llvm::cantFail(parse_network(*shipped_network("softgroup_unet")));
  const auto program_of = [&](bool covers_chains) {
    return llvm::cantFail(build_program(
        description, DType::F16, [](const std::string&, i32) { return 0; }, {}, covers_chains));
  };
  const Program covered = program_of(true), plain = program_of(false);
  expect_sound(covered, plain);
  int second_outputs = 0, left = 0;
  for (const ProgramLayer& layer : covered.layers) {
    if (layer.problem.get_if<PointwiseProblem>() == nullptr) continue;
    if (layer.may_join_last) {
      ++second_outputs;
    } else {
      ++left;
      EXPECT_THAT(layer.affines.front().batch_norm, testing::EndsWith("tail.block0.conv_branch.0"));
    }
  }
  EXPECT_EQ(second_outputs, 33);
  EXPECT_EQ(left, 6);
}

}  // namespace
}  // namespace minuet::cover_chains_test
