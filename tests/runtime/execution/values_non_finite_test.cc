// Parameters that are infinite or NaN, of a training that diverges: refused unless they are allowed, and then
// results are what IEEE arithmetic makes of them, behind a ReLU too.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/support/compare.h"
#include "tests/support/network_abi.h"
#include "tests/support/rounding.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class NonFiniteTest : public DeviceTest {
 protected:
  ConvolutionCase submanifold(bool relu) {
    ConvolutionCase test =
        small_case(dtype(), ConvolutionKind::Submanifold, 5, 24, machine().is_software() ? 40 : 300);
    test.scale_shift = true;
    test.residual = false;
    test.activation = relu ? Activation::ReLU : Activation::None;
    return test;
  }

  Plan make_plan(const ConvolutionCase& test, const ConvolutionData& data, minuet_dataflow dataflow) {
    minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
    options.dtype = abi_dtype(dtype());
    options.in_channels = test.in_channels, options.out_channels = test.out_channels;
    std::copy_n(test.kernel_size.begin(), 3, options.kernel_size);
    options.submanifold = 1;
    options.activation = static_cast<minuet_activation>(test.activation);
    options.dataflow = dataflow;
    options.weight = data.weight.data(), options.weight_count = static_cast<int64_t>(data.weight.size());
    options.scale = data.scale.data(), options.scale_count = static_cast<int64_t>(data.scale.size());
    options.shift = data.shift.data(), options.shift_count = static_cast<int64_t>(data.shift.size());
    minuet_plan* made = nullptr;
    EXPECT_EQ(minuet_plan_create_convolution(machine().context(), &options, &made), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(),
                HasSubstr("the option allow_non_finite_parameters takes parameters as they are"));
    options.allow_non_finite_parameters = 1;
    check(minuet_plan_create_convolution(machine().context(), &options, &made));
    Plan plan(made, {minuet_plan_destroy});
    check(minuet_plan_compile(made, machine().arch().c_str(), nullptr, nullptr));
    check(minuet_plan_load(made, machine().device()));
    return plan;
  }

  void check_convolution(const ConvolutionCase& test, const ConvolutionData& data, minuet_dataflow dataflow) {
    const Map map = make_map(machine(), test, data);
    const Plan plan = make_plan(test, data, dataflow);
    const Execution execution = make_execution(machine(), plan.get());
    check(prepare_map(execution.get(), map.map.get()));
    const Buffer input(machine(), encode(dtype(), data.features));
    const Buffer output(machine(), data.out_rows() * test.out_channels * dtype_bytes(dtype()));
    check(run_tensors(execution.get(), {tensor(input, data.in_rows(), test.in_channels, dtype())},
                      tensor(output, data.out_rows(), test.out_channels, dtype())));
    // A kernel that multiplies zeros for the inputs that are not there may make NaN of these.
    const bool multiplies_zeros = dataflow == MINUET_DATAFLOW_FUSED && !machine().is_cpu();
    ConvolutionData rounded = data;
    rounded.weight = round_to(dtype(), data.weight);
    expect_ieee(test, rounded, decode(dtype(), output.read<char>()), multiplies_zeros);
    int32_t layer = -1;
    check(minuet_execution_find_overflow(execution.get(), nullptr, &layer));
    EXPECT_EQ(layer, 0) << "the layer is named";
  }

  void expect_ieee(const ConvolutionCase& test, const ConvolutionData& data, std::vector<float> output,
                   bool may_be_nan) {
    std::vector<double> magnitudes;
    std::vector<double> expected = expected_output(test, data, &magnitudes);
    ASSERT_EQ(output.size(), expected.size());
    int special = 0;
    for (size_t i = 0; i < output.size(); ++i) {
      const bool is_excused = may_be_nan && std::isnan(output[i]);
      if (std::isfinite(expected[i]) && !is_excused) continue;
      ++special;
      if (!is_excused) {
        EXPECT_EQ(std::isnan(output[i]), std::isnan(expected[i])) << i << ": " << output[i];
        if (std::isinf(expected[i])) {
          EXPECT_EQ(static_cast<double>(output[i]), expected[i]) << i;
        }
      }
      output[i] = 0, expected[i] = 0, magnitudes[i] = 1;
    }
    EXPECT_GT(special, 0);
    EXPECT_LT(special, static_cast<int>(output.size())) << "channels are apart from one another";
    EXPECT_TRUE(is_close(output, expected, magnitudes, test.out_channels, dtype()));
  }
};

TEST_P(NonFiniteTest, WeightsScalesAndShiftsOfAConvolution) {
  struct Row {
    const char* what;
    std::function<void(ConvolutionData&)> change;
  };
  constexpr int kIn = 5, kOut = 24;
  const auto weight_at = [](ConvolutionData& data, int k, int in, int out) -> float& {
    return data.weight[(k * kIn + in) * kOut + out];
  };
  const Row rows[] = {
      {"a NaN weight at the centre", [&](auto& data) { weight_at(data, 13, 2, 3) = kNan; }},
      {"a NaN weight at a neighbour", [&](auto& data) { weight_at(data, 14, 4, 23) = kNan; }},
      {"infinite weights",
       [&](auto& data) { weight_at(data, 13, 0, 7) = kInfinity, weight_at(data, 13, 0, 8) = -kInfinity; }},
      {"both infinities in one sum",
       [&](auto& data) { weight_at(data, 13, 0, 5) = kInfinity, weight_at(data, 12, 1, 5) = -kInfinity; }},
      {"a scale and a shift",
       [&](auto& data) {
         data.scale[1] = kNan, data.scale[6] = -kInfinity, data.shift[9] = kInfinity,
         data.shift[10] = -kInfinity, data.shift[11] = kNan;
       }},
  };
  for (const Row& row : rows) {
    for (const bool relu : {false, true}) {
      const ConvolutionCase test = submanifold(relu);
      ConvolutionData data = make_data(test);
      row.change(data);
      for (const minuet_dataflow dataflow : {MINUET_DATAFLOW_FUSED, MINUET_DATAFLOW_GATHER_GEMM_SCATTER}) {
        if (machine().is_software() && (relu != (dataflow == MINUET_DATAFLOW_FUSED))) continue;
        SCOPED_TRACE(std::string(row.what) + (relu ? ", relu, dataflow " : ", dataflow ") +
                     std::to_string(dataflow));
        check_convolution(test, data, dataflow);
      }
    }
  }
}

