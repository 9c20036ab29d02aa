// Tests what convolutions compute behind their sums, on every device and in both dataflows: each activation,
// and chains of pointwise ops that they cover (runtime/network/cover_chains.h).
#include <gmock/gmock.h>

#include <limits>

#include "codegen/choose/problem.h"
#include "tests/runtime/execution/pointwise_fixture.h"
#include "tests/support/compare.h"

namespace minuet::abi {
namespace {

using Parameters = Handle<minuet_parameters>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr minuet_dataflow kDataflows[] = {MINUET_DATAFLOW_GATHER_GEMM_SCATTER, MINUET_DATAFLOW_FUSED};

/// A part of a pre-activation U-Net: every form of a covered chain, and one over a concatenation, which
/// stays. `before` stands before the ops of each chain.
std::string network_of(const std::string& before) {
  const std::string bare = R"("norm": "none", "activation": "none")";
  const auto chain = [&](const std::string& input, const std::string& name, const std::string& function) {
    std::string first = before.empty() ? R"({"op": "batch_norm", "name": ")" + name + "\"" : before;
    first.insert(first.find(',') + 1, " \"input\": \"" + input + "\",");
    if (!before.empty()) first += R"(, {"op": "batch_norm", "name": ")" + name + "\"";
    return first + "}, " + function;
  };
  const auto behind = [&](const std::string& ops) { return before.empty() ? ops : before + ", " + ops; };
  return R"({"name": "n", "ndim": 3, "in_channels": 5, "outputs": ["out", "skip"], "layers": [
    {"op": "block", "name": "stem", "out_channels": 12, "kernel_size": 3, )" +
         bare + R"(, "output": "stem"}, )" + chain("stem", "n1", R"({"op": "relu"}, )") +
         R"({"op": "block", "name": "a", "out_channels": 12, "kernel_size": 3, "bias": true, )" + bare +
         "}, " + behind(R"({"op": "scale_shift", "name": "s1"}, {"op": "gelu"}, )") +
         R"({"op": "block", "name": "b", "out_channels": 12, "kernel_size": 3, )" + bare + "}, " +
         behind(R"({"op": "batch_norm", "name": "n2"}, {"op": "add", "with": "stem", "output": "skip"}, )") +
         chain("skip", "n3", R"({"op": "leaky_relu", "slope": 0.125}, )") +
         R"({"op": "block", "name": "down", "out_channels": 20, "kernel_size": 2, "stride": 2, "bias": true, )" +
         bare + "}, " + behind(R"({"op": "silu", "output": "low"}, )") +
         chain("low", "n4", R"({"op": "tanh"}, )") +
         R"({"op": "inverse", "name": "up", "of": "down", "out_channels": 7, )" + bare + R"(, "output": "up"},
    {"op": "concat", "input": "skip", "with": "up", "output": "both"}, )" +
         chain("both", "n5", R"({"op": "sigmoid"}, )") +
         R"({"op": "linear", "name": "head", "out_channels": 9}, )" +
         behind(R"({"op": "scale_shift", "name": "s2", "output": "out"}]})");
}

class CoveredChains : public PointwiseTest {
 protected:
  NetworkSpec spec_of(const std::string& description, minuet_dataflow dataflow) {
    NetworkSpec spec;
    spec.description = description, spec.dtype = dtype(), spec.dataflow = dataflow;
    return spec;
  }
  Plan network(const std::string& description, minuet_dataflow dataflow) {
    return make_network(machine(), spec_of(description, dataflow));
  }
  std::vector<minuet_dataflow> dataflows() {
    // Kernels of the fused dataflow take long to compile there.
    if (machine().is_software()) return {tested_dataflow()};
    return {std::begin(kDataflows), std::end(kDataflows)};
  }
};

