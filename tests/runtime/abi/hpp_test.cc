// minuet.hpp: each wrapper passes on what it is given and gives back what the library answers; and throws.
#include "include/minuet/minuet.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace {

using testing::ElementsAre;

constexpr const char* kNetwork = R"({"name": "n", "ndim": 3, "in_channels": 1, "channels": [2], "layers": [
  {"op": "block", "name": "a", "width": 0, "kernel_size": 3},
  {"op": "block", "name": "b", "width": 0, "kernel_size": 2, "stride": 2}]})";
constexpr std::int32_t kLevels = 2;

class HppTest : public testing::Test {
 protected:
  static minuet_context_options traced() {
    minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
    options.trace = 1;
    return options;
  }
  minuet::Plan network() const {
    minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
    options.description = kNetwork;
    options.dtype = MINUET_F32;
    options.dataflow = MINUET_DATAFLOW_FUSED;
    minuet::Plan plan = minuet::Plan::network(context_, options);
    plan.load(device_);
    return plan;
  }
  static minuet_execution_options within_capacities() {
    static constexpr std::int64_t kCapacities[kLevels] = {4, 4};
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.level_capacity = kCapacities;
    options.level_count = kLevels;
    options.key_bits = 64;
    return options;
  }

  const minuet::Context context_{traced()};
  const minuet::Device device_{context_, "cpu"};
  const std::vector<std::int32_t> voxels_{0, 0, 0, 0, 0, 1, 0, 0, 0, 9, 9, 9};
  const minuet::Buffer<std::int32_t> coordinates_{device_, voxels_};
  const minuet::Buffer<float> features_{device_, {1, 2, 3}};
};

TEST_F(HppTest, AnExecutionInExactMode) {
  const minuet::Plan plan = network();
  EXPECT_GT(plan.workspace_bytes("cpu", MINUET_EXECUTION_OPTIONS_INIT, 1000, 5),
            plan.workspace_bytes("cpu", MINUET_EXECUTION_OPTIONS_INIT, 100, 5));
  const minuet::Execution execution(plan, device_);
  execution.set_profiling(true);
  EXPECT_EQ(execution.prepare(coordinates_.get(), 3), 2);
  EXPECT_GT(execution.counters().allocations, 0);
  execution.reset_counters();
  EXPECT_EQ(execution.counters().allocations, 0);
  const minuet::Buffer<float> output(device_, 4);
  execution.run({minuet::tensor(features_.get(), 3, 1, MINUET_F32)},
                minuet::tensor(output.get(), 2, 2, MINUET_F32));
  const minuet::Buffer<std::int32_t> places(device_, 8);
  execution.output_coordinates(places.get());
  EXPECT_THAT(places.download(), ElementsAre(0, 0, 0, 0, 0, 8, 8, 8));
  EXPECT_EQ(execution.find_overflow(), -1);
  EXPECT_EQ(execution.level(1).voxels, 2);
  EXPECT_EQ(execution.level(1).tensor_stride[0], 2);
  EXPECT_STREQ(execution.layer(1).name, "b");
  EXPECT_EQ(execution.layer(1).pairs, 3);
  EXPECT_GE(execution.stages().gemm, 0);
  execution.release_captures();
  EXPECT_THROW(execution.level(kLevels), minuet::Exception);
  EXPECT_THAT(execution.suggest_capacities(2, kLevels), ElementsAre(256, 256));
}

TEST_F(HppTest, ANetworkOfSeveralInputsAndOutputs) {
  minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
  options.description = R"({"name": "graph", "ndim": 3, "outputs": ["b", "c"],
      "inputs": [{"name": "points", "channels": 1}, {"name": "more", "channels": 2, "level": "b"}], "layers": [
      {"op": "block", "name": "b", "out_channels": 3, "stride": 8, "output": "b"},
      {"op": "concat", "input": "more", "with": "b", "output": "c"}]})";
  const minuet::Plan plan = minuet::Plan::network(context_, options);
  plan.load(device_);
  EXPECT_STREQ(plan.input(1).name, "more");
  EXPECT_EQ(plan.input(1).level, 1);
  EXPECT_EQ(plan.output(1).channels, 5);
  EXPECT_THROW(plan.input(2), minuet::Exception);
  EXPECT_THROW(plan.output(2), minuet::Exception);
  EXPECT_THAT(plan.description(), testing::HasSubstr("\"more\""));
  const minuet::Execution execution(plan, device_);
  EXPECT_EQ(execution.prepare(coordinates_.get(), 3), 2);
  EXPECT_EQ(execution.output_rows(1), 2);
  const minuet::Buffer<float> more(device_, {1, 2, 3, 4}), b(device_, 6), c(device_, 10);
  const std::vector<minuet_tensor> outputs{minuet::tensor(b.get(), 2, 3, MINUET_F32),
                                           minuet::tensor(c.get(), 2, 5, MINUET_F32)};
  execution.run(
      {minuet::tensor(features_.get(), 3, 1, MINUET_F32), minuet::tensor(more.get(), 2, 2, MINUET_F32)},
      outputs);
  const std::vector<float> part = b.download(), whole = c.download();
  EXPECT_THAT(whole, ElementsAre(1, 2, part[0], part[1], part[2], 3, 4, part[3], part[4], part[5]));
  const minuet::Buffer<std::int32_t> places(device_, 8);
  execution.output_coordinates(places.get(), nullptr, 1);
  EXPECT_THAT(places.download(), ElementsAre(0, 0, 0, 0, 0, 8, 8, 8));
}

