// Gradients of convolutions through the C ABI, on every device and in every type, against float64: golden
// problems, random ones of every kind, sums that are added to, and the same bits each time.
#include <gmock/gmock.h>

#include <set>

#include "tests/runtime/abi/abi_stream.h"
#include "tests/runtime/execution/gradient_fixture.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

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
  const std::vector<Shape> shapes{{16, 16, 1}, {24, 40, 1}, {64, 96, 1},   {3, 32, 1},  {5, 7, 1},
                                  {32, 48, 2}, {8, 16, 8},  {130, 128, 1}, {96, 96, 1}, {136, 40, 1}};
  size_t next = static_cast<size_t>(dtype());
  for (const Shape& shape : shapes) {
    for (size_t i = 0; i < (machine().is_software() ? 1 : 2); ++i) {
      const ConvolutionKind kind = all_kinds()[next++ % all_kinds().size()];
      check_problem(random_problem(kind, shape.in, shape.out, shape.groups));
    }
  }
}

/// The eight cells of each cell of three axes, in ascending order.
std::vector<int32_t> children_of(const std::vector<int32_t>& parents, const oracle::Axes& tensor_stride) {
  std::set<std::array<int32_t, 4>> children;
  for (size_t i = 0; i < parents.size(); i += 4) {
    for (int child = 0; child < 8; ++child) {
      std::array<int32_t, 4> at{parents[i], parents[i + 1], parents[i + 2], parents[i + 3]};
      for (size_t a = 0; a < 3; ++a) at[1 + a] += (child >> a & 1) * tensor_stride[a];
      children.insert(at);
    }
  }
  std::vector<int32_t> all;
  for (const auto& child : children) all.insert(all.end(), child.begin(), child.end());
  return all;
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
  generative.kernel_size = {2, 2, 2, 1}, generative.stride = {2, 2, 2, 1}, generative.dilation = {1, 1, 1, 1};
  Problem problem = problem_of(generative);
  problem.test.is_generative = true;
  problem.data.out_coordinates = children_of(problem.data.in_coordinates, problem.test.tensor_stride);
  problem.out_gradient.assign(static_cast<size_t>(problem.data.out_rows() * 8), 0.25f);
  check_problem(problem);
}

TEST_P(Gradient, OfListsOfOffsets) {
  for (const ConvolutionKind kind : all_kinds()) {
    ConvolutionCase test = small_case(dtype(), kind, 8, 16, points());
    test.kernel_size = test.dilation = {1, 1, 1, 1};
    test.offsets = {{2, 0, -1, 0}, {0, 0, 0, 0}, {-3, 1, 0, 0}, {0, 1, 1, 0}, {1, 0, 0, 0}};
    check_problem(problem_of(test));
  }
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
    if (static_cast<int64_t>(i) % row < in) continue;
    ASSERT_EQ(got[i], 7.0f) << "a gap";
  }
}

