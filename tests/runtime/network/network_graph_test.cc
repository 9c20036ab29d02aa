// Descriptions that are graphs: names of inputs and results, levels by the reached rule and ways back from
// them, the places of errors, and that what is printed is what was read.
#include <gmock/gmock.h>

#include <random>

#include "codegen/choose/ops/pointwise.h"
#include "runtime/network/network_program.h"
#include "runtime/network/shipped_network.h"
#include "runtime/program/ops/convolution.h"

namespace minuet::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

llvm::Expected<Program> program_of(const std::string& json) {
  MINUET_ASSIGN(const NetworkDescription description, parse_network(json));
  return build_program(description, DType::F16, [](const std::string&, i32) { return 0; });
}

Program built(const std::string& json) {
  llvm::Expected<Program> program = program_of(json);
  if (program) return std::move(*program);
  ADD_FAILURE() << json << ": " << llvm::toString(program.takeError());
  return {};
}

std::string error_of(const std::string& json) {
  llvm::Expected<Program> program = program_of(json);
  return program ? "" : take_status(program.takeError()).message();
}

/// A network of three axes with `fields` in front of its layers.
std::string network(const std::string& layers, const std::string& fields = R"("in_channels": 4)") {
  return R"({"name": "n", "ndim": 3, )" + fields + R"(, "layers": [)" + layers + "]}";
}

std::string block(const std::string& name, const std::string& more = "") {
  return R"({"op": "block", "name": ")" + name + R"(", "out_channels": 8, "kernel_size": 3)" +
         (more.empty() ? "" : ", ") + more + "}";
}

/// The layers of the program that `layers` are, and the levels that they lead to.
std::string flow(const Program& program) {
  std::string text;
  for (const ProgramLayer& layer : program.layers) {
    text += layer.name + " " + std::to_string(program.tensors[layer.input].level) + ">" +
            std::to_string(program.tensors[layer.output].level) + " ";
  }
  return text;
}

TEST(NetworkGraph, LayersReadWhatTheyName) {
  const Program program = built(network(
      block("a", R"("output": "x")") + "," + block("b", R"("stride": 2, "output": "y")") + "," +
          block("c", R"("input": "x", "stride": 2)") + "," + block("d", R"("input": "input")") + "," +
          R"({"op": "concat", "with": "x", "output": "z"}, {"op": "max_pool", "name": "e", "stride": 2})",
      R"("in_channels": 4, "outputs": ["z", "y"])"));
  EXPECT_EQ(flow(program), "a 0>0 b 0>1 c 0>1 d 0>0 e 0>1 ");
  EXPECT_EQ(program.layers[2].input, program.layers[0].output);
  EXPECT_EQ(program.layers[3].input, program.inputs[0]);
  EXPECT_THAT(program.output_names, ElementsAre("z", "y"));
  EXPECT_THAT(program.input_names, ElementsAre("input"));
  EXPECT_EQ(program.tensors[program.outputs[0]].channels, 16);
  EXPECT_EQ(program.outputs[1], program.layers[1].output);
  EXPECT_EQ(program.output_level(1), 1);
}

TEST(NetworkGraph, TheOnlyOutputHasNoNameOfItsOwn) {
  const Program program = built(network(block("a", R"("save": "x")")));
  EXPECT_THAT(program.output_names, ElementsAre("output"));
  // Old chains may have a result of this name, which hides the input.
  const Program hidden =
      built(network(block("a", R"("save": "input")") + "," + block("b", R"("input": "input")")));
  EXPECT_EQ(hidden.layers[1].input, hidden.layers[0].output);
}

