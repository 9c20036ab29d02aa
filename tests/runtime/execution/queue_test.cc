// Queues: single convolutions that share what one stream needs once, and graphs that outlive their cloud; on
// every device.
#include <future>
#include <thread>

#include "tests/runtime/abi/abi_stream.h"
#include "tests/runtime/execution/execution_fixture.h"
#include "tests/support/by_hand.h"
#include "tests/support/environment.h"
#include "tests/support/software_cuda/control.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

class QueueTest : public ExecutionTest {
 protected:
  /// Of plans that all tests of a process share.
  ByHand by_hand(minuet_queue* queue, void* stream = nullptr) {
    static std::map<std::pair<Machine*, DType>, ByHand::Plans> made;
    ByHand::Plans& plans = made[{&machine(), dtype()}];
    ByHand network = by_hand(queue, stream, plans);
    plans = network.plans();
    return network;
  }
  ByHand by_hand(minuet_queue* queue, void* stream, const ByHand::Plans& plans) {
    return {machine(), dtype(), kWidths, weights().parameters.all(), queue, stream, plans};
  }
  std::vector<char> run(ByHand& network, const Cloud& cloud, void* stream = nullptr) {
    const Buffer coordinates(machine(), cloud.coordinates), features(machine(), cloud.bytes);
    const Buffer output(machine(), output_bytes(cloud));
    network.infer(coordinates.integers(), cloud.count(), features.data(), output.data());
    check(minuet_device_synchronize(machine().device(), stream));
    return output.read<char>();
  }
  int64_t output_bytes(const Cloud& cloud) const {
    return cloud.count() * kWidths.back() * dtype_bytes(dtype());
  }
};

/// What there is on a GPU only.
class QueueOnGpu : public QueueTest {};

/// The bits of the network, for clouds that come in turn and take the memory that the last one left.
TEST_P(QueueTest, ANetworkByHandGivesTheNetworksBits) {
  const Stream stream(machine());
  const Queue queue = make_queue(machine(), stream.get());
  ByHand shared = by_hand(queue.get(), stream.get()), alone = by_hand(nullptr);
  for (const int64_t voxels : {150, 60, 200, 150}) {
    const Cloud cloud = scene(voxels, kSeed + static_cast<uint64_t>(voxels));
    const std::vector<char> expected = fresh(cloud).bytes;
    EXPECT_EQ(run(shared, cloud, stream.get()), expected) << voxels << " voxels, with a queue";
    EXPECT_EQ(run(alone, cloud), expected) << voxels << " voxels";
  }
}

/// The truth of the driver: nothing is allocated for a cloud of known size; the set is waited for once, all
/// coarser ones together, each map where gather-GEMM-scatter asks for its pairs, and a run never. All sets
/// are one index, and all searches of maps a launch.
TEST_P(QueueOnGpu, WarmCallsWaitOnceForSetsAndMapsAndAllocateNothing) {
  const std::optional<software_cuda::Control> control = software_cuda::Control::find();
  if (!control) return;  // only the software device counts for the driver
  const Queue queue = make_queue(machine());
  ByHand network = by_hand(queue.get());
  const Cloud cloud = scene(150), moved(cloud.coordinates, dtype(), kSeed + 1);
  run(network, cloud);
  run(network, cloud);
  const Buffer coordinates(machine(), cloud.coordinates), features(machine(), cloud.bytes);
  const Buffer output(machine(), output_bytes(cloud));
  control->reset();
  network.prepare(coordinates.integers(), cloud.count());
  EXPECT_EQ(control->allocations(), 0);
  const bool asks = tested_dataflow() == MINUET_DATAFLOW_GATHER_GEMM_SCATTER;  // else the choice is fused
  EXPECT_EQ(control->waits(), static_cast<int64_t>(2 + (asks ? ByHand::kSearchedMaps : 0)));
  if (!asks) {
    EXPECT_LE(control->calls("cuLaunchKernelEx"), 32);
  }
  control->reset();
  network.run(features.data(), output.data());
  EXPECT_EQ(control->allocations(), 0);
  EXPECT_EQ(control->waits(), 0);
}

