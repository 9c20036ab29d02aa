// Chains of pointwise steps as single ops (pointwise.h), on every device, against fp64: with the caller's
// sets, with parameters that are set later, on pyramids in both orders of rows, and as bytes.
#include <gmock/gmock.h>

#include "tests/runtime/execution/pointwise_op_fixture.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;
using Parameters = Handle<minuet_parameters>;

TEST_P(PointwiseOp, Chains) {
  Random random(1);
  for (const std::vector<std::string>& ops :
       std::vector<std::vector<std::string>>{{"gelu"},
                                             {"affine", "add", "relu"},
                                             {"multiply", "layer_norm", "affine", "silu", "add"},
                                             {"add", "softmax"},
                                             {"affine", "argmax"}}) {
    for (const int64_t rows : {50, 0}) {
      const Chain chain = make_chain(ops, 20, rows, random);
      SCOPED_TRACE(chain.describe() + " " + std::to_string(rows));
      const std::vector<float> x = draw(rows * 20, random);
      const Plan plan = loaded(create(chain));
      expect_chain(chain, run_op(plan.get(), chain, rows, x), x);
    }
  }
}

/// A run is one kernel, which reads and writes the caller's rows where they are. Where duplicates were
/// dropped, the rows are those of the set, and each duplicate gets the result of the row that was kept.
TEST_P(PointwiseOp, RowsStayInTheCallersOrder) {
  Random random(8);
  const int64_t rows = 40;
  const Chain chain = make_chain({"affine", "add", "relu"}, 8, rows, random);
  const Plan plan = loaded(create(chain));
  const std::vector<float> x = draw(rows * 8, random);
  std::vector<int32_t> coordinates = coordinates_of(rows);
  for (const bool has_duplicate : {false, true}) {
    if (has_duplicate) std::copy_n(coordinates.begin(), 4, coordinates.begin() + 4 * 30);
    minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
    options.keep_first_duplicate = has_duplicate ? 1 : 0;
    const Coordinates set = make_set(machine(), 3, coordinates, {1, 1, 1, 1}, options);
    const KernelMap map = map_of(set.get());
    const Execution execution = make_execution(machine(), plan.get());
    check(prepare_map(execution.get(), map.get()));
    check(minuet_execution_reset_counters(execution.get()));
    const ChainRun run = run_prepared(plan.get(), execution.get(), rows, chain.inputs(x))[0];
    if (!has_duplicate) {
      expect_chain(chain, run, x);
      EXPECT_EQ(counters_of(execution.get()).kernels, machine().is_cpu() ? 0 : 1);
    } else {
      EXPECT_TRUE(std::equal(run.values.begin(), run.values.begin() + 8, run.values.begin() + 8 * 30));
    }
  }
}

/// What a plan tells of its inputs, its output and its parameters.
TEST_P(PointwiseOp, WhatAPlanTells) {
  Random random(2);
  const Chain chain =
      make_chain({"affine", "add", "layer_norm", "affine", "multiply", "argmax"}, 6, 5, random);
  const Plan plan(create(chain), {minuet_plan_destroy});
  EXPECT_EQ(info_of(plan.get()).inputs, 3);
  EXPECT_EQ(info_of(plan.get()).maps, 1);
  EXPECT_EQ(info_of(plan.get()).parameters, 4 * 6);
  EXPECT_STREQ(input_of(plan.get(), 0).name, "input");
  EXPECT_STREQ(input_of(plan.get(), 2).name, "operand1");
  EXPECT_EQ(output_of(plan.get(), 0).element, MINUET_ELEMENT_I32);
  ASSERT_EQ(info_of(plan.get()).parameter_tensors, 4);
  minuet_parameter_info info{};
  info.struct_size = sizeof(info);
  check(minuet_plan_query_parameter(plan.get(), 3, &info));
  EXPECT_STREQ(info.name, "steps[3].shift");
}

