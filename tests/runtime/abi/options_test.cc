// What the options of executions and networks do, on every device: profiling, room for points, seeds; and
// networks that the caller describes.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "tests/support/compare.h"
#include "tests/support/network_abi.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

constexpr const char* kTwoBlocks =
    R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [8, 16], "layers": [
  {"op": "block", "name": "a", "width": 0, "kernel_size": 3, "stride": 2},
  {"op": "block", "name": "b", "width": 1, "kernel_size": 3}]})";

Plan described(Machine& machine, const char* json, DType dtype, const std::string& weights = "",
               uint64_t seed = 0) {
  minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
  options.description = json;
  options.dataflow = tested_dataflow();
  options.dtype = abi_dtype(dtype);
  options.weights_path = weights.empty() ? nullptr : weights.c_str();
  options.seed = seed;
  minuet_plan* made = nullptr;
  check(minuet_plan_create_network(machine.context(), &options, &made));
  Plan network(made, {minuet_plan_destroy});
  check(minuet_plan_compile(made, machine.arch().c_str(), nullptr, nullptr));
  check(minuet_plan_load(made, machine.device()));
  return network;
}

class OptionsTest : public DeviceTest {
 protected:
  /// [count, 4] of a scene, and features for it.
  std::vector<int32_t> scene(int64_t count) const { return make_scene(count, 101); }
  std::vector<float> features(int64_t rows, int channels) const {
    Random random(102);
    std::vector<float> values(static_cast<size_t>(rows * channels));
    for (float& value : values) value = static_cast<float>(random.between(-127, 127)) / 64;
    return values;
  }
  void expect_stage_times(minuet_dataflow dataflow);
};

void OptionsTest::expect_stage_times(minuet_dataflow dataflow) {
  NetworkSpec spec;
  spec.description = kTwoBlocks, spec.dtype = dtype(), spec.dataflow = dataflow;
  const Plan network = make_network(machine(), spec);
  const Execution execution = make_execution(machine(), network.get());
  const std::vector<int32_t> points = scene(3000);
  const auto count = static_cast<int64_t>(points.size()) / 4;
  const std::vector<char> bytes = encode(dtype(), features(count, 4));
  minuet_stage_times times = MINUET_STAGE_TIMES_INIT;
  const NetworkRun plain = run_network(machine(), execution.get(), points, bytes, dtype());
  EXPECT_EQ(minuet_execution_query_stages(execution.get(), &times), MINUET_FAILED_PRECONDITION)
      << "off, if nobody asks";
  const Buffer input(machine(), bytes), output(machine(), static_cast<int64_t>(plain.bytes.size()));
  const auto run = [&] {
    return run_tensors(execution.get(), {tensor(input, count, 4, dtype())},
                       tensor(output, plain.rows, plain.channels, dtype()));
  };
  check(minuet_execution_set_profiling(execution.get(), 1));
  check(prepare(machine(), execution.get(), points));
  check(run());
  check(minuet_execution_query_stages(execution.get(), &times));
  for (const double stage : {times.sort, times.map, times.gather, times.gemm, times.scatter, times.other}) {
    EXPECT_TRUE(std::isfinite(stage));
  }
  for (const double stage : {times.sort, times.map, times.gemm, times.other}) EXPECT_GT(stage, 0);
  // The fused dataflow is all of one stage.
  const bool gathers = dataflow == MINUET_DATAFLOW_GATHER_GEMM_SCATTER;
  EXPECT_EQ(times.gather > 0, gathers);
  EXPECT_EQ(times.scatter > 0, gathers);
  // What the stages took is what the layers did.
  minuet_stage_times sum = MINUET_STAGE_TIMES_INIT;
  const int32_t layers = info_of(network.get()).layers;
  ASSERT_EQ(layers, 2);
  for (int32_t i = 0; i < layers; ++i) {
    minuet_layer_info layer{};
    layer.struct_size = sizeof(layer);
    check(minuet_execution_query_layer(execution.get(), i, &layer));
    EXPECT_EQ(layer.dataflow, dataflow) << layer.name;
    EXPECT_GT(layer.gemm, 0) << layer.name;
    EXPECT_EQ(layer.gather > 0, gathers) << layer.name;
    sum.gather += layer.gather, sum.gemm += layer.gemm, sum.scatter += layer.scatter;
  }
  EXPECT_NEAR(sum.gather, times.gather, 1e-6 + 1e-4 * times.gather);
  EXPECT_NEAR(sum.gemm, times.gemm, 1e-6 + 1e-4 * times.gemm);
  EXPECT_NEAR(sum.scatter, times.scatter, 1e-6 + 1e-4 * times.scatter);
  EXPECT_EQ(output.read<char>(), plain.bytes);
  check(minuet_execution_set_profiling(execution.get(), 0));
  EXPECT_EQ(minuet_execution_query_stages(execution.get(), &times), MINUET_FAILED_PRECONDITION);

  check(minuet_execution_set_profiling(execution.get(), 1));
  check(run());
  check(minuet_execution_query_stages(execution.get(), &times));
  EXPECT_EQ(times.sort + times.map, 0) << "nothing was prepared since";
  EXPECT_EQ(times.gather > 0, gathers);
  EXPECT_GT(times.gemm, 0);
  EXPECT_EQ(times.scatter > 0, gathers);
}

