// Gradients of the parameters of affine steps through the C ABI, on every device and in every type, against
// float64: with and without a layer norm, with counts on the device, and sums that are added to.
#include <cmath>
#include <optional>

#include "include/minuet/gradient.h"
#include "tests/runtime/execution/parameters_fixture.h"
#include "tests/support/pointwise_oracle.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

using GradientOp = Handle<minuet_gradient_op>;

constexpr double kEpsilon = 0.0009765625;

struct AffineProblem {
  int channels;
  int64_t rows, capacity;
  bool normalizes;
  std::vector<float> input, gradient;  // [capacity, channels], NaN past `rows`
  std::optional<int32_t> count;        // what the device says instead of `rows`
};
struct Sums {
  std::vector<double> values, sizes;
};

AffineProblem make_problem(DType stored, int channels, int64_t rows, int64_t capacity, bool normalizes,
                           Random& random) {
  AffineProblem problem{channels, rows, capacity, normalizes, {}, {}, {}};
  for (std::vector<float>* matrix : {&problem.input, &problem.gradient}) {
    matrix->assign(static_cast<size_t>(capacity * channels), std::nanf(""));
    for (size_t i = 0; i < static_cast<size_t>(rows * channels); ++i) {
      (*matrix)[i] = round_to(stored, static_cast<float>(random.uniform(-2, 2)));
    }
  }
  return problem;
}

/// The gradients of the scale and the shift.
std::pair<Sums, Sums> expected(const AffineProblem& problem) {
  const auto channels = static_cast<size_t>(problem.channels);
  Sums scale{std::vector<double>(channels), std::vector<double>(channels)}, shift = scale;
  for (size_t row = 0; row < static_cast<size_t>(problem.rows); ++row) {
    const auto first = problem.input.begin() + static_cast<std::ptrdiff_t>(row * channels);
    std::vector<double> n(first, first + problem.channels);
    if (problem.normalizes) oracle::apply_step({"layer_norm", kEpsilon}, n.data(), problem.channels);
    for (size_t c = 0; c < channels; ++c) {
      const double gradient = static_cast<double>(problem.gradient[row * channels + c]);
      scale.values[c] += gradient * n[c];
      // The rounding of the row's mean and variance is of the size of 1, not of n.
      scale.sizes[c] += std::abs(gradient) * (std::abs(n[c]) + (problem.normalizes ? 1 : 0));
      shift.values[c] += gradient, shift.sizes[c] += std::abs(gradient);
    }
  }
  return {scale, shift};
}

class AffineGradient : public DeviceTest {
 protected:
  AffineProblem make(int channels, int64_t rows, int64_t capacity, bool normalizes, Random& random) const {
    return make_problem(storage_type(dtype()), channels, rows, capacity, normalizes, random);
  }

  GradientOp make_op(const AffineProblem& problem, minuet_gradient which) {
    minuet_affine_gradient_options options = MINUET_AFFINE_GRADIENT_OPTIONS_INIT;
    options.dtype = abi_dtype(dtype());
    options.channels = problem.channels;
    options.epsilon = problem.normalizes ? static_cast<float>(kEpsilon) : 0;
    minuet_gradient_op* made = nullptr;
    check(minuet_gradient_create_affine(machine().context(), &options, which, &made));
    GradientOp op(made, {minuet_gradient_op_destroy});
    check(minuet_gradient_op_load(made, machine().device()));
    return op;
  }

  /// Computes the gradients that `which` names, and returns those of the scale and the shift. They are
  /// added to the number `before`, or replace it if it is NaN.
  std::pair<std::vector<float>, std::vector<float>> compute(const AffineProblem& problem,
                                                            minuet_gradient which, float before) {
    const GradientOp op = make_op(problem, which);
    int64_t bytes = 0;
    check(minuet_gradient_bytes(op.get(), machine().arch().c_str(), 0, problem.capacity, &bytes));
    const std::vector<float> old(static_cast<size_t>(problem.channels), before);
    const Buffer input(machine(), encode(dtype(), problem.input)),
        gradient(machine(), encode(dtype(), problem.gradient)),
        count(machine(), std::vector<int32_t>{problem.count.value_or(static_cast<int32_t>(problem.rows))}),
        scale(machine(), old), shift(machine(), old), workspace(machine(), std::max<int64_t>(bytes, 16));
    const minuet_array array = array_of(scale.data(), {problem.channels}, MINUET_ELEMENT_F32);
    const bool has_scale = (which & MINUET_GRADIENT_WEIGHT) != 0;
    const bool has_shift = (which & MINUET_GRADIENT_BIAS) != 0;
    minuet_gradient_arguments given = MINUET_GRADIENT_ARGUMENTS_INIT;
    if (has_scale) {
      given.input = tensor(input, problem.capacity, problem.channels, dtype());
      given.weight_gradient = &array;
    }
    given.out_gradient = tensor(gradient, problem.capacity, problem.channels, dtype());
    if (has_shift) given.bias_gradient = static_cast<float*>(shift.data());
    if (problem.rows != problem.capacity) given.row_count = count.integers();
    given.accumulate = std::isnan(before) ? 0 : 1;
    given.workspace = workspace.data(), given.workspace_bytes = workspace.bytes();
    check(minuet_gradient_compute(op.get(), machine().device(), &given, nullptr));
    return {scale.read<float>(), shift.read<float>()};
  }

