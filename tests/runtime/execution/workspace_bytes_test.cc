// The size of a workspace is known of a plan that is compiled, before it is loaded and before there is an
// execution, and is the size that the execution then needs.
#include <functional>

#include "tests/runtime/execution/capacity_fixture.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

class WorkspaceBytesTest : public CapacityTest {
 protected:
  minuet_status ask(minuet_plan* plan, const minuet_execution_options* options, int64_t points,
                    double neighbours, int64_t& bytes) {
    return minuet_plan_workspace_bytes(plan, machine().arch().c_str(), options, points, neighbours, &bytes);
  }
  /// Returns what executions with these options need. The options must give capacities.
  int64_t bytes_within(minuet_plan* plan, const minuet_execution_options& options) {
    int64_t bytes = 0;
    check(ask(plan, &options, 0, 0, bytes));
    return bytes;
  }
  int64_t bytes_of_clouds(minuet_plan* plan, int64_t points, double neighbours,
                          const minuet_execution_options& options = MINUET_EXECUTION_OPTIONS_INIT) {
    int64_t bytes = 0;
    check(ask(plan, &options, points, neighbours, bytes));
    return bytes;
  }
  std::string refusal(const minuet_execution_options& options, minuet_status wanted = MINUET_INVALID_ARGUMENT,
                      int64_t points = 0, double neighbours = 0) {
    int64_t bytes = -7;
    EXPECT_EQ(ask(network_.get(), &options, points, neighbours, bytes), wanted);
    EXPECT_EQ(bytes, -7);
    return last_error();
  }
  /// Calls `work` with options of each map method, with keys of each width, and with bounds.
  static void with_options(minuet_plan* plan, const std::function<void(minuet_execution_options)>& work) {
    const int32_t levels = info_of(plan).levels;
    Capacities capacities;
    for (int32_t level = 0; level < levels; ++level) capacities.push_back(900 - 150 * level);
    for (const minuet_map_method method : {MINUET_MAPS_AUTO, MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
      for (const int32_t key_bits : {0, 32, 64}) {
        minuet_execution_options options = options_of(capacities, key_bits);
        options.map_method = method;
        work(options);
        if (key_bits != 0) continue;
        options.has_bounds = 1;
        std::fill_n(options.greatest, 4, 63);
        options.keep_first_duplicate = 1;
        work(options);
      }
    }
  }
  /// Returns the bytes that minuet_execution_query tells of an execution with just these options.
  int64_t said_by_execution(minuet_plan* plan, const minuet_execution_options& options) {
    minuet_execution* made = nullptr;
    check(minuet_execution_create(plan, machine().device(), &options, &made));
    return info_of(Execution(made, {minuet_execution_destroy})).workspace_bytes;
  }
  void expect_as_executions(minuet_plan* plan) {
    with_options(plan, [&](minuet_execution_options options) {
      SCOPED_TRACE(testing::Message() << options.map_method << " " << options.key_bits);
      const int64_t bytes = bytes_within(plan, options);
      EXPECT_EQ(bytes % 256, 0);
      EXPECT_EQ(said_by_execution(plan, options), bytes);
      options.parameter_inputs = 1;
      EXPECT_EQ(bytes_within(plan, options), bytes);
      options.defer_workspace = 1;
      EXPECT_EQ(said_by_execution(plan, options), bytes);
    });
  }
};

TEST_P(WorkspaceBytesTest, OfMinkUNet42AsItsExecutionsSay) { expect_as_executions(network_.get()); }

TEST_P(WorkspaceBytesTest, OfSparseResNet21DAsItsExecutionsSay) {
  NetworkSpec spec;
  spec.name = "sparseresnet21d", spec.channels = {8, 16, 24, 32}, spec.dtype = dtype();
  spec.dataflow = MINUET_DATAFLOW_FUSED;
  expect_as_executions(make_network(machine(), spec).get());
}

/// The library may choose a dataflow that capacity mode refuses. Both functions then refuse alike.
TEST_P(WorkspaceBytesTest, OfWhatTheLibraryChooses) {
  NetworkSpec spec;
  spec.description = R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [8], "layers": [
      {"op": "block", "name": "a", "width": 0, "kernel_size": 3},
      {"op": "block", "name": "b", "width": 0, "kernel_size": 2, "stride": 2}]})";
  spec.dtype = dtype();
  spec.dataflow = MINUET_DATAFLOW_AUTO;
  const Plan plan = make_network(machine(), spec);
  const Capacities capacities{700, 300};
  const minuet_execution_options options = options_of(capacities);
  minuet_execution* made = nullptr;
  const minuet_status status = minuet_execution_create(plan.get(), machine().device(), &options, &made);
  const Execution within(made, {minuet_execution_destroy});
  int64_t bytes = 0;
  EXPECT_EQ(ask(plan.get(), &options, 0, 0, bytes), status) << last_error();
  if (status == MINUET_OK) {
    EXPECT_EQ(info_of(within).workspace_bytes, bytes);
  }
}

