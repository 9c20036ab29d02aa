// What tests of chains of pointwise ops share: descriptions, clouds, and runs whose outputs may be integers.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codegen/base/number_text.h"
#include "tests/runtime/execution/pyramid_fixture.h"
#include "tests/support/pointwise_oracle.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {

/// A network whose input `x` goes through a chain. Operands are further inputs, which the fixture calls "o0",
/// "o1" and so on.
struct Chain {
  int channels = 4;
  std::vector<oracle::ChainStep> steps;

  bool is_argmax() const { return steps.back().op == "argmax"; }
  std::map<std::string, FileTensor> parameters() const {
    std::map<std::string, FileTensor> tensors;
    for (size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].op != "affine") continue;
      tensors[name_of(i) + ".weight"] = {{channels}, steps[i].scale};
      tensors[name_of(i) + ".bias"] = {{channels}, steps[i].shift};
    }
    return tensors;
  }
  static std::string name_of(size_t step) { return "layer" + std::to_string(step); }

  /// The layers of the chain. Each result has a name where they are not `merged`.
  std::string layers(bool merged) const {
    std::string text;
    int operand = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      const oracle::ChainStep& step = steps[i];
      const std::string number = general_text(step.number, 9);
      std::string fields = R"("op": ")" + step.op + "\"";
      if (step.op == "gelu_tanh") fields = R"("op": "gelu", "approximate": "tanh")";
      if (step.op == "affine") fields = R"("op": "scale_shift", "name": ")" + name_of(i) + "\"";
      if (step.op == "leaky_relu") fields += R"(, "slope": )" + number;
      if (step.op == "layer_norm") {
        fields += R"(, "name": ")" + name_of(i) + R"(", "affine": false, "epsilon": )" + number;
      }
      if (!step.operand.empty()) fields += R"(, "with": "o)" + std::to_string(operand++) + "\"";
      if (!merged) fields += R"(, "output": "r)" + std::to_string(i) + "\"";
      text += (i == 0 ? "{" : ", {") + fields + "}";
    }
    return text;
  }
  std::string describe(bool merged = true) const {
    std::string inputs = R"({"name": "x", "channels": )" + std::to_string(channels) + "}";
    int operands = 0;
    for (const oracle::ChainStep& step : steps) {
      if (step.operand.empty()) continue;
      inputs += R"(, {"name": "o)" + std::to_string(operands++) + R"(", "channels": )" +
                std::to_string(channels) + R"(, "level": "x"})";
    }
    return R"({"name": "chain", "ndim": 3, "inputs": [)" + inputs + R"(], "layers": [)" + layers(merged) +
           "]}";
  }
  /// The numbers of each input: first those of `x`.
  std::vector<std::vector<float>> inputs(const std::vector<float>& x) const {
    std::vector<std::vector<float>> all{x};
    for (const oracle::ChainStep& step : steps) {
      if (!step.operand.empty()) all.push_back(step.operand);
    }
    return all;
  }
};

/// What a run of a network gives: numbers, or the integers of an argmax.
struct ChainRun {
  std::vector<float> values;
  std::vector<int32_t> integers;
  bool operator==(const ChainRun&) const = default;
};

