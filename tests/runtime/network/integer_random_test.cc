// Random networks whose convolutions compute in 8 bits, all that can or some of them, on every device: the
// ranges are those of the same cloud, so that results are near those of the floating network.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "include/minuet/quantize.h"
#include "tests/cases/random_networks.h"
#include "tests/runtime/execution/random_run.h"
#include "tests/support/network_abi.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

constexpr int kIntegerNetworks = kSanitized ? 6 : 30, kLongIntegerNetworks = 1000;
/// Limits the relative errors of all networks, and their median. A wrong scale gives errors of 0.5 and more.
/// A few narrow networks that cancel what they compute have such errors too: one of about 4000.
constexpr double kWorstError = 2, kMedianError = 0.05;

struct QuantizedResult {
  int int8_layers = 0;
  double relative_error = 0;
};

class IntegerRandom : public DeviceTest {
 protected:
  NetworkSpec spec_of(const NetworkCase& test, const std::string& description) const {
    NetworkSpec spec;
    spec.description = description, spec.dtype = test.dtype, spec.seed = test.seed;
    spec.dataflow = MINUET_DATAFLOW_AUTO;
    return spec;
  }

  std::vector<NetworkRun> run(const NetworkCase& test, minuet_plan* plan) {
    const Execution execution = make_execution(machine(), plan);
    const std::vector<float> features = oracle::draw_features(test.points * test.in_channels, test.seed);
    return run_graph(machine(), plan, execution.get(), test.coordinates(), {encode(test.dtype, features)},
                     test.dtype, test.ndim);
  }

  static std::string observed(minuet_plan* plan) {
    size_t needed = 0;
    check(minuet_plan_observe(plan, nullptr, 0, &needed));
    std::string text(needed, '\0');
    check(minuet_plan_observe(plan, text.data(), needed, &needed));
    text.resize(needed - 1);
    return text;
  }

  /// The layers' names and ranges, from the outputs of an observed network.
  void take_ranges(const NetworkCase& test, minuet_plan* plan, const std::vector<NetworkRun>& runs) {
    names_.clear(), ranges_.clear();
    for (size_t i = 0; i < runs.size(); ++i) {
      const std::string name = output_of(plan, static_cast<int32_t>(i)).name;
      if (name.rfind("layer:", 0) != 0) continue;
      float largest = 0;
      for (const float value : decode(test.dtype, runs[i].bytes))
        largest = std::max(largest, std::abs(value));
      names_.push_back(name.substr(6));
      ranges_.push_back(largest);
    }
  }

  std::string quantized(minuet_plan* plan, std::vector<int32_t>& is_int8) const {
    std::vector<const char*> layers;
    for (const std::string& name : names_) layers.push_back(name.c_str());
    std::string text(1 << 16, '\0');
    size_t needed = 0;
    check(minuet_plan_quantize(plan, layers.data(), ranges_.data(), is_int8.data(),
                               static_cast<int32_t>(layers.size()), nullptr, nullptr, text.data(),
                               text.size(), &needed));
    EXPECT_LE(needed, text.size());
    text.resize(needed - 1);
    return text;
  }

  QuantizedResult run_case(const NetworkCase& test) {
    const Plan plan = make_network(machine(), spec_of(test, test.json()));
    const Plan watched = make_network(machine(), spec_of(test, observed(plan.get())));
    const std::vector<NetworkRun> floating = run(test, watched.get());
    take_ranges(test, watched.get(), floating);
    if (names_.empty()) return {};
    Random random(test.seed + 5);
    std::vector<int32_t> is_int8;
    for (size_t i = 0; i < names_.size(); ++i) is_int8.push_back(random.below(5) != 0 ? 1 : 0);
    const NetworkSpec spec = spec_of(test, quantized(plan.get(), is_int8));
    const Plan made = make_network(machine(), spec);
    EXPECT_EQ(description_of(made.get()), spec.description);
    const std::vector<NetworkRun> given = run(test, made.get());
    EXPECT_EQ(given.size(), 1u);
    EXPECT_EQ(given[0].coordinates, floating[0].coordinates);
    double error = 0, norm = 0;
    const std::vector<float> wanted = decode(test.dtype, floating[0].bytes),
                             values = decode(test.dtype, given[0].bytes);
    for (size_t i = 0; i < wanted.size(); ++i) {
      error += std::pow(static_cast<double>(values[i]) - wanted[i], 2);
      norm += std::pow(static_cast<double>(wanted[i]), 2);
    }
    QuantizedResult result;
    for (const int32_t each : is_int8) result.int8_layers += each;
    result.relative_error = norm == 0 ? std::sqrt(error) : std::sqrt(error / norm);
    return result;
  }

  std::vector<std::string> names_;
  std::vector<float> ranges_;
};

TEST_P(IntegerRandom, NetworksAreNearTheFloatingOnes) {
  const int count = case_count(machine().is_cpu()        ? kIntegerNetworks
                               : machine().is_software() ? 2
                                                         : 8,
                               kLongIntegerNetworks);
  const uint64_t seed = announce_seed(count);
  std::vector<double> errors;
  for (int i = 0; i < count; ++i) {
    const NetworkCase test = draw_network(dtype(), seed + static_cast<uint64_t>(i));
    SCOPED_TRACE(as_initializer(test));
    const QuantizedResult result = run_case(test);
    if (result.int8_layers == 0) continue;
    errors.push_back(result.relative_error);
    EXPECT_LE(result.relative_error, kWorstError) << result.int8_layers;
  }
  if (count < 10) return;
  ASSERT_GT(static_cast<int>(errors.size()), count / 6);
  std::sort(errors.begin(), errors.end());
  EXPECT_LT(errors[errors.size() / 2], kMedianError);
}

MINUET_INSTANTIATE_DEVICE_TEST(IntegerRandom);

}  // namespace
}  // namespace minuet::abi