TEST(NetworkGraph, InputsLieOnLevelsOfResultsAndInputs) {
  const Program program = built(
      network(block("a", R"("input": "p", "stride": 2, "output": "x")") + "," +
                  block("b", R"("input": "far", "output": "y")") + "," + block("c", R"("input": "near")") +
                  "," + block("d", R"("input": "other")"),
              R"("inputs": [{"name": "p", "channels": 4}, {"name": "far", "channels": 5, "level": "other"},
          {"name": "near", "channels": 7, "level": "p"}, {"name": "other", "channels": 6, "level": "x"}],
          "outputs": ["y", "x"])"));
  EXPECT_EQ(flow(program), "a 0>1 b 1>1 c 0>0 d 1>1 ");
  EXPECT_THAT(program.input_names, ElementsAre("p", "far", "near", "other"));
  std::vector<i32> levels, channels;
  for (const i32 input : program.inputs) {
    levels.push_back(program.tensors[input].level);
    channels.push_back(program.tensors[input].channels);
  }
  EXPECT_THAT(levels, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(channels, ElementsAre(4, 5, 7, 6));
  EXPECT_THAT(
      error_of(network(block("a", R"("input": "q")") + "," + block("b", R"("input": "p", "output": "x")"),
                       R"("inputs": [{"name": "p", "channels": 4},
                                             {"name": "q", "channels": 5, "level": "x"}])")),
      StartsWith("network description: layers[0].input: "))
      << "its level does not exist yet";
}

TEST(NetworkGraph, LevelsByTheReachedRule) {
  const std::string fields = R"("in_channels": 4, "shape": [1408, 1600, 41])";
  const Program program = built(network(
      block("a") + "," + block("b", R"("rule": "reached", "stride": 2, "padding": 1, "output": "x")") + "," +
          block("c", R"("rule": "reached", "padding": [1, 1, 0], "stride": [2, 2, 2])") + "," +
          R"({"op": "max_pool", "name": "d", "input": "x", "rule": "reached", "padding": [1, 1, 0], "stride": 2,
              "kernel_size": 3},)" +
          block("e", R"("input": "x", "rule": "reached")") + "," + block("f", R"("input": "x", "stride": 2)"),
      fields));
  EXPECT_EQ(flow(program), "a 0>0 b 0>1 c 1>2 d 1>2 e 1>3 f 1>4 ");
  const std::vector<LevelSpec>& levels = program.levels;
  EXPECT_EQ(levels[0].shape, (AxisArray{1408, 1600, 41, 0}));
  EXPECT_EQ(levels[1].shape, (AxisArray{704, 800, 21, 0}));
  EXPECT_EQ(levels[2].shape, (AxisArray{352, 400, 10, 0}));
  EXPECT_EQ(levels[3].shape, (AxisArray{702, 798, 19, 0}));
  EXPECT_EQ(levels[4].shape, (AxisArray{352, 400, 11, 0}));
  EXPECT_EQ(levels[3].tensor_stride, (AxisArray{2, 2, 2, 1}));
  EXPECT_EQ(levels[2].reach, (ReachSpec{{3, 3, 3, 1}, {1, 1, 1, 1}, {1, 1, 0, 0}}));
  EXPECT_EQ(levels[3].reach, (ReachSpec{{3, 3, 3, 1}, {1, 1, 1, 1}, {}}));
  EXPECT_FALSE(levels[4].reach.has_value());
  const ProgramLayer& strided = program.layers[1];
  EXPECT_EQ(strided.window()->kind, ConvolutionKind::Strided);
  EXPECT_EQ(strided.window()->padding, (AxisArray{1, 1, 1, 0}));
  EXPECT_EQ(program.maps[strided.map].padding, (AxisArray{1, 1, 1, 0}));
  EXPECT_EQ(program.layers[2].map, program.layers[3].map);
  EXPECT_EQ(program.layers[4].window()->kind, ConvolutionKind::Strided);
  EXPECT_FALSE(program.maps[program.layers[0].map].padding.has_value());
  EXPECT_FALSE(program.maps[program.layers[5].map].padding.has_value());
}

TEST(NetworkGraph, ShapesAreOptional) {
  const Program program = built(network(block("a", R"("rule": "reached", "stride": 2)")));
  EXPECT_EQ(program.levels[1].shape, AxisArray{});
}