class PointwiseTest : public DeviceTest {
 protected:
  /// Numbers that the dtype holds.
  std::vector<float> draw(int64_t count, Random& random, double size = 2) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(random.uniform(-size, size));
    return round_to(dtype(), std::move(values));
  }
  /// A step with operands for `rows` rows and with parameters.
  oracle::ChainStep make_step(const std::string& op, int channels, int64_t rows, Random& random) {
    oracle::ChainStep step{op};
    if (op == "leaky_relu" || op == "leaky_relu_gradient") step.number = -0.25;
    if (op == "layer_norm" || op == "layer_norm_gradient") step.number = 0.0009765625;
    // An operand without elements would look like none.
    if (oracle::reads_operand(op)) step.operand = draw(std::max<int64_t>(rows, 1) * channels, random);
    if (op != "affine") return step;
    for (int c = 0; c < channels; ++c) {
      step.scale.push_back(static_cast<float>(random.uniform(-1.5, 1.5)));
      step.shift.push_back(static_cast<float>(random.uniform(-1, 1)));
    }
    return step;
  }
  Chain make_chain(const std::vector<std::string>& ops, int channels, int64_t rows, Random& random) {
    Chain chain{channels, {}};
    for (const std::string& op : ops) chain.steps.push_back(make_step(op, channels, rows, random));
    return chain;
  }

  Plan plan_of(const std::string& description, const std::map<std::string, FileTensor>& parameters = {}) {
    NetworkSpec spec;
    spec.description = description;
    spec.dtype = dtype();
    const TemporaryPath file("pointwise.safetensors");
    if (!parameters.empty()) {
      write_safetensors(file.path(), parameters);
      spec.weights = file.path();
    }
    return make_network(machine(), spec);
  }
  Plan plan_of(const Chain& chain, bool merged = true) {
    return plan_of(chain.describe(merged), chain.parameters());
  }

  minuet_element element() const {
    return dtype() == DType::TF32 ? MINUET_ELEMENT_F32 : static_cast<minuet_element>(abi_dtype(dtype()));
  }
  static bool holds_integers(const minuet_tensor_info& info) { return info.element == MINUET_ELEMENT_I32; }
  ChainRun decoded(const minuet_tensor_info& info, const Buffer& output) const {
    if (holds_integers(info)) return {{}, output.read<int32_t>()};
    return {decode(dtype(), output.read<char>()), {}};
  }
  int64_t row_bytes(const minuet_tensor_info& info) const {
    return info.channels * (holds_integers(info) ? 4 : dtype_bytes(dtype()));
  }

  /// Runs what is prepared for `rows` rows of the caller. Outputs are poisoned before.
  std::vector<ChainRun> run_prepared(minuet_plan* plan, minuet_execution* execution, int64_t rows,
                                     const std::vector<std::vector<float>>& inputs) {
    std::deque<Buffer> memory;
    std::vector<minuet_array> in, out;
    std::vector<minuet_tensor_info> infos;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int64_t channels = input_of(plan, static_cast<int32_t>(i)).channels;
      std::vector<float> padded = inputs[i];
      padded.resize(static_cast<size_t>(rows * channels));
      in.push_back(array_of(memory.emplace_back(machine(), encode(dtype(), padded)).data(), {rows, channels},
                            element()));
    }
    const size_t first = memory.size();
    for (int32_t i = 0; i < info_of(plan).outputs; ++i) {
      const minuet_tensor_info& info = infos.emplace_back(output_of(plan, i));
      out.push_back(array_of(memory.emplace_back(machine(), rows * row_bytes(info)).data(),
                             {rows, info.channels}, info.element));
    }
    check(run_arrays(execution, in, out));
    std::vector<ChainRun> runs;
    for (size_t i = 0; i < infos.size(); ++i) runs.push_back(decoded(infos[i], memory[first + i]));
    return runs;
  }
  std::vector<ChainRun> run(minuet_plan* plan, const std::vector<int32_t>& coordinates,
                            const std::vector<std::vector<float>>& inputs) {
    const minuet_execution_options options = options_of();
    const Execution execution = make_execution(machine(), plan, &options);
    check(prepare(machine(), execution.get(), coordinates));
    return run_prepared(plan, execution.get(), static_cast<int64_t>(coordinates.size()) / 4, inputs);
  }
  static minuet_execution_options options_of() {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.map_method = tested_maps();
    return options;
  }

  /// `rows` coordinates in an order that is not the library's.
  static std::vector<int32_t> coordinates_of(int64_t rows) {
    std::vector<int32_t> coordinates;
    for (int64_t row = rows; row-- > 0;) {
      const auto number = static_cast<int32_t>(row);
      coordinates.insert(coordinates.end(), {number % 2, number / 7 - 3, number % 7, 5 - number / 3});
    }
    return coordinates;
  }

  void expect_chain(const Chain& chain, const ChainRun& run, const std::vector<float>& x) {
    const oracle::ChainResult expected = oracle::evaluate_chain(chain.steps, x, chain.channels);
    if (chain.is_argmax()) {
      EXPECT_TRUE(oracle::is_argmax_of(run.integers, expected, chain.channels));
    } else {
      EXPECT_TRUE(oracle::is_chain(run.values, expected, dtype()));
    }
  }
  void expect_chain(const Chain& chain, int64_t rows, Random& random) {
    SCOPED_TRACE(chain.describe() + " " + std::to_string(rows));
    const std::vector<float> x = draw(rows * chain.channels, random);
    std::vector<std::vector<float>> inputs = chain.inputs(x);
    const Plan plan = plan_of(chain);
    expect_chain(chain, run(plan.get(), coordinates_of(rows), inputs)[0], x);
  }
};

}  // namespace minuet::abi