/// The bytes are enough, and one byte less is not.
TEST_P(WorkspaceBytesTest, AreEnoughAndNotTooMany) {
  const Cloud cloud = scene(300);
  const Capacities capacities = suggested(cloud);
  minuet_execution_options options = options_of(capacities);
  options.map_method = tested_maps();
  const int64_t bytes = bytes_within(network_.get(), options);
  options.defer_workspace = 1;
  const Execution later = execution(&options);
  const Buffer workspace(machine(), bytes);
  for (const int64_t fewer : {256, 1}) {
    EXPECT_EQ(minuet_execution_set_workspace(later.get(), workspace.data(), bytes - fewer, nullptr),
              MINUET_RESOURCE_EXHAUSTED);
    EXPECT_THAT(last_error(), HasSubstr("needs " + std::to_string(bytes)));
  }
  check(minuet_execution_set_workspace(later.get(), workspace.data(), bytes, nullptr));
  Room room(machine(), capacities[0], dtype());
  room.fill(cloud);
  enqueue(later.get(), room, nullptr);
  EXPECT_EQ(status_of(later.get()), 0u);
  expect_padded_oracle(room, cloud);
}

/// In exact mode the bytes are enough for the method that the options name, or for both if they name none.
TEST_P(WorkspaceBytesTest, OfExactModeHoldTheClouds) {
  const Cloud cloud = scene(300);
  minuet_execution_options options;
  int64_t most = 0;
  for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
    options = MINUET_EXECUTION_OPTIONS_INIT;
    options.map_method = method;
    const NetworkRun expected = run(execution(&options), cloud);
    const int64_t bytes = bytes_of_clouds(network_.get(), cloud.count(), 27, options);
    most = std::max(most, bytes);
    const Buffer workspace(machine(), bytes);
    options.workspace = workspace.data();
    options.workspace_bytes = bytes;
    EXPECT_EQ(run(execution(&options), cloud), expected);
  }
  options = MINUET_EXECUTION_OPTIONS_INIT;
  EXPECT_EQ(bytes_of_clouds(network_.get(), cloud.count(), 27, options), most);
  options.max_points = 4 * cloud.count();
  EXPECT_GT(bytes_of_clouds(network_.get(), cloud.count(), 27, options), most);
}

