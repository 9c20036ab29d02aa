// Networks of several inputs and outputs: what is read by many layers, what is given and read on, what lies
// in concatenations. Bits are those of networks of one output.
#include <numeric>

#include "tests/cases/random_cases.h"
#include "tests/runtime/execution/pyramid_fixture.h"
#include "tests/runtime/execution/random_run.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

std::string described(const std::string& layers, const std::string& outputs,
                      const std::string& inputs = R"("in_channels": 4)") {
  return R"({"name": "graph", "ndim": 3, )" + inputs + R"(, "outputs": [)" + outputs + R"(], "layers": [)" +
         layers + "]}";
}

std::string block(const std::string& name, int channels, const std::string& more = "") {
  return R"({"op": "block", "name": ")" + name + R"(", "output": ")" + name + R"(", "kernel_size": 3, )" +
         R"("out_channels": )" + std::to_string(channels) + more + "}";
}

/// A small network with a level of half the resolution. Its results: a and u on level 0, b and c on level 1,
/// "left" and "right" that are concatenations with a in both, and "end".
std::string body() {
  return block("a", 8) + "," + block("b", 16, R"(, "stride": 2)") + "," + block("c", 8) + R"(,
    {"op": "up", "name": "u", "output": "u", "out_channels": 4, "kernel_size": 3, "stride": 2, "onto": "a"},
    {"op": "concat", "with": "a", "output": "left"},
    {"op": "concat", "input": "a", "with": "u", "output": "right"},)" +
         block("end", 4, R"(, "input": "left")") + "," + block("other", 4, R"(, "input": "right")") + R"(,
    {"op": "concat", "input": "c", "with": "b", "output": "both"})";
}

/// Draws layers that read any earlier result, on two levels, on the union of both and on the level of batch
/// items. Result i is called "r<i>", and the last input "x" is on the level of the result of half the
/// resolution, which every drawn graph has.
class RandomLayers {
 public:
  // The numbers that levels 0 and 1, the finer and the coarser one, do not have.
  static constexpr int kUnion = 2, kItems = 3;

  explicit RandomLayers(uint64_t seed) : random_(seed) {}

  std::string draw(int count) {
    std::string layers = block("r0", 5) + "," + block("r1", 6, R"(, "stride": 2)");
    add(0, 5), add(1, 6);
    names_.push_back("x"), levels_.push_back(1), channels_.push_back(3);
    layers += R"(, {"op": "concat", "with": "x", "output": "r2"})";
    add(1, 9);
    for (int i = 3; i < count; ++i) layers += ",\n" + layer("r" + std::to_string(i));
    return layers;
  }
  /// The names of all results.
  std::vector<std::string> results() const {
    std::vector<std::string> names = names_;
    names.erase(std::find(names.begin(), names.end(), "x"));
    return names;
  }