/// Sums of small numbers, which every dtype holds, so that only the activation rounds.
TEST_P(CoveredChains, EveryActivation) {
  Random random(1);
  const std::vector<int32_t> coordinates = make_scene(machine().is_software() ? 30 : 300, 5);
  const auto rows = static_cast<int64_t>(coordinates.size()) / 4;
  std::vector<float> x(static_cast<size_t>(rows * 5));
  for (float& value : x) value = static_cast<float>(random.between(-3, 3)) / 4;
  FileTensor weight{{27, 5, 12}, {}};
  for (int i = 0; i < 27 * 5 * 12; ++i) weight.values.push_back(static_cast<float>(random.between(-1, 1)));
  const TemporaryPath file("activations.safetensors");
  write_safetensors(file.path(), {{"a.conv.weight", weight}});
  const auto result_of = [&](const std::string& activation, minuet_dataflow dataflow) {
    NetworkSpec spec =
        spec_of(R"({"name": "n", "ndim": 3, "in_channels": 5, "layers": [{"op": "block", "name": "a", )"
                R"("out_channels": 12, "kernel_size": 3, "norm": "none", "activation": ")" +
                    activation + "\"" + (activation == "leaky_relu" ? R"(, "slope": -0.375)" : "") + "}]}",
                dataflow);
    spec.weights = file.path();
    return run(make_network(machine(), spec).get(), coordinates, {x})[0].values;
  };
  for (const minuet_dataflow dataflow : dataflows()) {
    const std::vector<float> sums = result_of("none", dataflow);
    for (const char* const activation : kActivationNames) {
      if (activation == std::string("none")) continue;
      SCOPED_TRACE(activation + (" " + std::to_string(dataflow)));
      EXPECT_TRUE(oracle::is_chain(result_of(activation, dataflow),
                                   oracle::evaluate_chain({{activation, -0.375}}, sums, 12), dtype()));
    }
  }
}

/// A convolution by 1 gives what the pointwise op gives, bit by bit, and tells what is not finite. On a GPU,
/// the fused kernel splits numbers of fp32 into a high and a low part, and an infinite one has no low part:
/// it counts as NaN.
TEST_P(CoveredChains, NumbersThatAreNotFiniteOrLarge) {
  const std::vector<float> numbers{kNan, kInfinity, -kInfinity, -16384, 16384, -64,
                                   64,   -1,        1,          -0.5f,  0.5f,  0};
  const auto rows = static_cast<int64_t>(numbers.size());
  const TemporaryPath file("one.safetensors");
  write_safetensors(file.path(), {{"l.weight", {{1, 1, 1}, {1}}}});
  const std::string head = R"({"name": "n", "ndim": 3, "in_channels": 1, "layers": [)";
  for (const minuet_dataflow dataflow : dataflows()) {
    for (const char* const activation : kActivationNames) {
      if (activation == std::string("none") || activation == std::string("leaky_relu")) continue;
      SCOPED_TRACE(activation + (" " + std::to_string(dataflow)));
      const bool by_tanh = activation == std::string("gelu_tanh");
      const Plan chain = plan_of(head + R"({"op": ")" + (by_tanh ? "gelu" : activation) + "\"" +
                                 (by_tanh ? R"(, "approximate": "tanh")" : "") + "}]}");
      NetworkSpec spec = spec_of(head +
                                     R"({"op": "linear", "name": "l", "out_channels": 1, "bias": false, )"
                                     R"("activation": ")" +
                                     activation + "\"}]}",
                                 dataflow);
      spec.weights = file.path();
      const Plan plan = make_network(machine(), spec);
      const Execution execution = make_execution(machine(), plan.get());
      check(prepare(machine(), execution.get(), coordinates_of(rows)));
      const std::vector<float> values = run_prepared(plan.get(), execution.get(), rows, {numbers})[0].values;
      const bool has_parts =
          !machine().is_cpu() && dtype() == DType::F32 && dataflow == MINUET_DATAFLOW_FUSED;
      std::vector<float> summed = numbers;
      if (has_parts) summed[1] = summed[2] = kNan;
      const std::vector<float> expected = run(chain.get(), coordinates_of(rows), {summed})[0].values;
      for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_TRUE(values[i] == expected[i] || (std::isnan(values[i]) && std::isnan(expected[i])))
            << values[i] << " in place of " << expected[i] << " for " << numbers[i];
      }
      int32_t layer = -2;
      check(minuet_execution_find_overflow(execution.get(), nullptr, &layer));
      EXPECT_EQ(layer, 0);
      // Minus infinity alone, which most activations hide.
      check(prepare(machine(), execution.get(), coordinates_of(1)));
      run_prepared(plan.get(), execution.get(), 1, {{-kInfinity}});
      check(minuet_execution_find_overflow(execution.get(), nullptr, &layer));
      EXPECT_EQ(layer, 0);
    }
  }
}

