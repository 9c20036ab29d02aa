// What the C ABI says of itself, with no device but the CPU: its version, errors, what structs must not hold.
#include <gmock/gmock.h>

#include <functional>

#include "codegen/base/cpu_count.h"
#include "include/minuet/tuning.h"
#include "tests/support/network_abi.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

TEST(AbiSelf, Version) {
  EXPECT_EQ(minuet_version(),
            100u * MINUET_VERSION_MINOR + MINUET_VERSION_PATCH + 10000u * MINUET_VERSION_MAJOR);
}

TEST(AbiSelf, ErrorsAreCutToTheBufferAndEndInAZero) {
  EXPECT_EQ(minuet_context_create(nullptr, nullptr), MINUET_INVALID_ARGUMENT);
  const std::string whole = last_error();
  ASSERT_GT(whole.size(), 10u);
  EXPECT_EQ(minuet_last_error(nullptr, 0), whole.size() + 1);
  for (const size_t size : {size_t{1}, size_t{7}, whole.size(), whole.size() + 1, whole.size() + 9}) {
    std::string buffer(whole.size() + 20, '~');
    EXPECT_EQ(minuet_last_error(buffer.data(), size), whole.size() + 1);
    const std::string written = whole.substr(0, size - 1);
    EXPECT_EQ(std::string(buffer.c_str()), written);
    EXPECT_EQ(buffer.find_first_not_of('~', written.size() + 1), std::string::npos) << "past the buffer";
  }
}

TEST(AbiSelf, TheDetailIsOfTheLastErrorAlone) {
  minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
  options.jit = MINUET_JIT_ON;
  options.nvrtc_path = "/nowhere/libnvrtc.so.13";
  options.disable_disk_cache = 1;
  options.bundle_path = "";
  minuet_context* made = nullptr;
  check(minuet_context_create(&options, &made));
  const Handle<minuet_context> context(made, {minuet_context_destroy});
  const float one = 1;
  minuet_convolution_options layer = MINUET_CONVOLUTION_OPTIONS_INIT;
  layer.in_channels = layer.out_channels = 1;
  layer.weight = &one;
  layer.weight_count = 1;
  minuet_plan* plan = nullptr;
  check(minuet_plan_create_convolution(made, &layer, &plan));
  EXPECT_EQ(minuet_plan_compile(plan, "sm_90a", nullptr, nullptr), MINUET_UNAVAILABLE);
  EXPECT_THAT(last_error_detail(), HasSubstr("/nowhere/libnvrtc.so.13"));
  EXPECT_EQ(minuet_plan_compile(plan, nullptr, nullptr, nullptr), MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(last_error_detail(), "");
  EXPECT_THAT(last_error(), HasSubstr("arch"));
  minuet_plan_destroy(plan);
}

/// struct_size 0, an ext, and what is reserved: refused by every call that takes options.
TEST(AbiSelf, WhatMustBeNothingIs) {
  std::string reason;
  Machine* const cpu = Machine::open("cpu", reason);
  ASSERT_NE(cpu, nullptr) << reason;
  const auto refuse = [](auto options, const std::function<minuet_status(const decltype(options)*)>& call) {
    auto unset = options, extended = options;
    unset.struct_size = 0;
    extended.ext = &options;
    EXPECT_EQ(call(&unset), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("struct_size"));
    EXPECT_EQ(call(&extended), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("ext must be null"));
    if constexpr (requires { options.reserved; }) {
      options.reserved = 1;
      EXPECT_EQ(call(&options), MINUET_INVALID_ARGUMENT);
      EXPECT_THAT(last_error(), HasSubstr("reserved"));
    }
  };
  refuse(minuet_context_options(MINUET_CONTEXT_OPTIONS_INIT), [](const auto* options) {
    minuet_context* made = nullptr;
    return minuet_context_create(options, &made);
  });
  refuse(minuet_device_options(MINUET_DEVICE_OPTIONS_INIT), [&](const auto* options) {
    minuet_device* made = nullptr;
    return minuet_device_open(cpu->context(), "cpu", options, &made);
  });
  const int32_t origin[] = {0, 0, 0, 0};
  const auto create_set = [&](const minuet_coordinates_options* options, Coordinates& set) {
    minuet_coordinates* made = nullptr;
    const minuet_status status = minuet_coordinates_create(cpu->device(), options, origin, 1, nullptr, &made);
    set.reset(made);
    return status;
  };
  Coordinates set(nullptr, {minuet_coordinates_destroy});
  refuse(minuet_coordinates_options(MINUET_COORDINATES_OPTIONS_INIT),
         [&](const auto* options) { return create_set(options, set); });
  check(create_set(nullptr, set));
  refuse(minuet_kernel_map_options(MINUET_KERNEL_MAP_OPTIONS_INIT), [&](const auto* options) {
    minuet_kernel_map* made = nullptr;
    return minuet_kernel_map_create(set.get(), set.get(), options, nullptr, &made);
  });
  refuse(minuet_convolution_options(MINUET_CONVOLUTION_OPTIONS_INIT), [&](const auto* options) {
    minuet_plan* made = nullptr;
    return minuet_plan_create_convolution(cpu->context(), options, &made);
  });
  refuse(minuet_convolution_options(MINUET_CONVOLUTION_OPTIONS_INIT), [&](const auto* options) {
    minuet_plan* made = nullptr;
    return minuet_plan_create_convolution_gradient(cpu->context(), options, MINUET_GRADIENT_INPUT, &made);
  });
  refuse(minuet_pooling_options(MINUET_POOLING_OPTIONS_INIT), [&](const auto* options) {
    minuet_plan* made = nullptr;
    return minuet_plan_create_pooling(cpu->context(), options, &made);
  });
  refuse(minuet_network_options(MINUET_NETWORK_OPTIONS_INIT), [&](const auto* options) {
    minuet_plan* made = nullptr;
    return minuet_plan_create_network(cpu->context(), options, &made);
  });
  refuse(minuet_precompile_options(MINUET_PRECOMPILE_OPTIONS_INIT),
         [&](const auto* options) { return minuet_precompile(cpu->context(), options, nullptr); });
  NetworkSpec narrow;
  narrow.name = "sparseresnet21d";
  narrow.channels = {8, 8, 8, 8};
  const Plan network = make_network(*cpu, narrow);
  refuse(minuet_execution_options(MINUET_EXECUTION_OPTIONS_INIT), [&](const auto* options) {
    minuet_execution* made = nullptr;
    return minuet_execution_create(network.get(), cpu->device(), options, &made);
  });
  refuse(minuet_tuning_options(MINUET_TUNING_OPTIONS_INIT), [&](const auto* options) {
    return minuet_tune(cpu->context(), network.get(), cpu->device(), options, nullptr);
  });
}

/// A count of nothing, and a pointer to none.
TEST(AbiSelf, ListsHaveACountAndAPointer) {
  std::string reason;
  Machine* const cpu = Machine::open("cpu", reason);
  ASSERT_NE(cpu, nullptr) << reason;
  NetworkSpec narrow;
  narrow.name = "sparseresnet21d";
  narrow.channels = {8, 8, 8, 8};
  const Plan network = make_network(*cpu, narrow);
  const Buffer memory(*cpu, 1024);
  for (const auto& [workspace, bytes] : {std::pair<void*, int64_t>{nullptr, 1024}, {memory.data(), 0}}) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.workspace = workspace, options.workspace_bytes = bytes;
    minuet_execution* made = nullptr;
    EXPECT_EQ(minuet_execution_create(network.get(), cpu->device(), &options, &made),
              MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("workspace_bytes is " + std::to_string(bytes)));
  }
  minuet_plan* const plans[] = {network.get()};
  const char* const archs[] = {"sm_90a"};
  const auto expect_refused = [&](const char* words, auto change) {
    minuet_precompile_options options = MINUET_PRECOMPILE_OPTIONS_INIT;
    options.plans = plans, options.plan_count = 1;
    options.archs = archs, options.arch_count = 1;
    options.requests_path = "/nowhere";
    change(options);
    EXPECT_EQ(minuet_precompile(cpu->context(), &options, nullptr), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr(words));
  };
  expect_refused("plan_count is 1 and plans is null", [](auto& options) { options.plans = nullptr; });
  expect_refused("plan_count is 0 and plans is not", [](auto& options) { options.plan_count = 0; });
  expect_refused("plan_count is -1", [](auto& options) { options.plan_count = -1; });
  expect_refused("arch_count is 1 and archs is null", [](auto& options) { options.archs = nullptr; });
  expect_refused("arch_count is 0 and archs is not", [](auto& options) { options.arch_count = 0; });
}

