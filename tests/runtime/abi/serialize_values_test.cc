// A plan that was made of bytes computes the same bits, on each device.
#include "tests/runtime/abi/serialize_fixture.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

class SerializeValues : public DeviceTest {
 protected:
  Handle<minuet_context> strict() {
    minuet_context_options options = MINUET_CONTEXT_OPTIONS_INIT;
    options.disable_disk_cache = 1;
    options.jit = MINUET_JIT_OFF;
    options.nvrtc_path = "/nowhere/libnvrtc.so.13";
    options.bundle_path = options.record_path = "";
    minuet_context* made = nullptr;
    check(minuet_context_create(&options, &made));
    return {made, {minuet_context_destroy}};
  }
  /// Compiles and loads the plan on a device of its context, and returns the output's bytes for a small
  /// cloud.
  std::vector<char> run(minuet_context* context, minuet_plan* plan) {
    minuet_device* opened = nullptr;
    check(minuet_device_open(context, machine().is_cpu() ? "cpu" : "cuda:0", nullptr, &opened));
    const Handle<minuet_device> device{opened, {minuet_device_destroy}};
    check(minuet_plan_compile(plan, machine().arch().c_str(), nullptr, nullptr));
    check(minuet_plan_load(plan, opened));
    minuet_execution* made = nullptr;
    check(minuet_execution_create(plan, opened, nullptr, &made));
    const Execution execution{made, {minuet_execution_destroy}};
    const std::vector<int32_t> points = {0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 5, 5, 5, 1, 0, 0, 0};
    constexpr int64_t kRows = 5;
    const auto on_device = [&](const void* data, size_t bytes) {
      void* memory = nullptr;
      check(minuet_device_allocate(opened, static_cast<int64_t>(bytes), &memory));
      if (data != nullptr) check(minuet_device_copy(opened, memory, data, static_cast<int64_t>(bytes), 0));
      const auto free = [opened](void* used) { minuet_device_free(opened, used); };
      return std::unique_ptr<void, std::function<void(void*)>>(memory, free);
    };
    const auto coordinates = on_device(points.data(), points.size() * sizeof(int32_t));
    std::vector<float> values(kRows * 4);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 3;
    const std::vector<char> stored = encode(dtype(), values);
    const auto features = on_device(stored.data(), stored.size());
    Coordinates set{nullptr, {minuet_coordinates_destroy}};
    KernelMap map{nullptr, {minuet_kernel_map_destroy}};
    if (info_of(plan).maps == 0) {
      check(minuet_execution_prepare(made, static_cast<const int32_t*>(coordinates.get()), kRows, nullptr));
    } else {
      const minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
      minuet_coordinates* set_made = nullptr;
      check(minuet_coordinates_create(opened, &options, static_cast<const int32_t*>(coordinates.get()), kRows,
                                      nullptr, &set_made));
      set.reset(set_made);
      minuet_kernel_map_options of_map = MINUET_KERNEL_MAP_OPTIONS_INIT;
      std::fill_n(of_map.kernel_size, 3, 3);
      minuet_kernel_map* map_made = nullptr;
      check(minuet_kernel_map_create(set_made, set_made, &of_map, nullptr, &map_made));
      map.reset(map_made);
      check(prepare_map(made, map_made));
    }
    int64_t rows = 0;
    int32_t channels = 0;
    check(minuet_execution_output_shape(made, &rows, &channels));
    std::vector<char> bytes(static_cast<size_t>(rows * channels * dtype_bytes(dtype())));
    const auto output = on_device(nullptr, bytes.size());
    check(run_tensors(made, {tensor(features.get(), kRows, 4, abi_dtype(dtype()))},
                      tensor(output.get(), rows, channels, abi_dtype(dtype()))));
    check(minuet_device_synchronize(opened, nullptr));
    check(minuet_device_copy(opened, bytes.data(), output.get(), static_cast<int64_t>(bytes.size()), 1));
    return bytes;
  }
};

TEST_P(SerializeValues, TheSameBits) {
  for (const PlanKind kind : kPlanKinds) {
    // The others show no more there, and take long.
    if (machine().is_software() && kind != PlanKind::Convolution) continue;
    SCOPED_TRACE(static_cast<int>(kind));
    const auto plan = own_plan(machine().context(), kind, abi_dtype(dtype()));
    const std::vector<char> expected = run(machine().context(), plan.get());
    EXPECT_FALSE(std::all_of(expected.begin(), expected.end(), [](char byte) { return byte == 0; }));
    const auto fresh = strict();
    Handle<minuet_plan> again{nullptr, {minuet_plan_destroy}};
    ASSERT_EQ(deserialize(fresh.get(), serialize(plan.get(), {machine().arch().c_str()}), again), MINUET_OK)
        << last_error();
    EXPECT_EQ(run(fresh.get(), again.get()), expected);
    minuet_kernel_counters counters = MINUET_KERNEL_COUNTERS_INIT;
    check(minuet_context_kernel_counters(fresh.get(), &counters));
    EXPECT_EQ(counters.compiled, 0);
  }
}
MINUET_INSTANTIATE_DEVICE_TEST(SerializeValues);

}  // namespace
}  // namespace minuet::abi
