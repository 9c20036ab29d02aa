// Parameters of chains of pointwise ops: batch norms, scales, shifts and layer norms, from files, from sets
// that a caller fills, and in serialized plans.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/runtime/execution/pointwise_fixture.h"

namespace minuet::abi {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Parameters = Handle<minuet_parameters>;

constexpr int kChannels = 12;
// Four kinds of parameters and an activation in one chain of seven steps.
constexpr const char* kNorms =
    R"({"name": "n", "ndim": 3, "in_channels": 12, "batch_norm_epsilon": 0.25, "layers": [
    {"op": "batch_norm", "name": "a"}, {"op": "silu"},
    {"op": "batch_norm", "name": "b", "affine": false, "epsilon": 0.5},
    {"op": "layer_norm", "name": "c", "epsilon": 0.125}, {"op": "scale_shift", "name": "d"}]})";

class PointwiseParameters : public PointwiseTest {
 protected:
  using Values = std::map<std::string, FileTensor>;

  static Values draw_values(uint64_t seed) {
    Random random(seed);
    Values values;
    const auto add = [&](const std::string& name, double least, double most) {
      FileTensor& tensor = values[name] = {{kChannels}, {}};
      for (int c = 0; c < kChannels; ++c) {
        tensor.values.push_back(static_cast<float>(random.uniform(least, most)));
      }
    };
    for (const char* name : {"a", "c", "d"}) {
      add(std::string(name) + ".weight", -1.5, 1.5), add(std::string(name) + ".bias", -1, 1);
    }
    for (const char* name : {"a", "b"}) {
      add(std::string(name) + ".running_mean", -1, 1), add(std::string(name) + ".running_var", 0.25, 3);
    }
    return values;
  }
  static oracle::ChainStep affine(const Values& values, const std::string& name) {
    return {"affine", 0, {}, values.at(name + ".weight").values, values.at(name + ".bias").values};
  }
  /// A batch norm is an affine step, whose scale and shift are rounded to fp32.
  static oracle::ChainStep batch_norm(const Values& values, const std::string& name, double epsilon) {
    oracle::ChainStep step{"affine"};
    const std::vector<float>&mean = values.at(name + ".running_mean").values,
          &variance = values.at(name + ".running_var").values;
    for (size_t c = 0; c < kChannels; ++c) {
      const bool has_weight = values.count(name + ".weight") != 0;
      const double weight = has_weight ? values.at(name + ".weight").values[c] : 1;
      const double bias = has_weight ? values.at(name + ".bias").values[c] : 0;
      const double scale = weight / std::sqrt(variance[c] + epsilon);
      step.scale.push_back(static_cast<float>(scale));
      step.shift.push_back(static_cast<float>(bias - mean[c] * scale));
    }
    return step;
  }
  static Chain chain_of(const Values& values) {
    return {kChannels,
            {batch_norm(values, "a", 0.25),
             {"silu"},
             batch_norm(values, "b", 0.5),
             {"layer_norm", 0.125},
             affine(values, "c"),
             affine(values, "d")}};
  }

  Plan plan_without_values() {
    NetworkSpec spec;
    spec.description = kNorms;
    spec.dtype = dtype();
    spec.without_values = true;
    spec.seed = 0;
    return make_network(machine(), spec);
  }
  /// Sets some parameters, or all if there are no `names`.
  void set(minuet_plan* plan, minuet_parameters* parameters, const Values& values,
           const std::vector<std::string>& names = {}) {
    std::vector<int32_t> numbers;
    std::vector<minuet_array> arrays;
    for (int32_t i = 0; i < info_of(plan).parameter_tensors; ++i) {
      minuet_parameter_info info{};
      info.struct_size = sizeof(info);
      check(minuet_plan_query_parameter(plan, i, &info));
      EXPECT_EQ(info.rank, 1);
      EXPECT_EQ(info.shape[0], kChannels);
      if (!names.empty() && std::find(names.begin(), names.end(), info.name) == names.end()) continue;
      numbers.push_back(i);
      arrays.push_back(array_of(const_cast<float*>(values.at(info.name).values.data()), {kChannels},
                                MINUET_ELEMENT_F32, /*on_host=*/true));
    }
    check(minuet_parameters_set(parameters, numbers.data(), arrays.data(),
                                static_cast<int32_t>(arrays.size()), MINUET_WEIGHTS_AS_DESCRIBED, nullptr));
  }
};