TEST(NetworkGraph, AnInverseLeadsBack) {
  const Program program =
      built(network(block("a", R"("rule": "reached", "stride": [1, 2, 2], "padding": 1)") + "," +
                    block("b", R"("stride": 2)") +
                    R"(, {"op": "inverse", "name": "c", "of": "b", "out_channels": 6},
          {"op": "inverse", "name": "d", "of": "a", "out_channels": 4, "norm": "none", "bias": true})"));
  EXPECT_EQ(flow(program), "a 0>1 b 1>2 c 2>1 d 1>0 ");
  for (const auto& [back, there] : {std::pair(2, 1), std::pair(3, 0)}) {
    EXPECT_EQ(program.layers[back].map, program.layers[there].map);
    EXPECT_TRUE(program.layers[back].is_transposed());
    EXPECT_EQ(program.layers[back].window()->stride, program.layers[there].window()->stride);
    EXPECT_EQ(program.layers[back].window()->padding, program.layers[there].window()->padding);
  }
  EXPECT_EQ(program.layers[2].weight, "c.conv.weight");
  EXPECT_EQ(program.layers[3].bias, "d.conv.bias");
  EXPECT_EQ(program.layers[3].batch_norm, "");
}

TEST(NetworkGraph, AStorageLivesUntilItsLastReaderAndOutputsUntilTheEnd) {
  const Program program =
      built(network(block("a", R"("output": "x")") + "," + block("b", R"("output": "y")") + "," + block("c") +
                        "," + block("d", R"("input": "x", "output": "z")") + "," + block("e"),
                    R"("in_channels": 4, "outputs": ["y", "z"])"));
  const auto life = [&](i32 layer) {
    const StorageSpec& storage = program.storages[program.tensors[program.layers[layer].output].storage];
    return std::pair(storage.first, storage.last);
  };
  EXPECT_EQ(life(0), std::pair(0, 3)) << "b and d read it";
  EXPECT_EQ(life(1), std::pair(1, 5)) << "it is an output";
  EXPECT_EQ(life(2), std::pair(2, 2)) << "nothing reads it";
  EXPECT_EQ(life(3), std::pair(3, 5));
}

struct Mistake {
  std::string layers, fields;
  const char *place, *words;
};

TEST(NetworkGraph, ErrorsHaveTheirPlace) {
  const std::string in = R"("in_channels": 4)", a = block("a", R"("output": "x")") + ",";
  const std::string b = a + block("b", R"("stride": 2, "output": "y")") + ",";
  const Mistake mistakes[] = {
      {block("a"), R"("in_channels": 0)", "in_channels", "from 1 to 65536"},
      {block("a"), R"("name2": 0)", "name2", "not a field of a network"},
      {block("a"), R"("in_channels": 4, "inputs": [{"name": "p", "channels": 4}])", "in_channels",
       "both given"},
      {block("a"), R"("inputs": [])", "inputs", "at least one input"},
      {block("a"), R"("inputs": [3])", "inputs[0]", "must be an object"},
      {block("a"), R"("inputs": [{"name": "p"}])", "inputs[0].channels", "missing"},
      {block("a"), R"("inputs": [{"name": "p", "channels": 4, "level": "q"}])", "inputs[0].level", "leave"},
      {block("a"), R"("inputs": [{"name": "p", "channels": 4}, {"name": "q", "channels": 4}])",
       "inputs[1].level", "missing"},
      {block("a"), R"("inputs": [{"name": "p", "channels": 4}, {"name": "p", "channels": 4, "level": "p"}])",
       "inputs[1].name", "rename one"},
      {block("a"), R"("inputs": [{"name": "p", "channels": 4}, {"name": "q", "channels": 4, "level": "z"}])",
       "inputs[1].level", "called \"z\""},
      {block("a"), R"("inputs": [{"name": "p", "channels": 4}, {"name": "q", "channels": 4, "level": "p"}])",
       "inputs[1]", "no layer reads the input \"q\""},
      {block("a", R"("output": "p")"), R"("inputs": [{"name": "p", "channels": 4}])", "layers[0].output",
       "name of an input"},
      {block("a"), R"("in_channels": 4, "outputs": [])", "outputs", "at least one name"},
      {block("a"), R"("in_channels": 4, "outputs": ["z"])", "outputs[0]", "no layer has the output \"z\""},
      {block("a", R"("output": "z")"), R"("in_channels": 4, "outputs": ["z", "z"])", "outputs[1]", "twice"},
      {block("a"), R"("in_channels": 4, "outputs": ["input"])", "outputs[0]", "is an input of the network"},
      {block("a"), R"("in_channels": 4, "shape": [1, 2])", "shape", "one number per axis"},
      {block("a"), R"("in_channels": 4, "shape": [1, 0, 2])", "shape[1]", "from 1 to 16777216"},
      {block("a"), R"("in_channels": 4, "channels": [4, 0])", "channels[1]", "from 1 to 65536"},
      {block("a"), R"("in_channels": 4, "batch_norm_epsilon": 2)", "batch_norm_epsilon", "below 1"},
      {block("a"), R"("in_channels": 4, "weights_order": "x")", "weights_order", ""},
      {"3", in, "layers[0]", "must be an object"},
      {R"({"op": "blok"})", in, "layers[0].op", "is unknown"},
      {block("a", R"("width": 0)"), in, "layers[0].out_channels", "both given"},
      {R"({"op": "block", "name": "a"})", in, "layers[0].width", "\"out_channels\" gives the number itself"},
      {a + block("b", R"("output": "x")"), in, "layers[1].output", "rename one"},
      {a + block("b", R"("output": "x", "save": "y")"), in, "layers[1].output", "leave \"save\" out"},
      {a + block("b", R"("input": "z")"), in, "layers[1].input",
       "no earlier layer saves its output as \"z\""},
      {block("a\\u0000b"), in, "layers[0].name", "U+0000"},
      {block("a") + R"(, {"op": "to_dense", "output": "d"}, )" + block("b", R"("input": "q")"),
       R"("inputs": [{"name": "p", "channels": 4}, {"name": "q", "channels": 4, "level": "d"}],
          "shape": [8, 8, 8])",
       "layers[2].input", "the input \"q\" is on the level of \"d\""},
      {R"({"op": "concat", "with": "q"})",
       R"("inputs": [{"name": "p", "channels": 4}, {"name": "q", "channels": 4, "level": "p"}])", "layers",
       "only a concat"},
      {a + R"({"op": "block", "name": "b", "out_channels": 8, "kernel_size": [3, 3, 0]})", in,
       "layers[1].kernel_size[2]", "block b"},
      {a + block("b", R"("rule": "dense")"), in, "layers[1].rule", "\"cells\" or \"reached\""},
      {a + block("b", R"("padding": 1)"), in, "layers[1].padding", "belongs to the rule \"reached\""},
      {a + block("b", R"("rule": "reached", "padding": -1)"), in, "layers[1].padding", "from 0 to"},
      {a + R"({"op": "residual", "name": "b", "out_channels": 8, "rule": "reached", "stride": 2})", in,
       "layers[1].rule", "with stride 1 it keeps its input's coordinates"},
      {a + R"({"op": "residual", "name": "b", "out_channels": 8, "conv1": {"bias": 3}})", in,
       "layers[1].conv1.bias", "residual b: \"conv1\": \"bias\" must be"},
      {block("a", R"("rule": "reached", "dilation": 8)"), R"("in_channels": 4, "shape": [40, 40, 16])",
       "layers[0].kernel_size", "axis 2: an input of 16 cells leaves 0 cells"},
      {b + R"({"op": "concat", "with": "x"})", in, "layers[2].with", "same coordinate set"},
      {b + R"({"op": "up", "name": "c", "out_channels": 4, "onto": "y", "stride": 2})", in, "layers[2].onto",
       "use the op block"},
      {b + R"({"op": "up", "name": "c", "out_channels": 4, "onto": "x", "stride": 3})", in,
       "layers[2].stride", "tensor stride 2 divided by stride 3"},
      {b + R"({"op": "inverse", "name": "c", "out_channels": 4, "of": "z"})", in, "layers[2].of",
       "no earlier layer is called \"z\""},
      {b + R"({"op": "inverse", "name": "c", "out_channels": 4, "of": "a"})", in, "layers[2].of",
       "no way back"},
      {b + R"({"op": "inverse", "name": "c", "input": "x", "out_channels": 4, "of": "b"})", in,
       "layers[2].of", "coordinates of the result of \"b\""},
      {a + R"({"op": "residual", "name": "b", "out_channels": 8, "stride": 2},
              {"op": "inverse", "name": "c", "out_channels": 4, "of": "b"})",
       in, "layers[2].of", "neither a block nor a pooling"},
      {b + R"({"op": "unpool", "name": "c", "of": "a"})", in, "layers[2].of", "no way back"},
      {b + R"({"op": "unpool", "name": "c", "of": "b", "reduction": "mean"})", in, "layers[2].reduction",
       "use \"average\", \"max\" or \"sum\""},
      {b + R"({"op": "upsample", "name": "c", "input": "x", "onto": "y"})", in, "layers[2].onto",
       "is 1, which is no multiple of 2"},
      {b + R"({"op": "union", "name": "c"})", in, "layers[2].with", ""},
      {b + R"({"op": "union", "name": "c", "with": "x", "combine": "multiply"})", in, "layers[2].combine",
       "must be \"add\" or \"concat\""},
      {b + R"({"op": "union", "with": "x"})", in, "layers[2].name", ""},
      {b + R"({"op": "union", "name": "c", "with": "z"})", in, "layers[2].with", "saves its output as \"z\""},
      {a + R"({"op": "block", "name": "c", "out_channels": 9, "stride": 2}, {"op": "union", "name": "d",
              "with": "x"})",
       in, "layers[2].with", "\"x\" has 8 channels, but the layer's input has 9"},
      {a + R"({"op": "to_dense", "output": "d"}, {"op": "union", "name": "e", "input": "x", "with": "d"})",
       R"("in_channels": 4, "shape": 8)", "layers[2].with", "is a dense tensor"},
      {a + R"({"op": "to_dense"}, {"op": "union", "name": "e", "with": "x"})",
       R"("in_channels": 4, "shape": 8)", "layers[2].input", "reads a dense tensor"},
      {a + R"({"op": "argmax", "output": "m"}, {"op": "union", "name": "e", "input": "x", "with": "m"})", in,
       "layers[2].with", "argmax"},
      {R"({"op": "max_pool", "name": "a", "stride": 2048},
          {"op": "max_pool", "name": "b", "stride": 2048, "rule": "reached", "padding": 65536},
          {"op": "union", "name": "c", "with": "input"})",
       R"("in_channels": 4, "shape": 16777216)", "layers[2].with",
       "axis 0: the union of both levels would have a shape of 281018369 cells; it must be at most 16777216"},
      {b + R"({"op": "linear", "name": "c"})", in, "layers[2].width", "\"out_channels\" gives"},
      {b + R"({"op": "linear", "name": "c", "out_channels": 4, "norm": "none"})", in, "layers[2].norm", ""},
      {b + block("a"), in, "layers[2].name", "two layers are called \"a\""},
      {a + R"({"op": "union", "name": "c", "with": "x"}, {"op": "union", "name": "c", "with": "x"})", in,
       "layers[2].name", "two layers are called \"c\""},
      {b + R"({"op": "union", "name": "c", "with": "x"}, {"op": "union", "name": "c", "with": "x"})", in,
       "layers[3].name", "two layers are called \"c\""},
      {b + block("c", R"("stride": [65536, 1, 1]}, {"op": "max_pool", "name": "d", "stride": 65536)"), in,
       "layers[3].stride", "at most 2^24"},
  };
  for (const Mistake& mistake : mistakes) {
    std::string text = error_of(network(mistake.layers, mistake.fields));
    const std::string phrase = "network description: ";
    if (text.compare(0, phrase.size(), phrase) == 0) text = text.substr(phrase.size());
    EXPECT_THAT(text, StartsWith(std::string(mistake.place) + ": ")) << mistake.layers << mistake.fields;
    EXPECT_THAT(text, HasSubstr(mistake.words));
  }
}