TEST_P(OptionsTest, ProfilingTimesWhatWasDoneAndNothingElse) {
  expect_stage_times(MINUET_DATAFLOW_GATHER_GEMM_SCATTER);
  expect_stage_times(MINUET_DATAFLOW_FUSED);
}

/// They are of the last prepare and run, whatever else is called, and however often somebody asks.
TEST_P(OptionsTest, TimesOutliveOtherCalls) {
  constexpr const char* kOneBlock = R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [8], "layers": [
    {"op": "block", "name": "a", "width": 0, "kernel_size": 3}]})";  // its rows are the caller's
  const std::vector<int32_t> points = scene(1000);
  const std::vector<char> bytes = encode(dtype(), features(static_cast<int64_t>(points.size()) / 4, 4));
  for (const char* const json : {kTwoBlocks, kOneBlock}) {
    const Plan network = described(machine(), json, dtype());
    const Execution execution = make_execution(machine(), network.get());
    const auto stages = [&] {
      minuet_stage_times times = MINUET_STAGE_TIMES_INIT;
      check(minuet_execution_query_stages(execution.get(), &times));
      return std::vector<double>{times.sort, times.map, times.gather, times.gemm, times.scatter, times.other};
    };
    check(minuet_execution_set_profiling(execution.get(), 1));
    const NetworkRun run =
        run_network(machine(), execution.get(), points, bytes, dtype());  // coordinates, too
    const std::vector<double> expected = stages();
    for (const int stage : {0, 1, 3}) EXPECT_GT(expected[static_cast<size_t>(stage)], 0) << stage;
    EXPECT_EQ(stages(), expected);
    Buffer where(machine(), run.rows * 16);
    check(minuet_execution_output_coordinates(execution.get(), static_cast<int32_t*>(where.data()), nullptr));
    int32_t layer = 0;
    check(minuet_execution_find_overflow(execution.get(), nullptr, &layer));
    EXPECT_EQ(stages(), expected);
    EXPECT_EQ(where.read<int32_t>(), run.coordinates);
  }
}

/// Room for coordinates and maps is there before the first cloud where it is asked for.
TEST_P(OptionsTest, MaxPointsMakesRoomAhead) {
  const Plan network = described(machine(), kTwoBlocks, dtype());
  const auto bytes_of = [&](int64_t max_points) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.max_points = max_points;
    return counters_of(make_execution(machine(), network.get(), &options).get()).workspace_bytes;
  };
  const int64_t none = bytes_of(0), few = bytes_of(1000), many = bytes_of(100000);
  EXPECT_EQ(bytes_of(1), none);
  EXPECT_GE(few, none + 1000 * 16) << "their coordinates at least";
  EXPECT_GE(many, few + 99000 * 16);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  for (const int64_t bad : {int64_t{-1}, int64_t{1} << 40}) {
    options.max_points = bad;
    minuet_execution* made = nullptr;
    EXPECT_EQ(minuet_execution_create(network.get(), machine().device(), &options, &made),
              bad < 0 ? MINUET_INVALID_ARGUMENT : MINUET_OUT_OF_RANGE);
  }
}

TEST_P(OptionsTest, AConvolutionsExecutionTakesMemoryOnly) {
  const ConvolutionCase test = small_case(dtype(), ConvolutionKind::Submanifold, 4, 4, 31);
  Convolution convolution(machine(), test, make_data(test));
  for (int field = 0; field < 3; ++field) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    (field == 0 ? options.keep_first_duplicate : options.has_bounds) = field < 2;
    if (field == 2) options.max_points = 5;
    minuet_execution* made = nullptr;
    EXPECT_EQ(minuet_execution_create(convolution.get(), machine().device(), &options, &made),
              MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(
        last_error(),
        HasSubstr("takes no max_points, level_capacity, batch_size, keep_first_duplicate or has_bounds"));
  }
}

TEST_P(OptionsTest, TheSeedMakesTheWeights) {
  const std::vector<int32_t> points = scene(100);
  const std::vector<char> bytes = encode(dtype(), features(static_cast<int64_t>(points.size()) / 4, 4));
  const auto run = [&](uint64_t seed) {
    const Plan network = described(machine(), kTwoBlocks, dtype(), "", seed);
    return run_network(machine(), make_execution(machine(), network.get()).get(), points, bytes, dtype())
        .bytes;
  };
  const std::vector<char> first = run(7);
  EXPECT_EQ(run(7), first);
  EXPECT_NE(run(8), first);
  minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
  EXPECT_EQ(options.dtype, MINUET_F32);
  EXPECT_EQ(run(options.seed), run(0));
}

MINUET_INSTANTIATE_DEVICE_TEST(OptionsTest);

// ---- skips of skips -----------------------------------------------------------------------------