TEST_P(PointwiseOp, ParametersThatAreSetLater) {
  Random random(3);
  const Chain chain = make_chain({"affine", "silu", "layer_norm", "affine"}, 12, 30, random);
  const Plan plan = loaded(create(chain, /*without_values=*/true));
  minuet_parameters_options options = MINUET_PARAMETERS_OPTIONS_INIT;
  minuet_parameters* made = nullptr;
  check(minuet_parameters_create(plan.get(), machine().device(), &options, &made));
  const Parameters parameters(made, {minuet_parameters_destroy});
  std::vector<minuet_array> arrays;
  for (const size_t step : {0, 3}) {
    for (const std::vector<float>* numbers : {&chain.steps[step].scale, &chain.steps[step].shift}) {
      arrays.push_back(
          array_of(const_cast<float*>(numbers->data()), {12}, MINUET_ELEMENT_F32, /*on_host=*/true));
    }
  }
  check(minuet_parameters_set(made, nullptr, arrays.data(), 4, MINUET_WEIGHTS_AS_DESCRIBED, nullptr));
  minuet_execution_options with = MINUET_EXECUTION_OPTIONS_INIT;
  with.parameters = made;
  const std::vector<float> x = draw(30 * 12, random);
  expect_chain(chain, run_op(plan.get(), chain, 30, x, &with), x);
}

TEST_P(PointwiseOp, AsBytes) {
  Random random(4);
  const Chain chain =
      make_chain({"leaky_relu", "add", "affine", "softmax", "leaky_relu_gradient"}, 10, 20, random);
  const Plan plan(create(chain), {minuet_plan_destroy});
  size_t bytes = 0;
  check(minuet_plan_serialize(plan.get(), nullptr, 0, 0, nullptr, 0, &bytes));
  std::vector<char> memory(bytes);
  check(minuet_plan_serialize(plan.get(), nullptr, 0, 0, memory.data(), bytes, &bytes));
  minuet_plan* made = nullptr;
  check(minuet_plan_deserialize(machine().context(), memory.data(), bytes, &made));
  const Plan again = loaded(made);
  const std::vector<float> x = draw(20 * 10, random);
  expect_chain(chain, run_op(again.get(), chain, 20, x), x);
}

/// In the caller's order of rows and in the set's, which the operands have too.
TEST_P(PointwiseOp, OnPyramids) {
  Random random(5);
  const int64_t rows = 30, capacity = 40;
  const Chain chain = make_chain({"add", "multiply", "silu", "layer_norm_gradient"}, 8, rows, random);
  const Plan plan = loaded(create(chain));
  const minuet_pyramid_level level = level_of(capacity);
  const minuet_pyramid_map map = map_between(0, 0, 1, MINUET_PURPOSE_CONVOLUTION);
  minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
  options.ndim = 3;
  options.levels = &level, options.level_count = 1;
  options.maps = &map, options.map_count = 1;
  TestPyramid pyramid(machine(), options);
  pyramid.build(coordinates_of(rows));
  const std::vector<float> x = draw(rows * 8, random);
  for (const uint32_t order :
       {0, MINUET_SET_ORDER_INPUT | MINUET_SET_ORDER_OUTPUT | MINUET_SET_ORDER_RESIDUAL}) {
    std::deque<Buffer> memory;
    std::vector<minuet_array> in;
    for (std::vector<float> values : chain.inputs(x)) {
      values.resize(static_cast<size_t>(capacity * 8));
      in.push_back(
          array_of(memory.emplace_back(machine(), encode(dtype(), values)).data(), {capacity, 8}, element()));
    }
    const Buffer output(machine(), capacity * 8 * dtype_bytes(dtype()));
    minuet_run_arguments arguments = pyramid.run_arguments();
    arguments.set_order = order;
    run_on(machine(), plan.get(), arguments, in, {array_of(output.data(), {capacity, 8}, element())});
    std::vector<float> values = decode(dtype(), output.read<char>());
    for (size_t i = static_cast<size_t>(rows * 8); i < values.size(); ++i) EXPECT_EQ(values[i], 0);
    values.resize(static_cast<size_t>(rows * 8));
    // Each row depends on the rows of the same number only, so that the result does not depend on the order.
    expect_chain(chain, {values, {}}, x);
  }
}

TEST_P(PointwiseOp, MapsOfOtherKernelsAreRefused) {
  Random random(6);
  const Plan plan = loaded(create(make_chain({"relu"}, 4, 5, random)));
  const Coordinates set = set_of(5);
  minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
  std::fill_n(options.kernel_size, 3, 3);
  minuet_kernel_map* made = nullptr;
  check(minuet_kernel_map_create(set.get(), set.get(), &options, nullptr, &made));
  const KernelMap map(made, {minuet_kernel_map_destroy});
  const Execution execution = make_execution(machine(), plan.get());
  EXPECT_EQ(prepare_map(execution.get(), map.get()), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("pointwise"));
}

MINUET_INSTANTIATE_DEVICE_TEST(PointwiseOp);

}  // namespace
}  // namespace minuet::abi
