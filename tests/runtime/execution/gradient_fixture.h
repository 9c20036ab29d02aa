// What tests of the gradients of convolutions share: problems with their gradients in float64, and calls that
// compute them.
#pragma once

#include "include/minuet/gradient.h"
#include "tests/runtime/execution/golden_fixture.h"
#include "tests/runtime/execution/parameters_fixture.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet::abi {

using GradientOp = Handle<minuet_gradient_op>;

/// A convolution's inputs, the gradient of its output, and what follows from them in float64.
struct Problem {
  ConvolutionCase test;
  ConvolutionData data;
  std::vector<float> out_gradient;  // [out rows, out_channels], in the order of `data`

  int inputs() const { return test.in_channels / test.groups; }
  int outputs() const { return test.out_channels / test.groups; }
  /// Calls visit(pair, weight's index, input's index, output's index) for each product of the convolution.
  template <class Visit>
  void for_products(const std::vector<oracle::Pair>& pairs, const Visit& visit) const {
    for (const oracle::Pair& pair : pairs) {
      for (int i = 0; i < inputs(); ++i) {
        for (int o = 0; o < test.out_channels; ++o) {
          const int64_t weight = (int64_t{pair.k} * inputs() + i) * test.out_channels + o;
          const int64_t input = int64_t{pair.in} * test.in_channels + o / outputs() * inputs() + i;
          visit(static_cast<size_t>(weight), static_cast<size_t>(input),
                static_cast<size_t>(int64_t{pair.out} * test.out_channels + o));
        }
      }
    }
  }
};

/// Numbers as a GEMM of the dtype reads them.
inline double operand(DType dtype, float value) {
  return static_cast<double>(round_to(dtype, static_cast<double>(value)));
}

struct Expected {
  std::vector<double> weight, weight_sizes, input, input_sizes, bias, bias_sizes;

  Expected(const Problem& problem, const std::vector<oracle::Pair>& pairs) {
    const ConvolutionData& data = problem.data;
    const DType dtype = problem.test.dtype;
    weight.resize(data.weight.size()), weight_sizes.resize(data.weight.size());
    input.resize(data.features.size()), input_sizes.resize(data.features.size());
    problem.for_products(pairs, [&](size_t w, size_t x, size_t y) {
      const double gradient = operand(dtype, problem.out_gradient[y]);
      const double of_weight = operand(dtype, data.features[x]) * gradient;
      const double of_input = operand(dtype, data.weight[w]) * gradient;
      weight[w] += of_weight, weight_sizes[w] += std::abs(of_weight);
      input[x] += of_input, input_sizes[x] += std::abs(of_input);
    });
    const auto channels = static_cast<size_t>(problem.test.out_channels);
    bias.resize(channels), bias_sizes.resize(channels);
    for (size_t i = 0; i < problem.out_gradient.size(); ++i) {
      // The sum of a bias's gradient multiplies nothing, so that nothing is rounded to tf32.
      const double value = static_cast<double>(problem.out_gradient[i]);
      bias[i % channels] += value, bias_sizes[i % channels] += std::abs(value);
    }
  }
};

/// Fp32 sums of exact products: far below what 16-bit results would have.
inline constexpr double kSumError = 5e-6;

inline void expect_sums(const std::vector<float>& got, const std::vector<double>& expected,
                        const std::vector<double>& sizes, double before = 0) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(got[i]), before + expected[i],
                kSumError * (sizes[i] + std::abs(before)) + 1e-30)
        << "element " << i;
  }
}

class Gradient : public DeviceTest {
 protected:
  int64_t points() { return machine().is_software() || kSanitized ? 60 : 700; }

  Problem problem_of(ConvolutionCase test) {
    test.activation = Activation::None;
    test.residual = test.scale_shift = test.scale_alone = test.shift_alone = false;
    Problem problem{test, make_data(test), {}};
    Random random(test.seed + 5);
    const int64_t count = problem.data.out_rows() * test.out_channels;
    for (int64_t i = 0; i < count; ++i)
      problem.out_gradient.push_back(round_to(storage_type(test.dtype), random.uniform(-1, 1)));
    return problem;
  }
  Problem random_problem(ConvolutionKind kind, int in_channels, int out_channels, int groups = 1) {
    ConvolutionCase test = small_case(dtype(), kind, in_channels, out_channels, points());
    test.groups = groups;
    return problem_of(test);
  }

