// Descriptions that minuet_plan_quantize makes: the convolutions that keep floating numbers because of their
// weights, and the plans of the descriptions.
#include <gmock/gmock.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "minuet/quantize.h"
#include "tests/runtime/network/constant_tensor.h"
#include "tests/support/abi.h"
#include "tests/support/network_abi.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

/// Holds the description that minuet_plan_quantize makes if all convolutions shall compute in 8 bits.
struct QuantizedDescription {
  std::string text;
  std::vector<int32_t> is_int8;
  std::map<int32_t, std::string> reasons;
};

minuet_status quantize(const Plan& plan, const std::vector<const char*>& layers,
                       const std::vector<float>& ranges, QuantizedDescription& made) {
  const minuet_floating_visitor keep = [](int32_t number, const char* reason, void* user) {
    (*static_cast<std::map<int32_t, std::string>*>(user))[number] = reason;
  };
  const auto call = [&](size_t& needed) {
    made.is_int8.assign(layers.size(), 1), made.reasons.clear();
    return minuet_plan_quantize(plan.get(), layers.data(), ranges.data(), made.is_int8.data(),
                                static_cast<int32_t>(layers.size()), keep, &made.reasons, made.text.data(),
                                made.text.size(), &needed);
  };
  size_t needed = 0;
  const minuet_status status = call(needed);
  if (status != MINUET_OK) return status;
  made.text.resize(needed);
  check(call(needed));
  made.text.resize(needed - 1);
  return MINUET_OK;
}

NetworkSpec floating_spec(const std::string& weights, std::string description) {
  NetworkSpec spec;
  spec.dtype = DType::F32, spec.weights = weights, spec.dataflow = MINUET_DATAFLOW_AUTO;
  spec.description = std::move(description);
  return spec;
}

class QuantizedDescriptions : public DeviceTest {
 protected:
  TemporaryPath file_{"quantized.safetensors"};
};

/// The plan of fp32 has the numbers that decide whether the description of 8 bits is refused.
TEST_P(QuantizedDescriptions, LayersWhoseSumsCouldOverflowKeepFloatingNumbers) {
  const NetworkSpec large =
      floating_spec(file_.path(), R"({"name": "large", "ndim": 3, "in_channels": 1, "layers": [
      {"op": "linear", "name": "a", "out_channels": 2500, "bias": false, "activation": "relu"},
      {"op": "block", "name": "b", "out_channels": 1, "kernel_size": 3, "norm": "none"},
      {"op": "block", "name": "c", "out_channels": 1, "kernel_size": 3, "norm": "none"}]})");
  write_safetensors(file_.path(), {{"a.weight", constant({1, 1, 2500}, 1)},
                                   {"b.conv.weight", constant({27, 2500, 1}, 1)},
                                   {"c.conv.weight", constant({27, 1, 1}, 1)}});
  const Plan plan = make_network(machine(), large);
  QuantizedDescription made;
  check(quantize(plan, {"a", "b", "c"}, {1, 1, 1}, made));
  EXPECT_THAT(made.is_int8, testing::ElementsAre(0, 0, 1));
  EXPECT_EQ(made.reasons[0], "it reads the network's input \"input\", which has floating numbers");
  EXPECT_EQ(made.reasons[1],
            "a sum of output channel 0 could reach 2185987500, and sums of 32-bit integers are at most "
            "2147483647");
  EXPECT_EQ(made.reasons.size(), 2u);
  NetworkSpec quantized = floating_spec(file_.path(), made.text);
  quantized.dtype = dtype();
  const minuet_plan_info info = info_of(make_network(machine(), quantized).get());
  EXPECT_EQ(info.convolutions, 3);
  EXPECT_EQ(info.int8_convolutions, 1);
}

constexpr const char* kThree = R"({"name": "three", "ndim": 3, "in_channels": 1, "layers": [
      {"op": "linear", "name": "a", "out_channels": 2, "bias": false, "activation": "relu"},
      {"op": "linear", "name": "b", "out_channels": 1, "bias": false, "activation": "relu"},
      {"op": "linear", "name": "c", "out_channels": 1, "bias": false}]})";

/// The ranges of the input and the result of b are as far apart as ranges can be.
TEST_P(QuantizedDescriptions, LayersWhoseFactorFp32CannotHoldKeepFloatingNumbers) {
  write_safetensors(file_.path(), {{"a.weight", constant({1, 1, 2}, 1)},
                                   {"b.weight", constant({1, 2, 1}, 1)},
                                   {"c.weight", constant({1, 1, 1}, 1)}});
  const Plan plan = make_network(machine(), floating_spec(file_.path(), kThree));
  QuantizedDescription made;
  constexpr auto kLeast = static_cast<float>(MINUET_LEAST_RANGE),
                 kGreatest = static_cast<float>(MINUET_GREATEST_RANGE);
  check(quantize(plan, {"a", "b", "c"}, {kGreatest, kLeast, 1}, made));
  EXPECT_THAT(made.is_int8, testing::ElementsAre(0, 0, 1));
  EXPECT_EQ(made.reasons[1],
            "the scales of output channel 0 give the factor 7.87402e+57, which fp32 cannot hold");
  NetworkSpec quantized = floating_spec(file_.path(), made.text);
  quantized.dtype = dtype();
  EXPECT_EQ(info_of(make_network(machine(), quantized).get()).int8_convolutions, 1);
  EXPECT_EQ(quantize(plan, {"a"}, {2 * kGreatest}, made), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("; it must be 0, or from 1e-30 to 1e+30"));
}

/// Weights that are not finite are an error, unless their convolution keeps floating numbers.
TEST_P(QuantizedDescriptions, WeightsThatAreNotFiniteAreNotQuantized) {
  write_safetensors(file_.path(), {{"a.weight", constant({1, 1, 2}, 1)},
                                   {"b.weight", constant({1, 2, 1}, std::numeric_limits<float>::infinity())},
                                   {"c.weight", constant({1, 1, 1}, 1)}});
  const NetworkSpec floating = floating_spec(file_.path(), kThree);
  minuet_network_options options = network_options(floating);
  options.allow_non_finite_parameters = 1;
  minuet_plan* created = nullptr;
  check(minuet_plan_create_network(machine().context(), &options, &created));
  const Plan plan(created, {minuet_plan_destroy});
  QuantizedDescription made;
  EXPECT_EQ(quantize(plan, {"a", "b", "c"}, {1, 1, 1}, made), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("b: a weight of output channel 0 is inf, which is not finite"));
  check(quantize(plan, {"a", "c"}, {1, 1}, made));
  check(quantize(plan, {"a", "b", "c"}, {0, 1, 1}, made));
  EXPECT_THAT(made.is_int8, testing::ElementsAre(0, 0, 1));
}

MINUET_INSTANTIATE_DEVICE_TEST(QuantizedDescriptions);

}  // namespace
}  // namespace minuet::abi