/// A single convolution takes no capacities, so only the bound of exact mode applies to it.
TEST_P(WorkspaceBytesTest, OfASingleConvolution) {
  const ConvolutionCase test = small_case(dtype(), ConvolutionKind::Submanifold, 16, 16, 100);
  const ConvolutionData data = make_data(test);
  const Map map = make_map(machine(), test, data);
  Convolution convolution(machine(), test, data);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  const int64_t bytes = bytes_of_clouds(convolution.get(), data.in_rows(), 27);
  const Buffer workspace(machine(), bytes);
  options.workspace = workspace.data();
  options.workspace_bytes = bytes;
  const Execution execution = convolution.execution(&options), plain = convolution.execution();
  EXPECT_EQ(convolution.run(execution.get(), map, data), convolution.run(plain.get(), map, data));
  const Capacities capacities{100};
  const minuet_execution_options within = options_of(capacities);
  int64_t none = 0;
  minuet_execution* made = nullptr;
  EXPECT_EQ(ask(convolution.get(), &within, 0, 0, none), MINUET_INVALID_ARGUMENT);
  const std::string refusal = last_error();
  EXPECT_EQ(minuet_execution_create(convolution.get(), machine().device(), &within, &made),
            MINUET_INVALID_ARGUMENT);
  for (const std::string& message : {refusal, last_error()}) EXPECT_THAT(message, HasSubstr("single op"));
}

TEST_P(WorkspaceBytesTest, NeedACompiledPlanAndNoLoadedOne) {
  NetworkSpec spec;
  spec.description = R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [8], "layers": [
      {"op": "block", "name": "a", "width": 0, "kernel_size": 3}]})";
  spec.dtype = dtype();
  spec.dataflow = MINUET_DATAFLOW_FUSED;
  spec.without_values = true, spec.seed = 0;
  Plan plan(nullptr, {minuet_plan_destroy});
  check(create_network(machine(), spec, plan));
  int64_t bytes = 0;
  EXPECT_EQ(ask(plan.get(), nullptr, 100, 5, bytes), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("minuet_plan_compile"));
  check(minuet_plan_compile(plan.get(), machine().arch().c_str(), nullptr, nullptr));
  check(ask(plan.get(), nullptr, 100, 5, bytes));
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(minuet_plan_workspace_bytes(plan.get(), "sm_80", nullptr, 100, 5, &bytes),
            MINUET_FAILED_PRECONDITION);
  const Capacities capacities{1000};
  const int64_t within = bytes_within(plan.get(), options_of(capacities));
  minuet_execution* none = nullptr;
  EXPECT_EQ(minuet_execution_create(plan.get(), machine().device(), nullptr, &none),
            MINUET_FAILED_PRECONDITION);
  check(minuet_plan_load(plan.get(), machine().device()));
  EXPECT_EQ(bytes_within(plan.get(), options_of(capacities)), within);
}

/// Options that name memory, and arguments that belong to the other mode, are refused.
TEST_P(WorkspaceBytesTest, RefusesWhatIsNoSize) {
  const Capacities capacities(kLevels, 500);
  const minuet_execution_options plain = MINUET_EXECUTION_OPTIONS_INIT, within = options_of(capacities);
  for (const minuet_execution_options& base : {plain, within}) {
    minuet_execution_options options = base;
    options.defer_workspace = 1;
    EXPECT_THAT(refusal(options), HasSubstr("defer_workspace is set"));
    options = base;
    options.workspace_bytes = 1 << 20;
    EXPECT_THAT(refusal(options), HasSubstr("workspace_bytes is set"));
    options.workspace = this;
    EXPECT_THAT(refusal(options), HasSubstr("what is asked for"));
  }
  EXPECT_THAT(refusal(within, MINUET_INVALID_ARGUMENT, 100), HasSubstr("max_points is 100"));
  EXPECT_THAT(refusal(within, MINUET_INVALID_ARGUMENT, 0, 2), HasSubstr("max_neighbours is 2"));
  EXPECT_THAT(refusal(plain, MINUET_INVALID_ARGUMENT, 100, 0.5), HasSubstr("max_neighbours is 0.5"));
  EXPECT_THAT(refusal(plain, MINUET_INVALID_ARGUMENT, -1, 5), HasSubstr("max_points"));
}

MINUET_INSTANTIATE_EXECUTION_TEST(WorkspaceBytesTest);

}  // namespace
}  // namespace minuet::abi
