// Runs on pyramids with values of parameters that the caller sets.
#include "tests/runtime/abi/callers_pool.h"
#include "tests/runtime/execution/pyramid_parameters_fixture.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

/// Two sets of values in turn, in a plan without values and in one that has values of its own.
TEST_P(PyramidParametersTest, GivesTheBitsOfAPlanWithTheseValues) {
  const std::vector<char> expected = run_with(network_.get(), nullptr);
  const std::vector<char> other_expected = run_with(other_plan(), nullptr);
  EXPECT_NE(expected, other_expected);
  for (minuet_plan* const plan : {bare(), network_.get()}) {
    const Parameters first = parameters_of(plan), second = parameters_of(plan);
    DeviceArrays arrays(machine(), plan, values()), other(machine(), plan, other_values());
    check(set(first, arrays));
    check(set(second, other));
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(run_with(plan, first.get()), expected);
      EXPECT_EQ(run_with(plan, second.get()), other_expected);
    }
    check(set(first, other));
    EXPECT_EQ(run_with(plan, first.get()), other_expected);
  }
  EXPECT_EQ(run_with(network_.get(), nullptr), expected);
}

TEST_P(PyramidParametersTest, RefusesMissingAndForeignValues) {
  const auto refused = [&](minuet_plan* plan, const minuet_parameters* parameters, minuet_status status,
                           const char* words) {
    const minuet_run_arguments given = arguments(parameters);
    EXPECT_EQ(minuet_plan_run(plan, machine().device(), &given, nullptr), status);
    EXPECT_THAT(last_error(), HasSubstr(words));
  };
  const Parameters unset = parameters_of(bare());
  refused(bare(), nullptr, MINUET_FAILED_PRECONDITION, "without values: give parameters");
  refused(bare(), unset.get(), MINUET_FAILED_PRECONDITION, "without a value");
  refused(network_.get(), unset.get(), MINUET_INVALID_ARGUMENT, "another plan");
}

/// One graph sets the weights, builds the pyramid and runs; replays read new weights, coordinates and
/// features.
TEST_P(PyramidParametersTest, OneGraphSetsBuildsAndRuns) {
  if (machine().is_cpu()) GTEST_SKIP() << "the CPU device has no graphs";
  const Stream stream(machine());
  stream.make_current();
  const Parameters parameters = parameters_of(bare());
  DeviceArrays arrays(machine(), bare(), values());
  check(set(parameters, arrays, stream.get()));
  check(minuet_device_synchronize(machine().device(), stream.get()));
  const minuet_run_arguments given = arguments(parameters.get());
  {
    // The first run would allocate.
    const CapturedGraph refused(stream.get(), [&] {
      EXPECT_EQ(minuet_plan_run(bare(), machine().device(), &given, stream.get()),
                MINUET_FAILED_PRECONDITION);
      EXPECT_THAT(last_error(), HasSubstr("minuet_plan_run_load before the capture"));
    });
  }
  check(minuet_plan_run_load(bare(), machine().device(), &given));
  const CapturedGraph graph(stream.get(), [&] {
    check(set(parameters, arrays, stream.get()));
    check(pyramid_->build(room_->coordinates.integers(), capacities_[0], room_->count.integers(),
                          stream.get()));
    check(minuet_plan_run(bare(), machine().device(), &given, stream.get()));
  });
  const auto replay = [&] {
    room_->output.poison();
    ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
    check(minuet_device_synchronize(machine().device(), stream.get()));
  };
  const auto expect_plan = [&](minuet_plan* plan) {
    replay();
    const std::vector<char> bytes = room_->output.read<char>();
    EXPECT_EQ(bytes, run_with(plan, nullptr));
  };
  expect_plan(network_.get());
  arrays.put(machine(), other_values());
  expect_plan(other_plan());
  room_->fill(scene(60, kSeed + 3));
  expect_plan(other_plan());
  arrays.put(machine(), values());
  replay();
  expect_padded_oracle(*room_, scene(60, kSeed + 3));
}