/// And of its execution's counters: the first who asks for a map's pairs waits, in either direction.
TEST_P(QueueOnGpu, OnlyTheFirstWhoAsksForPairsWaits) {
  const std::optional<software_cuda::Control> control = software_cuda::Control::find();
  const Queue queue = make_queue(machine());
  const Cloud cloud = scene(150);
  const auto expected = static_cast<int64_t>(
      oracle::find_pairs({3, {3, 3, 3, 1}}, cloud.coordinates, cloud.coordinates).size());
  ConvolutionCase test;
  test.dtype = dtype();
  test.kernel_size = {3, 3, 3, 1};
  test.points = 10;
  const ConvolutionData data = make_data(test);
  const Coordinates set = set_on(queue.get(), cloud.coordinates);
  map_of(set.get());  // what a map needs is there from now on
  for (const char* const dataflow : {"fused", "gather-gemm-scatter"}) {
    SCOPED_TRACE(dataflow);
    const EnvironmentVariable named("MINUET_TEST_DATAFLOW", dataflow);
    const int64_t asked = tested_dataflow() == MINUET_DATAFLOW_GATHER_GEMM_SCATTER ? 1 : 0;
    Convolution convolution(machine(), test, data);
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.queue = queue.get();
    const Execution execution = convolution.execution(&options), second = convolution.execution(&options);
    check(minuet_device_synchronize(machine().device(), nullptr));
    if (control) control->reset();
    const auto expect_waits = [&](int64_t of_execution, int64_t of_all) {
      EXPECT_EQ(counters_of(execution.get()).host_syncs, of_execution);
      if (control) {
        EXPECT_EQ(control->waits(), of_all);
      }
    };
    const KernelMap map = map_of(set.get());
    expect_waits(0, 0);
    check(prepare_map(execution.get(), map.get()));
    expect_waits(asked, asked);
    minuet_layer_info info{};
    info.struct_size = sizeof(info);
    check(minuet_execution_query_layer(execution.get(), 0, &info));
    EXPECT_EQ(info.pairs, expected);
    expect_waits(1, 1);
    EXPECT_EQ(pair_count(map.get()), expected);
    check(prepare_map(second.get(), map.get()));
    expect_waits(1, 1);
  }
}

/// What is left of an execution's own memory when a queue has the rest.
TEST_P(QueueOnGpu, FortyNineConvolutionsHaveOneWorkspace) {
  ConvolutionCase test;
  test.dtype = dtype();
  test.kernel_size = {3, 3, 3, 1};
  test.points = 10;
  const ConvolutionData data = make_data(test);
  Convolution convolution(machine(), test, data);
  minuet_dataflow dataflow = MINUET_DATAFLOW_AUTO;
  const auto workspace_bytes = [&](minuet_queue* queue) {
    const Coordinates set = set_on(queue, scene(50).coordinates);
    const KernelMap map = map_of(set.get());
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.queue = queue;
    const Execution execution = convolution.execution(&options);
    check(prepare_map(execution.get(), map.get()));
    dataflow = dataflow_of(execution.get(), 0);
    return counters_of(execution.get()).workspace_bytes;
  };
  const Queue queue = make_queue(machine());
  EXPECT_LT(workspace_bytes(queue.get()), int64_t{1} << 20);
  const int64_t own = workspace_bytes(nullptr);
  if (dataflow == MINUET_DATAFLOW_GATHER_GEMM_SCATTER) {
    EXPECT_GT(own, int64_t{16} << 20) << "cuBLASLt's";
  }
}

TEST_P(QueueTest, WhatDoesNotGoTogetherIsRefused) {
  const Queue queue = make_queue(machine()), other = make_queue(machine());
  const Cloud cloud = scene(50);
  const Coordinates set = set_on(queue.get(), cloud.coordinates);
  const Coordinates loose = set_on(nullptr, cloud.coordinates);
  minuet_kernel_map_options one = MINUET_KERNEL_MAP_OPTIONS_INIT;
  minuet_kernel_map* map = nullptr;
  EXPECT_EQ(minuet_kernel_map_create(set.get(), loose.get(), &one, nullptr, &map), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("different queues"));
  int odd = 0;
  EXPECT_EQ(minuet_kernel_map_create(set.get(), set.get(), &one, &odd, &map), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("another stream than its queue"));
  EXPECT_EQ(map, nullptr);
  check(minuet_kernel_map_create(set.get(), set.get(), &one, nullptr, &map));
  const KernelMap owned(map, {minuet_kernel_map_destroy});

  ConvolutionCase test;
  test.dtype = dtype();
  test.points = 10;
  const ConvolutionData data = make_data(test);
  Convolution convolution(machine(), test, data);
  minuet_execution_options with = MINUET_EXECUTION_OPTIONS_INIT;
  for (minuet_queue* wrong : {static_cast<minuet_queue*>(nullptr), other.get()}) {
    with.queue = wrong;
    const Execution execution = convolution.execution(&with);
    EXPECT_EQ(prepare_map(execution.get(), map), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr("a queue"));
  }
  with.queue = queue.get();
  const Execution execution = convolution.execution(&with);
  EXPECT_EQ(prepare_map(execution.get(), map, &odd), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("another stream than its queue"));
  check(prepare_map(execution.get(), map));
}

