#include "tests/support/network_abi.h"

#include <deque>

#include <algorithm>

#include "tests/support/clouds.h"
#include "tests/support/random.h"

namespace minuet::abi {

minuet_network_options network_options(const NetworkSpec& spec) {
  minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
  options.name = spec.description.empty() ? spec.name.c_str() : nullptr;
  options.description = spec.description.empty() ? nullptr : spec.description.c_str();
  options.dtype = abi_dtype(spec.dtype);
  options.dataflow = spec.dataflow;
  options.channels = spec.channels.empty() ? nullptr : spec.channels.data();
  options.channel_count = static_cast<int32_t>(spec.channels.size());
  options.weights_path = spec.weights.empty() ? nullptr : spec.weights.c_str();
  options.seed = spec.seed;
  options.weights_order = spec.weights_order;
  options.allow_unused = spec.allow_unused ? 1 : 0;
  options.weights_prefix = spec.weights_prefix.empty() ? nullptr : spec.weights_prefix.c_str();
  options.weights_map = spec.weights_map.empty() ? nullptr : spec.weights_map.c_str();
  options.weights_key = spec.weights_key.empty() ? nullptr : spec.weights_key.c_str();
  options.without_values = spec.without_values ? 1 : 0;
  options.shape = spec.shape.empty() ? nullptr : spec.shape.data();
  options.shape_count = static_cast<int32_t>(spec.shape.size());
  options.in_channels = spec.in_channels;
  return options;
}

minuet_status create_network(Machine& machine, const NetworkSpec& spec, Plan& network) {
  const minuet_network_options options = network_options(spec);
  minuet_plan* made = nullptr;
  const minuet_status status = minuet_plan_create_network(machine.context(), &options, &made);
  network.reset(made);
  return status;
}

void compile_ahead(Machine& machine, const std::vector<NetworkSpec>& specs) {
  if (machine.is_cpu()) return;
  std::vector<Plan> plans;
  for (const NetworkSpec& spec : specs) {
    Plan plan(nullptr, {minuet_plan_destroy});
    if (create_network(machine, spec, plan) == MINUET_OK) plans.push_back(std::move(plan));
  }
  compile_ahead(machine, plans);
}

Plan make_network(Machine& machine, const NetworkSpec& spec) {
  Plan network(nullptr, {minuet_plan_destroy});
  check(create_network(machine, spec, network));
  check(minuet_plan_compile(network.get(), machine.arch().c_str(), nullptr, nullptr));
  check(minuet_plan_load(network.get(), machine.device()));
  return network;
}

Execution make_execution(Machine& machine, minuet_plan* network, const minuet_execution_options* options) {
  minuet_execution_options own = MINUET_EXECUTION_OPTIONS_INIT;
  if (options) own = *options;
  if (own.map_method == MINUET_MAPS_AUTO) own.map_method = tested_maps();
  minuet_execution* made = nullptr;
  check(minuet_execution_create(network, machine.device(), &own, &made));
  return Execution(made, {minuet_execution_destroy});
}

NetworkRun ascending(NetworkRun run, int ndim) {
  const std::vector<int32_t> rows = ascending_rows(run.coordinates, ndim);
  run.bytes = take_rows(run.bytes, rows);
  run.coordinates = take_rows(run.coordinates, rows);
  return run;
}

NetworkRun in_oracle_order(minuet_plan* network, NetworkRun run, int ndim) {
  return info_of(network).output_level == 0 ? run : ascending(std::move(run), ndim);
}

minuet_status prepare(Machine& machine, minuet_execution* execution, const std::vector<int32_t>& coordinates,
                      int ndim) {
  const Buffer memory(machine, coordinates);
  const int64_t count = static_cast<int64_t>(coordinates.size()) / (1 + ndim);
  return minuet_execution_prepare(execution, memory.integers(), count, nullptr);
}

NetworkRun run_network(Machine& machine, minuet_execution* execution, const std::vector<int32_t>& coordinates,
                       const std::vector<char>& features, DType dtype, int ndim, int in_channels) {
  NetworkRun run;
  check(prepare(machine, execution, coordinates, ndim));
  check(minuet_execution_output_shape(execution, &run.rows, &run.channels));
  const int64_t points = static_cast<int64_t>(coordinates.size()) / (1 + ndim);
  const Buffer input(machine, features);
  const Buffer output(machine, run.rows * run.channels * dtype_bytes(dtype));
  Buffer where(machine, run.rows * (1 + ndim) * 4);
  check(run_tensors(execution, {tensor(input, points, in_channels, dtype)},
                    tensor(output, run.rows, run.channels, dtype)));
  check(minuet_execution_output_coordinates(execution, static_cast<int32_t*>(where.data()), nullptr));
  run.bytes = output.read<char>();
  run.coordinates = where.read<int32_t>();
  return run;
}

minuet_tensor_info input_of(minuet_plan* plan, int32_t number) {
  minuet_tensor_info info{};
  info.struct_size = sizeof(info);
  check(minuet_plan_query_input(plan, number, &info));
  return info;
}

minuet_tensor_info output_of(minuet_plan* plan, int32_t number) {
  minuet_tensor_info info{};
  info.struct_size = sizeof(info);
  check(minuet_plan_query_output(plan, number, &info));
  return info;
}

std::string description_of(minuet_plan* plan) {
  std::string text(minuet_plan_description(plan, nullptr, 0), '\0');
  minuet_plan_description(plan, text.data(), text.size());
  text.pop_back();
  return text;
}

std::vector<NetworkRun> run_graph(Machine& machine, minuet_plan* network, minuet_execution* execution,
                                  const std::vector<int32_t>& coordinates,
                                  const std::vector<std::vector<char>>& inputs, DType dtype, int ndim) {
  check(prepare(machine, execution, coordinates, ndim));
  const minuet_plan_info plan = info_of(network);
  std::vector<NetworkRun> runs(static_cast<size_t>(plan.outputs));
  std::deque<Buffer> given, made;
  std::vector<minuet_tensor> in, out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int32_t channels = input_of(network, static_cast<int32_t>(i)).channels;
    const int64_t rows = static_cast<int64_t>(inputs[i].size()) / (channels * dtype_bytes(dtype));
    in.push_back(tensor(given.emplace_back(machine, inputs[i]), rows, channels, dtype));
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    NetworkRun& run = runs[i];
    check(minuet_execution_output_shape_of(execution, static_cast<int32_t>(i), &run.rows, &run.channels));
    Buffer& output = made.emplace_back(machine, run.rows * run.channels * dtype_bytes(dtype));
    output.poison();
    out.push_back(tensor(output, run.rows, run.channels, dtype));
  }
  check(minuet_execution_run(execution, in.data(), static_cast<int32_t>(in.size()), out.data(),
                             static_cast<int32_t>(out.size()), nullptr));
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].bytes = made[i].read<char>();
    const Buffer where(machine, runs[i].rows * (1 + output_of(network, static_cast<int32_t>(i)).ndim) * 4);
    check(minuet_execution_output_coordinates_of(execution, static_cast<int32_t>(i),
                                                 static_cast<int32_t*>(where.data()), nullptr));
    runs[i].coordinates = where.read<int32_t>();
  }
  return runs;
}

std::vector<int32_t> make_scene(int64_t voxels, uint64_t seed) {
  std::vector<std::array<int32_t, 4>> rows;
  for (int32_t batch : {0, 2}) {
    CloudOptions options;
    options.points = 4 * voxels;
    options.seed = seed + batch;
    const std::vector<int32_t> scene = voxelize_cloud(make_cloud(options), 0.8f);
    const size_t most = std::min<size_t>(scene.size() / 4, voxels / 2);
    for (size_t i = 0; i < most; ++i) {
      rows.push_back({batch, scene[4 * i + 1], scene[4 * i + 2], scene[4 * i + 3]});
    }
  }
  Random random(seed);
  for (size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random.below(i)]);
  std::vector<int32_t> coordinates;
  for (const auto& row : rows) coordinates.insert(coordinates.end(), row.begin(), row.end());
  return coordinates;
}

minuet_execution_counters counters_of(minuet_execution* execution) {
  minuet_execution_counters counters = MINUET_EXECUTION_COUNTERS_INIT;
  check(minuet_execution_query_counters(execution, &counters));
  return counters;
}

}  // namespace minuet::abi