/// A graph that was captured before any kernel was selected sets no kernel's weights. Runs that set the
/// values themselves compute with theirs, also behind a replay with others.
TEST_P(PyramidParametersTest, EachRunSetsItsValuesBehindACapture) {
  if (machine().is_cpu()) GTEST_SKIP() << "the CPU device has no graphs";
  const std::vector<char> expected = run_with(network_.get(), nullptr);
  const std::vector<char> other_expected = run_with(other_plan(), nullptr);
  minuet_parameters_options options = MINUET_PARAMETERS_OPTIONS_INIT;
  options.set_by_each_run = 1;
  minuet_parameters* made = nullptr;
  check(minuet_parameters_create(bare(), machine().device(), &options, &made));
  const Parameters parameters{made, {minuet_parameters_destroy}};
  DeviceArrays arrays(machine(), bare(), values()), other(machine(), bare(), other_values());
  const Stream stream(machine());
  stream.make_current();
  const CapturedGraph graph(stream.get(), [&] { check(set(parameters, arrays, stream.get())); });
  for (int i = 0; i < 2; ++i) {
    check(set(parameters, other));
    EXPECT_EQ(run_with(bare(), made), other_expected);
    ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
    check(minuet_device_synchronize(machine().device(), stream.get()));
    check(set(parameters, arrays));
    EXPECT_EQ(run_with(bare(), made), expected);
  }
}

/// Counts the blocks of device memory that a set of parameters holds for runs on pyramids.
class PyramidImagesTest : public PyramidParametersTest {
 protected:
  void SetUp() override {
    PyramidParametersTest::SetUp();
    if (IsSkipped()) return;
    pool_.emplace(std::get<0>(GetParam()));
    own_ = Machine::open_own(std::get<0>(GetParam()), pool_->options());
    plan_ = make_network(*own_, spec());
    minuet_parameters* made = nullptr;
    check(minuet_parameters_create(plan_.get(), own_->device(), nullptr, &made));
    parameters_.reset(made);
    load(make_pyramid(1), nullptr);
    base_ = pool_->live();
  }
  PyramidHandle make_pyramid(int64_t factor) {
    Capacities larger = capacities_;
    for (int64_t& rows : larger) rows *= factor;
    minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
    options.network = plan_.get();
    options.level_capacity = larger.data();
    options.level_count = kLevels;
    minuet_pyramid* made = nullptr;
    check(minuet_pyramid_create(own_->context(), &options, &made));
    check(minuet_pyramid_load(made, own_->device()));
    return {made, {minuet_pyramid_destroy}};
  }
  minuet_run_arguments on(const PyramidHandle& pyramid, const minuet_parameters* parameters) const {
    minuet_run_arguments given = MINUET_RUN_ARGUMENTS_INIT;
    given.pyramid = pyramid.get();
    given.parameters = const_cast<minuet_parameters*>(parameters);
    return given;
  }
  void load(const PyramidHandle& pyramid, const minuet_parameters* parameters) {
    const minuet_run_arguments given = on(pyramid, parameters);
    check(minuet_plan_run_load(plan_.get(), own_->device(), &given));
  }
  /// Returns how many blocks are there beside those of the plan, the parameters and the device.
  int64_t images() const { return pool_->live() - base_; }

  std::optional<CallersPool> pool_;  // The device uses it to the end.
  std::unique_ptr<Machine> own_;
  Plan plan_{nullptr, {minuet_plan_destroy}};
  Parameters parameters_{nullptr, {minuet_parameters_destroy}};
  int64_t base_ = 0;
};

TEST_P(PyramidImagesTest, LiveAsLongAsAPyramidThatNeedsThem) {
  PyramidHandle first = make_pyramid(1), second = make_pyramid(1), large = make_pyramid(64);
  load(first, parameters_.get());
  const int64_t needed = images();
  load(second, parameters_.get());
  EXPECT_EQ(images(), needed) << "both select the same kernels";
  load(large, parameters_.get());
  const int64_t most = images();
  // The CPU device has no images.
  EXPECT_TRUE(own_->is_cpu() || most > 0);
  first.reset();
  EXPECT_EQ(images(), most);
  second.reset();
  EXPECT_LE(images(), most);
  large.reset();
  EXPECT_EQ(images(), 0);
  for (int i = 0; i < 20; ++i) load(make_pyramid(i % 2 == 0 ? 1 : 64), parameters_.get());
  EXPECT_EQ(images(), 0);
}

