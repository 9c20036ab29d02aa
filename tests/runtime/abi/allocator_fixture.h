// A network and a single convolution on a device whose memory comes from a caller's allocator.
#pragma once

#include <gmock/gmock.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/runtime/abi/abi_stream.h"
#include "tests/runtime/abi/callers_pool.h"
#include "tests/support/by_hand.h"
#include "tests/support/compare.h"
#include "tests/support/network_abi.h"
#include "tests/support/network_oracle.h"
#include "tests/support/rounding.h"
#include "tests/support/software_cuda/control.h"

namespace minuet::abi {

/// Calls that go on while they succeed.
class Steps {
 public:
  Steps& operator()(const std::function<minuet_status()>& call) {
    if (status_ == MINUET_OK) status_ = call();
    return *this;
  }
  bool ok() const { return status_ == MINUET_OK; }
  minuet_status status() const { return status_; }

 private:
  minuet_status status_ = MINUET_OK;
};

/// Where the execution of a network has its memory from: it allocates its own, gets a workspace after it was
/// created, or gets one in place of its own, which runs use.
enum class Room { Own, Deferred, Replaced };
inline constexpr Room kRooms[] = {Room::Own, Room::Deferred, Room::Replaced};

/// How the calls are made.
struct Way {
  bool has_queue = false, has_capacities = false;
  void* stream = nullptr;
  minuet_dataflow dataflow = MINUET_DATAFLOW_FUSED;
  Room room = Room::Own;
};

class AllocatorTest : public DeviceTest {
 protected:
  using Bytes = std::vector<char>;

  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    control_ = software_cuda::Control::find();
    pool_ = std::make_unique<CallersPool>(name());
    own_ = Machine::open_own(name(), pool_->options());
  }
  void TearDown() override {
    own_.reset();
    if (pool_) {
      EXPECT_EQ(pool_->live(), 0) << "all is given back with the last object of the device";
    }
    pool_.reset();
    if (control_) control_->reset();
  }
  const char* name() const { return std::get<0>(GetParam()); }
  Machine& own() { return *own_; }
  CallersPool& pool() { return *pool_; }

  /// A line of voxels along x, and features for them.
  static std::vector<int32_t> line(int32_t count) {
    std::vector<int32_t> coordinates;
    for (int32_t i = 0; i < count; ++i) coordinates.insert(coordinates.end(), {0, i, 1, -2});
    return coordinates;
  }
  Bytes features(int32_t count) const { return encode(dtype(), oracle::draw_features(4 * count, 17)); }

  /// Runs a network, and a convolution by hand with its sets and map, and appends what they give to `output`.
  minuet_status work(Machine& on, const Way& way, int32_t rows, Bytes& output);
  minuet_status network(Machine& on, const Way& way, minuet_queue* queue, int32_t rows, Bytes& output);
  minuet_status convolution(Machine& on, const Way& way, minuet_queue* queue, int32_t rows, Bytes& output);

  std::optional<software_cuda::Control> control_;
  std::unique_ptr<CallersPool> pool_;
  std::unique_ptr<Machine> own_;
};

/// Device memory of minuet_device_allocate, for calls that may fail.
class Memory {
 public:
  Memory(Machine& on, int64_t bytes, const void* values, Steps& steps) : on_(on), bytes_(bytes) {
    steps([&] { return minuet_device_allocate(on.device(), bytes, &data_); });
    if (values) steps([&] { return minuet_device_copy(on.device(), data_, values, bytes, 0); });
  }
  ~Memory() { minuet_device_free(on_.device(), data_); }
  Memory(const Memory&) = delete;
  void* data() const { return data_; }
  int32_t* integers() const { return static_cast<int32_t*>(data_); }
  void read(Steps& steps, void* stream, std::vector<char>& output) const {
    steps([&] { return minuet_device_synchronize(on_.device(), stream); });
    const size_t begin = output.size();
    output.resize(begin + static_cast<size_t>(bytes_));
    steps([&] { return minuet_device_copy(on_.device(), output.data() + begin, data_, bytes_, 1); });
  }

 private:
  Machine& on_;
  void* data_ = nullptr;
  const int64_t bytes_;
};