 private:
  void add(int level, int channels) {
    names_.push_back("r" + std::to_string(results_++));
    levels_.push_back(level);
    channels_.push_back(channels);
  }
  size_t pick() { return static_cast<size_t>(random_.below(names_.size())); }
  std::string layer(const std::string& name) {
    const size_t read = pick(), other = pick();
    const int level = levels_[read], channels = static_cast<int>(random_.between(1, 9));
    const std::string input = R"(, "input": ")" + names_[read] + "\"";
    const std::string named = R"(, "name": ")" + name + R"(", "output": ")" + name + "\"" + input;
    const std::string width = R"(, "out_channels": )" + std::to_string(channels);
    const uint64_t wish = random_.below(9);
    if (wish < 2 && levels_[other] == level && channels_[read] + channels_[other] < 40) {
      add(level, channels_[read] + channels_[other]);
      return R"({"op": "concat", "with": ")" + names_[other] + R"(", "output": ")" + name + "\"" + input +
             "}";
    }
    if (wish == 8 && level != kItems) {
      add(kItems, channels_[read]);
      return R"({"op": "global_pool", "reduction": "average")" + named + "}";
    }
    if (level == kItems) {
      add(level, channels);
      return R"({"op": "linear")" + named + width + "}";
    }
    if (wish == 2) {
      add(level, channels_[read]);
      return R"({"op": "average_pool", "kernel_size": 3)" + named + "}";
    }
    if (wish == 3) {
      add(level, channels);
      return R"({"op": "residual")" + named + width + "}";
    }
    if (wish == 4 && level == 1) {
      add(0, channels);
      return R"({"op": "inverse", "of": "r1")" + named + width + "}";
    }
    if (wish == 5 && level == 1) {
      add(0, channels_[read]);
      const bool is_unpooled = channels % 2 == 0;
      return std::string(is_unpooled ? R"({"op": "unpool", "of": "r1")"
                                     : R"({"op": "upsample", "onto": "r0")") +
             named + "}";
    }
    if (wish == 5) {
      add(level, channels);
      return R"({"op": "linear")" + named + width + "}";
    }
    if (wish == 6 && level == 1 && levels_[other] == 0) {
      add(kUnion, channels_[other]);
      return R"({"op": "linear", "name": ")" + name + R"(.linear", "out_channels": )" +
             std::to_string(channels_[other]) + input + R"(}, {"op": "union", "name": ")" + name +
             R"(", "output": ")" + name + R"(", "with": ")" + names_[other] + "\"}";
    }
    add(level, channels);
    const bool may_have_groups = tested_dataflow() != MINUET_DATAFLOW_GATHER_GEMM_SCATTER;
    const int groups = random_.below(2) == 0 && may_have_groups ? std::gcd(channels_[read], channels) : 1;
    return R"({"op": "block", "kernel_size": 3, "groups": )" + std::to_string(groups) + named + width + "}";
  }

  Random random_;
  int results_ = 0;
  std::vector<std::string> names_;
  std::vector<int> levels_, channels_;
};

class GraphTest : public DeviceTest {
 protected:
  NetworkSpec spec_of(const std::string& description) const {
    NetworkSpec spec;
    spec.description = description, spec.dtype = dtype();
    return spec;
  }
  Plan plan_of(const std::string& description) { return make_network(machine(), spec_of(description)); }
  /// What one run of a plan gives.
  std::vector<NetworkRun> run(minuet_plan* plan, const std::vector<std::vector<char>>& inputs) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.batch_size = 3;  // make_scene() has the items 0 and 2
    const Execution execution = make_execution(machine(), plan, &options);
    return run_graph(machine(), plan, execution.get(), scene_, inputs, dtype());
  }
  std::vector<NetworkRun> run(const std::string& description, std::vector<std::vector<char>> inputs = {}) {
    inputs.insert(inputs.begin(), features_);
    const Plan plan = plan_of(description);
    return run(plan.get(), inputs);
  }
  /// The bytes of two matrices of as many rows, side by side.
  std::vector<char> beside(const NetworkRun& left, const NetworkRun& right) const {
    std::vector<char> bytes;
    for (int64_t row = 0; row < left.rows; ++row) {
      for (const NetworkRun* part : {&left, &right}) {
        const int64_t width = part->channels * dtype_bytes(dtype());
        bytes.insert(bytes.end(), part->bytes.begin() + row * width, part->bytes.begin() + (row + 1) * width);
      }
    }
    return bytes;
  }

  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    scene_ = make_scene(machine().is_software() ? 20 : 150, 5);
    features_ = encode(dtype(), oracle::draw_features(static_cast<int64_t>(scene_.size()), 5));
  }

  std::vector<int32_t> scene_;
  std::vector<char> features_;
};