  static void expect_sums(const std::vector<float>& got, const Sums& sums, double before) {
    for (size_t c = 0; c < got.size(); ++c) {
      ASSERT_NEAR(static_cast<double>(got[c]), before + sums.values[c],
                  5e-6 * (sums.sizes[c] + std::abs(before)) + 1e-30)
          << c;
    }
  }

  void expect_gradients(const AffineProblem& problem) {
    SCOPED_TRACE(std::to_string(problem.channels) + " channels, " + std::to_string(problem.rows) + " of " +
                 std::to_string(problem.capacity) + (problem.normalizes ? ", normalized" : ""));
    const auto [scale, shift] = expected(problem);
    constexpr minuet_gradient kBoth = MINUET_GRADIENT_WEIGHT | MINUET_GRADIENT_BIAS;
    const auto both = compute(problem, kBoth, std::nanf(""));
    expect_sums(both.first, scale, 0);
    expect_sums(both.second, shift, 0);
    EXPECT_EQ(compute(problem, kBoth, std::nanf("")), both) << "a repetition has other bits";
    AffineProblem longer = problem;  // Rows that do not count are NaN.
    longer.capacity += 1500;
    for (std::vector<float>* matrix : {&longer.input, &longer.gradient}) {
      matrix->resize(static_cast<size_t>(longer.capacity * longer.channels), std::nanf(""));
    }
    EXPECT_EQ(compute(longer, kBoth, std::nanf("")), both) << "other bits with a larger capacity";
    const auto added = compute(problem, kBoth, 0.5f);
    expect_sums(added.first, scale, 0.5);
    expect_sums(added.second, shift, 0.5);
    EXPECT_EQ(compute(problem, MINUET_GRADIENT_WEIGHT, std::nanf("")).first, both.first);
    expect_sums(compute(problem, MINUET_GRADIENT_BIAS, std::nanf("")).second, shift, 0);
  }
};

TEST_P(AffineGradient, OfRowsAndCounts) {
  Random random(1);
  for (const bool normalizes : {false, true}) {
    expect_gradients(make(20, 70, 90, normalizes, random));
    expect_gradients(make(1, 5, 5, normalizes, random));
    expect_gradients(make(33, 1, 1, normalizes, random));
    expect_gradients(make(8, 0, 4, normalizes, random));
    expect_gradients(make(8, 0, 0, normalizes, random));
    if (machine().is_software()) continue;
    expect_gradients(make(96, 5000, 7000, normalizes, random));
    expect_gradients(make(301, 1025, 1025, normalizes, random));
  }
}

/// A count that is negative or above the capacity counts as 0.
TEST_P(AffineGradient, TreatsACountOutOfBoundsAsNone) {
  Random random(3);
  AffineProblem problem = make(20, 0, 9, true, random);
  for (const int32_t count : {-1, 10}) {
    problem.count = count;
    const auto [scale, shift] =
        compute(problem, MINUET_GRADIENT_WEIGHT | MINUET_GRADIENT_BIAS, std::nanf(""));
    EXPECT_EQ(scale, std::vector<float>(20)) << count;
    EXPECT_EQ(shift, std::vector<float>(20)) << count;
  }
}

/// Central differences of the loss sum(out_gradient * (n * scale + shift)) are the sums above.
TEST(AffineGradientOracle, EqualsDifferences) {
  Random random(2);
  const AffineProblem problem = make_problem(DType::F32, 6, 9, 9, true, random);
  const auto [scale, shift] = expected(problem);
  const auto loss = [&](size_t channel, float of_scale, float of_shift) {
    oracle::ChainStep affine{"affine"};
    affine.scale.assign(6, 1), affine.shift.assign(6, 0);
    affine.scale[channel] += of_scale, affine.shift[channel] += of_shift;
    const oracle::ChainResult result =
        oracle::evaluate_chain({{"layer_norm", kEpsilon}, affine}, problem.input, 6);
    double sum = 0;
    for (size_t i = 0; i < result.values.size(); ++i) {
      sum += result.values[i] * static_cast<double>(problem.gradient[i]);
    }
    return sum;
  };
  for (size_t c = 0; c < 6; ++c) {
    EXPECT_NEAR((loss(c, 0.5f, 0) - loss(c, -0.5f, 0)), scale.values[c], 1e-9);
    EXPECT_NEAR((loss(c, 0, 0.5f) - loss(c, 0, -0.5f)), shift.values[c], 1e-9);
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(AffineGradient);

}  // namespace
}  // namespace minuet::abi
