// All calls that take an object of a queue, as a table, and the objects that they are made with.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/runtime/abi/abi_stream.h"
#include "tests/support/by_hand.h"
#include "tests/support/network_abi.h"
#include "tests/support/rounding.h"

namespace minuet::abi::queue_calls {

inline constexpr const char* kOneBlock =
    R"({"name": "n", "ndim": 3, "in_channels": 4, "channels": [16], "layers": [
  {"op": "block", "name": "first", "width": 0, "kernel_size": 3}]})";
inline constexpr int32_t kRows = 31, kOut = 16;
inline constexpr int64_t kCapacity = 64;

inline constexpr const char* kOfPoints =
    R"({"name": "p", "ndim": 3, "inputs": [{"name": "points", "channels": 4}], "layers": [
  {"op": "voxelize", "voxel_size": [1, 1, 1]}, {"op": "devoxelize"}]})";

/// Plans and device memory that all objects of a test share.
struct Plans {
  Plans(Machine& machine, DType dtype)
      : test(small_case(dtype, ConvolutionKind::Submanifold, 8, 8, kRows)),
        data(make_data(test)),
        convolution(machine, test, data),
        network(
            make_network(machine, {"", {}, dtype, "", 1, kOneBlock, {}, {}, {}, {}, MINUET_DATAFLOW_FUSED})),
        of_points(make_network(machine, {"", {}, dtype, "", 1, kOfPoints, {}, {}, {}, {}, {}})),
        coordinates(machine, data.in_coordinates),
        points(machine, std::vector<float>(kRows * 4, 0.5f)),
        labels(machine, kRows * 4 * 4),
        count(machine, std::vector<int32_t>{kRows}),
        features(machine, encode(dtype, std::vector<float>(kCapacity * 4, 0.5f))),
        room(machine, kCapacity * kOut * 4),
        workspace(machine, int64_t{16} << 20),
        host(kRows * 27 * 3) {}

  ConvolutionCase test;
  ConvolutionData data;
  Convolution convolution;
  Plan network, of_points;
  Buffer coordinates, points, labels, count, features, room, workspace;
  std::vector<int32_t> host;  // room for the pairs of a map
};

/// One object of each kind, prepared, with a queue or without one.
struct Objects {
  Objects(Machine& machine, Plans& plans, DType dtype, void* stream, minuet_queue* queue)
      : machine(machine), plans(plans), dtype(dtype), stream(stream), queue(queue) {
    minuet_coordinates* made = nullptr;
    check(make_set(&made));
    set.reset(made);
    minuet_kernel_map* of_set = nullptr;
    check(make_map(&of_set));
    map.reset(of_set);
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.queue = queue;
    network = make_execution(machine, plans.network.get(), &options);
    check(minuet_execution_set_profiling(network.get(), 1));
    convolution = plans.convolution.execution(&options);
    points = make_execution(machine, plans.of_points.get(), &options);
    options.level_capacity = &kCapacity, options.level_count = 1, options.key_bits = 64;
    within = make_execution(machine, plans.network.get(), &options);
    prepare_all();
    check(make_map(&of_set));  // again, so that its pairs are not known yet
    map.reset(of_set);
  }
  void prepare_all() {
    minuet_kernel_map* const maps[] = {map.get()};
    check(minuet_execution_prepare(network.get(), plans.coordinates.integers(), kRows, stream));
    check(minuet_execution_prepare_maps(convolution.get(), maps, 1, stream));
    check(minuet_execution_prepare_on_device(within.get(), plans.coordinates.integers(),
                                             plans.count.integers(), stream));
    check(run());
    check(run_points());
    check(minuet_device_synchronize(machine.device(), stream));
  }
  minuet_status make_set(minuet_coordinates** made) {
    minuet_coordinates_options options = MINUET_COORDINATES_OPTIONS_INIT;
    options.queue = queue;
    return minuet_coordinates_create(machine.device(), &options, plans.coordinates.integers(), kRows, stream,
                                     made);
  }
  minuet_status make_map(minuet_kernel_map** made) {
    minuet_kernel_map_options options = MINUET_KERNEL_MAP_OPTIONS_INIT;
    std::copy_n(plans.test.kernel_size.begin(), 3, options.kernel_size);
    return minuet_kernel_map_create(set.get(), set.get(), &options, stream, made);
  }
  /// Of the network in exact mode.
  minuet_status run() {
    return run_tensors(network.get(), {tensor(plans.features, kRows, 4, dtype)},
                       tensor(plans.room, kRows, kOut, dtype), stream);
  }
  minuet_status run_arrays() {
    return abi::run_arrays(network.get(), {array_of(tensor(plans.features, kRows, 4, dtype))},
                           {array_of(tensor(plans.room, kRows, kOut, dtype))}, stream);
  }
  /// Of the network that takes points.
  minuet_status run_points() {
    return abi::run_arrays(points.get(), {array_of(tensor(plans.points, kRows, 4, DType::F32))},
                           {array_of(tensor(plans.labels, kRows, 4, dtype))}, stream);
  }
  std::vector<char> output() {
    plans.room.poison();
    check(run());
    check(run_points());
    check(minuet_device_synchronize(machine.device(), stream));
    return plans.room.read<char>();
  }

  Machine& machine;
  Plans& plans;
  const DType dtype;
  void* stream;
  minuet_queue* const queue;
  Coordinates set{nullptr, {minuet_coordinates_destroy}};
  KernelMap map{nullptr, {minuet_kernel_map_destroy}};
  Execution network{nullptr, {minuet_execution_destroy}}, convolution{nullptr, {minuet_execution_destroy}},
      points{nullptr, {minuet_execution_destroy}}, within{nullptr, {minuet_execution_destroy}};
};

/// The object that a call enters: a set or a map, or one of the executions.
enum class Of { Set, Network, Convolution, Points, Within };

struct Call {
  const char* name;
  Of of;
  bool takes_stream;
  std::function<minuet_status(Objects&)> call;
  bool needs_queue = false;  // INVALID_ARGUMENT for objects without one
};

/// Calls that prepare come last, so that what was prepared before can be used once more behind refused calls.
const std::vector<Call>& calls();

/// Calls that any thread may make at any time, by their comments in minuet.h.
inline const std::vector<std::string> kFromAnyThread = {
    "minuet_queue_create",      "minuet_queue_destroy",       "minuet_coordinates_count",
    "minuet_coordinates_rows",  "minuet_coordinates_destroy", "minuet_kernel_map_transpose",
    "minuet_kernel_map_volume", "minuet_kernel_map_destroy",  "minuet_execution_destroy"};

}  // namespace minuet::abi::queue_calls