/// A handle that a step makes.
template <class T>
Handle<T> made_by(Steps& steps, void (*destroy)(T*), const std::function<minuet_status(T**)>& make) {
  T* made = nullptr;
  steps([&] { return make(&made); });
  return {made, {destroy}};
}

inline constexpr int32_t kVoxels = 20;
inline constexpr int32_t kOutputs = 8;
inline constexpr const char* kTwoLevels =
    R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [8], "layers": [
    {"op": "block", "name": "a", "width": 0, "kernel_size": 3, "save": "fine"},
    {"op": "block", "name": "b", "width": 0, "kernel_size": 2, "stride": 2},
    {"op": "up", "name": "c", "width": 0, "kernel_size": 2, "stride": 2, "onto": "fine"},
    {"op": "block", "name": "d", "width": 0, "kernel_size": 1}]})";

inline minuet_status AllocatorTest::network(Machine& on, const Way& way, minuet_queue* queue, int32_t rows,
                                            Bytes& output) {
  Steps steps;
  NetworkSpec spec;
  spec.description = kTwoLevels, spec.dtype = dtype(), spec.dataflow = way.dataflow;
  Plan plan(nullptr, {minuet_plan_destroy});
  steps([&] { return create_network(on, spec, plan); });
  steps([&] { return minuet_plan_compile(plan.get(), on.arch().c_str(), nullptr, nullptr); });
  steps([&] { return minuet_plan_load(plan.get(), on.device()); });
  const int64_t capacities[] = {64, 64};
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.queue = queue;
  options.map_method = tested_maps();
  if (way.has_capacities) options.level_capacity = capacities, options.level_count = 2;
  options.defer_workspace = way.room == Room::Deferred ? 1 : 0;
  std::optional<Memory> workspace;  // It outlives the execution.
  const Execution execution = made_by<minuet_execution>(steps, minuet_execution_destroy, [&](auto** made) {
    return minuet_execution_create(plan.get(), on.device(), &options, made);
  });
  const int64_t room = way.has_capacities ? capacities[0] : rows;
  std::vector<int32_t> voxels = line(rows);
  voxels.resize(static_cast<size_t>(room) * 4);
  Bytes values = features(rows);
  values.resize(static_cast<size_t>(room * 4 * dtype_bytes(dtype())));
  const Memory coordinates(on, room * 16, voxels.data(), steps);
  const Memory input(on, static_cast<int64_t>(values.size()), values.data(), steps);
  const Memory result(on, room * kOutputs * dtype_bytes(dtype()), nullptr, steps);
  const Memory again(on, room * kOutputs * dtype_bytes(dtype()), nullptr, steps);
  const auto run = [&](const Memory& into) {
    steps(
        [&] { return minuet_execution_prepare(execution.get(), coordinates.integers(), rows, way.stream); });
    steps([&] {
      return run_tensors(execution.get(), {tensor(input.data(), room, 4, abi_dtype(dtype()))},
                         tensor(into.data(), room, kOutputs, abi_dtype(dtype())), way.stream);
    });
  };
  if (way.room != Room::Deferred) run(result);
  if (way.room != Room::Own) {
    minuet_execution_info info = MINUET_EXECUTION_INFO_INIT;
    steps([&] { return minuet_execution_query(execution.get(), &info); });
    int64_t bytes = 0;
    steps([&] {
      return minuet_plan_workspace_bytes(plan.get(), on.arch().c_str(), nullptr, rows, 27, &bytes);
    });
    if (way.has_capacities) bytes = info.workspace_bytes;
    workspace.emplace(on, bytes, nullptr, steps);
    // The last run may still be under way, in the memory that this call gives back.
    steps([&] {
      return minuet_execution_set_workspace(execution.get(), workspace->data(), bytes, way.stream);
    });
  }
  run(again);
  // After a failure, earlier work may still use the memory that goes now.
  if (!steps.ok()) minuet_device_synchronize(on.device(), way.stream);
  if (way.room != Room::Deferred) result.read(steps, way.stream, output);
  again.read(steps, way.stream, output);
  return steps.status();
}