/// Its pairs are read back after it was made, for both directions at once; and of no rows there are none.
TEST_P(QueueTest, PairsOfAMapWithAQueue) {
  const std::optional<software_cuda::Control> control = software_cuda::Control::find();
  const Queue queue = make_queue(machine());
  for (const Cloud& cloud : {scene(80), Cloud({}, dtype())}) {
    const Coordinates set = set_on(queue.get(), cloud.coordinates),
                      loose = set_on(nullptr, cloud.coordinates);
    const std::vector<oracle::Pair> expected = pairs_of(map_of(loose.get()).get());
    const KernelMap map = map_of(set.get());
    minuet_kernel_map* turned = nullptr;
    check(minuet_kernel_map_transpose(map.get(), &turned));
    const KernelMap back(turned, {minuet_kernel_map_destroy});
    EXPECT_EQ(pair_count(back.get()), static_cast<int64_t>(expected.size()));
    EXPECT_EQ(pairs_of(map.get()), expected);
    if (control) control->reset();
    EXPECT_EQ(pairs_of(map.get()), expected);
    if (control) {
      EXPECT_EQ(control->allocations(), 0);
    }
    EXPECT_EQ(pairs_of(map_of(set.get()).get()), expected) << "with no question before";
  }
}

/// In tf32 the centre is gathered like any offset, in the others it is read in place: the map's tables are
/// not the same.
TEST_P(QueueTest, ConvolutionsOfTwoDtypesOnOneMap) {
  const Queue queue = make_queue(machine());
  const Cloud cloud = scene(80);
  const auto outputs_with = [&](minuet_queue* with) {
    const Coordinates set = set_on(with, cloud.coordinates);
    const KernelMap map = map_of(set.get());
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.queue = with;
    std::vector<std::vector<char>> outputs;
    for (const DType type : {dtype(), DType::TF32, dtype()}) {
      ConvolutionCase test;
      test.dtype = type;
      test.kernel_size = {3, 3, 3, 1};
      test.points = 10;
      Convolution convolution(machine(), test, make_data(test));
      const Execution execution = convolution.execution(&options);
      const Buffer features(machine(), encode(type, oracle::draw_features(cloud.count() * 16, 5)));
      const Buffer output(machine(), features.bytes());
      check(prepare_map(execution.get(), map.get()));
      check(run_tensors(execution.get(), {tensor(features, cloud.count(), 16, type)},
                        tensor(output, cloud.count(), 16, type)));
      outputs.push_back(output.read<char>());
    }
    return outputs;
  };
  EXPECT_EQ(outputs_with(queue.get()), outputs_with(nullptr));
}

/// All handles but the set are gone before the set is used.
TEST_P(QueueTest, WhatItWasMadeWithKeepsAQueueAlive) {
  Queue queue = make_queue(machine());
  const Cloud cloud = scene(50);
  const Coordinates set = set_on(queue.get(), cloud.coordinates);
  queue.reset();
  EXPECT_EQ(coordinates_of(machine(), set.get(), 3), cloud.coordinates);
}

/// Threads with queues of their own, on streams of their own.
TEST_P(QueueTest, QueuesOfManyThreads) {
  const Cloud clouds[] = {scene(120), scene(60, kSeed + 1)};
  const std::vector<char> expected[] = {fresh(clouds[0]).bytes, fresh(clouds[1]).bytes};
  const auto work = [&](int mine) {
    const Stream stream(machine());
    const Queue queue = make_queue(machine(), stream.get());
    ByHand network = by_hand(queue.get(), stream.get(), {});
    for (int i = 0; i < 3; ++i) {
      const int which = (mine + i) % 2;
      EXPECT_EQ(run(network, clouds[which], stream.get()), expected[which]) << "thread " << mine;
    }
  };
  std::thread first(work, 0), second(work, 1);
  first.join();
  second.join();
}

