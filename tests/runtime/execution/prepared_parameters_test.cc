// Parameters that are prepared for runs on pyramids, in memory of the caller.
#include "tests/runtime/execution/pyramid_parameters_fixture.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

int64_t prepared_bytes(Machine& machine, minuet_plan* plan, const minuet_run_arguments& given) {
  int64_t bytes = 0;
  check(minuet_plan_prepared_bytes(plan, machine.arch().c_str(), &given, &bytes));
  return bytes;
}

class PreparedParametersTest : public PyramidParametersTest {
 protected:
  minuet_status prepare(const std::vector<minuet_array>& values, const Buffer& block,
                        void* stream = nullptr) {
    const minuet_run_arguments given = pyramid_->run_arguments();
    return minuet_plan_prepare_parameters(bare(), machine().device(), &given, values.data(),
                                          static_cast<int32_t>(values.size()), MINUET_WEIGHTS_AS_DESCRIBED,
                                          block.data(), block.bytes(), stream);
  }
  // A block of exactly the bytes that are needed, which are poisoned.
  std::unique_ptr<Buffer> new_block() {
    auto block =
        std::make_unique<Buffer>(machine(), prepared_bytes(machine(), bare(), pyramid_->run_arguments()));
    block->poison();
    return block;
  }
  minuet_run_arguments arguments_with(const Buffer& block) {
    minuet_run_arguments given = arguments(nullptr);
    given.prepared = block.data(), given.prepared_bytes = block.bytes();
    return given;
  }
  std::vector<char> run_prepared(const Buffer& block) {
    room_->output.poison();
    const minuet_run_arguments given = arguments_with(block);
    check(minuet_plan_run(bare(), machine().device(), &given, nullptr));
    return room_->output.read<char>();
  }
};

/// Two blocks in turn, and a copy of one whose original and whose values are gone.
TEST_P(PreparedParametersTest, GivesTheBitsOfAPlanWithTheseValues) {
  const std::vector<char> expected = run_with(network_.get(), nullptr);
  const std::vector<char> other_expected = run_with(other_plan(), nullptr);
  EXPECT_NE(expected, other_expected);
  DeviceArrays arrays(machine(), bare(), values()), other(machine(), bare(), other_values());
  const std::unique_ptr<Buffer> first = new_block(), second = new_block(), copy = new_block();
  check(prepare(arrays.arrays(), *first));
  check(prepare(other.arrays(), *second));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run_prepared(*first), expected);
    EXPECT_EQ(run_prepared(*second), other_expected);
  }
  const std::vector<char> bytes = first->read<char>();
  check(minuet_device_copy(machine().device(), copy->data(), bytes.data(), copy->bytes(), 0));
  first->poison(), arrays.poison();
  EXPECT_EQ(run_prepared(*copy), expected);
  // Objects with values, and a plan's own values, are not disturbed.
  const Parameters parameters = parameters_of(bare());
  check(set(parameters, other));
  EXPECT_EQ(run_with(bare(), parameters.get()), other_expected);
  EXPECT_EQ(run_prepared(*copy), expected);
  EXPECT_EQ(run_with(network_.get(), nullptr), expected);
}

TEST_P(PreparedParametersTest, RefusesWhatDoesNotFit) {
  DeviceArrays arrays(machine(), bare(), values());
  const std::unique_ptr<Buffer> block = new_block();
  const std::vector<char> before = block->read<char>();
  std::vector<minuet_array> given = arrays.arrays();
  const auto refused = [&](minuet_status status, const char* words) {
    EXPECT_EQ(prepare(given, *block), status);
    EXPECT_THAT(last_error(), HasSubstr(words));
    given = arrays.arrays();
  };
  given.pop_back();
  refused(MINUET_INVALID_ARGUMENT, "values are given, but the plan has");
  given[1].element = MINUET_ELEMENT_F16;
  refused(MINUET_INVALID_ARGUMENT, "it must be f32");
  given[0].shape[0] += 1;
  refused(MINUET_INVALID_ARGUMENT, arrays.name(0).c_str());
  given[0].data = block->data();
  refused(MINUET_INVALID_ARGUMENT, "overlap");
  if (!machine().is_cpu()) {
    given[0].on_host = 1;
    refused(MINUET_INVALID_ARGUMENT, "in host memory (on_host)");
  }
  EXPECT_EQ(block->read<char>(), before) << "nothing is written where a call is refused";

  check(prepare(given, *block));
  minuet_run_arguments run = arguments_with(*block);
  const auto run_refused = [&](minuet_status status, const char* words) {
    EXPECT_EQ(minuet_plan_run(bare(), machine().device(), &run, nullptr), status);
    EXPECT_THAT(last_error(), HasSubstr(words));
    run = arguments_with(*block);
  };
  --run.prepared_bytes;
  run_refused(MINUET_RESOURCE_EXHAUSTED, "prepared");
  run.prepared = nullptr;
  run_refused(MINUET_INVALID_ARGUMENT, "prepared is null");
  run.prepared = static_cast<const char*>(run.prepared) + 4;
  run_refused(MINUET_INVALID_ARGUMENT, "multiple of 16");
  const minuet_array output = array_of(block->data(), {capacities_[0], kWidths.back()}, output_.element);
  run.outputs = &output;
  run_refused(MINUET_INVALID_ARGUMENT, "overlap");
  const Parameters parameters = parameters_of(bare());
  run.parameters = parameters.get();
  run_refused(MINUET_INVALID_ARGUMENT, "choose one of them");
}