TEST_P(GraphTest, EachOutputHasTheBitsOfItsOwnNetwork) {
  const std::vector<std::string> names = {"b", "left", "a", "c", "u", "right", "end", "other", "both"};
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "\"" : ", \"") + name + "\"";
  const std::vector<NetworkRun> together = run(described(body(), all));
  ASSERT_EQ(together.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const NetworkRun alone = run(described(body(), "\"" + names[i] + "\"")).front();
    EXPECT_EQ(together[i], alone) << names[i];
    EXPECT_GT(alone.rows, 0);
  }
  const NetworkRun &b = together[0], &a = together[2], &c = together[3], &u = together[4];
  EXPECT_EQ(together[1].bytes, beside(u, a)) << "left";
  EXPECT_EQ(together[5].bytes, beside(a, u)) << "right";
  EXPECT_EQ(together[8].bytes, beside(c, b)) << "both";
  EXPECT_EQ(b.coordinates, c.coordinates);
  EXPECT_EQ(a.coordinates, scene_);
  EXPECT_LT(b.rows, a.rows);
}

/// Whatever lies where: each output alone has other places in memory than all of them together.
TEST_P(GraphTest, RandomGraphsGiveEachOutputTheSameBits) {
  const int graphs = case_count(machine().is_cpu() ? 30 : machine().is_software() ? 1 : 4, 1000);
  const uint64_t seed = announce_seed(graphs);
  const std::string inputs = R"("inputs": [{"name": "points", "channels": 4},
      {"name": "x", "channels": 3, "level": "r1"}])";
  const int64_t halves = run(described(body(), R"("b")")).front().rows;
  const std::vector<char> x = encode(dtype(), oracle::draw_features(halves * 3, 3));
  for (int i = 0; i < graphs; ++i) {
    RandomLayers layers(case_seed(seed, 300, i));
    const std::string text = layers.draw(4 + i % 9);
    const std::vector<std::string> names = layers.results();
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "\"" : ", \"") + name + "\"";
    const std::vector<NetworkRun> together = run(described(text, all, inputs), {x});
    for (size_t k = 0; k < names.size(); ++k) {
      ASSERT_EQ(run(described(text, "\"" + names[k] + "\"", inputs), {x}).front(), together[k])
          << names[k] << " of " << text;
    }
  }
}

TEST_P(GraphTest, AResultMayBeConcatenatedWithItself) {
  const std::string layers = block("a", 8) + R"(, {"op": "concat", "with": "a", "output": "twice"},
      {"op": "concat", "with": "twice", "output": "again"})";
  const std::vector<NetworkRun> runs = run(described(layers, R"("again", "a", "twice")"));
  EXPECT_EQ(runs[2].bytes, beside(runs[1], runs[1]));
  EXPECT_EQ(runs[0].bytes, beside(runs[2], runs[2]));
}

/// The second input is what another network gives, so that both together are one network.
TEST_P(GraphTest, InputsMayLieOnAnyLevel) {
  const std::string first = block("a", 8) + "," + block("b", 16, R"(, "stride": 2)") + ",";
  const std::string last =
      R"(, {"op": "concat", "input": "b", "with": "x", "output": "cat"},)" + block("y", 8) + "," +
      R"({"op": "residual", "name": "r", "output": "r", "input": "x", "out_channels": 8})";
  for (const std::string level : {"b", "points"}) {
    SCOPED_TRACE(level);
    const std::string x = block("x", 8, R"(, "input": ")" + level + "\"");
    std::string reads = last;
    if (level == "points") reads.replace(reads.find("\"b\""), 3, "\"a\"");
    const std::string points = R"({"name": "points", "channels": 4})";
    const std::vector<NetworkRun> whole =
        run(described(first + x + reads, R"("x", "y", "r", "cat", "b")", R"("inputs": [)" + points + "]"));
    const std::string inputs =
        R"("inputs": [)" + points + R"(, {"name": "x", "channels": 8, "level": ")" + level + "\"}]";
    const std::string without = first.substr(0, first.size() - 1) + reads;
    const std::vector<NetworkRun> parts =
        run(described(without, R"("y", "r", "cat", "b")", inputs), {whole[0].bytes});
    for (size_t i = 0; i < parts.size(); ++i) EXPECT_EQ(parts[i], whole[i + 1]) << i;
  }
}