/// One stream stands still until the other thread's call is through: nothing of the library's may wait for
/// both.
TEST_P(QueueOnGpu, AStreamThatWaitsForTheOthersCall) {
  const Stream stream(machine()), other(machine());
  const Queue queue = make_queue(machine(), stream.get()), other_queue = make_queue(machine(), other.get());
  ByHand network = by_hand(queue.get(), stream.get()), others = by_hand(other_queue.get(), other.get());
  const Cloud cloud = scene(60);
  const std::vector<char> expected = fresh(cloud).bytes;
  run(network, cloud, stream.get());  // warm: what allocates may wait for the whole device
  run(others, cloud, other.get());
  std::promise<void> released;
  std::shared_future<void> release(released.get_future());
  const auto wait = [](void* future) { static_cast<std::shared_future<void>*>(future)->wait(); };
  ASSERT_EQ(driver_function<CUresult (*)(CUstream, CUhostFn, void*)>("cuLaunchHostFunc")(stream.get(), wait,
                                                                                         &release),
            CUDA_SUCCESS);
  std::vector<char> result;
  const Buffer coordinates(machine(), cloud.coordinates), features(machine(), cloud.bytes);
  std::thread blocked([&] {
    stream.make_current();
    network.prepare(coordinates.integers(), cloud.count());  // waits for its stream
  });
  others.prepare(coordinates.integers(), cloud.count());
  released.set_value();
  blocked.join();
  EXPECT_EQ(run(others, cloud, other.get()), expected);
  EXPECT_EQ(run(network, cloud, stream.get()), expected);
}

/// A capture that no thread may endanger, while another thread prepares, allocates, frees and destroys.
TEST_P(QueueOnGpu, AGlobalCaptureBesideAnothersPrepare) {
  const Stream stream(machine()), other(machine());
  const Queue queue = make_queue(machine(), stream.get()), other_queue = make_queue(machine(), other.get());
  ByHand network = by_hand(queue.get(), stream.get()), others = by_hand(other_queue.get(), other.get());
  const Cloud cloud = scene(60);
  const Cloud larger = scene(400, kSeed + 1);
  const std::vector<char> expected = fresh(cloud).bytes, others_expected = fresh(larger).bytes;
  const Buffer coordinates(machine(), cloud.coordinates), features(machine(), cloud.bytes);
  const Buffer output(machine(), output_bytes(cloud)), others_output(machine(), output_bytes(cloud));
  for (int twice = 0; twice < 2; ++twice) {
    for (ByHand* each : {&network, &others}) {
      each->prepare(coordinates.integers(), cloud.count());
      each->run(features.data(), each == &network ? output.data() : others_output.data());
    }
  }
  check(minuet_device_synchronize(machine().device(), stream.get()));
  const CapturedGraph graph(
      stream.get(),
      [&] {
        std::thread beside([&] {
          other.make_current();
          EXPECT_EQ(run(others, larger, other.get()), others_expected);
          by_hand(other_queue.get(), other.get(), {});
          others.infer(coordinates.integers(), cloud.count(), features.data(), others_output.data());
        });
        network.run(features.data(), output.data());
        beside.join();
      },
      CU_STREAM_CAPTURE_MODE_GLOBAL);
  ASSERT_TRUE(graph.whole());
  ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
  for (const Stream* each : {&stream, &other})
    check(minuet_device_synchronize(machine().device(), each->get()));
  EXPECT_EQ(output.read<char>(), expected);
  EXPECT_EQ(others_output.read<char>(), expected);
}

/// A run in a graph goes on to give its cloud's output while the execution has gone on to others.
template <class Run, class Next>
void check_captured(Machine& machine, const Stream& stream, const std::vector<char>& expected, Buffer& output,
                    const Run& run, const Next& next) {
  run();  // plain, once
  const CapturedGraph graph(stream.get(), run);
  ASSERT_TRUE(graph.whole());
  for (int i = 0; i < 2; ++i) {
    next();
    check(minuet_device_synchronize(machine.device(), stream.get()));
    output.poison();
    ASSERT_EQ(graph.launch(), CUDA_SUCCESS);
    check(minuet_device_synchronize(machine.device(), stream.get()));
    EXPECT_EQ(output.read<char>(), expected) << "replay " << i;
  }
}