/// All that a program has, as text.
std::string text_of(const Program& program) {
  std::string text;
  const auto add = [&](const auto& value) { text += std::to_string(value) + " "; };
  const auto add_axes = [&](const AxisArray& axes) { llvm::for_each(axes, add); };
  for (const LevelSpec& level : program.levels) {
    add_axes(level.tensor_stride), add(level.parent), add(level.other_parent), add_axes(level.shape);
    add(level.dropped_axes), add(level.holds_items), add(level.keeps_coordinates);
    if (level.reach)
      add_axes(level.reach->kernel_size), add_axes(level.reach->dilation), add_axes(level.reach->padding);
    text += "\n";
  }
  for (const MapSpec& map : program.maps) {
    add(map.fine), add(map.coarse), add_axes(map.kernel_size), add_axes(map.dilation);
    if (map.padding) add_axes(*map.padding);
    llvm::for_each(map.offsets, add_axes);
    text += "\n";
  }
  for (const TensorSpec& tensor : program.tensors)
    add(tensor.level), add(tensor.channels), add(tensor.storage), add(tensor.column);
  for (const i32 number : program.stack) {
    add(number), add(program.storages[number].first), add(program.storages[number].last);
    for (const i32 below : program.storages[number].below) add(below);
  }
  for (const ProgramLayer& layer : program.layers) {
    text += "\n" + layer.name + " " + layer.weight + " " + layer.batch_norm + " " + layer.bias + " ";
    add(layer.batch_norm_epsilon), add(layer.is_affine), add(layer.map), add(layer.input), add(layer.output);
    add(layer.residual), add(layer.may_join_last);
    text += layer.scale + " " + layer.shift + " " + layer.covered_steps + " ";
    for (const i32 operand : layer.operands) add(operand);
    if (const auto* const chain = layer.problem.get_if<PointwiseProblem>()) {
      for (const PointwiseStep& step : chain->steps) add(static_cast<int>(step.kind)), add(step.number);
    }
    for (const AffineNames& affine : layer.affines) {
      text += affine.scale + " " + affine.shift + " " + affine.batch_norm + " ";
      add(affine.epsilon), add(affine.is_affine);
    }
    if (const ConvolutionProblem* const convolution = convolution_of(layer)) {
      add(convolution->in_channels), add(convolution->out_channels), add(convolution->scale_shift);
      add(static_cast<int>(convolution->activation)), add(convolution->slope), add(convolution->residual);
      add(convolution->second_output), add(static_cast<int>(convolution->second_activation));
      add(convolution->second_slope);
    }
    if (const WindowProblem* const window = layer.window()) {
      add_axes(window->kernel_size), add_axes(window->stride), add_axes(window->dilation);
      add(static_cast<int>(window->kind)), llvm::for_each(window->offsets, add_axes);
      if (window->padding) add_axes(*window->padding);
    }
  }
  for (const i32 input : program.inputs) add(input);
  for (const i32 output : program.outputs) add(output);
  for (const std::string& name : program.input_names) text += name + " ";
  for (const std::string& name : program.output_names) text += name + " ";
  return text;
}