inline minuet_status AllocatorTest::convolution(Machine& on, const Way& way, minuet_queue* queue,
                                                int32_t rows, Bytes& output) {
  Steps steps;
  const std::vector<float> weight(27 * 4 * kOutputs, 0.25f);
  minuet_convolution_options given = MINUET_CONVOLUTION_OPTIONS_INIT;
  given.dtype = abi_dtype(dtype()), given.dataflow = way.dataflow;
  given.in_channels = 4, given.out_channels = kOutputs;
  std::fill_n(given.kernel_size, 3, 3);
  given.weight = weight.data(), given.weight_count = static_cast<int64_t>(weight.size());
  const Plan plan = made_by<minuet_plan>(steps, minuet_plan_destroy, [&](auto** made) {
    return minuet_plan_create_convolution(on.context(), &given, made);
  });
  steps([&] { return minuet_plan_compile(plan.get(), on.arch().c_str(), nullptr, nullptr); });
  steps([&] { return minuet_plan_load(plan.get(), on.device()); });
  const Memory coordinates(on, rows * 16, line(rows).data(), steps);
  const Memory coarser(on, (rows + 1) / 2 * 16, nullptr, steps);
  minuet_coordinates_options with = MINUET_COORDINATES_OPTIONS_INIT;
  with.queue = queue;
  {
    const Coordinates set = made_by<minuet_coordinates>(steps, minuet_coordinates_destroy, [&](auto** made) {
      return minuet_coordinates_create(on.device(), &with, coordinates.integers(), rows, way.stream, made);
    });
    const Coordinates coarse =
        made_by<minuet_coordinates>(steps, minuet_coordinates_destroy, [&](auto** made) {
          const int32_t stride[] = {2, 2, 2, 1};
          return minuet_coordinates_downsample(set.get(), stride, way.stream, made);
        });
    // The sets are destroyed before the work that reads them is known to be done.
    steps([&] { return minuet_coordinates_export(coarse.get(), coarser.integers(), way.stream); });
  }
  coarser.read(steps, way.stream, output);
  const Coordinates set = made_by<minuet_coordinates>(steps, minuet_coordinates_destroy, [&](auto** made) {
    return minuet_coordinates_create(on.device(), &with, coordinates.integers(), rows, way.stream, made);
  });
  minuet_kernel_map_options threes = MINUET_KERNEL_MAP_OPTIONS_INIT;
  std::fill_n(threes.kernel_size, 3, 3);
  const auto make_map = [&](auto** made) {
    return minuet_kernel_map_create(set.get(), set.get(), &threes, way.stream, made);
  };
  KernelMap map = made_by<minuet_kernel_map>(steps, minuet_kernel_map_destroy, make_map);
  KernelMap same = made_by<minuet_kernel_map>(steps, minuet_kernel_map_destroy, make_map);
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.queue = queue;
  const Bytes values = features(rows);
  const Memory input(on, static_cast<int64_t>(values.size()), values.data(), steps);
  const Memory first(on, rows * kOutputs * dtype_bytes(dtype()), nullptr, steps);
  const Memory second(on, rows * kOutputs * dtype_bytes(dtype()), nullptr, steps);
  Execution execution = made_by<minuet_execution>(steps, minuet_execution_destroy, [&](auto** made) {
    return minuet_execution_create(plan.get(), on.device(), &options, made);
  });
  const auto run = [&](const Memory& result) {
    steps([&] { return prepare_map(execution.get(), map.get(), way.stream); });
    steps([&] {
      return run_tensors(execution.get(), {tensor(input.data(), rows, 4, abi_dtype(dtype()))},
                         tensor(result.data(), rows, kOutputs, abi_dtype(dtype())), way.stream);
    });
  };
  run(first);
  // The execution alone keeps the earlier map, which its last run may still read, when it gets another one.
  map = std::move(same);
  run(second);
  map.reset();
  execution.reset();
  first.read(steps, way.stream, output);
  second.read(steps, way.stream, output);
  return steps.status();
}

inline minuet_status AllocatorTest::work(Machine& on, const Way& way, int32_t rows, Bytes& output) {
  Steps steps;
  output.clear();
  const Queue queue = made_by<minuet_queue>(steps, minuet_queue_destroy, [&](auto** made) {
    return way.has_queue ? minuet_queue_create(on.device(), way.stream, made) : MINUET_OK;
  });
  steps([&] { return network(on, way, queue.get(), rows, output); });
  steps([&] { return convolution(on, way, queue.get(), rows, output); });
  return steps.status();
}

}  // namespace minuet::abi
