// Gradients of pointwise steps as steps of chains (pointwise.h), on every device, against fp64; and the fp64
// formulas against differences of the steps themselves.
#include <cmath>
#include <functional>
#include <limits>

#include "tests/runtime/execution/pointwise_op_fixture.h"

namespace minuet::abi {
namespace {

const std::vector<std::string> kGradients{"relu_gradient",      "leaky_relu_gradient", "gelu_gradient",
                                          "gelu_tanh_gradient", "silu_gradient",       "sigmoid_gradient",
                                          "tanh_gradient",      "layer_norm_gradient", "softmax_gradient"};

/// The gradient of the sum of result[c] * out_gradient[c] for a step on one row, by differences.
std::vector<double> difference(const oracle::ChainStep& step, const std::vector<double>& input,
                               const std::vector<double>& out_gradient) {
  const auto channels = static_cast<int64_t>(input.size());
  const auto sum_at = [&](size_t c, double distance) {
    std::vector<double> row = input;
    row[c] += distance;
    oracle::apply_step(step, row.data(), channels);
    double sum = 0;
    for (size_t i = 0; i < row.size(); ++i) sum += row[i] * out_gradient[i];
    return sum;
  };
  std::vector<double> gradient(input.size());
  for (size_t c = 0; c < input.size(); ++c) {
    const double h = 1e-3;
    gradient[c] = (8 * (sum_at(c, h) - sum_at(c, -h)) - (sum_at(c, 2 * h) - sum_at(c, -2 * h))) / (12 * h);
  }
  return gradient;
}

/// The formulas of the oracle do not come from the library, but they have to be right.
TEST(PointwiseGradientOracle, EqualsDifferencesOfTheSteps) {
  Random random(1);
  for (const std::string& op : kGradients) {
    SCOPED_TRACE(op);
    oracle::ChainStep forward{op.substr(0, op.size() - 9), 0}, backward{op, 0};
    if (forward.op == "leaky_relu") forward.number = backward.number = -0.25;
    if (forward.op == "layer_norm") forward.number = backward.number = 0.01;
    std::vector<double> input, gradient;
    for (int c = 0; c < 24; ++c) {
      // Numbers of fp32, away from 0, where the derivative of a ReLU jumps.
      const double size = random.uniform(0.01, 6);
      input.push_back(static_cast<float>(random.below(2) == 0 ? size : -size));
      gradient.push_back(static_cast<float>(random.uniform(-2, 2)));
    }
    const bool keeps_result = op == "sigmoid_gradient" || op == "tanh_gradient" || op == "softmax_gradient";
    std::vector<double> kept = input;
    if (keeps_result) oracle::apply_step(forward, kept.data(), 24);
    backward.operand.assign(kept.begin(), kept.end());
    const std::vector<double> expected = difference(forward, input, gradient);
    oracle::apply_step(backward, gradient.data(), 24);
    // Operands are fp32, so that a kept result has been rounded.
    for (size_t c = 0; c < expected.size(); ++c) EXPECT_NEAR(gradient[c], expected[c], 2e-6) << c;
  }
}

class PointwiseGradient : public PointwiseOp {
 protected:
  void expect_op(const Chain& chain, int64_t rows, Random& random) {
    std::string trace;
    for (const oracle::ChainStep& step : chain.steps) trace += step.op + " ";
    SCOPED_TRACE(trace + std::to_string(chain.channels) + " channels, " + std::to_string(rows) + " rows");
    const std::vector<float> x = draw(rows * chain.channels, random);
    const Plan plan = loaded(create(chain));
    const ChainRun once = run_op(plan.get(), chain, rows, x);
    expect_chain(chain, once, x);
    EXPECT_EQ(run_op(plan.get(), chain, rows, x), once) << "a run again";
  }
};

TEST_P(PointwiseGradient, EveryStep) {
  Random random(2);
  for (const std::string& op : kGradients) {
    for (const int channels : machine().is_software() ? std::vector{20} : std::vector{1, 3, 20, 64, 301}) {
      for (const int64_t rows : {70, 1, 0}) {
        expect_op(make_chain({op}, channels, rows, random), rows, random);
      }
    }
  }
  expect_op(make_chain({"layer_norm_gradient"}, 1000, 9, random), 9, random);
  if (!machine().is_software()) {
    expect_op(make_chain({"softmax_gradient"}, 4096, 9, random), 9, random);
  }
}

/// A gradient that several steps pass on, and one that joins another.
TEST_P(PointwiseGradient, Chains) {
  Random random(3);
  for (const std::vector<std::string>& ops : std::vector<std::vector<std::string>>{
           {"gelu_gradient", "affine", "layer_norm_gradient", "add"},
           {"add", "relu_gradient", "affine", "multiply"},
           {"softmax_gradient", "silu_gradient", "tanh_gradient"},
           {"sigmoid_gradient", "leaky_relu_gradient", "gelu_tanh_gradient", "multiply", "add"}}) {
    expect_op(make_chain(ops, 24, 40, random), 40, random);
  }
}

/// The derivative of a ReLU is 0 at 0, and that of a leaky ReLU its slope. A gradient that is not finite
/// passes where the derivative is not 0, and a kept NaN gives NaN, except that the ReLUs pass the gradient.
TEST_P(PointwiseGradient, KeptNumbersThatAreSpecial) {
  Random random(4);
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  for (const std::string& op : kGradients) {
    SCOPED_TRACE(op);
    Chain chain = make_chain({op}, 6, 7, random);
    std::vector<float> x = draw(7 * 6, random), &kept = chain.steps[0].operand;
    kept[0] = 0, kept[1] = -0.0f, kept[2] = nan;
    kept[8] = infinity, kept[15] = -infinity;
    kept[19] = 1, x[19] = nan;
    kept[25] = 1, x[25] = infinity;
    // Near 1, the derivative of a tanh is small.
    kept[26] = 1 - 0x1p-8f, kept[27] = -1 + 0x1p-8f, kept[28] = 1 - 0x1p-11f, kept[29] = -1 + 0x1p-24f;
    // Far out, a derivative is 0 or 1, and the powers of the number exceed the type.
    kept[30] = 6e4f, kept[31] = -6e4f, kept[32] = 9, kept[33] = -9;
    kept = round_to(dtype(), kept);
    if (op == "relu_gradient") kept[36] = -1, x[36] = nan;
    const Plan plan = loaded(create(chain));
    expect_chain(chain, run_op(plan.get(), chain, 7, x), x);
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(PointwiseGradient);

}  // namespace
}  // namespace minuet::abi
