// Graphs that hold runs of a queue's executions keep all memory that the runs read: whatever is prepared and
// made after the capture, a replay gives the output of the captured run and leaves everything else as it is.
#include <cmath>

#include "tests/runtime/abi/abi_stream.h"
#include "tests/runtime/execution/execution_fixture.h"
#include "tests/support/by_hand.h"
#include "tests/support/environment.h"
#include "tests/support/software_cuda/control.h"

namespace minuet::abi {
namespace {

/// Down, up and a skip: tensors of two levels lie in the scratch of the queue.
constexpr const char* kDownAndUp = R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [16, 8],
  "layers": [
  {"op": "block", "name": "first", "width": 0, "kernel_size": 3, "save": "fine"},
  {"op": "block", "name": "down", "width": 0, "kernel_size": 2, "stride": 2},
  {"op": "up", "name": "up", "width": 0, "kernel_size": 2, "stride": 2, "onto": "fine"},
  {"op": "concat", "with": "fine"},
  {"op": "block", "name": "last", "width": 1, "kernel_size": 3}]})";
constexpr minuet_dataflow kDataflows[] = {MINUET_DATAFLOW_GATHER_GEMM_SCATTER, MINUET_DATAFLOW_FUSED};
constexpr int32_t kCapturedChannels = 8;

/// Features and output of one cloud, and a captured run.
struct Captured {
  Captured(Machine& machine, const Cloud& cloud, DType dtype)
      : cloud(cloud),
        coordinates(machine, cloud.coordinates),
        features(machine, cloud.bytes),
        output(machine, cloud.count() * kCapturedChannels * dtype_bytes(dtype)) {}
  Cloud cloud;
  Buffer coordinates, features, output;
  std::vector<char> expected;
  std::unique_ptr<CapturedGraph> graph;
};

class CapturedTest : public ExecutionTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    stream_ = std::make_unique<Stream>(machine());
    queue_ = std::make_unique<Queue>(make_queue(machine(), stream_->get()));
  }
  void TearDown() override {
    sets_.clear();
    queue_.reset();
    stream_.reset();
  }
  void wait() { check(minuet_device_synchronize(machine().device(), stream_->get())); }

  /// Runs what is prepared, captures the same run, and runs again.
  void capture(minuet_execution* execution, Captured& run) {
    const auto enqueue = [&] {
      check(run_tensors(execution, {tensor(run.features, run.cloud.count(), 4, dtype())},
                        tensor(run.output, run.cloud.count(), kCapturedChannels, dtype()), stream_->get()));
    };
    enqueue();
    wait();
    run.expected = run.output.read<char>();
    run.graph = std::make_unique<CapturedGraph>(stream_->get(), enqueue);
    ASSERT_TRUE(run.graph->whole());
    enqueue();  // a plain run afterwards does not make the capture undone
    wait();
    EXPECT_EQ(run.output.read<char>(), run.expected);
  }
  void expect_replay(Captured& run) {
    run.output.poison();
    ASSERT_EQ(run.graph->launch(), CUDA_SUCCESS);
    wait();
    EXPECT_EQ(run.output.read<char>(), run.expected);
  }
  Coordinates set_of(const std::vector<int32_t>& coordinates) {
    minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
    options.queue = convolutions_queue();
    const Buffer memory(machine(), coordinates);
    minuet_coordinates* set = nullptr;
    check(minuet_coordinates_create(machine().device(), &options, memory.integers(),
                                    static_cast<int64_t>(coordinates.size() / 4), stream_->get(), &set));
    return {set, {minuet_coordinates_destroy}};
  }
  KernelMap map_of(minuet_coordinates* set) {
    minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
    std::fill_n(options.kernel_size, 3, 3);
    minuet_kernel_map* map = nullptr;
    check(minuet_kernel_map_create(set, set, &options, stream_->get(), &map));
    return {map, {minuet_kernel_map_destroy}};
  }
  /// Sets of few rows and of many, which take whatever block of the queue's memory is free.
  void make_sixty_sets() {
    for (int i = 0; i < 60; ++i) {
      std::vector<int32_t> coordinates;
      const auto rows = static_cast<int32_t>(8 * std::pow(1.1, i));
      for (int32_t row = 0; row < rows; ++row) coordinates.insert(coordinates.end(), {0, row, -row, i});
      Coordinates set = set_of(coordinates);
      sets_.emplace_back(std::move(set), std::move(coordinates));
    }
  }
  void expect_sets_unharmed() {
    for (const auto& [set, coordinates] : sets_) {
      const Buffer memory(machine(), static_cast<int64_t>(coordinates.size() * sizeof(int32_t)));
      check(minuet_coordinates_export(set.get(), static_cast<int32_t*>(memory.data()), stream_->get()));
      wait();
      ASSERT_EQ(memory.read<int32_t>(), coordinates);
    }
  }
  /// `prepare` prepares a cloud, each larger than the one before; all runs are captured and replayed.
  template <class Prepare>
  void expect_graphs_outlive_their_clouds(minuet_execution* execution, const Prepare& prepare) {
    std::vector<std::unique_ptr<Captured>> runs;
    for (const int64_t voxels : {100, 250, 600}) {
      runs.push_back(std::make_unique<Captured>(
          machine(), scene(voxels, kSeed + static_cast<uint64_t>(voxels)), dtype()));
      prepare(*runs.back());
      capture(execution, *runs.back());
    }
    make_sixty_sets();
    for (int twice = 0; twice < 2; ++twice) {
      for (const std::unique_ptr<Captured>& run : runs) expect_replay(*run);
      expect_sets_unharmed();
    }
    check(minuet_execution_release_captures(execution));
    prepare(*runs.front());
    expect_sets_unharmed();
  }

  /// The queue of sets and of executions of convolutions, or null.
  minuet_queue* convolutions_queue() const { return has_queue_ ? queue_->get() : nullptr; }

  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Queue> queue_;
  bool has_queue_ = true;
  std::vector<std::pair<Coordinates, std::vector<int32_t>>> sets_;
};

