// The caller's allocator (minuet_device_options): all device memory comes from it and goes back to it, and
// what happens when it has none, gives memory that is not aligned, or calls the library.
#include "tests/runtime/abi/allocator_fixture.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

constexpr minuet_dataflow kDataflows[] = {MINUET_DATAFLOW_FUSED, MINUET_DATAFLOW_GATHER_GEMM_SCATTER};

TEST_P(AllocatorTest, AllMemoryComesFromIt) {
  const Stream stream(own());
  const auto expect_all = [&](const Way& way) {
    SCOPED_TRACE(testing::Message() << "capacities " << way.has_capacities << ", queue " << way.has_queue
                                    << ", stream " << (way.stream != nullptr) << ", room "
                                    << static_cast<int>(way.room));
    Bytes expected, output;
    ASSERT_EQ(work(machine(), way, kVoxels, expected), MINUET_OK) << last_error();
    if (control_) control_->reset();
    const int64_t before = pool().driver_allocations(), allocations = pool().allocations();
    ASSERT_EQ(work(own(), way, kVoxels, output), MINUET_OK) << last_error();
    EXPECT_EQ(output, expected);
    EXPECT_GT(pool().allocations(), allocations);
    if (control_) {
      EXPECT_EQ(control_->calls("cuMemAlloc"), pool().driver_allocations() - before);
      EXPECT_EQ(control_->calls("cuMemFree"), 0);
    }
  };
  for (const bool has_capacities : {false, true}) {
    for (const bool has_queue : {false, true}) {
      for (void* const on : {static_cast<void*>(nullptr), static_cast<void*>(stream.get())}) {
        // Capacity mode has kernels of the fused dataflow only.
        const auto dataflow = kDataflows[has_queue || has_capacities ? 0 : 1];
        for (const Room room : kRooms) expect_all({has_queue, has_capacities, on, dataflow, room});
        if (has_queue && !has_capacities) expect_all({true, false, on, kDataflows[1]});
      }
    }
  }
  std::set<void*> streams{nullptr};
  if (!own().is_cpu()) streams.insert(stream.get());
  EXPECT_EQ(pool().streams(), streams);
}

/// An execution takes no memory of its own before the caller gives it some, and gives its own back for it.
TEST_P(AllocatorTest, AWorkspaceTakesThePlaceOfItsMemory) {
  NetworkSpec spec;
  spec.description = kTwoLevels, spec.dtype = dtype(), spec.dataflow = MINUET_DATAFLOW_FUSED;
  const Plan plan = make_network(own(), spec);
  const int64_t capacities[] = {64, 64};
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.level_capacity = capacities, options.level_count = 2;
  options.map_method = tested_maps();
  const int64_t before = pool().live(), allocations = pool().allocations();
  options.defer_workspace = 1;
  const Execution later = make_execution(own(), plan.get(), &options);
  EXPECT_EQ(pool().allocations(), allocations);
  options.defer_workspace = 0;
  const Execution plain = make_execution(own(), plan.get(), &options);
  EXPECT_EQ(pool().live(), before + 1) << "its arena";
  minuet_execution_info info = MINUET_EXECUTION_INFO_INIT;
  check(minuet_execution_query(later.get(), &info));
  const Buffer first(own(), info.workspace_bytes), second(own(), info.workspace_bytes);
  const int64_t given = pool().allocations();
  check(minuet_execution_set_workspace(later.get(), first.data(), first.bytes(), nullptr));
  EXPECT_EQ(pool().live(), before + 3) << "it takes none";
  check(minuet_execution_set_workspace(plain.get(), second.data(), second.bytes(), nullptr));
  EXPECT_EQ(pool().live(), before + 2) << "it gives its own back";
  EXPECT_EQ(pool().allocations(), given);
}

TEST_P(AllocatorTest, EachAllocationMayFail) {
  for (const bool has_queue : {false, true}) {
    for (const bool has_capacities : {false, true}) {
      Way way{has_queue, has_capacities, nullptr,
              has_capacities ? MINUET_DATAFLOW_FUSED : MINUET_DATAFLOW_GATHER_GEMM_SCATTER};
      way.room = has_queue == has_capacities ? Room::Replaced : Room::Own;
      Bytes expected, output;
      const int64_t before = pool().allocations();
      ASSERT_EQ(work(own(), way, kVoxels, expected), MINUET_OK) << last_error();
      const int64_t calls = pool().allocations() - before;
      int64_t failed = 0;
      for (int64_t nth = 1; nth <= calls; ++nth) {
        SCOPED_TRACE(testing::Message()
                     << "allocation " << nth << ", queue " << has_queue << ", capacities " << has_capacities);
        pool().fail(nth);
        const minuet_status status = work(own(), way, kVoxels, output);
        pool().fail(0);
        if (status == MINUET_OK) {
          EXPECT_EQ(output, expected) << "the library asked again";
          continue;
        }
        ++failed;
        EXPECT_EQ(status, MINUET_RESOURCE_EXHAUSTED) << last_error();
        EXPECT_THAT(last_error(), testing::ContainsRegex("allocator has no memory for [0-9]+ bytes"));
        ASSERT_EQ(work(own(), way, kVoxels, output), MINUET_OK) << last_error();
        EXPECT_EQ(output, expected);
      }
      EXPECT_GT(failed, 0);
    }
  }
}