TEST_F(HppTest, AnExecutionInCapacityMode) {
  const minuet::Execution execution(network(), device_, within_capacities());
  const minuet::Buffer<std::int32_t> count(device_, std::vector<std::int32_t>{3}),
      too_many(device_, std::vector<std::int32_t>{5});
  execution.prepare_on_device(coordinates_.get(), count.get());
  minuet::Execution::Cloud cloud = execution.read_cloud(kLevels);
  EXPECT_EQ(cloud.status, 0u);
  EXPECT_THAT(cloud.counts, ElementsAre(3, 3, 2));
  // The CPU's device memory is the host's.
  EXPECT_EQ(*execution.query_cloud().status, 0u);
  EXPECT_EQ(execution.query_cloud().counts[kLevels], 2);
  execution.prepare_on_device(coordinates_.get(), too_many.get());
  cloud = execution.read_cloud(kLevels);
  EXPECT_EQ(cloud.status, static_cast<std::uint32_t>(MINUET_CLOUD_PAST_CAPACITY));
  EXPECT_THAT(cloud.counts, ElementsAre(0, 0, 0));
}

TEST_F(HppTest, ParametersOfTheCaller) {
  const minuet::Plan plan = network();
  plan.load(device_);
  const minuet::Parameters parameters(plan, device_);
  std::vector<float> given(static_cast<std::size_t>(plan.parameter(0).shape[0] * plan.parameter(0).shape[1] *
                                                    plan.parameter(0).shape[2]),
                           0.5F),
      read(given.size());
  EXPECT_STREQ(plan.input(0).name, "input");
  EXPECT_STREQ(plan.output(0).name, "output");
  EXPECT_EQ(plan.description().front(), '{');
  const minuet_parameter_info info = plan.parameter(0);
  const auto of = [&](std::vector<float>& values) {
    return minuet::array(values.data(), {info.shape[0], info.shape[1], info.shape[2]}, MINUET_ELEMENT_F32,
                         true);
  };
  parameters.set({0}, {of(given)});
  parameters.get(0, of(read));
  EXPECT_EQ(read, given);
  EXPECT_THROW(parameters.set({0, 1}, {of(given)}), minuet::Exception);
  EXPECT_THROW(parameters.get(1, of(read)), minuet::Exception);
  EXPECT_THROW(minuet::array(nullptr, {1, 1, 1, 1, 1, 1, 1}, MINUET_ELEMENT_F32), minuet::Exception);
}

TEST_F(HppTest, MemoryOfTheCaller) {
  std::int64_t blocks = 0;
  minuet_device_options given = MINUET_DEVICE_OPTIONS_INIT;
  given.allocate = [](std::int64_t bytes, void*, void* user) {
    ++*static_cast<std::int64_t*>(user);
    return std::aligned_alloc(256, static_cast<std::size_t>((bytes + 255) / 256 * 256));
  };
  given.free = [](void* memory, std::int64_t, void*, void* user) {
    --*static_cast<std::int64_t*>(user);
    std::free(memory);
  };
  given.user = &blocks;
  {
    const minuet::Device device(context_, "cpu", given);
    const minuet::Plan plan = network();
    plan.load(device);
    const std::int64_t loaded = blocks;
    EXPECT_GT(loaded, 0);
    minuet_execution_options options = within_capacities();
    options.defer_workspace = 1;
    const minuet::Execution later(plan, device, options);
    EXPECT_EQ(blocks, loaded);
    const minuet::Execution execution(plan, device, within_capacities());
    EXPECT_GT(blocks, loaded);
  }
  EXPECT_EQ(blocks, 0);
}