  GradientOp make_op(const Problem& problem, minuet_gradient which) {
    const minuet_convolution_options options = options_of(problem.test, problem.data);
    minuet_gradient_op* made = nullptr;
    check(minuet_gradient_create(machine().context(), &options, which, &made));
    GradientOp op(made, {minuet_gradient_op_destroy});
    check(minuet_gradient_op_load(made, machine().device()));
    return op;
  }

  /// The memory of one call, all of which is poisoned but the operands.
  struct Room {
    Room(Machine& machine, minuet_gradient_op* op, const Problem& problem, const Map& map, int64_t more = 0)
        : problem(problem),
          most_pairs(static_cast<int64_t>(map.pairs.size()) + more),
          pairs(machine, std::max<int64_t>(most_pairs, 1) * 12),
          count(machine, 4),
          input(machine, encode(problem.test.dtype, map.to_input(problem.data.features))),
          gradient(machine, encode(problem.test.dtype, map.to_output(problem.out_gradient))),
          weight(machine, static_cast<int64_t>(problem.data.weight.size()) * 4),
          bias(machine, problem.test.out_channels * 4),
          workspace(machine, bytes_of(machine, op, most_pairs, problem.data.out_rows())) {
      check(minuet_kernel_map_list_pairs(map.map.get(), static_cast<int32_t*>(pairs.data()), most_pairs,
                                         static_cast<int32_t*>(count.data()), nullptr));
      const ConvolutionCase& test = problem.test;
      weight_array =
          array_of(weight.data(), {test.volume(), problem.inputs(), test.out_channels}, MINUET_ELEMENT_F32);
      given.pairs = pairs.integers(), given.most_pairs = most_pairs, given.pair_count = count.integers();
      given.input = tensor(input, problem.data.in_rows(), test.in_channels, test.dtype);
      given.out_gradient = tensor(gradient, problem.data.out_rows(), test.out_channels, test.dtype);
      given.weight_gradient = &weight_array;
      given.bias_gradient = static_cast<float*>(bias.data());
      given.workspace = workspace.data(), given.workspace_bytes = workspace.bytes();
    }
    static int64_t bytes_of(Machine& machine, minuet_gradient_op* op, int64_t most_pairs, int64_t rows) {
      int64_t bytes = 0;
      check(minuet_gradient_bytes(op, machine.arch().c_str(), most_pairs, rows, &bytes));
      return std::max<int64_t>(bytes, 16);
    }
    const Problem& problem;
    int64_t most_pairs;
    Buffer pairs, count, input, gradient, weight, bias, workspace;
    minuet_array weight_array{};
    minuet_gradient_arguments given = MINUET_GRADIENT_ARGUMENTS_INIT;
  };

  void compute(minuet_gradient_op* op, const Room& room) {
    check(minuet_gradient_compute(op, machine().device(), &room.given, nullptr));
  }

