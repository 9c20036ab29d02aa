// What the C ABI says of itself, with no device but the CPU: its version, errors, and its devices.
#include <gmock/gmock.h>

#include "codegen/base/cpu_count.h"
#include "tests/support/abi.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

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