/// Draws descriptions of which most can be built.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  std::string description() {
    const bool has_inputs = below(2) == 0;
    std::string layers, outputs;
    const int count = 1 + below(6);
    for (int i = 0; i < count; ++i) {
      layers += (i > 0 ? ",\n" : "") + layer(i);
      if (below(3) == 0) outputs += (outputs.empty() ? "\"" : ", \"") + result(i) + "\"";
    }
    std::string text = R"({"name": "drawn", "ndim": 2, "channels": [4, 6])";
    text += has_inputs ? R"(, "inputs": [{"name": "p", "channels": 3}])" : R"(, "in_channels": 3)";
    if (below(3) == 0) text += R"(, "shape": [64, 48])";
    if (below(3) == 0) text += R"(, "batch_norm_epsilon": 0.001)";
    if (!outputs.empty()) text += R"(, "outputs": [)" + outputs + "]";
    return text + ", \"layers\": [" + layers + "]}";
  }

 private:
  int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  static std::string result(int layer) { return "r" + std::to_string(layer); }
  std::string window() {
    static const char* const kKernels[] = {R"("cross", "kernel_size": [3, 2], "dilation": [1, 2])",
                                           R"("custom", "offsets": [[0, -1], [0, 0], [7, 2]], "stride": 2)"};
    if (below(3) == 0) return R"(, "kernel_shape": )" + std::string(kKernels[below(2)]);
    std::string text = R"(, "kernel_size": )" + std::to_string(1 + below(3));
    if (below(2) == 0) text += R"(, "stride": [1, )" + std::to_string(1 + below(2)) + "]";
    if (below(4) == 0) text += R"(, "dilation": 2)";
    if (below(3) == 0)
      text += std::string(R"(, "rule": "reached")") + (below(2) == 0 ? R"(, "padding": [1, 0])" : "");
    return text;
  }
  std::string fields() {
    static const char* const kFields[] = {"",
                                          R"(, "bias": true)",
                                          R"(, "norm": "none")",
                                          R"(, "activation": "leaky_relu", "slope": 0.1)",
                                          R"(, "affine": false, "epsilon": 0.01)",
                                          R"(, "activation": "none")",
                                          R"(, "precision": "int8", "output_range": 2.5)"};
    return std::string(below(2) == 0 ? R"(, "width": 1)" : R"(, "out_channels": 5)") + kFields[below(7)];
  }
  /// Two ops, of which the second may have no name.
  std::string pointwise(int i, const std::string& text, const std::string& other) {
    static const char* const kOps[] = {R"("relu")", R"("leaky_relu", "slope": 0.25)", R"("softmax")",
                                       R"("gelu", "approximate": "tanh")", R"("argmax")"};
    std::string op = kOps[below(5)];
    if (below(3) == 0) {
      static const char* const kNorms[] = {"batch_norm", "layer_norm", "scale_shift"};
      op = std::string("\"") + kNorms[below(3)] + R"(", "name": "l)" + std::to_string(i) + "\"";
    }
    if (i > 0 && below(2) == 0) op = R"("multiply", "with": ")" + other + "\"";
    return R"({"op": )" + op + ", " + text + R"(}, {"op": )" + kOps[below(5)] + "}";
  }
  std::string layer(int i) {
    std::string text = std::string(below(2) == 0 ? R"("output": ")" : R"("save": ")") + result(i) + "\"";
    const std::string other = result(below(std::max(i, 1)));
    if (i > 0 && below(3) == 0) text += R"(, "input": ")" + other + "\"";
    if (i > 0 && below(4) == 0) return R"({"op": "concat", "with": ")" + other + "\", " + text + "}";
    if (below(3) == 0) return pointwise(i, text, other);
    text += R"(, "name": "l)" + std::to_string(i) + "\"";
    switch (below(14)) {
      case 13:
        if (i == 0 || below(2) == 0) return R"({"op": "space_to_channel", "stride": [2, 1], )" + text + "}";
        return R"({"op": "channel_to_space", "onto": ")" + other + "\", " + text + "}";
      case 12:
        return R"({"op": "generative_up", "out_channels": 4, "kernel_size": 2, )" +
               std::string(below(2) == 0 ? R"("rule": "reached", "output_padding": 1, )" : "") + text + "}";
      case 11:
        return R"({"op": "global_pool", "reduction": "max", )" + text + "}";
      case 10:
        if (i > 0) return R"({"op": "union", "combine": "concat", "with": ")" + other + "\", " + text + "}";
        [[fallthrough]];
      case 9:
        return R"({"op": "collapse", "axis": 1, )" + text + "}";
      case 6:
        return R"({"op": "linear", )" + text + R"(, "out_channels": 3, "bias": false})";
      case 7:
        if (i > 0) return R"({"op": "upsample", "onto": ")" + other + "\", " + text + "}";
        [[fallthrough]];
      case 8:
        if (i > 0)
          return R"({"op": "unpool", "reduction": "sum", "of": "l)" + std::to_string(below(i)) + "\", " +
                 text + "}";
        [[fallthrough]];
      case 0:
        return R"({"op": "average_pool", )" + text + window() + "}";
      case 1:
        return R"({"op": "residual", )" + text + fields() + R"(, "stride": 2, "conv1": {"bias": true}})";
      case 2:
        return R"({"op": "bottleneck", )" + text + fields() +
               R"(, "inner_channels": 2, "conv2": {"norm": "none"}})";
      case 3:
        if (i > 0)
          return R"({"op": "inverse", "of": "l)" + std::to_string(below(i)) + "\", " + text + fields() + "}";
        [[fallthrough]];
      default:
        return R"({"op": "block", )" + text + fields() + window() + "}";
    }
  }

  std::mt19937 random_;
};