/// Finite as fp32, and infinite as fp16 and bf16 have it.
TEST_P(NonFiniteTest, AWeightPastTheDtypesRange) {
  if (dtype() == DType::F32) return;
  const ConvolutionCase test = submanifold(true);
  ConvolutionData data = make_data(test);
  data.weight[13 * 5 * 24 + 3] = dtype() == DType::F16 ? 65520.0f : std::numeric_limits<float>::max();
  check_convolution(test, data, MINUET_DATAFLOW_AUTO);
}

constexpr const char* kBlockAndHead =
    R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [8], "layers": [
  {"op": "block", "name": "a", "width": 0, "kernel_size": 1}, {"op": "head", "name": "h", "classes": 3}]})";

std::map<std::string, FileTensor> block_and_head() {
  std::map<std::string, FileTensor> tensors;
  const auto add = [&](const std::string& name, std::vector<int64_t> shape, float value) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    tensors[name] = {std::move(shape), std::vector<float>(static_cast<size_t>(count), value)};
  };
  add("a.conv.weight", {1, 4, 8}, 0.5f);
  for (const char* const name : {"weight", "running_var"}) add(std::string("a.bn.") + name, {8}, 1);
  for (const char* const name : {"bias", "running_mean"}) add(std::string("a.bn.") + name, {8}, 0.25f);
  add("h.weight", {1, 8, 3}, 0.125f);
  add("h.bias", {3}, 1);
  return tensors;
}

/// Every kind of tensor of a weights file: a channel that is spoilt in the block, behind whose ReLU it must
/// still be seen, spoils all classes, and one of the head its own.
TEST_P(NonFiniteTest, ParametersOfANetwork) {
  struct Row {
    const char* tensor;
    size_t place;
    float value;
    bool all_classes;  // else the first one
    int32_t layer;
    float result;
  };
  const Row rows[] = {
      {"a.conv.weight", 8 + 5, kNan, true, 0, kNan},
      {"a.conv.weight", 3, kInfinity, true, 0, kInfinity},
      {"a.bn.weight", 2, kNan, true, 0, kNan},
      {"a.bn.bias", 7, kNan, true, 0, kNan},
      {"a.bn.running_mean", 0, kNan, true, 0, kNan},
      {"a.bn.running_var", 1, kNan, true, 0, kNan},
      {"a.bn.running_var", 1, -kInfinity, true, 0, kNan},
      {"a.bn.running_var", 1, -1, true, 0, kNan},
      {"a.bn.running_var", 1, -1e-4f, true, 0, kNan},
      {"h.weight", 0, kNan, false, 1, kNan},
      {"h.bias", 0, kInfinity, false, 1, kInfinity},
      {"h.bias", 0, -kInfinity, false, 1, -kInfinity},
  };
  const std::vector<int32_t> cloud{0, 0, 0, 0, /**/ 0, 1, 0, 0, /**/ 0, 5, 5, 5};
  const std::vector<char> features = encode(dtype(), std::vector<float>(12, 0.5f));
  NetworkSpec spec;
  spec.description = kBlockAndHead, spec.dtype = dtype();
  for (const Row& row : rows) {
    SCOPED_TRACE(std::string(row.tensor) + " " + std::to_string(row.value));
    std::map<std::string, FileTensor> tensors = block_and_head();
    tensors.at(row.tensor).values[row.place] = row.value;
    const TemporaryPath file("non_finite.safetensors");
    write_safetensors(file.path(), tensors);
    spec.weights = file.path();
    Plan network(nullptr, {minuet_plan_destroy});
    EXPECT_EQ(create_network(machine(), spec, network), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(),
                HasSubstr("the option allow_non_finite_parameters takes parameters as they are"));
    minuet_network_options options = network_options(spec);
    options.allow_non_finite_parameters = 1;
    minuet_plan* made = nullptr;
    check(minuet_plan_create_network(machine().context(), &options, &made));
    network.reset(made);
    check(minuet_plan_compile(made, machine().arch().c_str(), nullptr, nullptr));
    check(minuet_plan_load(made, machine().device()));
    const Execution execution = make_execution(machine(), made);
    const NetworkRun run = run_network(machine(), execution.get(), cloud, features, dtype());
    const std::vector<float> output = decode(dtype(), run.bytes);
    ASSERT_EQ(output.size(), 9u);
    for (size_t i = 0; i < output.size(); ++i) {
      const bool is_spoilt = row.all_classes || i % 3 == 0;
      EXPECT_EQ(std::isfinite(output[i]), !is_spoilt) << i << ": " << output[i];
      if (!is_spoilt) continue;
      EXPECT_TRUE(std::isnan(row.result) ? std::isnan(output[i]) : output[i] == row.result) << output[i];
    }
    int32_t layer = -1;
    check(minuet_execution_find_overflow(execution.get(), nullptr, &layer));
    EXPECT_EQ(layer, row.layer);
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(NonFiniteTest);

}  // namespace
}  // namespace minuet::abi
