// Runs on pyramids with values of parameters that the caller sets.
#include "tests/runtime/execution/parameters_fixture.h"
#include "tests/runtime/execution/pyramid_fixture.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

class PyramidParametersTest : public ParametersTest {
 protected:
  void SetUp() override {
    ParametersTest::SetUp();
    if (IsSkipped()) return;
    cloud_.emplace(scene(200));
    capacities_ = suggested(*cloud_);
    minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
    options.network = network_.get();
    options.level_capacity = capacities_.data();
    options.level_count = kLevels;
    pyramid_.emplace(machine(), options);
    room_.emplace(machine(), capacities_[0], dtype());
    room_->fill(*cloud_);
    input_ = array_of(features_of(room_->features.data(), capacities_[0]));
    output_ = array_of(tensor(room_->output.data(), capacities_[0], kWidths.back(), abi_dtype(dtype())));
    pyramid_->build(cloud_->coordinates);
    workspace_.emplace(machine(), run_bytes(machine(), network_.get(), pyramid_->run_arguments()));
  }

  minuet_run_arguments arguments(const minuet_parameters* parameters) {
    minuet_run_arguments given = pyramid_->run_arguments();
    given.workspace = workspace_->data(), given.workspace_bytes = workspace_->bytes();
    given.inputs = &input_, given.outputs = &output_, given.input_count = given.output_count = 1;
    given.parameters = const_cast<minuet_parameters*>(parameters);
    return given;
  }
  std::vector<char> run_with(minuet_plan* plan, const minuet_parameters* parameters) {
    room_->output.poison();
    const minuet_run_arguments given = arguments(parameters);
    check(minuet_plan_run(plan, machine().device(), &given, nullptr));
    return room_->output.read<char>();
  }

  std::optional<Cloud> cloud_;
  Capacities capacities_;
  std::optional<TestPyramid> pyramid_;
  std::optional<Room> room_;
  std::optional<Buffer> workspace_;
  minuet_array input_{}, output_{};
};

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

MINUET_INSTANTIATE_EXECUTION_TEST(PyramidParametersTest);

}  // namespace
}  // namespace minuet::abi