/// A network of blocks with kernel 1 is a small program for each row by itself, so fp64 by hand will do.
class RowNetwork {
 public:
  using Row = std::vector<double>;
  /// What roundings of this row may come to, as magnitudes (oracle::convolve), beside its values.
  struct Value {
    Row values, magnitudes;
  };

  Value block(const std::string& name, const Value& input, int width) {
    Random random(std::hash<std::string>()(name));
    const size_t in = input.values.size(), out = static_cast<size_t>(width);
    FileTensor& weight = tensors_[name + ".conv.weight"];
    weight.shape = {1, static_cast<int64_t>(in), width};
    if (weight.values.empty()) {
      for (size_t i = 0; i < in * out; ++i)
        weight.values.push_back(static_cast<float>(random.between(-100, 127)) / 256);
      for (const char* part : {"weight", "bias", "running_mean", "running_var"}) {
        FileTensor& tensor = tensors_[name + ".bn." + part];
        tensor.shape = {width};
        for (size_t d = 0; d < out; ++d) {
          const double mean = part == std::string("weight") || part == std::string("running_var") ? 1 : 0;
          tensor.values.push_back(static_cast<float>(mean + random.uniform(-0.2, 0.2)));
        }
      }
    }
    Value output{Row(out), Row(out)};
    for (size_t d = 0; d < out; ++d) {
      double sum = 0, magnitude = 0;
      for (size_t c = 0; c < in; ++c) {
        sum += input.values[c] * weight.values[c * out + d];
        magnitude += input.magnitudes[c] * std::abs(weight.values[c * out + d]);
      }
      const auto of = [&](const char* part) { return tensors_[name + ".bn." + part].values[d]; };
      const double scale = of("weight") / std::sqrt(of("running_var") + 1e-5);
      const double shift = of("bias") - of("running_mean") * scale;
      output.values[d] = std::max(sum * scale + shift, 0.0);
      output.magnitudes[d] = magnitude * std::abs(scale) + std::abs(shift);
    }
    return output;
  }
  static Value concat(Value first, const Value& second) {
    first.values.insert(first.values.end(), second.values.begin(), second.values.end());
    first.magnitudes.insert(first.magnitudes.end(), second.magnitudes.begin(), second.magnitudes.end());
    return first;
  }
  const std::map<std::string, FileTensor>& tensors() const { return tensors_; }

 private:
  std::map<std::string, FileTensor> tensors_;
};

/// Every part of a saved concatenation moves with it, on either side, three deep.
TEST_P(OptionsTest, ConcatenationsOfConcatenations) {
  const char* json = R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [8, 5, 3, 6], "layers": [
    {"op": "block", "name": "a", "width": 0, "save": "a"},
    {"op": "block", "name": "b", "width": 1},
    {"op": "concat", "with": "a", "save": "ba"},
    {"op": "block", "name": "c", "width": 2},
    {"op": "concat", "with": "ba", "save": "cba"},
    {"op": "block", "name": "d", "width": 3},
    {"op": "concat", "with": "cba"},
    {"op": "block", "name": "e", "width": 0}]})";
  const std::vector<int32_t> points = scene(60);
  const int64_t rows = static_cast<int64_t>(points.size()) / 4;
  const std::vector<float> input = features(rows, 4);
  RowNetwork oracle;
  std::vector<double> expected, magnitudes;
  for (int64_t r = 0; r < rows; ++r) {
    RowNetwork::Value row;
    for (int c = 0; c < 4; ++c) row.values.push_back(input[r * 4 + c]);
    for (const double value : row.values) row.magnitudes.push_back(std::abs(value));
    const auto a = oracle.block("a", row, 8);
    const auto ba = RowNetwork::concat(oracle.block("b", a, 5), a);
    const auto cba = RowNetwork::concat(oracle.block("c", ba, 3), ba);
    const auto dcba = RowNetwork::concat(oracle.block("d", cba, 6), cba);
    const auto e = oracle.block("e", dcba, 8);
    expected.insert(expected.end(), e.values.begin(), e.values.end());
    magnitudes.insert(magnitudes.end(), e.magnitudes.begin(), e.magnitudes.end());
  }
  const TemporaryPath file("concat.safetensors");
  write_safetensors(file.path(), oracle.tensors());
  const Plan network = described(machine(), json, dtype(), file.path());
  const NetworkRun run = run_network(machine(), make_execution(machine(), network.get()).get(), points,
                                     encode(dtype(), input), dtype());
  EXPECT_EQ(run.coordinates, points);
  const std::vector<float> output = decode(dtype(), run.bytes);
  ASSERT_EQ(output.size(), expected.size());
  // Five layers deep; tf32 rounds each layer's operands besides, by 2^-11.
  const double factor = 5 * (dtype() == DType::TF32 ? 0x1p-11 : element_factor(dtype()));
  for (size_t i = 0; i < output.size(); ++i) {
    ASSERT_NEAR(output[i], expected[i], factor * magnitudes[i]) << "row " << i / 8 << ", channel " << i % 8;
  }
}

}  // namespace
}  // namespace minuet::abi