/// As the CPU device says of itself. More threads than CPUs would only take time from one another.
TEST(AbiSelf, AsManyThreadsAsAreAskedForAndAtMostOneForEachCpu) {
  const int64_t cpus = cpu_count();
  for (const int64_t threads : std::initializer_list<int64_t>{0, 1, 3, 4096}) {
    minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
    options.cpu_threads = threads;
    minuet_context* made = nullptr;
    check(minuet_context_create(&options, &made));
    const Handle<minuet_context> context(made, {minuet_context_destroy});
    minuet_device* device = nullptr;
    check(minuet_device_open(made, "cpu", nullptr, &device));
    const Handle<minuet_device> owner(device, {minuet_device_destroy});
    minuet_device_info info{};
    info.struct_size = sizeof(info);
    check(minuet_device_query(device, &info));
    const int64_t expected = threads == 0 ? cpus : std::min(threads, cpus);
    EXPECT_THAT(info.description,
                HasSubstr(", " + std::to_string(expected) + (expected == 1 ? " thread," : " threads,")));
  }
  for (const int64_t wrong : {-1, 4097}) {
    minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
    options.cpu_threads = wrong;
    minuet_context* none = nullptr;
    EXPECT_EQ(minuet_context_create(&options, &none), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("cpu_threads is " + std::to_string(wrong)));
  }
}

/// Null is the first GPU that is usable, else the CPU.
TEST(AbiSelf, ADeviceOfNoName) {
  std::string reason;
  Machine* const cpu = Machine::open("cpu", reason);
  ASSERT_NE(cpu, nullptr) << reason;
  minuet_device* cuda = nullptr;
  const bool has_cuda = minuet_device_open(cpu->context(), "cuda:0", nullptr, &cuda) == MINUET_OK;
  const Handle<minuet_device> cuda_owner(cuda, {minuet_device_destroy});
  minuet_device* made = nullptr;
  check(minuet_device_open(cpu->context(), nullptr, nullptr, &made));
  const Handle<minuet_device> owner(made, {minuet_device_destroy});
  minuet_device_info info{};
  info.struct_size = sizeof(info);
  check(minuet_device_query(made, &info));
  EXPECT_STREQ(info.name, has_cuda ? "cuda:0" : "cpu");
  EXPECT_EQ(info.arch != std::string("cpu"), has_cuda);
  EXPECT_GT(info.memory_bytes, 0);
  EXPECT_NE(info.description[0], '\0');
}

}  // namespace
}  // namespace minuet::abi
