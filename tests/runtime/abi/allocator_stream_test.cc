// The caller's allocator and streams: it is not called in a capture, and memory that it gets back without a
// stream is in no use, in whatever order the device works.
#include <chrono>
#include <future>
#include <thread>

#include "tests/runtime/abi/allocator_fixture.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

class AllocatorOnGpu : public AllocatorTest {};

TEST_P(AllocatorOnGpu, FreedMemoryIsInNoUse) {
  if (!control_) return;  // only the software device shows all orders
  const Stream stream(own());
  for (const bool has_queue : {false, true}) {
    for (void* const on : {static_cast<void*>(nullptr), static_cast<void*>(stream.get())}) {
      for (const minuet_dataflow dataflow : {MINUET_DATAFLOW_FUSED, MINUET_DATAFLOW_GATHER_GEMM_SCATTER}) {
        const Way way{has_queue, false, on, dataflow, Room::Replaced};
        Bytes expected, output;
        ASSERT_EQ(work(machine(), way, kVoxels, expected), MINUET_OK) << last_error();
        for (uint64_t seed = 0; seed < 8; ++seed) {
          control_->seed(seed);
          ASSERT_EQ(work(own(), way, kVoxels, output), MINUET_OK) << last_error();
          EXPECT_EQ(output, expected)
              << "order of seed " << seed << ", queue " << has_queue << ", stream " << (on != nullptr);
        }
      }
    }
  }
  control_->seed(1);
}

/// A queue of the null stream cannot name its stream, so it waits before it gives unused blocks back.
TEST_P(AllocatorOnGpu, AQueueOfTheNullStreamWaitsBeforeItFrees) {
  if (!control_) return;  // only the software device shows all orders
  const Buffer few(own(), line(kVoxels)), many(own(), line(50 * kVoxels));
  const auto create = [&](minuet_queue* queue, const Buffer& coordinates) {
    minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
    options.queue = queue;
    minuet_coordinates* made = nullptr;
    check(minuet_coordinates_create(own().device(), &options, coordinates.integers(),
                                    coordinates.bytes() / 16, nullptr, &made));
    return Coordinates(made, {minuet_coordinates_destroy});
  };
  for (uint64_t seed = 0; seed < 32; ++seed) {
    control_->seed(seed);
    const Queue queue = make_queue(own());
    const Buffer exported(own(), few.bytes());
    Coordinates set = create(queue.get(), few);
    check(minuet_coordinates_export(set.get(), static_cast<int32_t*>(exported.data()), nullptr));
    set.reset();
    const int64_t frees = pool().frees();
    pool().fail(1);
    set = create(queue.get(), many);
    EXPECT_GT(pool().frees(), frees);
    EXPECT_EQ(exported.read<int32_t>(), line(kVoxels)) << "order of seed " << seed;
  }
  control_->seed(1);
}

/// The host fills the arena of a network by copies that the queue's stream does not order, so the memory must
/// be ready first.
TEST_P(AllocatorOnGpu, AnArenaIsFilledWhenItsMemoryIsReady) {
  const Stream stream(own());
  const Queue queue = make_queue(own(), stream.get());
  NetworkSpec spec;
  spec.description = kTwoLevels, spec.dtype = dtype(), spec.dataflow = MINUET_DATAFLOW_FUSED;
  const Plan plan = make_network(own(), spec);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.queue = queue.get();
  options.max_points = 1000;
  std::optional<Gate> gate;
  std::future<void> opener;
  pool().on_call([&](void* on) {
    if (!on || gate) return;
    gate.emplace(static_cast<CUstream>(on));
    opener = std::async(std::launch::async, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      gate->open();
    });
  });
  const Execution execution = make_execution(own(), plan.get(), &options);
  ASSERT_TRUE(gate.has_value());
  EXPECT_TRUE(gate->is_open());
  opener.wait();
  check(minuet_device_synchronize(own().device(), stream.get()));
  pool().on_call({});
}