TEST_P(PointwiseParameters, EveryStepWithParameters) {
  Random random(1);
  for (const int channels : machine().is_software() ? std::vector{20} : std::vector{1, 7, 20, 64, 301}) {
    expect_chain(make_chain({"affine"}, channels, 70, random), 70, random);
    expect_chain(make_chain({"layer_norm"}, channels, 70, random), 70, random);
  }
  expect_chain(
      make_chain({"layer_norm", "affine", "gelu", "affine", "add", "affine", "softmax"}, 40, 30, random), 30,
      random);
}

TEST_P(PointwiseParameters, RandomChains) {
  const std::vector<std::string> ops{"affine",  "layer_norm", "silu",     "add",
                                     "softmax", "relu",       "multiply", "tanh"};
  Random random(2);
  for (int i = 0; i < (machine().is_software() ? 2 : 12); ++i) {
    const auto channels = static_cast<int>(random.between(1, 300));
    const int64_t rows = random.between(0, 90);
    std::vector<std::string> drawn;
    for (int64_t step = random.between(2, 8); step > 0; --step)
      drawn.push_back(ops[random.below(ops.size())]);
    expect_chain(make_chain(drawn, channels, rows, random), rows, random);
  }
}

TEST_P(PointwiseParameters, FromAFile) {
  const Values values = draw_values(3);
  const Plan plan = plan_of(kNorms, values);
  EXPECT_EQ(info_of(plan.get()).layers, 1);
  Random random(4);
  const std::vector<float> x = draw(50 * kChannels, random);
  expect_chain(chain_of(values), run(plan.get(), coordinates_of(50), {x})[0], x);
}

/// Sets of values, of which some change later, and layer by layer in a network that names each result.
TEST_P(PointwiseParameters, FromASet) {
  const Plan plan = plan_without_values();
  minuet_parameters_options given = MINUET_PARAMETERS_OPTIONS_INIT;
  minuet_parameters* made = nullptr;
  check(minuet_parameters_create(plan.get(), machine().device(), &given, &made));
  const Parameters parameters(made, {minuet_parameters_destroy});
  minuet_execution_options options = options_of();
  options.parameters = parameters.get();
  const Execution execution = make_execution(machine(), plan.get(), &options);
  check(prepare(machine(), execution.get(), coordinates_of(40)));
  Values values = draw_values(5);
  set(plan.get(), parameters.get(), values);
  Random random(6);
  const std::vector<float> x = draw(40 * kChannels, random);
  expect_chain(chain_of(values), run_prepared(plan.get(), execution.get(), 40, {x})[0], x);
  const Values others = draw_values(7);
  const std::vector<std::string> changed{"b.running_var", "c.bias", "d.weight"};
  for (const std::string& name : changed) values[name] = others.at(name);
  set(plan.get(), parameters.get(), others, changed);
  expect_chain(chain_of(values), run_prepared(plan.get(), execution.get(), 40, {x})[0], x);
  for (int32_t i = 0; i < info_of(plan.get()).parameter_tensors; ++i) {
    minuet_parameter_info info{};
    info.struct_size = sizeof(info);
    check(minuet_plan_query_parameter(plan.get(), i, &info));
    std::vector<float> got(kChannels);
    const minuet_array array = array_of(got.data(), {kChannels}, MINUET_ELEMENT_F32, /*on_host=*/true);
    check(minuet_parameters_get(parameters.get(), i, &array, nullptr));
    EXPECT_EQ(got, values.at(info.name).values) << info.name;
  }
}

TEST_P(PointwiseParameters, InASerializedPlan) {
  const Values values = draw_values(8);
  const Plan plan = plan_of(kNorms, values);
  Random random(9);
  const std::vector<float> x = draw(30 * kChannels, random);
  const ChainRun expected = run(plan.get(), coordinates_of(30), {x})[0];
  size_t bytes = 0;
  const char* const arch = machine().arch().c_str();
  const char* const* const archs = machine().is_cpu() ? nullptr : &arch;
  const int32_t count = machine().is_cpu() ? 0 : 1;
  check(minuet_plan_serialize(plan.get(), archs, count, 0, nullptr, 0, &bytes));
  std::vector<char> memory(bytes);
  check(minuet_plan_serialize(plan.get(), archs, count, 0, memory.data(), bytes, &bytes));
  minuet_plan* made = nullptr;
  check(minuet_plan_deserialize(machine().context(), memory.data(), memory.size(), &made));
  const Plan again(made, {minuet_plan_destroy});
  check(minuet_plan_compile(made, machine().arch().c_str(), nullptr, nullptr));
  check(minuet_plan_load(made, machine().device()));
  EXPECT_EQ(run(made, coordinates_of(30), {x})[0], expected);
}