TEST_F(HppTest, AWorkspaceGivenLater) {
  minuet_execution_options options = within_capacities();
  const minuet::Plan plan = network();
  const std::int64_t bytes = plan.workspace_bytes("cpu", options);
  options.defer_workspace = 1;
  const minuet::Execution execution(plan, device_, options);
  const minuet_execution_info info = execution.query();
  EXPECT_EQ(info.workspace_bytes, bytes);
  EXPECT_EQ(info.has_capacities, 1);
  EXPECT_EQ(info.run_capturable, 0);
  EXPECT_THROW(execution.prepare(coordinates_.get(), 3), minuet::Exception);
  const minuet::Buffer<char> workspace(device_, static_cast<std::size_t>(info.workspace_bytes));
  execution.set_workspace(workspace.get(), info.workspace_bytes);
  EXPECT_EQ(execution.counters().workspace_bytes, info.workspace_bytes);
  execution.prepare(coordinates_.get(), 3);
  const minuet::Buffer<std::uint32_t> status(device_, std::vector<std::uint32_t>(2, 7));
  const minuet::Buffer<std::int32_t> counts(device_, 1 + kLevels);
  execution.copy_cloud(status.get(), counts.get(), kLevels);
  EXPECT_THAT(status.download(), ElementsAre(0, 7));
  EXPECT_THAT(counts.download(), ElementsAre(3, 3, 2));
  execution.copy_cloud(status.get() + 1, nullptr, kLevels);
  EXPECT_THAT(status.download(), ElementsAre(0, 0));
}

TEST_F(HppTest, SetsAndMaps) {
  const minuet::Coordinates set(device_, MINUET_COORDINATES_OPTIONS_INIT, coordinates_.get(), 3);
  const minuet::Buffer<std::int32_t> places(device_, voxels_.size());
  set.export_to(places.get());
  EXPECT_EQ(places.download(), voxels_);
  minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
  options.kernel_size[0] = 3;
  const minuet::KernelMap map(set, set, options);
  EXPECT_EQ(map.volume(), 3);
  EXPECT_EQ(map.pairs(), 5);
  using Pair = std::array<std::int32_t, 3>;
  EXPECT_THAT(map.export_pairs(),
              ElementsAre(Pair{0, 0, 1}, Pair{1, 0, 0}, Pair{1, 1, 1}, Pair{1, 2, 2}, Pair{2, 1, 0}));
}

TEST_F(HppTest, WinnersOfAPooling) {
  minuet_pooling_options options = MINUET_POOLING_OPTIONS_INIT;
  options.channels = 1;
  options.kernel_size[0] = 3;
  options.submanifold = 1;
  options.winners = 1;
  const minuet::Plan plan = minuet::Plan::pooling(context_, options);
  plan.load(device_);
  EXPECT_EQ(plan.info().outputs, 2);
  const minuet::Coordinates set(device_, MINUET_COORDINATES_OPTIONS_INIT, coordinates_.get(), 3);
  minuet_kernel_map_options kernel = MINUET_KERNEL_MAP_OPTIONS_INIT;
  kernel.kernel_size[0] = 3;
  const minuet::KernelMap map(set, set, kernel);
  const minuet::Execution execution(plan, device_);
  EXPECT_EQ(execution.prepare_maps({map}), 3);
  const minuet::Buffer<float> output(device_, 3);
  const minuet::Buffer<std::int32_t> winners(device_, 3);
  const minuet_array in = minuet::array(features_.get(), {3, 1}, MINUET_ELEMENT_F32);
  const minuet_array out = minuet::array(output.get(), {3, 1}, MINUET_ELEMENT_F32);
  execution.run_arrays({in}, {out, minuet::array(winners.get(), {3, 1}, MINUET_ELEMENT_I32)});
  EXPECT_THAT(output.download(), ElementsAre(2, 2, 3));
  EXPECT_THAT(winners.download(), ElementsAre(1, 1, 2));
  EXPECT_THROW(execution.run_arrays({in}, {out}), minuet::Exception);
}

TEST_F(HppTest, PlansAsBytes) {
  const std::vector<unsigned char> bytes = network().serialize({"cpu"});
  EXPECT_EQ(network().serialize(), bytes);
  const minuet::Plan plan = minuet::Plan::deserialize(context_, bytes.data(), bytes.size());
  EXPECT_EQ(plan.serialize(), bytes);
  EXPECT_STREQ(plan.info().name, "n");
  EXPECT_THROW(minuet::Plan::deserialize(context_, bytes.data(), bytes.size() - 1), minuet::Exception);
  EXPECT_THROW(plan.serialize({"sm_x"}), minuet::Exception);
}

TEST_F(HppTest, AContextsFiles) {
  EXPECT_THROW(context_.add_bundle("/nowhere/at/all.bundle"), minuet::Exception);
  EXPECT_THROW(context_.add_bundle_memory("no bundle", 9), minuet::Exception);
  const std::string path = testing::TempDir() + "hpp-test-" + std::to_string(::getpid()) + ".json";
  context_.write_trace(path);
  EXPECT_EQ(std::remove(path.c_str()), 0);
}

}  // namespace