TEST_P(GraphTest, TellsItsInputsAndOutputs) {
  const std::string inputs = R"("inputs": [{"name": "points", "channels": 4},
      {"name": "extra", "channels": 3, "level": "b"}])";
  const std::string layers = block("a", 8) + "," + block("b", 16, R"(, "stride": [2, 1, 4])") + "," +
                             block("c", 5, R"(, "input": "extra")");
  const Plan plan = plan_of(described(layers, R"("c", "a")", inputs));
  const minuet_plan_info info = info_of(plan.get());
  EXPECT_EQ(info.inputs, 2);
  EXPECT_EQ(info.outputs, 2);
  EXPECT_EQ(info.output_level, 1);
  const auto expect_info = [&](const minuet_tensor_info& told, const char* name, int32_t level,
                               int32_t channels, const std::array<int32_t, 3>& stride) {
    EXPECT_STREQ(told.name, name);
    EXPECT_EQ(told.level, level);
    EXPECT_EQ(told.channels, channels);
    EXPECT_EQ(told.rank, 2);
    EXPECT_EQ(told.shape[0], -1);
    EXPECT_EQ(told.shape[1], channels);
    for (int a = 0; a < 3; ++a) EXPECT_EQ(told.tensor_stride[a], stride[a]);
    EXPECT_EQ(told.element, dtype() == DType::F16 ? MINUET_ELEMENT_F16 : MINUET_ELEMENT_F32);
  };
  expect_info(input_of(plan.get(), 0), "points", 0, 4, {1, 1, 1});
  expect_info(input_of(plan.get(), 1), "extra", 1, 3, {2, 1, 4});
  expect_info(output_of(plan.get(), 0), "c", 1, 5, {2, 1, 4});
  expect_info(output_of(plan.get(), 1), "a", 0, 8, {1, 1, 1});
  minuet_tensor_info past{};
  past.struct_size = sizeof(past);
  EXPECT_EQ(minuet_plan_query_input(plan.get(), 2, &past), MINUET_OUT_OF_RANGE);
  EXPECT_EQ(minuet_plan_query_output(plan.get(), -1, &past), MINUET_OUT_OF_RANGE);
  EXPECT_THAT(last_error(), HasSubstr("no output -1"));
}