/// Merged or not, parameters have the same names, and random values depend on them alone.
TEST_P(PointwiseParameters, NamesDoNotDependOnMerging) {
  std::string apart = kNorms;
  apart.replace(apart.find(R"("name": "a")"), 11, R"("name": "a", "output": "r")");
  const Plan merged = plan_of(kNorms), saved = plan_of(apart);
  EXPECT_EQ(info_of(saved.get()).layers, 2);
  ASSERT_EQ(info_of(merged.get()).parameter_tensors, info_of(saved.get()).parameter_tensors);
  for (int32_t i = 0; i < info_of(merged.get()).parameter_tensors; ++i) {
    minuet_parameter_info one{}, other{};
    one.struct_size = other.struct_size = sizeof(one);
    check(minuet_plan_query_parameter(merged.get(), i, &one));
    check(minuet_plan_query_parameter(saved.get(), i, &other));
    EXPECT_STREQ(one.name, other.name);
  }
  if (dtype() != DType::F32) return;
  Random random(10);
  const std::vector<float> x = draw(20 * kChannels, random);
  const ChainRun one = run(merged.get(), coordinates_of(20), {x})[0],
                 other = run(saved.get(), coordinates_of(20), {x})[0];
  for (size_t i = 0; i < one.values.size(); ++i) EXPECT_NEAR(one.values[i], other.values[i], 1e-5);
}

TEST_P(PointwiseParameters, FilesThatDoNotFit) {
  const auto refusal_of = [&](const Values& values) {
    const TemporaryPath file("pointwise.safetensors");
    write_safetensors(file.path(), values);
    NetworkSpec spec;
    spec.description = kNorms, spec.dtype = dtype(), spec.weights = file.path();
    Plan plan(nullptr, {minuet_plan_destroy});
    EXPECT_EQ(create_network(machine(), spec, plan), MINUET_INVALID_ARGUMENT);
    return last_error();
  };
  Values values = draw_values(11);
  values.erase("c.bias");
  EXPECT_THAT(refusal_of(values), HasSubstr("1 tensor is missing: \"c.bias\""));
  values = draw_values(11);
  values["d.weight"] = {{kChannels + 1}, std::vector<float>(kChannels + 1)};
  EXPECT_THAT(refusal_of(values), AllOf(HasSubstr("\"d.weight\" has shape [13]"), HasSubstr("[12]")));
  values = draw_values(11);
  values["b.weight"] = {{kChannels}, std::vector<float>(kChannels)};
  EXPECT_THAT(refusal_of(values), HasSubstr("\"b.weight\""));
  values = draw_values(11);
  values["a.running_var"].values[3] = -1;
  EXPECT_THAT(refusal_of(values), HasSubstr("\"a.running_var\" of channel 3"));
}

/// A weight that a layer norm is described without would change its result, so that allow_unused does not
/// allow it.
TEST_P(PointwiseParameters, ParametersBesideABareNormAreRefused) {
  const TemporaryPath file("pointwise.safetensors");
  write_safetensors(file.path(), {{"c.weight", {{4}, std::vector<float>(4)}}, {"spare", {{1}, {1}}}});
  NetworkSpec spec;
  spec.description = R"({"name": "n", "ndim": 3, "in_channels": 4, "layers": [
      {"op": "relu"}, {"op": "layer_norm", "name": "c", "affine": false}]})";
  spec.dtype = dtype(), spec.weights = file.path(), spec.allow_unused = true;
  Plan plan(nullptr, {minuet_plan_destroy});
  EXPECT_EQ(create_network(machine(), spec, plan), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), AllOf(HasSubstr("\"c.weight\""), Not(HasSubstr("spare"))));
}

MINUET_INSTANTIATE_DEVICE_TEST(PointwiseParameters);

}  // namespace
}  // namespace minuet::abi
