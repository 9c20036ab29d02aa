// Rules of the C ABI, and uses of it that once went wrong. On the CPU device and, where there is one, a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "tests/support/abi.h"

namespace minuet::abi {
namespace {

class AbiTest : public SetsOnDevice {
 protected:
  int64_t pairs(minuet_coordinates* in, minuet_coordinates* out) {
    return pair_count(map_of(in, out, {3, {3, 3, 3, 1}}).get());
  }

  Plan small_network(minuet_context* context) {
    const int32_t channels[] = {8, 8, 8, 8};
    minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
    options.name = "sparseresnet21d";
    options.dtype = MINUET_F32;
    options.channels = channels;
    options.channel_count = 4;
    minuet_plan* network = nullptr;
    check(minuet_plan_create_network(context, &options, &network));
    return {network, {minuet_plan_destroy}};
  }
};

const std::vector<int32_t> kFour{0, 0, 0, 0, /**/ 0, 0, 0, 1, /**/ 0, 3, 0, 0, /**/ 0, -9, 9, 9};

TEST_P(AbiTest, MapsOnDerivedAndDeduplicatedSets) {
  const Coordinates fine = set_of(kFour);
  const oracle::Axes stride{2, 2, 2, 0};
  const Coordinates coarse = downsample(fine.get(), stride);
  EXPECT_EQ(minuet_coordinates_count(coarse.get()), 3);
  EXPECT_EQ(pairs(coarse.get(), coarse.get()), 5);
  EXPECT_EQ(minuet_coordinates_count(downsample(coarse.get(), stride).get()), 2);

  std::vector<int32_t> doubled = kFour;
  doubled.insert(doubled.end(), kFour.begin(), kFour.end());
  minuet_coordinates_options keep_first = MINUET_COORDINATES_OPTIONS_INIT;
  keep_first.keep_first_duplicate = 1;
  const Coordinates kept = set_of(doubled, keep_first);
  EXPECT_EQ(minuet_coordinates_count(kept.get()), 4);
  EXPECT_EQ(minuet_coordinates_rows(kept.get()), 8);
  EXPECT_EQ(pairs(kept.get(), kept.get()), 6);
  const Buffer exported(machine(), 8 * 4 * 4);
  check(minuet_coordinates_export(kept.get(), static_cast<int32_t*>(exported.data()), nullptr));
  EXPECT_EQ(exported.read<int32_t>(), doubled) << "rows are the caller's, duplicates included";
}

TEST_P(AbiTest, ASetOfNarrowKeysIsExportedAfterOneOfWideKeys) {
  const Coordinates narrow = set_of(kFour);
  const Coordinates wide = set_of({0, -1000000000, 0, 0, /**/ 0, 1000000000, 5, -70000});
  const Buffer exported(machine(), static_cast<int64_t>(kFour.size()) * 4);
  check(minuet_coordinates_export(narrow.get(), static_cast<int32_t*>(exported.data()), nullptr));
  EXPECT_EQ(exported.read<int32_t>(), kFour);
}

TEST_P(AbiTest, AnEmptySetDoesNotWidenTheLayout) {
  const Coordinates far = set_of({0, 1000000000, 1000000000, 1000000000});
  const Coordinates none = set_of({});
  EXPECT_EQ(pairs(far.get(), none.get()), 0);
}

TEST_P(AbiTest, APlanOutlivesTheHandleOfItsDevice) {
  const Plan network = small_network(machine().context());
  check(minuet_plan_compile(network.get(), machine().arch().c_str(), nullptr, nullptr));
  minuet_device* device = nullptr;
  check(minuet_device_open(machine().context(), GetParam(), nullptr, &device));
  check(minuet_plan_load(network.get(), device));
  minuet_device_destroy(device);
  check(minuet_device_open(machine().context(), GetParam(), nullptr, &device));
  minuet_execution* execution = nullptr;
  check(minuet_execution_create(network.get(), device, nullptr, &execution));
  minuet_device_destroy(device);
  minuet_execution_destroy(execution);
}

TEST_P(AbiTest, ACallersWorkspaceIsAskedForAndSurvivesARefusal) {
  const Plan network = small_network(machine().context());
  check(minuet_plan_compile(network.get(), machine().arch().c_str(), nullptr, nullptr));
  check(minuet_plan_load(network.get(), machine().device()));
  int64_t enough = 0;
  check(minuet_plan_workspace_bytes(network.get(), machine().arch().c_str(), nullptr, 4, 27, &enough));
  const Buffer workspace(machine(), enough);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.workspace = workspace.data();
  options.workspace_bytes = enough;
  minuet_execution* made = nullptr;
  check(minuet_execution_create(network.get(), machine().device(), &options, &made));
  const Execution execution(made, {minuet_execution_destroy});

  std::vector<int32_t> many;
  for (int32_t i = 0; i < 30000; ++i) many.insert(many.end(), {0, i, 0, 0});
  const Buffer large(machine(), many), small(machine(), kFour);
  EXPECT_EQ(minuet_execution_prepare(made, large.integers(), 30000, nullptr), MINUET_RESOURCE_EXHAUSTED);
  EXPECT_NE(last_error().find(std::to_string(enough)), std::string::npos) << last_error();
  check(minuet_execution_prepare(made, nullptr, 0, nullptr));
  check(minuet_execution_prepare(made, small.integers(), 4, nullptr));
  int64_t rows = 0;
  int32_t channels = 0;
  check(minuet_execution_output_shape(made, &rows, &channels));
  const Buffer features(machine(), std::vector<float>(16, 0.5f)), output(machine(), rows * channels * 4);
  const minuet_tensor result = tensor(output, rows, channels, DType::F32);
  check(run_tensors(made, {tensor(features, 4, 4, DType::F32)}, result));
  for (float value : output.read<float>()) EXPECT_EQ(value, value) << "NaN";
  char* const misaligned = static_cast<char*>(features.data()) + 4;
  EXPECT_EQ(run_tensors(made, {tensor(misaligned, 4, 4, MINUET_F32)}, result), MINUET_INVALID_ARGUMENT);
}

TEST_P(AbiTest, KernelsAreCompiledOnceAndThenInMemory) {
  const Plan network = small_network(machine().context());
  const auto count_memory = [](const minuet_kernel_info* kernel, void* user) {
    *static_cast<int*>(user) += std::strcmp(kernel->origin, "memory") != 0;
  };
  int strangers = 0;
  check(minuet_plan_compile(network.get(), machine().arch().c_str(), nullptr, nullptr));
  check(minuet_plan_compile(network.get(), machine().arch().c_str(), count_memory, &strangers));
  EXPECT_EQ(strangers, 0);
}

MINUET_INSTANTIATE_SETS_TEST(AbiTest);

}  // namespace
}  // namespace minuet::abi