/// The gradient is written to memory of any alignment, with any gaps between the rows of output channels.
TEST_P(Gradient, OfWeightsOfAnyAlignment) {
  Problem problem = random_problem(ConvolutionKind::Submanifold, 16, 24);
  const Map map = make_map(machine(), problem.test, problem.data);
  const Expected expected(problem, map.pairs);
  const GradientOp op = make_op(problem, MINUET_GRADIENT_WEIGHT | MINUET_GRADIENT_BIAS);
  Room room(machine(), op.get(), problem, map);
  const int64_t in = 16, out = 24, rows = problem.test.volume() * in;
  for (const auto& [first, gap] : {std::pair(0, 0), {1, 0}, {4, 4}, {0, 3}}) {
    const int64_t row = out + gap;
    const Buffer target(machine(), std::vector<float>(static_cast<size_t>(first + rows * row), 7.0f));
    minuet_array array = array_of(static_cast<float*>(target.data()) + first,
                                  {problem.test.volume(), in, out}, MINUET_ELEMENT_F32);
    array.has_strides = 1;
    array.stride[2] = 1, array.stride[1] = row, array.stride[0] = in * row;
    room.given.weight_gradient = &array;
    compute(op.get(), room);
    const std::vector<float> got = target.read<float>();
    std::vector<float> sums;
    sums.reserve(static_cast<size_t>(rows * out));
    for (int64_t i = 0; i < static_cast<int64_t>(got.size()); ++i) {
      if (i >= first && (i - first) % row < out) {
        sums.push_back(got[static_cast<size_t>(i)]);
      } else {
        ASSERT_EQ(got[static_cast<size_t>(i)], 7.0f) << "a gap";
      }
    }
    expect_sums(sums, expected.weight, expected.weight_sizes);
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

/// A weight of four axes and groups has seven axes in the array, none of which are neighbours.
TEST_P(Gradient, OfInputsTakesAWeightByItsStrides) {
  ConvolutionCase test = small_case(dtype(), ConvolutionKind::Submanifold, 4, 6, 20);
  test.ndim = 4, test.groups = 2;
  test.kernel_size = {3, 3, 3, 3}, test.stride = test.dilation = {1, 1, 1, 1};
  const Problem problem = problem_of(test);
  minuet_convolution_options options = options_of(problem.test, problem.data);
  options.weight = nullptr;
  options.without_values = 1;
  const Plan plan = make_input_plan(options);
  ASSERT_TRUE(plan);
  minuet_parameters* made = nullptr;
  check(minuet_parameters_create(plan.get(), machine().device(), nullptr, &made));
  const Parameters parameters(made, {minuet_parameters_destroy});
  // In memory, the inputs of an output are neighbours.
  constexpr size_t kIn = 2, kOut = 6;
  std::vector<float> given(problem.data.weight.size());
  for (size_t i = 0; i < given.size(); ++i) {
    const size_t k = i / (kIn * kOut), in = i / kOut % kIn, out = i % kOut;
    given[(k * kOut + out) * kIn + in] = problem.data.weight[i];
  }
  const Buffer weight(machine(), given);
  minuet_array array = array_of(weight.data(), {81, 2, 6}, MINUET_ELEMENT_F32);
  array.has_strides = 1;
  array.stride[0] = 12, array.stride[1] = 1, array.stride[2] = 2;
  check(minuet_parameters_set(made, nullptr, &array, 1, MINUET_WEIGHTS_MINUET, nullptr));
  const Buffer back(machine(), weight.bytes());
  const minuet_array target = array_of(back.data(), {81, 2, 6}, MINUET_ELEMENT_F32);
  check(minuet_parameters_get(made, 0, &target, nullptr));
  EXPECT_EQ(back.read<float>(), round_to(dtype(), problem.data.weight));
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
    EXPECT_EQ(room.weight.read<uint32_t>(), is_there ? weight : std::vector<uint32_t>(weight.size()));
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
  refused("weights_order is 12", [](auto& given, auto&) { given.weights_order = 12; });
  refused("share memory", [](auto&, auto& array) {
    array.has_strides = 1;
    array.stride[0] = 256, array.stride[1] = 16, array.stride[2] = 0;
  });
  refused("bias_gradient is null", [](auto& given, auto&) { given.bias_gradient = nullptr; });
  refused("accumulate is 2", [](auto& given, auto&) { given.accumulate = 2; });
  refused("reserved is 1", [](auto& given, auto&) { given.reserved = 1; });
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
  minuet_kernel_map* swapped = nullptr;
  check(minuet_kernel_map_transpose(map_of_twice.map.get(), &swapped));
  const KernelMap owner(swapped, {minuet_kernel_map_destroy});
  const Plan plan = make_input_plan(options_of(twice, data));
  ASSERT_TRUE(plan);
  const Execution execution = make_execution(machine(), plan.get());
  EXPECT_EQ(prepare_map(execution.get(), swapped), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("gradients of duplicates are not added"));
}

MINUET_INSTANTIATE_DEVICE_TEST(Gradient);

}  // namespace
}  // namespace minuet::abi