/// Calls that need memory are refused in a capture before they ask for it.
TEST_P(AllocatorOnGpu, NothingIsAllocatedInACapture) {
  const Stream stream(own());
  const Queue queue = make_queue(own(), stream.get());
  NetworkSpec spec;
  spec.description = kTwoLevels, spec.dtype = dtype(), spec.dataflow = MINUET_DATAFLOW_FUSED;
  const Plan plan = make_network(own(), spec);
  const Buffer coordinates(own(), line(kVoxels)), input(own(), features(kVoxels));
  const auto create = [&](minuet_queue* with, Coordinates& set) {
    minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
    options.queue = with;
    minuet_coordinates* made = nullptr;
    const minuet_status status = minuet_coordinates_create(own().device(), &options, coordinates.integers(),
                                                           kVoxels, stream.get(), &made);
    set.reset(made);
    return status;
  };
  for (minuet_queue* const with : {queue.get(), static_cast<minuet_queue*>(nullptr)}) {
    SCOPED_TRACE(testing::Message() << "queue " << (with != nullptr));
    Coordinates set(nullptr, {minuet_coordinates_destroy}), refused(nullptr, {minuet_coordinates_destroy});
    check(create(with, set));
    minuet_kernel_map_options threes = MINUET_KERNEL_MAP_OPTIONS_INIT;
    std::fill_n(threes.kernel_size, 3, 3);
    minuet_kernel_map* made = nullptr;
    check(minuet_kernel_map_create(set.get(), set.get(), &threes, stream.get(), &made));
    const KernelMap map(made, {minuet_kernel_map_destroy});
    int64_t pairs = 0;
    check(minuet_kernel_map_query_pairs(map.get(), &pairs));
    std::vector<int32_t> triples(static_cast<size_t>(pairs) * 3);
    const int64_t allocations = pool().allocations(), frees = pool().frees();
    const CapturedGraph graph(stream.get(), [&] {
      EXPECT_EQ(create(with, refused), MINUET_FAILED_PRECONDITION);
      EXPECT_THAT(last_error(), HasSubstr("being captured"));
      const int32_t stride[] = {2, 2, 2, 1};
      minuet_coordinates* coarse = nullptr;
      EXPECT_EQ(minuet_coordinates_downsample(set.get(), stride, stream.get(), &coarse),
                MINUET_FAILED_PRECONDITION);
      minuet_kernel_map* other = nullptr;
      EXPECT_EQ(minuet_kernel_map_create(set.get(), set.get(), &threes, stream.get(), &other),
                MINUET_FAILED_PRECONDITION);
      EXPECT_EQ(minuet_kernel_map_export(map.get(), triples.data(), stream.get()),
                MINUET_FAILED_PRECONDITION);
    });
    EXPECT_EQ(pool().allocations(), allocations);
    EXPECT_EQ(pool().frees(), frees);
  }
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.queue = queue.get();
  const int64_t allocations = pool().allocations();
  const auto create_execution = [&] {
    minuet_execution* made = nullptr;
    EXPECT_EQ(minuet_execution_create(plan.get(), own().device(), &options, &made),
              MINUET_FAILED_PRECONDITION);
    EXPECT_THAT(last_error(), HasSubstr("being captured"));
  };
  // Pinned memory may be allocated in a relaxed capture only.
  const CapturedGraph graph(stream.get(), create_execution, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(pool().allocations(), allocations);
}

/// A prepare within capacities and a run are captured, and call nothing of the caller's.
TEST_P(AllocatorOnGpu, CapturedRunsAllocateNothing) {
  const Stream stream(own());
  NetworkSpec spec;
  spec.description = kTwoLevels, spec.dtype = dtype(), spec.dataflow = MINUET_DATAFLOW_FUSED;
  const Plan plan = make_network(own(), spec);
  const Buffer coordinates(own(), line(kVoxels)), input(own(), features(kVoxels));
  const Buffer output(own(), kVoxels * kOutputs * dtype_bytes(dtype()));
  const int64_t capacities[] = {kVoxels, kVoxels};
  for (const bool has_queue : {false, true}) {
    const Queue queue = has_queue ? make_queue(own(), stream.get()) : Queue(nullptr, {minuet_queue_destroy});
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.queue = queue.get();
    options.level_capacity = capacities, options.level_count = 2;
    const Execution execution = make_execution(own(), plan.get(), &options);
    const auto enqueue = [&] {
      check(minuet_execution_prepare(execution.get(), coordinates.integers(), kVoxels, stream.get()));
      check(run_tensors(execution.get(), {tensor(input, kVoxels, 4, dtype())},
                        tensor(output, kVoxels, kOutputs, dtype()), stream.get()));
    };
    enqueue();
    check(minuet_device_synchronize(own().device(), stream.get()));
    const std::vector<char> expected = output.read<char>();
    const int64_t allocations = pool().allocations(), frees = pool().frees();
    const CapturedGraph graph(stream.get(), enqueue);
    EXPECT_EQ(graph.launch(), CUDA_SUCCESS);
    check(minuet_device_synchronize(own().device(), stream.get()));
    EXPECT_EQ(output.read<char>(), expected);
    EXPECT_EQ(pool().allocations(), allocations);
    EXPECT_EQ(pool().frees(), frees);
  }
}

/// The blocks of a queue that is destroyed while its stream is captured are given back with the device.
TEST_P(AllocatorOnGpu, AQueueMayEndInACapture) {
  const Stream stream(own());
  const Buffer coordinates(own(), line(kVoxels));
  Queue queue = make_queue(own(), stream.get());
  minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
  options.queue = queue.get();
  minuet_coordinates* made = nullptr;
  check(minuet_coordinates_create(own().device(), &options, coordinates.integers(), kVoxels, stream.get(),
                                  &made));
  Coordinates set(made, {minuet_coordinates_destroy});
  const int64_t live = pool().live();
  const auto destroy = [&] {
    set.reset();
    queue.reset();
  };
  // Other resources of the queue may be released in a relaxed capture only.
  const CapturedGraph graph(stream.get(), destroy, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(pool().live(), live);
}

INSTANTIATE_TEST_SUITE_P(Devices, AllocatorOnGpu,
                         testing::Combine(testing::Values("cuda:0"), testing::Values(DType::F16)),
                         device_test_name);

}  // namespace
}  // namespace minuet::abi