TEST_P(AllocatorTest, MemoryIsAlignedOrRefused) {
  pool().misalign(true);
  void* memory = nullptr;
  EXPECT_EQ(minuet_device_allocate(own().device(), 100, &memory), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("does not begin on a multiple of 256 bytes"));
  EXPECT_EQ(memory, nullptr);
  Bytes output;
  for (const bool has_queue : {false, true}) {
    const Way way{has_queue, false, nullptr};
    pool().misalign(true);
    EXPECT_EQ(work(own(), way, kVoxels, output), MINUET_INVALID_ARGUMENT);
    EXPECT_EQ(pool().live(), 0) << "it is given back";
    pool().misalign(false);
    EXPECT_EQ(work(own(), way, kVoxels, output), MINUET_OK) << last_error();
    own_.reset();
    own_ = Machine::open_own(name(), pool().options());
  }
}

/// No lock is held that the calls in the callbacks need.
TEST_P(AllocatorTest, ItMayCallTheLibrary) {
  thread_local bool is_inside = false;
  std::atomic<int64_t> visits{0};
  pool().on_call([&](void*) {
    if (is_inside || !own_) return;
    is_inside = true;
    ++visits;
    minuet_device_info info{};
    info.struct_size = sizeof(info);
    EXPECT_EQ(minuet_device_query(own().device(), &info), MINUET_OK);
    minuet_kernel_counters counters = MINUET_KERNEL_COUNTERS_INIT;
    EXPECT_EQ(minuet_context_kernel_counters(own().context(), &counters), MINUET_OK);
    minuet_device* opened = nullptr;
    EXPECT_EQ(minuet_device_open(own().context(), name(), nullptr, &opened), MINUET_OK);
    minuet_device_destroy(opened);
    void* memory = nullptr;
    EXPECT_EQ(minuet_device_allocate(own().device(), 4, &memory), MINUET_OK);
    EXPECT_EQ(minuet_device_free(own().device(), memory), MINUET_OK);
    is_inside = false;
  });
  for (const bool has_queue : {false, true}) {
    const Way way{has_queue, false, nullptr, MINUET_DATAFLOW_GATHER_GEMM_SCATTER};
    Bytes expected, output;
    ASSERT_EQ(work(machine(), way, kVoxels, expected), MINUET_OK) << last_error();
    ASSERT_EQ(work(own(), way, kVoxels, output), MINUET_OK) << last_error();
    EXPECT_EQ(output, expected);
  }
  EXPECT_GT(visits, 0);
  pool().on_call({});
}

TEST_P(AllocatorTest, EachDeviceHasItsOwn) {
  CallersPool other(name());
  minuet_device_options options = other.options();
  minuet_device *second = nullptr, *plain = nullptr;
  check(minuet_device_open(own().context(), name(), &options, &second));
  check(minuet_device_open(own().context(), name(), nullptr, &plain));
  const Handle<minuet_device> owner(second, {minuet_device_destroy}),
      of_plain(plain, {minuet_device_destroy});
  const int64_t before = pool().allocations();
  void* memory = nullptr;
  check(minuet_device_allocate(plain, 8, &memory));
  check(minuet_device_free(plain, memory));
  check(minuet_device_allocate(second, 8, &memory));
  EXPECT_EQ(other.live(), 1);
  EXPECT_EQ(pool().allocations(), before);
  NetworkSpec spec;
  spec.description = kTwoLevels, spec.dtype = dtype();
  const Plan plan = make_network(own(), spec);
  EXPECT_GT(pool().live(), 0);
  EXPECT_EQ(other.live(), 1);
  minuet_execution* execution = nullptr;
  EXPECT_EQ(minuet_execution_create(plan.get(), second, nullptr, &execution), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("load it first"));
  const Queue queue = make_queue(own());
  minuet_execution_options with = MINUET_EXECUTION_OPTIONS_INIT;
  with.queue = queue.get();
  EXPECT_EQ(minuet_execution_create(plan.get(), second, &with, &execution), MINUET_INVALID_ARGUMENT);
}

/// A plan that is loaded on the device keeps it, and what is left of minuet_device_allocate goes with it.
TEST_P(AllocatorTest, ThePlanIsTheLastObjectOfTheDevice) {
  CallersPool other(name());
  {
    const std::unique_ptr<Machine> last = Machine::open_own(name(), other.options());
    NetworkSpec spec;
    spec.description = kTwoLevels, spec.dtype = dtype();
    Plan plan = make_network(*last, spec);
    minuet_device_options options = other.options();
    minuet_device* device = nullptr;
    check(minuet_device_open(last->context(), name(), &options, &device));
    void* memory = nullptr;
    check(minuet_device_allocate(device, 8, &memory));
    const int64_t before = other.live();
    check(minuet_plan_load(plan.get(), device));
    minuet_device_destroy(device);
    EXPECT_GT(other.live(), before) << "the plan is loaded";
    plan.reset();
    EXPECT_EQ(other.live(), 0);
  }
}

TEST(AllocatorOptions, BothFunctionsOrNeitherAndAName) {
  std::string reason;
  Machine* const cpu = Machine::open("cpu", reason);
  ASSERT_NE(cpu, nullptr) << reason;
  CallersPool pool("cpu");
  minuet_device* device = nullptr;
  for (const bool allocates : {false, true}) {
    minuet_device_options options = pool.options();
    if (allocates) options.free = nullptr;
    if (!allocates) options.allocate = nullptr;
    EXPECT_EQ(minuet_device_open(cpu->context(), "cpu", &options, &device), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr(allocates ? "free is null" : "allocate is null"));
  }
  const minuet_device_options options = pool.options();
  for (const char* const name : {static_cast<const char*>(nullptr), ""}) {
    EXPECT_EQ(minuet_device_open(cpu->context(), name, &options, &device), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("no name"));
  }
  EXPECT_EQ(minuet_device_open(cpu->context(), "cpu:7", &options, &device), MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(pool.allocations(), 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, AllocatorTest,
                         testing::Combine(testing::Values("cpu", "cuda:0"),
                                          testing::Values(DType::F32, DType::F16)),
                         device_test_name);

}  // namespace
}  // namespace minuet::abi