/// Two leaky ReLUs of slope 1 change no number, and keep a convolution from computing what is behind them.
const char* const kBlocker = R"({"op": "leaky_relu", "slope": 1}, {"op": "leaky_relu", "slope": 1})";

std::vector<std::string> layer_names(const minuet_execution* given, int32_t count) {
  std::vector<std::string> names;
  for (int32_t i = 0; i < count; ++i) {
    minuet_layer_info info{};
    info.struct_size = sizeof(info);
    check(minuet_execution_query_layer(const_cast<minuet_execution*>(given), i, &info));
    names.emplace_back(info.name);
  }
  return names;
}

TEST_P(CoveredChains, EqualChainsOfTheirOwn) {
  Random random(3);
  const std::vector<int32_t> coordinates = make_scene(machine().is_software() ? 40 : 400, 5);
  const auto rows = static_cast<int64_t>(coordinates.size()) / 4;
  const std::vector<float> x = draw(rows * 5, random);
  for (const minuet_dataflow dataflow : dataflows()) {
    const Plan covered = network(network_of(""), dataflow), plain = network(network_of(kBlocker), dataflow);
    const Execution execution = make_execution(machine(), covered.get());
    check(prepare(machine(), execution.get(), coordinates));
    EXPECT_THAT(layer_names(execution.get(), info_of(covered.get()).layers),
                testing::ElementsAre("stem", "affine+relu 1", "a", "b", "affine+leaky_relu 6", "down",
                                     "affine+tanh 9", "up", "affine+sigmoid 11", "head"));
    // A chain that a convolution computes is no convolution, and its padding is counted once.
    for (int32_t layer = 0; layer < info_of(covered.get()).layers; ++layer) {
      minuet_layer_info info{};
      info.struct_size = sizeof(info);
      check(minuet_execution_query_layer(execution.get(), layer, &info));
      if (std::string(info.name).rfind("affine+", 0) != 0) continue;
      EXPECT_EQ(info.dataflow, MINUET_DATAFLOW_AUTO) << info.name;
      EXPECT_EQ(info.padded_rows + info.gemm_groups, 0) << info.name;
    }
    EXPECT_GT(info_of(plain.get()).layers, 13);
    const std::vector<ChainRun> runs = run_prepared(covered.get(), execution.get(), rows, {x});
    const std::vector<ChainRun> expected = run(plain.get(), coordinates, {x});
    ASSERT_EQ(runs.size(), expected.size());
    for (size_t i = 0; i < runs.size(); ++i) {
      double largest = 0;
      for (const float value : expected[i].values) largest = std::max(largest, std::abs(double{value}));
      ASSERT_GT(largest, 0.1);
      for (size_t j = 0; j < runs[i].values.size(); ++j) {
        ASSERT_NEAR(runs[i].values[j], expected[i].values[j], 4 * error_bound(dtype(), true) * largest)
            << "output " << i << ", number " << j << ", dataflow " << dataflow;
      }
    }
    EXPECT_EQ(run_prepared(covered.get(), execution.get(), rows, {x}), runs) << "a run again";
    int32_t layer = -2;
    check(minuet_execution_find_overflow(execution.get(), nullptr, &layer));
    EXPECT_EQ(layer, -1);
  }
}