TEST_P(GraphTest, RunsTakeJustTheirArrays) {
  const Plan plan = plan_of(described(body(), R"("b", "end")"));
  const Execution execution = make_execution(machine(), plan.get());
  check(prepare(machine(), execution.get(), scene_));
  int64_t rows = 0;
  int32_t channels = 0;
  check(minuet_execution_output_shape_of(execution.get(), 0, &rows, &channels));
  const int64_t points = static_cast<int64_t>(scene_.size()) / 4;
  const Buffer features(machine(), features_), b(machine(), rows * 16 * 4), end(machine(), points * 4 * 4);
  const minuet_tensor in = tensor(features, points, 4, dtype());
  const minuet_tensor first = tensor(b, rows, 16, dtype()), second = tensor(end, points, 4, dtype());
  const auto run = [&](const std::vector<minuet_tensor>& inputs, const std::vector<minuet_tensor>& outputs) {
    return minuet_execution_run(execution.get(), inputs.data(), static_cast<int32_t>(inputs.size()),
                                outputs.data(), static_cast<int32_t>(outputs.size()), nullptr);
  };
  EXPECT_EQ(run({in}, {first}), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("run takes 1 input and 2 outputs, but 1 and 1 are given"));
  EXPECT_EQ(run({in, in}, {first, second}), MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(run({in}, {second, first}), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("output 0"));
  EXPECT_EQ(run({in}, {first, first}), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("output 1"));
  EXPECT_EQ(minuet_execution_output_shape_of(execution.get(), 2, &rows, &channels), MINUET_OUT_OF_RANGE);
  EXPECT_EQ(minuet_execution_output_coordinates_of(execution.get(), 2, nullptr, nullptr),
            MINUET_OUT_OF_RANGE);
  EXPECT_EQ(run({in}, {first, second}), MINUET_OK) << last_error();
}

/// An output in the caller's memory takes no memory of the execution.
TEST_P(GraphTest, PrintedDescriptionsAndBytesMakeTheSamePlan) {
  const Plan plan = plan_of(described(body(), R"("left", "b", "other")"));
  const std::vector<NetworkRun> expected = run(plan.get(), {features_});
  const std::string text = description_of(plan.get());
  const Plan printed = plan_of(text);
  EXPECT_EQ(description_of(printed.get()), text);
  EXPECT_EQ(run(printed.get(), {features_}), expected);
  size_t size = 0;
  check(minuet_plan_serialize(plan.get(), nullptr, 0, 0, nullptr, 0, &size));
  std::vector<char> bytes(size);
  check(minuet_plan_serialize(plan.get(), nullptr, 0, 0, bytes.data(), size, &size));
  minuet_plan* made = nullptr;
  check(minuet_plan_deserialize(machine().context(), bytes.data(), size, &made));
  const Plan again(made, {minuet_plan_destroy});
  check(minuet_plan_compile(made, machine().arch().c_str(), nullptr, nullptr));
  check(minuet_plan_load(made, machine().device()));
  EXPECT_EQ(description_of(made), text);
  EXPECT_EQ(run(made, {features_}), expected);
}

/// Capacity mode and runs on pyramids, whose outputs have as many rows as the capacities say. What lies past
/// the counts is zero.
TEST_P(GraphTest, WithinCapacitiesAndOnPyramids) {
  const std::string inputs = R"("inputs": [{"name": "points", "channels": 4},
      {"name": "extra", "channels": 3, "level": "b"}])";
  const std::string more_layers = R"(, {"op": "concat", "input": "extra", "with": "c", "output": "mixed"},
      {"op": "unpool", "name": "p", "input": "extra", "of": "b", "output": "unpooled"},
      {"op": "upsample", "name": "q", "input": "both", "onto": "a", "output": "upsampled"})";
  NetworkSpec spec = spec_of(described(
      body() + more_layers, R"("both", "a", "mixed", "left", "c", "unpooled", "upsampled")", inputs));
  spec.dataflow = MINUET_DATAFLOW_FUSED;
  const Plan plan = make_network(machine(), spec);
  const int64_t points = static_cast<int64_t>(scene_.size()) / 4;
  const Capacities capacities{points + 100, points + 50};
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.map_method = MINUET_MAPS_INDEXED;
  const Execution exact = make_execution(machine(), plan.get(), &options);
  check(prepare(machine(), exact.get(), scene_));
  minuet_level_info level{};
  level.struct_size = sizeof(level);
  check(minuet_execution_query_level(exact.get(), 1, &level));
  const std::vector<char> extra = encode(dtype(), oracle::draw_features(level.voxels * 3, 8));
  const std::vector<NetworkRun> expected =
      run_graph(machine(), plan.get(), exact.get(), scene_, {features_, extra}, dtype());
  options.level_capacity = capacities.data();
  options.level_count = 2;
  const Execution within = make_execution(machine(), plan.get(), &options);
  minuet_pyramid_options of_network = MINUET_PYRAMID_OPTIONS_INIT;
  of_network.network = plan.get();
  of_network.level_capacity = capacities.data();
  of_network.level_count = 2;
  TestPyramid pyramid(machine(), of_network);
  pyramid.build(scene_);

  std::vector<char> padded = features_, more = extra;
  padded.resize(capacities[0] * 4 * dtype_bytes(dtype()), '\xff');
  more.resize(capacities[1] * 3 * dtype_bytes(dtype()), '\xff');
  const Buffer input(machine(), padded), second(machine(), more);
  std::deque<Buffer> outputs;
  std::vector<minuet_array> in{array_of(tensor(input, capacities[0], 4, dtype())),
                               array_of(tensor(second, capacities[1], 3, dtype()))},
      out;
  for (int32_t i = 0; i < 7; ++i) {
    const minuet_tensor_info info = output_of(plan.get(), i);
    const int64_t rows = capacities[static_cast<size_t>(info.level)];
    Buffer& output = outputs.emplace_back(machine(), rows * info.channels * dtype_bytes(dtype()));
    out.push_back(array_of(tensor(output, rows, info.channels, dtype())));
  }
  const auto expect_outputs = [&](const char* mode) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const std::vector<char> bytes = outputs[i].read<char>();
      const auto count = static_cast<int64_t>(expected[i].bytes.size());
      const std::vector<char> rows(bytes.begin(), bytes.begin() + count),
          past(bytes.begin() + count, bytes.end());
      const std::vector<float> wanted = decode(dtype(), expected[i].bytes);
      EXPECT_TRUE(is_close(decode(dtype(), rows), std::vector<double>(wanted.begin(), wanted.end()),
                           expected[i].channels, error_bound(dtype(), true)))
          << mode << ", output " << i;
      EXPECT_EQ(past, std::vector<char>(past.size())) << mode << ", output " << i;
      outputs[i].poison();
    }
  };
  for (Buffer& output : outputs) output.poison();
  check(prepare(machine(), within.get(), scene_));
  check(run_arrays(within.get(), in, out));
  expect_outputs("capacity mode");
  run_on(machine(), plan.get(), pyramid.run_arguments(), in, out);
  expect_outputs("on a pyramid");
}