/// A captured set does not write the weights for kernels that are selected behind it. That is an error,
/// unless every run sets them.
TEST_P(PyramidImagesTest, KernelsSelectedBehindACapturedSet) {
  if (machine().is_cpu()) GTEST_SKIP() << "the CPU device has no graphs";
  const Stream stream(*own_);
  stream.make_current();
  DeviceArrays arrays(*own_, plan_.get(), values());
  const PyramidHandle pyramid = make_pyramid(1);
  for (const int64_t each : {0, 1}) {
    SCOPED_TRACE(each);
    minuet_parameters_options options = MINUET_PARAMETERS_OPTIONS_INIT;
    options.set_by_each_run = each;
    minuet_parameters* made = nullptr;
    check(minuet_parameters_create(plan_.get(), own_->device(), &options, &made));
    const Parameters own{made, {minuet_parameters_destroy}};
    const CapturedGraph graph(stream.get(), [&] { check(set(own, arrays, stream.get())); });
    const minuet_run_arguments given = on(pyramid, made);
    const minuet_status status = minuet_plan_run_load(plan_.get(), own_->device(), &given);
    if (each != 0) {
      EXPECT_EQ(status, MINUET_OK);
    } else {
      EXPECT_EQ(status, MINUET_FAILED_PRECONDITION);
      EXPECT_THAT(last_error(), HasSubstr("would not set it for the kernel"));
    }
  }
}

/// Graphs may be replayed after the pyramid is destroyed, so their images are kept until the caller says that
/// the graphs are not replayed any more.
TEST_P(PyramidImagesTest, LiveAsLongAsCapturedRuns) {
  if (machine().is_cpu()) GTEST_SKIP() << "the CPU device has no graphs";
  const Stream stream(*own_);
  stream.make_current();
  DeviceArrays arrays(*own_, plan_.get(), values());
  check(set(parameters_, arrays, stream.get()));
  check(minuet_device_synchronize(own_->device(), stream.get()));
  const Room room(*own_, capacities_[0], dtype());
  const int64_t before = images();
  {
    const PyramidHandle pyramid = make_pyramid(1);
    int64_t buffer_bytes = 0, build_bytes = 0;
    check(minuet_pyramid_bytes(pyramid.get(), own_->arch().c_str(), &buffer_bytes, &build_bytes));
    load(pyramid, parameters_.get());
    minuet_run_arguments given = on(pyramid, parameters_.get());
    const Buffer buffer(*own_, buffer_bytes), workspace(*own_, run_bytes(*own_, plan_.get(), given));
    const minuet_array input = array_of(features_of(room.features.data(), capacities_[0]));
    const minuet_array output =
        array_of(tensor(room.output.data(), capacities_[0], kWidths.back(), abi_dtype(dtype())));
    given.buffer = buffer.data(), given.buffer_bytes = buffer.bytes();
    given.workspace = workspace.data(), given.workspace_bytes = workspace.bytes();
    given.inputs = &input, given.outputs = &output, given.input_count = given.output_count = 1;
    const CapturedGraph graph(
        stream.get(), [&] { check(minuet_plan_run(plan_.get(), own_->device(), &given, stream.get())); });
  }
  EXPECT_GT(images(), before);
  check(minuet_parameters_release_captures(parameters_.get()));
  EXPECT_EQ(images(), before);
}

MINUET_INSTANTIATE_EXECUTION_TEST(PyramidParametersTest);
MINUET_INSTANTIATE_EXECUTION_TEST(PyramidImagesTest);

}  // namespace
}  // namespace minuet::abi