/// A network whose outputs are a convolution's result and its second output, alone and as parts of wider
/// rows.
TEST_P(CoveredChains, SecondOutputsAreOutputs) {
  const std::string layers =
      R"("layers": [{"op": "block", "name": "a", "out_channels": 12, "kernel_size": 3, "bias": true,
                     "norm": "none", "activation": "tanh", "output": "a"},
                    {"op": "scale_shift", "name": "s"}, {"op": "silu", "output": "b"})";
  const std::string head = R"({"name": "n", "ndim": 3, "in_channels": 5, "outputs": )";
  Random random(4);
  const std::vector<int32_t> coordinates = make_scene(machine().is_software() ? 40 : 200, 5);
  const auto rows = static_cast<int64_t>(coordinates.size()) / 4, capacity = rows + 9;
  const std::vector<float> x = draw(rows * 5, random);
  const oracle::ChainStep affine = make_step("affine", 12, rows, random);
  std::map<std::string, FileTensor> values{{"s.weight", {{12}, affine.scale}},
                                           {"s.bias", {{12}, affine.shift}},
                                           {"a.conv.bias", {{12}, std::vector<float>(12, 0.25f)}}};
  values["a.conv.weight"] = {{27, 5, 12}, draw(27 * 5 * 12, random, 0.2)};
  const TemporaryPath file("second.safetensors");
  write_safetensors(file.path(), values);
  for (const minuet_dataflow dataflow : dataflows()) {
    for (const bool is_concat : {false, true}) {
      NetworkSpec spec =
          spec_of(head + (is_concat ? R"(["both"], )" : R"(["a", "b"], )") + layers +
                      (is_concat ? R"(, {"op": "concat", "with": "a", "output": "both"}]})" : "]}"),
                  dataflow);
      spec.weights = file.path();
      const Plan plan = make_network(machine(), spec);
      EXPECT_EQ(info_of(plan.get()).layers, 2);
      const auto expect_both = [&](const std::vector<ChainRun>& runs, const char* what) {
        std::vector<float> a, b;
        for (int64_t i = 0; i < rows * 12; ++i) {
          const auto row = static_cast<size_t>(i / 12), c = static_cast<size_t>(i % 12);
          a.push_back(is_concat ? runs[0].values[row * 24 + 12 + c] : runs[0].values[row * 12 + c]);
          b.push_back(is_concat ? runs[0].values[row * 24 + c] : runs[1].values[row * 12 + c]);
        }
        // The chain reads the first output as it is stored.
        EXPECT_TRUE(oracle::is_chain(b, oracle::evaluate_chain({affine, {"silu"}}, a, 12), dtype())) << what;
        for (const float value : a) ASSERT_LE(std::abs(value), 1) << what;
      };
      expect_both(run(plan.get(), coordinates, {x}), "exact");
      if (dataflow != MINUET_DATAFLOW_FUSED) continue;
      minuet_execution_options options = options_of();
      options.level_capacity = &capacity;
      options.level_count = 1;
      const Execution execution = make_execution(machine(), plan.get(), &options);
      check(prepare(machine(), execution.get(), coordinates));
      const std::vector<ChainRun> runs = run_prepared(plan.get(), execution.get(), capacity, {x});
      expect_both(runs, "within capacities");
      for (const ChainRun& run : runs) {
        const auto channels = static_cast<int64_t>(run.values.size()) / capacity;
        for (auto i = static_cast<size_t>(rows * channels); i < run.values.size(); ++i) {
          ASSERT_EQ(run.values[i], 0) << "a row past the count";
        }
      }
    }
  }
}