/// One graph prepares, builds and runs; replays read new values.
TEST_P(PreparedParametersTest, OneGraphPreparesBuildsAndRuns) {
  if (machine().is_cpu()) GTEST_SKIP() << "the CPU device has no graphs";
  const Stream stream(machine());
  stream.make_current();
  DeviceArrays arrays(machine(), bare(), values());
  const std::unique_ptr<Buffer> block = new_block();
  const minuet_run_arguments given = arguments_with(*block);
  // Neither call needs another one before the capture.
  const CapturedGraph graph(stream.get(), [&] {
    check(prepare(arrays.arrays(), *block, stream.get()));
    check(pyramid_->build(room_->coordinates.integers(), capacities_[0], room_->count.integers(),
                          stream.get()));
    check(minuet_plan_run(bare(), machine().device(), &given, stream.get()));
  });
  const auto expect_plan = [&](minuet_plan* plan) {
    room_->output.poison(), block->poison();
    ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
    check(minuet_device_synchronize(machine().device(), stream.get()));
    const std::vector<char> bytes = room_->output.read<char>();
    EXPECT_EQ(bytes, run_with(plan, nullptr));
  };
  expect_plan(network_.get());
  arrays.put(machine(), other_values());
  expect_plan(other_plan());
}

/// Ops whose parameters are stored in other ways: groups, depthwise, steps of chains and batch norms alone.
constexpr char kMixed[] = R"({"name": "mixed", "ndim": 3, "in_channels": 16, "layers": [
    {"op": "block", "name": "a", "kernel_size": 3, "out_channels": 32, "groups": 2},
    {"op": "scale_shift", "name": "scale"},
    {"op": "gelu"},
    {"op": "batch_norm", "name": "norm"},
    {"op": "block", "name": "b", "kernel_size": 3, "out_channels": 32, "groups": 32},
    {"op": "layer_norm", "name": "layer_norm"},
    {"op": "block", "name": "down", "kernel_size": 2, "stride": 2, "out_channels": 24},
    {"op": "residual", "name": "c", "kernel_size": 3, "out_channels": 24},
    {"op": "linear", "name": "last", "out_channels": 10}]})";

class MixedParametersTest : public CapacityTest {};

TEST_P(MixedParametersTest, GivesTheBitsOfParameters) {
  NetworkSpec wanted;
  wanted.dtype = dtype(), wanted.description = kMixed, wanted.seed = 0, wanted.without_values = true;
  wanted.dataflow = MINUET_DATAFLOW_FUSED;
  const Plan plan = make_network(machine(), wanted);
  Random random(8);
  Values values;
  for (int32_t i = 0; i < info_of(plan.get()).parameter_tensors; ++i) {
    minuet_parameter_info info{};
    info.struct_size = sizeof(info);
    check(minuet_plan_query_parameter(plan.get(), i, &info));
    FileTensor& tensor = values[info.name];
    int64_t count = 1;
    for (int32_t axis = 0; axis < info.rank; ++axis) count *= info.shape[axis];
    const bool is_variance = std::string(info.name).ends_with("running_var");
    for (int64_t n = 0; n < count; ++n) {
      const float value = static_cast<float>(random.between(1, 2000)) / 1000;
      tensor.values.push_back(is_variance ? value : value - 1);
    }
  }
  DeviceArrays arrays(machine(), plan.get(), values);
  constexpr int64_t kRows = 300;
  const std::vector<int64_t> capacities = {kRows, kRows};
  minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
  options.network = plan.get();
  options.level_capacity = capacities.data(), options.level_count = 2;
  TestPyramid pyramid(machine(), options);
  pyramid.build(make_scene(kRows - 20, 5));
  std::vector<float> features(kRows * 16);
  for (float& value : features) value = static_cast<float>(random.between(-4, 4)) / 4;
  const Buffer input(machine(), encode(dtype(), features));
  Buffer output(machine(), kRows * 10 * dtype_bytes(dtype()));
  const minuet_array in = array_of(tensor(input, kRows, 16, dtype()));
  const minuet_array out = array_of(tensor(output, kRows, 10, dtype()));
  const auto run = [&](const minuet_run_arguments& given) {
    output.poison();
    run_on(machine(), plan.get(), given, {in}, {out});
    return output.read<char>();
  };
  minuet_parameters* made = nullptr;
  check(minuet_parameters_create(plan.get(), machine().device(), nullptr, &made));
  const Parameters parameters(made, {minuet_parameters_destroy});
  check(minuet_parameters_set(made, nullptr, arrays.arrays().data(), arrays.count(),
                              MINUET_WEIGHTS_AS_DESCRIBED, nullptr));
  minuet_run_arguments with = pyramid.run_arguments();
  with.parameters = made;
  const std::vector<char> expected = run(with);
  EXPECT_NE(expected, std::vector<char>(expected.size()));

  minuet_run_arguments prepared = pyramid.run_arguments();
  Buffer block(machine(), prepared_bytes(machine(), plan.get(), prepared));
  block.poison();
  check(minuet_plan_prepare_parameters(plan.get(), machine().device(), &prepared, arrays.arrays().data(),
                                       arrays.count(), MINUET_WEIGHTS_AS_DESCRIBED, block.data(),
                                       block.bytes(), nullptr));
  check(minuet_device_synchronize(machine().device(), nullptr));  // It reads the arrays until it ends.
  arrays.poison();
  prepared.prepared = block.data(), prepared.prepared_bytes = block.bytes();
  EXPECT_EQ(run(prepared), expected);
}

MINUET_INSTANTIATE_EXECUTION_TEST(PreparedParametersTest);
MINUET_INSTANTIATE_EXECUTION_TEST(MixedParametersTest);

}  // namespace
}  // namespace minuet::abi
