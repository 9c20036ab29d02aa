// What networks with dense tensors refuse: coordinates, options and arrays.
#include <gmock/gmock.h>

#include "tests/runtime/execution/dense_fixture.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

class DenseRefusals : public DenseTest {};

TEST_P(DenseRefusals, CoordinatesOutsideAreRefused) {
  const Case test;
  const Plan plan = plan_of(test);
  for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
    const minuet_execution_options options = options_of(method);
    const Execution execution = make_execution(machine(), plan.get(), &options);
    const Points points = draw_points(test, 40, 5);
    for (const auto& [field, value] : {std::pair{0, 4}, {1, 9}, {2, 6}, {3, 4}, {1, -1}, {3, -7}}) {
      Points bad = points;
      bad.coordinates[static_cast<size_t>(20 + field)] = value;
      EXPECT_EQ(prepare(machine(), execution.get(), bad.coordinates), MINUET_OUT_OF_RANGE) << field;
      EXPECT_THAT(last_error(), HasSubstr("axis 0: 0 to 8"));
      EXPECT_EQ(run(execution.get(), test, points), expected_of(test, points)) << "the next cloud";
    }
    Points bad = points;
    bad.coordinates[0] = -1;
    EXPECT_EQ(prepare(machine(), execution.get(), bad.coordinates), MINUET_INVALID_ARGUMENT);
  }
}

/// A shape without a batch size, and a batch size without a shape.
TEST_P(DenseRefusals, LimitsOfSomeFields) {
  const Case test{.channels = 4, .stride = 2};
  const Plan shaped = plan_of(describe(test, pooling_layer(test)));
  const Plan bare = plan_of(describe(test, pooling_layer(test), /*has_shape=*/false));
  const Points points = draw_points(test, 40, 5);
  const Capacities capacities{100, 100};
  for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
    for (const bool has_shape : {false, true}) {
      minuet_execution_options options = options_of(method);
      if (has_shape) options.batch_size = 0;
      minuet_plan* const plan = has_shape ? shaped.get() : bare.get();
      const Execution exact = make_execution(machine(), plan, &options);
      options.level_capacity = capacities.data();
      options.level_count = 2;
      const Execution within = make_execution(machine(), plan, &options);
      const auto status_of = [&](const std::vector<int32_t>& coordinates) {
        check(prepare(machine(), within.get(), coordinates));
        uint32_t status = ~0u;
        check(minuet_execution_read_cloud(within.get(), &status, nullptr, 0, nullptr));
        return status;
      };
      check(prepare(machine(), exact.get(), points.coordinates));
      EXPECT_EQ(status_of(points.coordinates), 0u);
      std::vector<int32_t> bad = points.coordinates;
      bad[has_shape ? 9 : 8] = has_shape ? 9 : 4;
      EXPECT_EQ(prepare(machine(), exact.get(), bad), MINUET_OUT_OF_RANGE);
      EXPECT_THAT(last_error(), HasSubstr(has_shape ? "axis 0: 0 to 8" : "batch index: 0 to 3"));
      EXPECT_NE(status_of(bad) & MINUET_CLOUD_OUT_OF_BOUNDS, 0u);
      // What has no limits is as free as it was.
      std::vector<int32_t> far = points.coordinates;
      far[has_shape ? 8 : 9] = has_shape ? 9000 : (1 << 20) + 5;
      check(prepare(machine(), exact.get(), far));
    }
  }
}

TEST_P(DenseRefusals, OptionsThatDoNotFit) {
  const Case test;
  const Plan plan = plan_of(test);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  EXPECT_EQ(create(plan.get(), options), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("set batch_size"));
  options.batch_size = -1;
  EXPECT_EQ(create(plan.get(), options), MINUET_INVALID_ARGUMENT);
  options.batch_size = 1 << 30;
  EXPECT_EQ(create(plan.get(), options), MINUET_OUT_OF_RANGE);
  EXPECT_THAT(last_error(), HasSubstr("2^31 - 1 cells"));
  options = options_of();
  options.has_bounds = 1;
  options.greatest[0] = 3, options.greatest[1] = 8, options.greatest[2] = 5, options.greatest[3] = 3;
  EXPECT_EQ(create(plan.get(), options), MINUET_OK);
  options.greatest[2] = 6;
  EXPECT_EQ(create(plan.get(), options), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("greatest[2]"));
  options.greatest[2] = 2;
  const Execution narrow = make_execution(machine(), plan.get(), &options);
  EXPECT_EQ(prepare(machine(), narrow.get(), {0, 0, 3, 0}), MINUET_OUT_OF_RANGE);
  EXPECT_THAT(last_error(), HasSubstr("declared bounds"));
  const Points one{{1, 8, 2, 3}, {1, 2, 3, 4, 5}};
  EXPECT_EQ(run(narrow.get(), test, one), expected_of(test, one));
}

TEST_P(DenseRefusals, ArraysThatDoNotFit) {
  const Case test;
  const Plan plan = plan_of(test);
  const minuet_execution_options options = options_of();
  const Execution execution = make_execution(machine(), plan.get(), &options);
  const Points points = draw_points(test, 20, 2);
  check(prepare(machine(), execution.get(), points.coordinates));
  const Buffer input(machine(), encode(dtype(), points.features));
  const Buffer output(machine(), 2 * bytes_of(test));
  const minuet_array features = features_of(input, test, rows_of(test, points));
  const auto expect_refused = [&](const minuet_array& array, const char* why) {
    EXPECT_EQ(run_arrays(execution.get(), {features}, {array}), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr(why));
  };
  const minuet_array right = dense_of(output.data(), test);
  minuet_array array = right;
  array.shape[0] = 3;
  expect_refused(array, "output 0 has shape [3, 5, 9, 6, 4]; it must be [4, 5, 9, 6, 4]");
  array = right;
  array.rank = 4;
  expect_refused(array, "it must be [4, 5, 9, 6, 4]");
  array = right;
  array.element = array.element == MINUET_ELEMENT_F32 ? MINUET_ELEMENT_F16 : MINUET_ELEMENT_F32;
  expect_refused(array, "elements of");
  array = right;
  array.has_strides = 1;
  for (int axis = 4, stride = 1; axis >= 0; --axis) {
    array.stride[axis] = stride;
    stride *= static_cast<int>(array.shape[axis]);
  }
  check(run_arrays(execution.get(), {features}, {array}));
  array.stride[0] += 1;
  expect_refused(array, "must be contiguous");
  array = right;
  array.data = input.data();
  expect_refused(array, "overlap");
  EXPECT_EQ(run_tensors(execution.get(), {tensor(input, 1, 5, dtype())}, tensor(output, 1, 5, dtype())),
            MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("minuet_execution_run_arrays"));
  int64_t rows = 0;
  int32_t channels = 0;
  EXPECT_EQ(minuet_execution_output_shape(execution.get(), &rows, &channels), MINUET_FAILED_PRECONDITION);
}

MINUET_INSTANTIATE_DEVICE_TEST(DenseRefusals);

}  // namespace
}  // namespace minuet::abi
