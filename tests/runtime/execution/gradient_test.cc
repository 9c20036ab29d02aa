// Gradients of convolutions through the C ABI, on every device and in every type, against float64: golden
// problems, random ones of every kind, sums that are added to, and the same bits each time.
#include <gmock/gmock.h>

#include "include/minuet/gradient.h"
#include "tests/runtime/abi/abi_stream.h"
#include "tests/runtime/execution/golden_fixture.h"
#include "tests/runtime/execution/parameters_fixture.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;
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
double operand(DType dtype, float value) {
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
constexpr double kSumError = 5e-6;

void expect_sums(const std::vector<float>& got, const std::vector<double>& expected,
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

  /// Both gradients of parameters: as they are, added to others, from a longer list, and again.
  void check_parameters(const Problem& problem, const Map& map, const Expected& expected) {
    const GradientOp op = make_op(problem, MINUET_GRADIENT_WEIGHT | MINUET_GRADIENT_BIAS);
    Room room(machine(), op.get(), problem, map);
    EXPECT_EQ(room.count.read<int32_t>().front(), static_cast<int32_t>(map.pairs.size()));
    compute(op.get(), room);
    const std::vector<float> weight = room.weight.read<float>(), bias = room.bias.read<float>();
    expect_sums(weight, expected.weight, expected.weight_sizes);
    expect_sums(bias, expected.bias, expected.bias_sizes);
    Room longer(machine(), op.get(), problem, map, 1000);
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

TEST_P(Gradient, OfGoldenProblems) {
  MINUET_SKIP_WITHOUT_GOLDEN();
  int found = 0;
  for (const std::string& name : golden_layers()) {
    const GoldenFile file = read_golden(name);
    if (file.doubles.count("in_gradient") == 0) continue;
    // On the software device each problem runs in one of two dtypes.
    if (++found % 2 == (dtype() == DType::TF32 ? 0 : 1) && machine().is_software()) continue;
    SCOPED_TRACE(name);
    Problem problem{golden_case(file, dtype()), {}, file.floats.at("out_gradient")};
    problem.data = golden_data(file, problem.test);
    const Map map = make_map(machine(), problem.test, problem.data);
    Expected expected(problem, map.pairs);
    expected.weight = file.doubles.at("weight_gradient");
    expected.input = file.doubles.at("in_gradient");
    check_parameters(problem, map, expected);
    check_input(problem, map, expected);
  }
  EXPECT_GE(found, 11);
}

TEST_P(Gradient, OfEveryKindAndShape) {
  struct Shape {
    int in, out, groups;
  };
  // Tiles of every width, channels that fill none, groups with and without tensor cores.
  const std::vector<Shape> shapes{{16, 16, 1}, {24, 40, 1}, {64, 96, 1}, {3, 32, 1},
                                  {5, 7, 1},   {32, 48, 2}, {8, 16, 8},  {130, 128, 1}};
  size_t next = static_cast<size_t>(dtype());
  for (const Shape& shape : shapes) {
    for (size_t i = 0; i < (machine().is_software() ? 1 : 2); ++i) {
      const ConvolutionKind kind = all_kinds()[next++ % all_kinds().size()];
      check_problem(random_problem(kind, shape.in, shape.out, shape.groups));
    }
  }
}

TEST_P(Gradient, OfOtherAxesKernelsAndSets) {
  for (const int ndim : {1, 2, 4}) {
    ConvolutionCase test = small_case(dtype(), ConvolutionKind::Submanifold, 8, 16, points());
    test.ndim = ndim;
    test.kernel_size = test.stride = test.dilation = {1, 1, 1, 1};
    for (int a = 0; a < ndim; ++a) test.kernel_size[static_cast<size_t>(a)] = a == 1 ? 2 : 3;
    check_problem(problem_of(test));
  }
  if (machine().is_software()) return;
  ConvolutionCase reached = small_case(dtype(), ConvolutionKind::Strided, 16, 8, points());
  reached.is_reached = true;
  reached.kernel_size = {3, 3, 3, 1}, reached.stride = {2, 2, 2, 1}, reached.padding = {1, 1, 1, 0};
  check_problem(problem_of(reached));
  ConvolutionCase inverse = reached;
  inverse.kind = ConvolutionKind::Transposed, inverse.coarse_side = CoarseSide::Derived;
  check_problem(problem_of(inverse));
  ConvolutionCase generative = small_case(dtype(), ConvolutionKind::Transposed, 16, 8, points());
  generative.is_generative = true;
  generative.kernel_size = {2, 2, 2, 1}, generative.stride = {2, 2, 2, 1}, generative.dilation = {1, 1, 1, 1};
  check_problem(problem_of(generative));
}

TEST_P(Gradient, OfFewPoints) {
  for (const int64_t count : {0, 1, 2}) {
    for (const ConvolutionKind kind : {ConvolutionKind::Submanifold, ConvolutionKind::Strided}) {
      check_problem(problem_of(small_case(dtype(), kind, 16, 16, count)));
    }
  }
}

/// Central differences of the loss sum(out_gradient * output) in float64 are the gradients that plain loops
/// compute, with which the others are compared.
TEST_P(Gradient, OfTheOracleIsThatOfDifferences) {
  const Problem problem = random_problem(ConvolutionKind::Strided, 6, 9, 3);
  const std::vector<oracle::Pair> pairs = expected_pairs(problem.data);
  const Expected expected(problem, pairs);
  const DType dtype = problem.test.dtype;
  const auto loss = [&](size_t weight, size_t input, double step) {
    double sum = 0;
    problem.for_products(pairs, [&](size_t w, size_t x, size_t y) {
      const double of_weight = operand(dtype, problem.data.weight[w]) + (w == weight ? step : 0);
      const double of_input = operand(dtype, problem.data.features[x]) + (x == input ? step : 0);
      sum += of_weight * of_input * operand(dtype, problem.out_gradient[y]);
    });
    return sum;
  };
  Random random(3);
  constexpr double kStep = 1.0 / 64;
  constexpr size_t kNone = SIZE_MAX;
  for (int i = 0; i < 10; ++i) {
    const auto w = static_cast<size_t>(random.below(problem.data.weight.size()));
    const auto x = static_cast<size_t>(random.below(problem.data.features.size()));
    EXPECT_NEAR((loss(w, kNone, kStep) - loss(w, kNone, -kStep)) / (2 * kStep), expected.weight[w], 1e-9);
    EXPECT_NEAR((loss(kNone, x, kStep) - loss(kNone, x, -kStep)) / (2 * kStep), expected.input[x], 1e-9);
  }
}

/// Many pairs of one offset: the sums of tensor cores are cut into parts before they lose accuracy.
TEST_P(Gradient, OfManyPairsKeepsItsAccuracy) {
  if (machine().is_software()) return;  // It would take minutes.
  ConvolutionCase test =
      small_case(dtype(), ConvolutionKind::Submanifold, 16, 16, kSanitized ? 5000 : 200000);
  test.kernel_size = test.dilation = {1, 1, 1, 1};
  const Problem problem = problem_of(test);
  const Map map = make_map(machine(), problem.test, problem.data);
  const Expected expected(problem, map.pairs);
  const GradientOp op = make_op(problem, MINUET_GRADIENT_WEIGHT | MINUET_GRADIENT_BIAS);
  const Room room(machine(), op.get(), problem, map);
  compute(op.get(), room);
  const std::vector<float> got = room.weight.read<float>();
  double error = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - expected.weight[i], 2);
    size += expected.weight[i] * expected.weight[i];
  }
  EXPECT_LT(std::sqrt(error / size), 5e-5);
}

/// The gradient is written in the order in which the weight is given, between other numbers.
TEST_P(Gradient, OfWeightsInOtherOrders) {
  Problem problem = random_problem(ConvolutionKind::Submanifold, 16, 24);
  ASSERT_EQ(problem.test.kernel_size[0] % 2, 1);
  const Map map = make_map(machine(), problem.test, problem.data);
  const Expected expected(problem, map.pairs);
  const GradientOp op = make_op(problem, MINUET_GRADIENT_WEIGHT | MINUET_GRADIENT_BIAS);
  Room room(machine(), op.get(), problem, map);
  const oracle::Axes size = problem.test.kernel_size;
  const int in = 16, out = 24;
  // spconv 2.x: [out, z, y, x, in], here with a gap behind each row of inputs.
  const int64_t row = in + 3;
  const Buffer target(machine(),
                      std::vector<float>(static_cast<size_t>(out * problem.test.volume() * row), 7.0f));
  minuet_array array = array_of(target.data(), {out, size[2], size[1], size[0], in}, MINUET_ELEMENT_F32);
  array.has_strides = 1;
  array.stride[4] = 1, array.stride[3] = row, array.stride[2] = size[0] * row;
  array.stride[1] = size[1] * array.stride[2], array.stride[0] = size[2] * array.stride[1];
  room.given.weight_gradient = &array, room.given.weights_order = MINUET_WEIGHTS_SPCONV2;
  compute(op.get(), room);
  const std::vector<float> got = target.read<float>();
  std::vector<float> in_own_order;
  for (int x = 0; x < size[0]; ++x) {
    for (int y = 0; y < size[1]; ++y) {
      for (int z = 0; z < size[2]; ++z) {
        for (int i = 0; i < in; ++i) {
          for (int o = 0; o < out; ++o) {
            const int64_t place = ((int64_t{o} * size[2] + z) * size[1] + y) * size[0] + x;
            in_own_order.push_back(got[static_cast<size_t>(place * row + i)]);
          }
        }
      }
    }
  }
  expect_sums(in_own_order, expected.weight, expected.weight_sizes);
  for (size_t i = 0; i < got.size(); ++i) {
    if (static_cast<int64_t>(i) % row >= in) ASSERT_EQ(got[i], 7.0f) << "a gap";
  }
}

/// Weights that change each step are inputs of a run, in the order of the convolution's.
TEST_P(Gradient, OfInputsTakesTheWeightAsItIs) {
  for (const int groups : {1, 2}) {
    Problem problem = random_problem(ConvolutionKind::Strided, 16, 24, groups);
    const Map map = make_map(machine(), problem.test, problem.data);
    const Expected expected(problem, map.pairs);
    minuet_convolution_options options = options_of(problem.test, problem.data);
    options.weight = nullptr;
    options.without_values = 1;
    const Plan plan = make_input_plan(options);
    ASSERT_TRUE(plan);
    minuet_parameter_info info{};
    info.struct_size = sizeof(info);
    check(minuet_plan_query_parameter(plan.get(), 0, &info));
    EXPECT_EQ(std::vector<int64_t>(info.shape, info.shape + 3),
              (std::vector<int64_t>{problem.test.volume(), problem.inputs(), problem.test.out_channels}));
    minuet_execution_options given = MINUET_EXECUTION_OPTIONS_INIT;
    given.parameter_inputs = 1;
    const Execution execution = make_execution(machine(), plan.get(), &given);
    const Buffer weight(machine(), problem.data.weight);
    const std::vector<char> bytes =
        input_gradient(execution.get(), problem, map,
                       {tensor(weight.data(), problem.test.volume() * problem.inputs(),
                               problem.test.out_channels, MINUET_F32)});
    EXPECT_TRUE(is_close(take_rows(decode(dtype(), bytes), map.in_rows), expected.input, expected.input_sizes,
                         problem.test.in_channels, dtype()));

    minuet_parameters* made = nullptr;
    check(minuet_parameters_create(plan.get(), machine().device(), nullptr, &made));
    const Parameters parameters(made, {minuet_parameters_destroy});
    const minuet_array array =
        array_of(weight.data(), {problem.test.volume(), problem.inputs(), problem.test.out_channels},
                 MINUET_ELEMENT_F32);
    check(minuet_parameters_set(made, nullptr, &array, 1, MINUET_WEIGHTS_MINUET, nullptr));
    const Buffer back(machine(), weight.bytes());
    minuet_array target = array;
    target.data = back.data();
    check(minuet_parameters_get(made, 0, &target, nullptr));
    EXPECT_EQ(back.read<float>(), round_to(dtype(), problem.data.weight));
  }
}

TEST_P(Gradient, IsReadAnewByEveryReplay) {
  if (machine().is_cpu()) return;  // Calls on the CPU are not captured.
  const Problem problem = random_problem(ConvolutionKind::Submanifold, 16, 16);
  const Map map = make_map(machine(), problem.test, problem.data);
  const GradientOp op = make_op(problem, MINUET_GRADIENT_WEIGHT | MINUET_GRADIENT_BIAS);
  const Room room(machine(), op.get(), problem, map);
  compute(op.get(), room);
  const std::vector<uint32_t> weight = room.weight.read<uint32_t>(), bias = room.bias.read<uint32_t>();
  Stream stream(machine());
  const CapturedGraph graph(stream.get(), [&] {
    check(minuet_gradient_compute(op.get(), machine().device(), &room.given, stream.get()));
  });
  ASSERT_TRUE(graph.whole());
  const std::vector<int32_t> count = room.count.read<int32_t>(), none{0};
  for (const bool is_there : {false, true}) {
    check(minuet_device_copy(machine().device(), room.count.data(), is_there ? count.data() : none.data(), 4,
                             0));
    EXPECT_EQ(graph.launch(), CUDA_SUCCESS);
    check(minuet_device_synchronize(machine().device(), stream.get()));
    if (is_there) EXPECT_EQ(room.weight.read<uint32_t>(), weight);
    if (!is_there) EXPECT_EQ(room.weight.read<float>(), std::vector<float>(weight.size(), 0.0f));
    EXPECT_EQ(room.bias.read<uint32_t>(), bias);
  }
}

TEST_P(Gradient, RefusesWhatDoesNotFit) {
  Problem problem = problem_of(small_case(dtype(), ConvolutionKind::Submanifold, 16, 16, 31));
  const Map map = make_map(machine(), problem.test, problem.data);
  const GradientOp op = make_op(problem, MINUET_GRADIENT_WEIGHT | MINUET_GRADIENT_BIAS);
  Room room(machine(), op.get(), problem, map);
  const auto refused = [&](const char* text, auto change, minuet_status status = MINUET_INVALID_ARGUMENT) {
    minuet_gradient_arguments given = room.given;
    minuet_array array = room.weight_array;
    given.weight_gradient = &array;
    change(given, array);
    EXPECT_EQ(minuet_gradient_compute(op.get(), machine().device(), &given, nullptr), status) << text;
    EXPECT_THAT(last_error(), HasSubstr(text));
  };
  refused("pairs is null", [](auto& given, auto&) { given.pairs = nullptr; });
  refused(
      "most_pairs is -1", [](auto& given, auto&) { given.most_pairs = -1; }, MINUET_OUT_OF_RANGE);
  refused("input has 15 channels", [](auto& given, auto&) { given.input.channels = 15; });
  refused("out_gradient has 17 channels", [](auto& given, auto&) { given.out_gradient.channels = 17; });
  refused("weight_gradient: its element is f64",
          [](auto&, auto& array) { array.element = MINUET_ELEMENT_F64; });
  refused("weight_gradient: its shape is", [](auto&, auto& array) { array.shape[1] = 8; });
  refused("weights_order is 10", [](auto& given, auto&) { given.weights_order = 10; });
  refused("share memory", [](auto&, auto& array) {
    array.has_strides = 1;
    array.stride[0] = 256, array.stride[1] = 16, array.stride[2] = 0;
  });
  refused("bias_gradient is null", [](auto& given, auto&) { given.bias_gradient = nullptr; });
  refused("accumulate is 2", [](auto& given, auto&) { given.accumulate = 2; });
  refused(
      "workspace", [](auto& given, auto&) { given.workspace_bytes = 1; }, MINUET_RESOURCE_EXHAUSTED);
  refused("overlap",
          [&](auto& given, auto&) { given.bias_gradient = static_cast<float*>(room.weight.data()); });
  minuet_convolution_options options = options_of(problem.test, problem.data);
  minuet_gradient_op* made = nullptr;
  for (const minuet_gradient none : {-1, 0, 1, 3, 8}) {
    EXPECT_EQ(minuet_gradient_create(machine().context(), &options, none, &made), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("the gradients are " + std::to_string(none)));
  }
  options.activation = MINUET_ACTIVATION_RELU;
  EXPECT_EQ(minuet_gradient_create(machine().context(), &options, MINUET_GRADIENT_BIAS, &made),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("has the activation relu"));
  // A list of pairs has the first of equal coordinates only.
  ConvolutionCase twice = problem.test;
  twice.duplicates = 3;
  const ConvolutionData data = make_data(twice);
  const Map map_of_twice = make_map(machine(), twice, data);
  EXPECT_EQ(minuet_kernel_map_list_pairs(map_of_twice.map.get(), nullptr, 0,
                                         static_cast<int32_t*>(room.count.data()), nullptr),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("keep_first_duplicate"));
}

MINUET_INSTANTIATE_DEVICE_TEST(Gradient);

}  // namespace
}  // namespace minuet::abi