/// A head without a number of classes is left out, so that both names are of one result.
TEST_P(GraphTest, ResultsOfTwoNamesAreGivenTwice) {
  const std::string layers = block("a", 8) + R"(, {"op": "head", "name": "h", "output": "h"},)" +
                             block("b", 8, R"(, "stride": 2)") +
                             R"(, {"op": "head", "name": "i", "output": "i"})";
  const std::vector<NetworkRun> runs = run(described(layers, R"("h", "i", "b", "a")"));
  EXPECT_EQ(runs[0], runs[3]);
  EXPECT_EQ(runs[1], runs[2]);
}

TEST_P(GraphTest, ParametersFollowTheInputs) {
  const std::string inputs = R"("inputs": [{"name": "points", "channels": 4},
      {"name": "extra", "channels": 8, "level": "points"}])";
  const std::string layers =
      block("a", 8, R"(, "norm": "none")") + R"(, {"op": "concat", "with": "extra", "output": "cat"})";
  NetworkSpec spec = spec_of(described(layers, R"("a", "cat")", inputs));
  const Plan plan = make_network(machine(), spec);
  const int64_t points = static_cast<int64_t>(scene_.size()) / 4;
  const std::vector<char> extra = encode(dtype(), oracle::draw_features(points * 8, 9));
  const std::vector<NetworkRun> plain = run(plan.get(), {features_, extra});
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.parameter_inputs = 1;
  const Execution execution = make_execution(machine(), plan.get(), &options);
  check(prepare(machine(), execution.get(), scene_));
  const Buffer features(machine(), features_), more(machine(), extra),
      weight(machine(), std::vector<float>(27 * 4 * 8, 0.25f)),
      a(machine(), points * 8 * dtype_bytes(dtype())), cat(machine(), points * 16 * dtype_bytes(dtype()));
  check(
      run_arrays(execution.get(),
                 {array_of(tensor(features, points, 4, dtype())), array_of(tensor(more, points, 8, dtype())),
                  array_of(weight.data(), {27, 4, 8}, MINUET_ELEMENT_F32)},
                 {array_of(tensor(a, points, 8, dtype())), array_of(tensor(cat, points, 16, dtype()))}));
  const NetworkRun given{points, 8, a.read<char>(), {}}, appended{points, 8, extra, {}};
  EXPECT_EQ(cat.read<char>(), beside(given, appended));
  EXPECT_NE(given.bytes, plain[0].bytes) << "the weights are others";
}

MINUET_INSTANTIATE_EXECUTION_TEST(GraphTest);

}  // namespace
}  // namespace minuet::abi
