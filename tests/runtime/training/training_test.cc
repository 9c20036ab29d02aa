// Training plans: outputs, running statistics and all gradients of whole networks against a step in float64,
// and the promises of training.h.
#include "tests/runtime/training/training_fixture.h"

namespace minuet::abi {
namespace {

/// Two levels, a residual block with a shortcut and one without, and a concat whose skip has other readers.
constexpr const char* kUNet = R"({
  "name": "unet", "ndim": 3, "in_channels": 4, "channels": [16, 24, 16],
  "layers": [
    {"op": "block", "name": "stem", "width": 0, "kernel_size": 3, "save": "skip"},
    {"op": "block", "name": "down", "width": 0, "kernel_size": 2, "stride": 2},
    {"op": "residual", "name": "wide", "width": 1},
    {"op": "residual", "name": "same", "width": 1},
    {"op": "up", "name": "up", "width": 2, "kernel_size": 2, "stride": 2, "onto": "skip"},
    {"op": "concat", "with": "skip"},
    {"op": "residual", "name": "joined", "width": 2},
    {"op": "head", "name": "head", "classes": 8}
  ]
})";

/// Poolings, chains, layer norms, two outputs and two inputs.
constexpr const char* kChains = R"({
  "name": "chains", "ndim": 3,
  "inputs": [{"name": "a", "channels": 8}, {"name": "b", "channels": 8, "level": "a"}],
  "outputs": ["first", "second"],
  "layers": [
    {"op": "multiply", "with": "b", "save": "product"},
    {"op": "layer_norm", "name": "norm"},
    {"op": "gelu"},
    {"op": "linear", "name": "linear", "out_channels": 16, "activation": "leaky_relu", "slope": 0.25},
    {"op": "batch_norm", "name": "bn", "save": "wide"},
    {"op": "max_pool", "name": "max", "kernel_size": 2, "stride": 2},
    {"op": "scale_shift", "name": "scale"},
    {"op": "tanh"},
    {"op": "unpool", "name": "back", "of": "max"},
    {"op": "add", "with": "wide"},
    {"op": "relu", "save": "sum"},
    {"op": "average_pool", "name": "average", "kernel_size": 3, "stride": 2},
    {"op": "sigmoid"},
    {"op": "upsample", "name": "nearest", "onto": "sum"},
    {"op": "concat", "with": "sum"},
    {"op": "block", "name": "conv", "out_channels": 8, "kernel_size": 3, "norm": "none", "bias": true,
     "activation": "silu", "save": "first"},
    {"op": "add", "with": "product"},
    {"op": "softmax", "save": "second"}
  ]
})";

/// Sums of other orders may round a number of 16 bits to its neighbour, and a ReLU then passes another
/// element. Each such element changes the gradients behind it by some hundredths in clouds as small as these,
/// so that only fp32 shows that every term is there.
double bound_of(DType dtype) { return dtype == DType::F32 ? 2e-6 : 1.5e-1; }

class TrainingTest : public DeviceTest {
 protected:
  TrainingCase unet() { return make_case(kUNet, {4}, {8}); }
  TrainingCase chains() { return make_case(kChains, {8, 8}, {8, 8}); }

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
  static int64_t capacity_of(const TrainingCase& test) { return test.rows() + 17; }

  oracle::TrainingStep expected(const TrainingCase& test) {
    oracle::TrainingStepOptions options;
    options.dtype = dtype();
    options.has_frozen_norms = test.options.frozen_batch_norms != 0;
    options.momentum = static_cast<double>(test.options.momentum);
    oracle::TrainingStep step(test.description, test.parameters, test.coordinates, test.inputs, options);
    step.backward(test.out_gradients);
    return step;
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

    EXPECT_LE(std::sqrt(error), bound_of(dtype()) * std::max(std::sqrt(size), least)) << what;
  }
  void expect_step(const TrainingCase& test, const StepResult& got) {
    oracle::TrainingStep step = expected(test);
    for (size_t i = 0; i < got.outputs.size(); ++i) {
      expect_near("output " + std::to_string(i), decode(dtype(), got.outputs[i]), step.output(i).values);
    }
    for (size_t i = 0; i < got.input_gradients.size(); ++i) {
      expect_near("the gradient of input " + std::to_string(i), decode(dtype(), got.input_gradients[i]),
                  step.input(i).gradients);
    }
    for (const auto& [name, gradient] : got.gradients) {
      expect_near("the gradient of " + name, gradient, step.gradient(name));
    }
    for (const auto& [name, values] : got.statistics) expect_near(name, values, step.statistics().at(name));
  }
};

TEST_P(TrainingTest, AUNetHasAllGradients) {
  TrainingCase test = unet();
  TrainingRun run(machine(), dtype(), test);
  expect_step(test, run.step(capacity_of(test)));
}

TEST_P(TrainingTest, ChainsAndPoolingsHaveAllGradients) {
  TrainingCase test = chains();
  TrainingRun run(machine(), dtype(), test);
  expect_step(test, run.step(capacity_of(test)));
}

MINUET_INSTANTIATE_DEVICE_TEST(TrainingTest);

}  // namespace
}  // namespace minuet::abi