  /// Both gradients of parameters: as they are, from a longer list of swapped pairs, and added to others.
  void check_parameters(const Problem& problem, const Map& map, const Expected& expected) {
    const GradientOp op = make_op(problem, MINUET_GRADIENT_WEIGHT | MINUET_GRADIENT_BIAS);
    Room room(machine(), op.get(), problem, map);
    EXPECT_EQ(room.count.read<int32_t>().front(), static_cast<int32_t>(map.pairs.size()));
    compute(op.get(), room);
    const std::vector<float> weight = room.weight.read<float>(), bias = room.bias.read<float>();
    expect_sums(weight, expected.weight, expected.weight_sizes);
    expect_sums(bias, expected.bias, expected.bias_sizes);
    Room longer(machine(), op.get(), problem, map, 1000);
    swap_rows(longer);
    compute(op.get(), longer);
    EXPECT_EQ(longer.weight.read<uint32_t>(), room.weight.read<uint32_t>()) << "other bits";
    EXPECT_EQ(longer.bias.read<uint32_t>(), room.bias.read<uint32_t>()) << "other bits";
    constexpr float kBefore = 0.5f;
    const std::vector<float> before(weight.size(), kBefore);
    check(minuet_device_copy(machine().device(), room.weight.data(), before.data(), room.weight.bytes(), 0));
    const std::vector<float> bias_before(bias.size(), kBefore);
    check(minuet_device_copy(machine().device(), room.bias.data(), bias_before.data(), room.bias.bytes(), 0));
    room.given.accumulate = 1;
    compute(op.get(), room);
    expect_sums(room.weight.read<float>(), expected.weight, expected.weight_sizes, kBefore);
    expect_sums(room.bias.read<float>(), expected.bias, expected.bias_sizes, kBefore);
  }

  /// Exchanges the columns of the input and the output rows, and says so.
  void swap_rows(Room& room) {
    std::vector<int32_t> list = room.pairs.read<int32_t>();
    for (size_t i = 0; i + 3 <= list.size(); i += 3) std::swap(list[i + 1], list[i + 2]);
    check(minuet_device_copy(machine().device(), room.pairs.data(), list.data(), room.pairs.bytes(), 0));
    room.given.swapped = 1;
  }

  Plan make_input_plan(const minuet_convolution_options& options) {
    minuet_plan* made = nullptr;
    check(
        minuet_plan_create_convolution_gradient(machine().context(), &options, MINUET_GRADIENT_INPUT, &made));
    Plan plan(made, {minuet_plan_destroy});
    if (!made) return plan;
    check(minuet_plan_compile(made, machine().arch().c_str(), nullptr, nullptr));
    check(minuet_plan_load(made, machine().device()));
    return plan;
  }
  /// The gradient of the input as stored, in the order of the map's set.
  std::vector<char> input_gradient(minuet_execution* execution, const Problem& problem, const Map& map,
                                   const std::vector<minuet_tensor>& parameters = {}) {
    minuet_kernel_map* swapped = nullptr;
    check(minuet_kernel_map_transpose(map.map.get(), &swapped));
    const KernelMap owner(swapped, {minuet_kernel_map_destroy});
    check(prepare_map(execution, swapped));
    const ConvolutionCase& test = problem.test;
    const Buffer gradient(machine(), encode(test.dtype, map.to_output(problem.out_gradient)));
    const Buffer result(machine(), problem.data.in_rows() * test.in_channels * dtype_bytes(test.dtype));
    std::vector<minuet_tensor> inputs{
        tensor(gradient, problem.data.out_rows(), test.out_channels, test.dtype)};
    inputs.insert(inputs.end(), parameters.begin(), parameters.end());
    check(
        run_tensors(execution, inputs, tensor(result, problem.data.in_rows(), test.in_channels, test.dtype)));
    return result.read<char>();
  }
  void check_input(const Problem& problem, const Map& map, const Expected& expected) {
    const Plan plan = make_input_plan(options_of(problem.test, problem.data));
    ASSERT_TRUE(plan);
    const Execution execution = make_execution(machine(), plan.get());
    const std::vector<char> bytes = input_gradient(execution.get(), problem, map);
    EXPECT_TRUE(is_close(take_rows(decode(dtype(), bytes), map.in_rows), expected.input, expected.input_sizes,
                         problem.test.in_channels, dtype()));
    EXPECT_EQ(input_gradient(execution.get(), problem, map), bytes) << "a repetition has other bits";
  }

  void check_problem(const Problem& problem) {
    SCOPED_TRACE(problem.test.name());
    const Map map = make_map(machine(), problem.test, problem.data);
    const Expected expected(problem, map.pairs);
    check_parameters(problem, map, expected);
    check_input(problem, map, expected);
  }
};

}  // namespace minuet::abi
