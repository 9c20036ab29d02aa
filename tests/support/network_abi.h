// Networks through the C ABI: created, compiled and loaded in one call; one cloud from coordinates to output.
#pragma once

#include <string>
#include <vector>

#include "tests/support/abi.h"

namespace minuet::abi {

struct NetworkSpec {
  std::string name = "minkunet42";
  std::vector<int32_t> channels;  // empty: as described
  DType dtype = DType::F32;
  std::string weights;  // empty: seeded random
  uint64_t seed = 1;
  std::string description = {};  // JSON, in place of the name
  minuet_weights_order weights_order = MINUET_WEIGHTS_AS_DESCRIBED;
  bool allow_unused = false;
  std::string weights_prefix = {}, weights_map = {};
  minuet_dataflow dataflow = tested_dataflow();
  bool without_values = false;
  std::vector<int32_t> shape = {};  // empty: as described
  int32_t in_channels = 0;
  std::string weights_key = {};
};

/// What the library takes; it points into `spec`.
minuet_network_options network_options(const NetworkSpec& spec);
/// What create answers; `network` is null where it fails.
minuet_status create_network(Machine& machine, const NetworkSpec& spec, Plan& network);
/// As for convolutions; a weights file may be left out.
void compile_ahead(Machine& machine, const std::vector<NetworkSpec>& specs);
/// Compiled and loaded.
Plan make_network(Machine& machine, const NetworkSpec& spec);
Execution make_execution(Machine& machine, minuet_plan* network,
                         const minuet_execution_options* options = nullptr);

struct NetworkRun {
  int64_t rows = 0;
  int32_t channels = 0;
  std::vector<char> bytes;           // [rows, channels] as stored
  std::vector<int32_t> coordinates;  // [rows, 1 + axes of the level]
  bool operator==(const NetworkRun&) const = default;
};

using minuet::ascending;  // which the next one would hide
/// Returns the run with its rows in ascending order of their coordinates.
NetworkRun ascending(NetworkRun run, int ndim = 3);
/// Returns the run with its rows in the order of the oracle's: in the caller's order if the output is on
/// level 0, else in ascending order, which is not the library's.
NetworkRun in_oracle_order(minuet_plan* network, NetworkRun run, int ndim = 3);

minuet_status prepare(Machine& machine, minuet_execution* execution, const std::vector<int32_t>& coordinates,
                      int ndim = 3);
/// Prepares and runs; the output buffers are poisoned first. features: [n, in_channels] as stored.
NetworkRun run_network(Machine& machine, minuet_execution* execution, const std::vector<int32_t>& coordinates,
                       const std::vector<char>& features, DType dtype, int ndim = 3, int in_channels = 4);

/// The same for a network of several inputs and outputs: inputs[i] is [rows of its level, channels] as
/// stored. Outputs are in the plan's order.
std::vector<NetworkRun> run_graph(Machine& machine, minuet_plan* network, minuet_execution* execution,
                                  const std::vector<int32_t>& coordinates,
                                  const std::vector<std::vector<char>>& inputs, DType dtype, int ndim = 3);
minuet_tensor_info input_of(minuet_plan* plan, int32_t number);
minuet_tensor_info output_of(minuet_plan* plan, int32_t number);
std::string description_of(minuet_plan* plan);

/// int32 [about voxels, 4]: two street scenes as items 0 and 2 (1 is empty), with negative coordinates, rows
/// in random order.
std::vector<int32_t> make_scene(int64_t voxels, uint64_t seed);

minuet_execution_counters counters_of(minuet_execution* execution);

}  // namespace minuet::abi