TEST_P(CapturedTest, NetworksOfAQueue) {
  for (const minuet_dataflow dataflow : kDataflows) {
    SCOPED_TRACE(dataflow);
    const Plan plan = make_network(machine(), {"", {}, dtype(), "", 7, kDownAndUp, {}, {}, {}, {}, dataflow});
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.queue = queue_->get();
    const Execution execution = make_execution(machine(), plan.get(), &options);
    expect_graphs_outlive_their_clouds(execution.get(), [&](const Captured& run) {
      check(minuet_execution_prepare(execution.get(), run.coordinates.integers(), run.cloud.count(),
                                     stream_->get()));
    });
    sets_.clear();
  }
}

/// The execution alone keeps the sets and maps of its captured runs: the caller destroys each at once.
TEST_P(CapturedTest, ConvolutionsWithAQueueAndWithoutOne) {
  ConvolutionCase test;
  test.dtype = dtype();
  test.kernel_size = {3, 3, 3, 1};
  test.in_channels = 4, test.out_channels = kCapturedChannels, test.points = 10;
  for (const char* const dataflow : {"gather-gemm-scatter", "fused"}) {
    const EnvironmentVariable named("MINUET_TEST_DATAFLOW", dataflow);
    Convolution convolution(machine(), test, make_data(test));
    for (const bool has_queue : {true, false}) {
      SCOPED_TRACE(testing::Message() << dataflow << (has_queue ? ", with a queue" : ", without a queue"));
      has_queue_ = has_queue;
      minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
      options.queue = convolutions_queue();
      const Execution execution = convolution.execution(&options);
      expect_graphs_outlive_their_clouds(execution.get(), [&](const Captured& run) {
        const Coordinates set = set_of(run.cloud.coordinates);
        const KernelMap map = map_of(set.get());
        check(prepare_map(execution.get(), map.get(), stream_->get()));
      });
      sets_.clear();
    }
  }
}

/// The driver has back what only captured runs read, with a queue once that is gone too.
TEST_P(CapturedTest, ReleasedCapturesKeepNothing) {
  const std::optional<software_cuda::Control> control = software_cuda::Control::find();
  if (!control) return;  // only the software device counts what is allocated
  const Plan plan = make_network(machine(), {"", {}, dtype(), "", 7, kDownAndUp});
  const Execution execution = make_execution(machine(), plan.get());
  Captured run(machine(), scene(100), dtype());
  const auto prepare = [&] {
    check(minuet_execution_prepare(execution.get(), run.coordinates.integers(), run.cloud.count(),
                                   stream_->get()));
  };
  prepare();
  const int64_t live = control->live();
  for (int twice = 0; twice < 2; ++twice) {
    capture(execution.get(), run);
    prepare();
    EXPECT_GT(control->live(), live);
  }
  run.graph.reset();
  check(minuet_execution_release_captures(execution.get()));
  EXPECT_EQ(control->live(), live);
}

INSTANTIATE_TEST_SUITE_P(Devices, CapturedTest,
                         testing::Combine(testing::Values("cuda:0"), testing::Values(DType::F32, DType::F16)),
                         device_test_name);

}  // namespace
}  // namespace minuet::abi