TEST_P(QueueOnGpu, AGraphOutlivesItsCloud) {
  const Stream stream(machine());
  const Cloud cloud = scene(100);
  const std::vector<char> expected = fresh(cloud).bytes;
  const Buffer coordinates(machine(), cloud.coordinates), features(machine(), cloud.bytes);
  Buffer output(machine(), output_bytes(cloud));
  const Execution execution = this->execution();
  check(minuet_execution_prepare(execution.get(), coordinates.integers(), cloud.count(), stream.get()));
  uint64_t seed = kSeed;
  const auto next_cloud = [&] {
    const Cloud next = scene(120, ++seed);  // larger: the old arena would not have held it
    const Buffer where(machine(), next.coordinates), in(machine(), next.bytes),
        out(machine(), output_bytes(next));
    check(minuet_execution_prepare(execution.get(), where.integers(), next.count(), stream.get()));
    check(enqueue(execution.get(), next, in.data(), out.data(), stream.get()));
    check(minuet_device_synchronize(machine().device(), stream.get()));
    EXPECT_EQ(out.read<char>(), fresh(next).bytes);
  };
  check_captured(
      machine(), stream, expected, output,
      [&] { check(enqueue(execution.get(), cloud, features.data(), output.data(), stream.get())); },
      next_cloud);
  check(minuet_execution_release_captures(execution.get()));
  next_cloud();
}

TEST_P(QueueOnGpu, AGraphOfManyConvolutionsOutlivesItsCloud) {
  const Stream stream(machine());
  const Queue queue = make_queue(machine(), stream.get());
  ByHand network = by_hand(queue.get(), stream.get());
  const Cloud cloud = scene(100);
  const std::vector<char> expected = fresh(cloud).bytes;
  const Buffer coordinates(machine(), cloud.coordinates), features(machine(), cloud.bytes);
  Buffer output(machine(), output_bytes(cloud));
  network.prepare(coordinates.integers(), cloud.count());
  check_captured(
      machine(), stream, expected, output, [&] { network.run(features.data(), output.data()); },
      [&] {
        // Of the same size, so that what is between the layers stays where the graph has it.
        const Cloud next(cloud.coordinates, dtype(), kSeed + 1);
        EXPECT_EQ(run(network, next, stream.get()), fresh(next).bytes);
      });
}

/// In any mode: the map's tables would be made at the replay, and be taken as there by others before.
TEST_P(QueueOnGpu, NoPrepareIsCaptured) {
  const Stream stream(machine());
  const Queue queue = make_queue(machine(), stream.get());
  ByHand network = by_hand(queue.get(), stream.get());
  const Cloud cloud = scene(60);
  const std::vector<char> expected = run(network, cloud, stream.get());
  const Execution execution = this->execution();
  const Buffer coordinates(machine(), cloud.coordinates);
  {
    const CapturedGraph graph(
        stream.get(),
        [&] {
          EXPECT_EQ(network.prepare_layer(0), MINUET_FAILED_PRECONDITION);
          EXPECT_THAT(last_error(), HasSubstr("is being captured"));
          EXPECT_EQ(
              minuet_execution_prepare(execution.get(), coordinates.integers(), cloud.count(), stream.get()),
              MINUET_FAILED_PRECONDITION);
        },
        CU_STREAM_CAPTURE_MODE_RELAXED);
  }
  EXPECT_EQ(run(network, cloud, stream.get()), expected);
}

TEST_P(QueueOnGpu, AGraphInTheCallersWorkspaceIsLetGoFirst) {
  const Stream stream(machine());
  const Cloud cloud = scene(100);
  const Buffer coordinates(machine(), cloud.coordinates), features(machine(), cloud.bytes);
  const Buffer output(machine(), output_bytes(cloud)), workspace(machine(), int64_t{128} << 20);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.max_points = cloud.count();
  options.workspace = workspace.data();
  options.workspace_bytes = workspace.bytes();
  const Execution execution = this->execution(&options);
  const auto prepare = [&] {
    return minuet_execution_prepare(execution.get(), coordinates.integers(), cloud.count(), stream.get());
  };
  const auto run = [&] {
    check(enqueue(execution.get(), cloud, features.data(), output.data(), stream.get()));
  };
  check(prepare());
  run();
  { const CapturedGraph graph(stream.get(), run); }
  EXPECT_EQ(prepare(), MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("release"));
  check(minuet_execution_release_captures(execution.get()));
  check(prepare());
  run();
  check(minuet_device_synchronize(machine().device(), stream.get()));
  EXPECT_EQ(output.read<char>(), fresh(cloud).bytes);
}

MINUET_INSTANTIATE_EXECUTION_TEST(QueueTest);
INSTANTIATE_TEST_SUITE_P(Devices, QueueOnGpu,
                         testing::Combine(testing::Values("cuda:0"), testing::Values(DType::F32, DType::F16)),
                         device_test_name);

}  // namespace
}  // namespace minuet::abi
