// Training plans: outputs, running statistics and all gradients of whole networks against a step in float64,
// and the promises of training.h.
#include <gmock/gmock.h>

#include <thread>

#include "tests/runtime/training/training_cases.h"
#include "tests/runtime/training/training_networks.h"
#include "tests/support/software_cuda/control.h"

namespace minuet::abi {
namespace {

TEST_P(TrainingTest, AUNetHasAllGradients) {
  TrainingCase test = unet();
  const TrainingRun run(machine(), dtype(), test);
  expect_step(test, run.step(usual(test)));
}

TEST_P(TrainingTest, ChainsAndPoolingsHaveAllGradients) {
  TrainingCase test = chains();
  const TrainingRun run(machine(), dtype(), test);
  expect_step(test, run.step(usual(test)));
}

/// Without a ReLU no element of 16 bits can pass in one of the two steps only, so that a bound of a few
/// roundings shows that every term is there.
TEST_P(TrainingTest, SmoothNetworksHaveAllGradients) {
  for (const int32_t is_frozen : {0, 1}) {
    TrainingCase test = make_case(kSmooth, {8}, {8});
    test.options.frozen_batch_norms = is_frozen;
    const TrainingRun run(machine(), dtype(), test);
    if (dtype() != DType::F32) bound_ = dtype() == DType::BF16 ? 2e-2 : 4e-3;
    expect_step(test, run.step(usual(test)));
  }
}

TEST_P(TrainingTest, OutputsOfSeveralLevelsHaveAllGradients) {
  TrainingCase test = make_case(kPyramid, {4}, {8});
  const TrainingRun run(machine(), dtype(), test);
  const oracle::TrainingStep step = expected(test);
  test.out_gradients = {draw(static_cast<int64_t>(step.output(0).values.size()), 3),
                        draw(static_cast<int64_t>(step.output(1).values.size()), 4)};
  expect_step(test, run.step(usual(test)));
}

/// Biases in front of batch norms, norms without parameters, other activations and groups of layers that
/// networks seldom have.
TEST_P(TrainingTest, UnusualLayersHaveAllGradients) {
  TrainingCase test = make_case(kUnusual, {4}, {8});
  const TrainingRun run(machine(), dtype(), test);
  // The gradient of a bias that a batch norm takes away is a sum of rounding errors.
  expect_step(test, run.step(usual(test)), /*least=*/30, "bias.conv.bias");
}

/// The networks that people train, with a few channels.
TEST_P(TrainingTest, ShippedNetworksHaveAllGradients) {
  const std::pair<const char*, std::vector<int32_t>> networks[] = {
      {"minkunet42", {8, 8, 16, 16, 24, 24, 16, 8, 8}},
      {"sparseresnet21d", {8, 16, 16, 24}},
      {"spunet34", {8, 8, 16, 16, 24, 24, 16, 8, 8}}};
  for (const auto& [name, channels] : networks) {
    SCOPED_TRACE(name);
    NetworkSpec spec;
    spec.name = name;
    spec.channels = channels;
    spec.dtype = dtype();
    Plan plan{nullptr, {minuet_plan_destroy}};
    check(create_network(machine(), spec, plan));
    TrainingCase test = make_case(description_of(plan.get()), {4}, {8});
    // Batch norms over the few rows of the coarsest levels would carry the rounding of 16 bits from row to
    // row.
    test.options.frozen_batch_norms = dtype() == DType::F32 ? 0 : 1;
    const TrainingRun run(machine(), dtype(), test);
    const oracle::TrainingStep step = expected(test);
    test.out_gradients = {draw(static_cast<int64_t>(step.output(0).values.size()), 3)};
    bound_ = dtype() == DType::F32 ? 2e-5 : 3e-1;
    expect_step(test, run.step(usual(test)));
    if (machine().is_software()) break;
  }
}

TEST_P(TrainingTest, FrozenBatchNormsHaveAllGradients) {
  TrainingCase test = unet();
  test.options.frozen_batch_norms = 1;
  const TrainingRun run(machine(), dtype(), test);
  const StepResult got = run.step(usual(test));
  EXPECT_TRUE(got.statistics.empty());
  expect_step(test, got);
}

TEST_P(TrainingTest, BitsDependNeitherOnTheMemoryNorOnTheCapacity) {
  for (TrainingCase test : {unet(), chains()}) {
    const TrainingRun run(machine(), dtype(), test);
    const StepOptions options = usual(test);
    const StepResult first = run.step(options);
    EXPECT_EQ(first, run.step(options));
    EXPECT_EQ(first, run.step({2 * options.capacity}));
  }
}

/// A second backward call reads what the forward call kept, and gives the same bits.
TEST_P(TrainingTest, ABackwardCallCanBeRepeated) {
  TrainingCase test = unet();
  const TrainingRun run(machine(), dtype(), test);
  StepRoom room(run, usual(test));
  room.build();
  check(room.forward_on());
  check(room.backward_on());
  const StepResult first = room.read();
  check(room.backward_on());
  EXPECT_EQ(first, room.read());
}

/// On a GPU, the backward call reads what the forward call has made of the weights, and not the weights,
/// unless it computes layers again.
TEST_P(TrainingTest, WeightsAreReadOnceAStep) {
  for (const int32_t computes_again : {0, 1}) {
    TrainingCase test = unet();
    test.options.recompute_blocks = computes_again;
    const TrainingRun run(machine(), dtype(), test);
    StepRoom room(run, usual(test));
    room.build();
    check(room.forward_on());
    check(room.backward_on());
    const StepResult first = room.read();
    for (const minuet_array& weight : room.parameters) {
      if (weight.rank == 1) continue;
      const std::vector<float> other(numbers_of(weight), NAN);
      check(minuet_device_copy(machine().device(), weight.data, other.data(),
                               static_cast<int64_t>(other.size() * sizeof(float)), 0));
    }
    check(room.backward_on());
    EXPECT_EQ(first == room.read(), !machine().is_cpu() && computes_again == 0);
  }
}

/// Blocks that are computed again give the same bits, and less is kept.
TEST_P(TrainingTest, BlocksAreComputedAgainOnRequest) {
  for (const char* const description : {kUNet, kUnusual}) {
    for (const int32_t is_frozen : {0, 1}) {
      TrainingCase test = make_case(description, {4}, {8});
      test.options.frozen_batch_norms = is_frozen;
      const TrainingRun all(machine(), dtype(), test);
      const StepResult expected = all.step(usual(test));
      const int64_t kept = all.sizes(*all.pyramid(1000)).kept;
      test.options.recompute_blocks = 1;
      const TrainingRun run(machine(), dtype(), test);
      EXPECT_EQ(expected, run.step(usual(test)));
      StepOptions options = usual(test);
      options.before = 0.5;
      EXPECT_EQ(all.step(options), run.step(options));
      EXPECT_LT(run.sizes(*run.pyramid(1000)).kept, kept * 4 / 5);
    }
  }
}

/// A stage is computed again from its input and the winners of its pooling.
TEST_P(TrainingTest, LayersAreComputedAgainByName) {
  TrainingCase test = make_case(kStages, {4}, {8});
  const TrainingRun all(machine(), dtype(), test);
  StepOptions options = usual(test);
  const StepResult expected = all.step(options);
  expect_step(test, expected);
  int64_t kept = all.sizes(*all.pyramid(1000)).kept;
  for (const std::vector<const char*>& names : {std::vector{"stage.first"},
                                                {"stage.first", "stage.second"},
                                                {"stage", "stage.first"},
                                                {"stage"},
                                                {"stage", "stem"}}) {
    test.options.recompute = names.data();
    test.options.recompute_count = static_cast<int32_t>(names.size());
    const TrainingRun run(machine(), dtype(), test);
    EXPECT_EQ(expected, run.step(options));
    const int64_t less = run.sizes(*run.pyramid(1000)).kept;
    EXPECT_LT(less, kept) << names.back();
    kept = less;
  }
}

/// The software device runs a branch at any time that events allow, so that memory which a branch still reads
/// and another step writes gives other bits.
TEST_P(TrainingTest, BranchesGiveTheSameBits) {
  const auto software = software_cuda::Control::find();
  TrainingCase shortcuts = make_case(kShortcuts, {4}, {8});
  for (TrainingCase test : {unet(), chains(), make_case(kUnusual, {4}, {8}), shortcuts}) {
    test.options.recompute_blocks = 1;
    int64_t forward_waits[3] = {}, waits[3] = {};
    StepResult expected;
    for (const int32_t branches : {0, 1, 2}) {
      test.options.branches = branches;
      const TrainingRun run(machine(), dtype(), test);
      StepRoom room(run, usual(test));
      room.build();
      for (const uint64_t seed : {3, 7, 11}) {
        room.poison();
        if (software) software->seed(seed), software->reset();
        check(room.forward_on());
        if (software) forward_waits[branches] = software->calls("cuStreamWaitEvent");
        check(room.backward_on());
        if (software) waits[branches] = software->calls("cuStreamWaitEvent") - forward_waits[branches];
        if (expected.gradients.empty()) expected = room.read();
        EXPECT_EQ(expected, room.read());
      }
      EXPECT_EQ(expected, run.step({2 * usual(test).capacity}));
    }
    if (!software) continue;
    EXPECT_GT(waits[2], waits[1]);
    EXPECT_EQ(waits[2], waits[0]);
    EXPECT_EQ(forward_waits[2], forward_waits[0]);
    if (test.description == shortcuts.description) {
      EXPECT_GT(forward_waits[2], forward_waits[1]);
    }
  }
}

/// Kernels read vectors where they are, or a copy if they do not begin at an aligned address.
TEST_P(TrainingTest, VectorsMayBeginAnywhere) {
  for (TrainingCase test : {chains(), make_case(kUnusual, {4}, {8})}) {
    const TrainingRun run(machine(), dtype(), test);
    StepOptions options = usual(test);
    const StepResult expected = run.step(options);
    options.shifts_vectors = true;
    EXPECT_EQ(expected, run.step(options));
  }
}

TEST_P(TrainingTest, GradientsAreAddedToWhatIsThere) {
  TrainingCase test = unet();
  const TrainingRun run(machine(), dtype(), test);
  StepOptions options = usual(test);
  const StepResult replaced = run.step(options);
  options.before = 0.5;
  const StepResult added = run.step(options);
  for (const auto& [name, gradient] : replaced.gradients) {
    const std::vector<float>& sum = added.gradients.at(name);
    for (size_t i = 0; i < gradient.size(); ++i) {
      ASSERT_NEAR(sum[i], gradient[i] + 0.5f, 1e-5f * (1 + std::abs(gradient[i]))) << name;
    }
  }
  EXPECT_EQ(replaced.outputs, added.outputs);
}

TEST_P(TrainingTest, WeightsAndTheirGradientsHaveTheOrderOfSpconv) {
  TrainingCase test = unet();
  const TrainingRun run(machine(), dtype(), test);
  StepOptions options = usual(test);
  const StepResult ours = run.step(options);
  options.order = MINUET_WEIGHTS_SPCONV_XYZ;
  EXPECT_EQ(ours, run.step(options));
}

TEST_P(TrainingTest, CloudsOfNoAndOfOneVoxelAreSteps) {
  TrainingCase test = unet();
  const TrainingRun run(machine(), dtype(), test);
  StepOptions options = usual(test);
  options.count = 0;
  const StepResult none = run.step(options);
  EXPECT_EQ(none.status, 0u);
  for (const auto& [name, gradient] : none.gradients) {
    EXPECT_EQ(gradient, std::vector<float>(gradient.size())) << name;
  }
  for (const auto& [name, values] : none.statistics) EXPECT_EQ(values, test.parameters.at(name).values);
  options.count = 1;
  TrainingCase one = test;
  one.coordinates.resize(4);
  for (auto* const lists : {&one.inputs, &one.out_gradients}) {
    for (std::vector<float>& values : *lists) values.resize(values.size() / static_cast<size_t>(test.rows()));
  }
  const StepResult got = run.step(options);
  // With a variance of 0, the differences from the mean are 0, and so are their gradients.
  expect_step(one, got, /*least=*/30);
}

TEST_P(TrainingTest, ACloudThatDoesNotFitGivesZeros) {
  TrainingCase test = unet();
  const TrainingRun run(machine(), dtype(), test);
  // read() checks that all rows of outputs and of gradients of inputs are zeros.
  const StepResult got = run.step({test.rows() / 2, static_cast<int32_t>(test.rows())});
  EXPECT_NE(got.status, 0u);
  for (const auto& [name, gradient] : got.gradients) {
    EXPECT_EQ(gradient, std::vector<float>(gradient.size())) << name;
  }
  for (const auto& [name, values] : got.statistics) EXPECT_EQ(values, test.parameters.at(name).values);
}

/// Gradients of outputs may be left out, and so may those of parameters.
TEST_P(TrainingTest, WhatIsLeftOutCountsAsZeroAndIsNotComputed) {
  TrainingCase test = chains();
  const TrainingRun run(machine(), dtype(), test);
  const StepResult all = run.step(usual(test));
  StepRoom room(run, usual(test));
  for (minuet_array& gradient : room.gradients) gradient = {};
  room.build();
  check(room.forward_on());
  check(room.backward_on());
  EXPECT_EQ(all.input_gradients, room.read().input_gradients);
  test.out_gradients[1].clear();
  expect_step(test, run.step(usual(test)));
  test.out_gradients[0].clear();
  for (const auto& [name, gradient] : run.step(usual(test)).gradients) {
    EXPECT_EQ(gradient, std::vector<float>(gradient.size())) << name;
  }
}

TEST_P(TrainingTest, StatisticsMayBeLeftOutOrStoredInPlace) {
  TrainingCase test = unet();
  const TrainingRun run(machine(), dtype(), test);
  const StepResult expected = run.step(usual(test));
  StepRoom room(run, usual(test));
  room.build();
  room.forward.new_statistics = nullptr;
  check(room.forward_on());
  check(room.backward_on());
  EXPECT_EQ(expected.gradients, room.read().gradients);
  for (size_t i = 0; i < room.parameters.size(); ++i) {
    if (room.new_statistics[i].data) room.new_statistics[i] = room.parameters[i];
  }
  room.forward.new_statistics = room.new_statistics.data();
  room.poison();
  check(room.forward_on());
  check(room.backward_on());
  EXPECT_EQ(expected, room.read());
}

/// Of the arrays only that which is written last is wrong, and none of them is written.
TEST_P(TrainingTest, ACallThatFailsWritesNothing) {
  TrainingCase test = unet();
  const TrainingRun run(machine(), dtype(), test);
  StepOptions options = usual(test);
  options.before = 0.5;
  StepRoom room(run, options);
  room.build();
  check(room.forward_on());
  const auto is_vector = [](const minuet_array& array) { return array.data != nullptr && array.rank == 1; };
  const std::vector<minuet_array> gradients = room.gradients, statistics = room.new_statistics;
  const auto expect_same = [&](const std::vector<minuet_array>& arrays, float value) {
    for (const minuet_array& array : arrays) {
      if (array.data == nullptr) continue;
      std::vector<float> values(numbers_of(array));
      check(minuet_device_copy(machine().device(), values.data(), array.data,
                               static_cast<int64_t>(values.size() * sizeof(float)), 1));
      EXPECT_EQ(values, std::vector<float>(values.size(), value));
    }
  };
  std::find_if(room.gradients.begin(), room.gradients.end(), is_vector)->shape[0] /= 2;
  EXPECT_EQ(room.backward_on(), MINUET_INVALID_ARGUMENT);
  expect_same(gradients, 0.5f);
  const std::vector<float> mark(64, 7);
  for (const minuet_array& array : statistics) {
    if (array.data == nullptr) continue;
    check(minuet_device_copy(machine().device(), array.data, mark.data(),
                             static_cast<int64_t>(numbers_of(array) * sizeof(float)), 0));
  }
  std::find_if(room.new_statistics.rbegin(), room.new_statistics.rend(), is_vector)->shape[0] /= 2;
  EXPECT_EQ(room.forward_on(), MINUET_INVALID_ARGUMENT);
  expect_same(statistics, 7);
}

TEST_P(TrainingTest, StepsOfSeveralThreadsDoNotMeet) {
  TrainingCase test = unet();
  const TrainingRun run(machine(), dtype(), test);
  const StepResult expected = run.step(usual(test));
  std::vector<StepResult> results(3);
  std::vector<std::thread> threads;
  for (StepResult& result : results) {
    threads.emplace_back([&run, &test, &result] { result = run.step(usual(test)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const StepResult& result : results) EXPECT_EQ(expected, result);
}

TEST_P(TrainingTest, SizesGrowWithTheCapacity) {
  TrainingCase test = unet();
  const TrainingRun run(machine(), dtype(), test);
  minuet_training_sizes last = MINUET_TRAINING_SIZES_INIT;
  for (const int64_t capacity : {1, 2, 63, 64, 65, 300, 1000, 4096}) {
    const minuet_training_sizes sizes = run.sizes(*run.pyramid(capacity));
    EXPECT_GE(sizes.kept, last.kept);
    EXPECT_GE(sizes.forward_workspace, last.forward_workspace);
    EXPECT_GE(sizes.backward_workspace, last.backward_workspace);
    last = sizes;
  }
  EXPECT_GT(last.kept, 4096 * 16 * dtype_bytes(dtype()));
}

TEST_P(TrainingTest, ListsTheTensorsThatAreKept) {
  TrainingCase test = unet();
  const TrainingRun run(machine(), dtype(), test);
  std::vector<std::string> names;
  minuet_kept_info info = MINUET_KEPT_INFO_INIT;
  int32_t count = 0;
  for (; minuet_training_query_kept(run.get(), count, &info) == MINUET_OK; ++count)
    names.push_back(info.name);
  EXPECT_EQ(minuet_training_query_kept(run.get(), count, &info), MINUET_OUT_OF_RANGE);
  EXPECT_THAT(names, testing::IsSupersetOf({"input", "stem", "down", "wide.conv1"}));
}

TEST_P(TrainingTest, RefusesWhatItCannotTrain) {
  const auto expect_refused = [&](const std::string& layers, minuet_status status, const std::string& words) {
    NetworkSpec spec;
    spec.description =
        R"({"name": "n", "ndim": 3, "in_channels": 4, "shape": [64, 64, 64], "layers": [)" + layers + "]}";
    spec.dtype = dtype();
    spec.dataflow = MINUET_DATAFLOW_FUSED;
    Plan plan{nullptr, {minuet_plan_destroy}};
    check(create_network(machine(), spec, plan));
    minuet_training* made = nullptr;
    EXPECT_EQ(minuet_training_create(machine().context(), plan.get(), nullptr, &made), status);
    EXPECT_THAT(last_error(), testing::HasSubstr(words));
    EXPECT_EQ(made, nullptr);
  };
  const std::string end = R"({"op": "linear", "name": "end", "out_channels": 8})";
  expect_refused(R"({"op": "space_to_channel", "name": "s", "stride": 2}, )" + end, MINUET_UNIMPLEMENTED,
                 "layer s, a space_to_channel, has no gradient in a training plan");
  expect_refused(R"({"op": "linear", "name": "score", "out_channels": 1, "output": "score"},
                    {"op": "prune", "input": "input", "by": "score"}, )" +
                     end,
                 MINUET_UNIMPLEMENTED, "makes a level in each run");
  // Half a vector of any type.
  const int part = dtype_bytes(storage_type(dtype())) == 2 ? 4 : 2;
  expect_refused(R"({"op": "block", "name": "b", "out_channels": 16, "output": "b"},
                    {"op": "linear", "name": "a", "input": "input", "out_channels": )" +
                     std::to_string(part) + R"(}, {"op": "concat", "with": "b"}, )" + end,
                 MINUET_UNIMPLEMENTED, "a tensor of 16 channels begins at channel " + std::to_string(part));
}

/// A whole step, with the build of the pyramid, is captured once and replayed on memory that is poisoned.
TEST_P(TrainingTest, AStepWithBranchesCanBeCaptured) {
  if (machine().is_cpu()) return;
  TrainingCase test = unet();
  test.options.branches = 2;
  const TrainingRun run(machine(), dtype(), test);
  const Stream stream(machine());
  StepRoom room(run, usual(test));
  room.build();
  const auto step = [&] {
    room.enqueue_build(stream.get());
    check(room.forward_on(stream.get()));
    check(room.backward_on(stream.get()));
  };
  step();
  ASSERT_EQ(driver_function<CUresult (*)(CUstream)>("cuStreamSynchronize")(stream.get()), CUDA_SUCCESS);
  const StepResult expected = room.read();
  const CapturedGraph graph(stream.get(), step);
  ASSERT_TRUE(graph.whole());
  for (int i = 0; i < 2; ++i) {
    room.poison();
    EXPECT_EQ(graph.launch(), CUDA_SUCCESS);
    ASSERT_EQ(driver_function<CUresult (*)(CUstream)>("cuStreamSynchronize")(stream.get()), CUDA_SUCCESS);
    EXPECT_EQ(expected, room.read());
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(TrainingTest);

}  // namespace
}  // namespace minuet::abi