TEST(NetworkGraph, WhatIsPrintedIsWhatWasRead) {
  int built = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    const std::string text = Draw(seed).description();
    llvm::Expected<NetworkDescription> read = parse_network(text);
    if (!read) {
      llvm::consumeError(read.takeError());
      continue;
    }
    const std::string printed = print_network(*read);
    const NetworkDescription again = llvm::cantFail(parse_network(printed));
    ASSERT_EQ(print_network(again), printed) << text;
    const auto no_heads = [](const std::string&, i32) { return 0; };
    llvm::Expected<Program> first = build_program(*read, DType::F16, no_heads),
                            second = build_program(again, DType::F16, no_heads);
    if (first && second) {
      ++built;
      ASSERT_EQ(text_of(*first), text_of(*second)) << text;
      continue;
    }
    const std::string error = llvm::toString(first.takeError()),
                      again_error = llvm::toString(second.takeError());
    // Equal numbers are printed as one, so an array of too many of them is no mistake any more.
    if (error.find("numbers, but the level of the layer's input has") != std::string::npos) continue;
    ASSERT_EQ(error, again_error) << text;
  }
  EXPECT_GT(built, 500);
}

TEST(NetworkGraph, ShippedNetworksArePrintedBack) {
  for (const ShippedNetwork& network : shipped_networks()) {
    const NetworkDescription read = llvm::cantFail(parse_network(network.json));
    const NetworkDescription again = llvm::cantFail(parse_network(print_network(read)));
    const auto head = [](const std::string&, i32) { return 7; };
    EXPECT_EQ(text_of(llvm::cantFail(build_program(read, DType::F16, head))),
              text_of(llvm::cantFail(build_program(again, DType::F16, head))));
  }
  const NetworkDescription read =
      llvm::cantFail(parse_network(llvm::cantFail(shipped_network("minkunet42"))));
  EXPECT_THAT(print_network(read, {{"head", 19}}), HasSubstr("\"classes\": 19"));
}

}  // namespace
}  // namespace minuet::graph