/// Values that a caller sets, also later, are those of a file with the same names.
TEST_P(CoveredChains, ParametersAreSetLater) {
  Random random(5);
  const std::vector<int32_t> coordinates = make_scene(machine().is_software() ? 40 : 200, 5);
  const auto rows = static_cast<int64_t>(coordinates.size()) / 4;
  const std::vector<float> x = draw(rows * 5, random);
  for (const minuet_dataflow dataflow : dataflows()) {
    NetworkSpec spec = spec_of(network_of(""), dataflow);
    spec.without_values = true, spec.seed = 0;
    const Plan plan = make_network(machine(), spec);
    minuet_parameters_options given = MINUET_PARAMETERS_OPTIONS_INIT;
    minuet_parameters* made = nullptr;
    check(minuet_parameters_create(plan.get(), machine().device(), &given, &made));
    const Parameters parameters(made, {minuet_parameters_destroy});
    minuet_execution_options options = options_of();
    options.parameters = parameters.get();
    const Execution execution = make_execution(machine(), plan.get(), &options);
    check(prepare(machine(), execution.get(), coordinates));
    for (int again = 0; again < 2; ++again) {
      std::map<std::string, FileTensor> values;
      std::vector<int32_t> numbers;
      std::vector<minuet_array> arrays;
      for (int32_t i = 0; i < info_of(plan.get()).parameter_tensors; ++i) {
        minuet_parameter_info info{};
        info.struct_size = sizeof(info);
        check(minuet_plan_query_parameter(plan.get(), i, &info));
        const std::vector<int64_t> shape(info.shape, info.shape + info.rank);
        int64_t count = 1;
        for (const int64_t size : shape) count *= size;
        FileTensor& tensor = values[info.name] = {shape, {}};
        const bool is_variance = std::string(info.name).find("running_var") != std::string::npos;
        for (int64_t j = 0; j < count; ++j) {
          tensor.values.push_back(static_cast<float>(is_variance      ? random.uniform(0.5, 2)
                                                     : info.rank == 1 ? random.uniform(-1, 1)
                                                                      : random.uniform(-0.2, 0.2)));
        }
        numbers.push_back(i);
        arrays.push_back(array_of(tensor.values.data(), shape, MINUET_ELEMENT_F32, /*on_host=*/true));
      }
      for (const char* const name : {"n1.running_mean", "n2.weight", "s1.weight", "s1.bias", "a.conv.bias",
                                     "n3.bias", "n5.running_var", "s2.bias", "head.bias"}) {
        EXPECT_EQ(values.count(name), 1u) << name;
      }
      check(minuet_parameters_set(parameters.get(), numbers.data(), arrays.data(),
                                  static_cast<int32_t>(arrays.size()), MINUET_WEIGHTS_AS_DESCRIBED, nullptr));
      const std::vector<ChainRun> runs = run_prepared(plan.get(), execution.get(), rows, {x});
      const TemporaryPath file("set.safetensors");
      write_safetensors(file.path(), values);
      NetworkSpec filled = spec_of(network_of(""), dataflow);
      filled.weights = file.path();
      EXPECT_EQ(run(make_network(machine(), filled).get(), coordinates, {x}), runs) << again;
    }
  }
}

/// Messages name the parameters of a covered chain by their own names.
TEST_P(CoveredChains, FilesThatDoNotFit) {
  const auto refusal_of = [&](const std::map<std::string, FileTensor>& values) {
    const TemporaryPath file("refused.safetensors");
    write_safetensors(file.path(), values);
    NetworkSpec spec = spec_of(
        R"({"name": "n", "ndim": 3, "in_channels": 1, "layers": [
          {"op": "block", "name": "a", "out_channels": 2, "bias": true, "norm": "none", "activation": "none"},
          {"op": "scale_shift", "name": "s"},
          {"op": "block", "name": "b", "out_channels": 2, "norm": "none", "activation": "none"},
          {"op": "batch_norm", "name": "n"}]})",
        MINUET_DATAFLOW_AUTO);
    spec.weights = file.path();
    Plan plan(nullptr, {minuet_plan_destroy});
    EXPECT_EQ(create_network(machine(), spec, plan), MINUET_INVALID_ARGUMENT);
    return last_error();
  };
  std::map<std::string, FileTensor> good{{"a.conv.weight", {{1, 1, 2}, {1, 1}}},
                                         {"b.conv.weight", {{1, 2, 2}, {1, 1, 1, 1}}}};
  for (const char* const name :
       {"a.conv.bias", "s.weight", "s.bias", "n.weight", "n.bias", "n.running_mean", "n.running_var"}) {
    good[name] = {{2}, {1, 2}};
  }
  std::map<std::string, FileTensor> values = good;
  values.erase("s.bias");
  EXPECT_THAT(refusal_of(values), testing::HasSubstr("1 tensor is missing: \"s.bias\""));
  values = good;
  values["a.conv.bias"].values[1] = 3e38f;
  EXPECT_THAT(refusal_of(values), testing::HasSubstr("\"a.conv.bias\" and \"s.bias\" shift channel 1 by 6"));
  values = good;
  values["n.running_var"].values[1] = -3;
  EXPECT_THAT(refusal_of(values), testing::HasSubstr("\"n.running_var\" of channel 1 is -3"));
  values = good;
  for (const char* const name : {"n.weight", "n.bias", "n.running_mean", "n.running_var"}) values.erase(name);
  EXPECT_THAT(refusal_of(values), testing::AllOf(testing::HasSubstr("4 tensors are missing"),
                                                 testing::Not(testing::HasSubstr("\"norm\""))));
}

MINUET_INSTANTIATE_DEVICE_TEST(CoveredChains);

}  // namespace
}  // namespace minuet::abi
