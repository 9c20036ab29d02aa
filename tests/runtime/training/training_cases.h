// Cases of training plans, and their comparison with the step in float64.
#pragma once

#include "tests/runtime/training/training_fixture.h"
#include "tests/runtime/training/training_networks.h"

namespace minuet::abi {

/// Sums of other orders may round a number of 16 bits to its neighbour, and a ReLU then passes another
/// element. Each such element changes the gradients behind it by some hundredths in clouds as small as these,
/// so that only fp32 shows that every term is there.
inline double bound_of(DType dtype) { return dtype == DType::F32 ? 2e-6 : 1.5e-1; }

class TrainingTest : public DeviceTest {
 protected:
  double bound_ = bound_of(dtype());

  TrainingCase unet() { return make_case(kUNet, {4}, {8}); }
  TrainingCase chains() { return make_case(kChains, {8, 8}, {8, 8}); }

  /// The outputs lie on level 0.
  TrainingCase make_case(const std::string& description, const std::vector<int>& in_channels,
                         const std::vector<int>& out_channels) {
    TrainingCase test;
    test.description = description;
    test.coordinates = make_scene(machine().is_software() || kSanitized ? 40 : 300, 7);
    for (const int channels : in_channels) test.inputs.push_back(draw(test.rows() * channels, 1));
    for (const int channels : out_channels) test.out_gradients.push_back(draw(test.rows() * channels, 2));
    test.options.input_gradients = (1u << in_channels.size()) - 1;
    return test;
  }
  std::vector<float> draw(int64_t count, uint64_t seed) {
    Random random(seed + static_cast<uint64_t>(count));
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) {
      values.push_back(round_to(storage_type(dtype()), random.uniform(-1, 1)));
    }
    return values;
  }
  /// Room for the cloud and some more.
  static StepOptions usual(const TrainingCase& test) { return {test.rows() + 17}; }

  oracle::TrainingStep expected(const TrainingCase& test) {
    oracle::TrainingStepOptions options;
    options.dtype = dtype();
    options.has_frozen_norms = test.options.frozen_batch_norms != 0;
    if (test.options.momentum != 0) options.momentum = static_cast<double>(test.options.momentum);
    return {test.description, test.parameters, test.coordinates, test.inputs, options};
  }
  /// Compares numbers by the norm of their difference, relative to that of the reference or to `least`.
  void expect_near(const std::string& what, const std::vector<float>& got,
                   const std::vector<double>& reference, double least = 0) {
    ASSERT_EQ(got.size(), reference.size()) << what;
    double error = 0, size = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      error += std::pow(static_cast<double>(got[i]) - reference[i], 2);
      size += std::pow(reference[i], 2);
    }
    EXPECT_LE(std::sqrt(error), bound_ * std::max(std::sqrt(size), least)) << what;
  }
  /// `least` is as for expect_near(), for the gradient of the parameter `of`, or of all parameters if it is
  /// "".
  void expect_step(const TrainingCase& test, const StepResult& got, double least = 0,
                   const std::string& of = "") {
    oracle::TrainingStep step = expected(test);
    step.backward(test.out_gradients);
    for (size_t i = 0; i < got.outputs.size(); ++i) {
      expect_near("output " + std::to_string(i), decode(dtype(), got.outputs[i]), step.output(i).values);
    }
    for (size_t i = 0; i < got.input_gradients.size(); ++i) {
      expect_near("the gradient of input " + std::to_string(i), decode(dtype(), got.input_gradients[i]),
                  step.input(i).gradients);
    }
    EXPECT_FALSE(got.gradients.empty());
    for (const auto& [name, gradient] : got.gradients) {
      expect_near("the gradient of " + name, gradient, step.gradient(name),
                  of.empty() || name == of ? least : 0);
    }
    for (const auto& [name, values] : got.statistics) expect_near(name, values, step.statistics().at(name));
  }
};

}  // namespace minuet::abi
