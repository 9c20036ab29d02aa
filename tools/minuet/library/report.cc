#include "tools/minuet/library/report.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "codegen/base/json_text.h"
#include "codegen/base/number_text.h"
#include "llvm/Support/Format.h"
#include "tools/minuet/base/convert.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/base/int8_text.h"

namespace minuet::tool {
namespace {

llvm::json::Array axes(const int32_t* values, int ndim) {
  llvm::json::Array array;
  for (int axis = 0; axis < ndim; ++axis) array.push_back(values[axis]);
  return array;
}

/// Returns one number if all axes are equal, for example "3", and otherwise one for each axis, for example
/// "1,1,3".
std::string axes_text(const int32_t* values, int ndim) {
  std::string text = std::to_string(values[0]);
  if (std::all_of(values, values + ndim, [&](int32_t value) { return value == values[0]; })) return text;
  for (int axis = 1; axis < ndim; ++axis) (text += ',') += std::to_string(values[axis]);
  return text;
}

void print_levels(const RunReport& report, llvm::raw_ostream& out) {
  out << "\nlevel  tensor stride      voxels\n";
  for (size_t i = 0; i < report.levels.size(); ++i) {
    const minuet_level_info& level = report.levels[i];
    const std::string stride = axes_text(level.tensor_stride, level.ndim);
    out << llvm::formatv("{0,5}  {1,13}  {2,10}\n", i, stride, level.voxels);
  }
}

void print_layers(const RunReport& report, llvm::raw_ostream& out) {
  out << "\nlayer                                        kernel  stride  channels         pairs      padding "
         " "
         "groups        ms  dataflow\n";
  for (const minuet_layer_info& layer : report.layers) {
    const std::string kernel = layer.offset_count > 0 ? std::to_string(layer.offset_count) + " offsets"
                                                      : axes_text(layer.kernel_size, report.network.ndim);
    std::string stride = axes_text(layer.stride, report.network.ndim);
    if (layer.transposed) stride += " up";
    const std::string channels = llvm::formatv("{0} > {1}", layer.in_channels, layer.out_channels).str();
    out << llvm::formatv("{0,-40}  {1,9}  {2,6}  {3,-11}  {4,9}  {5,11}  {6,6}  {7,8:f3}  {8}\n", layer.name,
                         kernel, stride, channels, layer.pairs, layer.padded_rows, layer.gemm_groups,
                         real(layer.gather + layer.gemm + layer.scatter),
                         (layer.dataflow == MINUET_DATAFLOW_AUTO ? "-" : dataflow_name(layer.dataflow)) +
                             std::string(layer.is_int8 != 0 ? ", 8 bits" : ""));
  }
}

llvm::json::Array layers_json(const RunReport& report) {
  llvm::json::Array layers;
  for (const minuet_layer_info& layer : report.layers) {
    layers.push_back(llvm::json::Object{
        {"name", std::string(layer.name)},
        {"kernel_size", axes(layer.kernel_size, report.network.ndim)},
        {"stride", axes(layer.stride, report.network.ndim)},
        {"in_channels", layer.in_channels},
        {"out_channels", layer.out_channels},
        {"pairs", layer.pairs},
        {"padded_rows", layer.padded_rows},
        {"gemm_groups", layer.gemm_groups},
        {"dataflow", layer.dataflow == MINUET_DATAFLOW_AUTO
                         ? llvm::json::Value(nullptr)
                         : llvm::json::Value(dataflow_name(layer.dataflow))},
        {"kernel", std::string(layer.kernel)},
        {"gather_ms", layer.gather},
        {"gemm_ms", layer.gemm},
        {"scatter_ms", layer.scatter},
    });
    if (layer.is_int8 != 0) (*layers.back().getAsObject())["precision"] = "int8";
    // Only a kernel that is no box has a number of offsets that does not follow from its size.
    if (layer.offset_count > 0) (*layers.back().getAsObject())["offset_count"] = layer.offset_count;
  }
  return layers;
}

llvm::json::Object weights_json(const RunReport& report) {
  if (report.weights_file.empty()) return llvm::json::Object{{"random_seed", report.weights_seed}};
  llvm::json::Object weights{{"file", llvm::json::fixUTF8(report.weights_file)},
                             {"sha256", report.weights_sha256}};
  if (!report.weights_order.empty()) weights["order"] = report.weights_order;
  return weights;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t extent : shape) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return text;
}

llvm::json::Object shape_json(const TensorReport& tensor) {
  if (tensor.is_dense()) return llvm::json::Object{{"shape", llvm::json::Array(tensor.shape)}};
  return llvm::json::Object{{"rows", tensor.shape[0]}, {"channels", tensor.shape[1]}};
}

llvm::json::Object output_json(const TensorReport& output) {
  llvm::json::Object json = shape_json(output);
  json["non_finite"] = output.non_finite;
  return json;
}

llvm::json::Array inputs_json(const RunReport& report) {
  llvm::json::Array inputs;
  for (const TensorReport& input : report.inputs) {
    llvm::json::Object json = shape_json(input);
    json["name"] = input.name;
    json["level"] = input.level;
    inputs.push_back(std::move(json));
  }
  return inputs;
}

llvm::json::Array outputs_json(const RunReport& report) {
  llvm::json::Array outputs;
  for (const TensorReport& output : report.outputs) {
    llvm::json::Object json = output_json(output);
    json["name"] = output.name;
    if (!output.is_dense()) json["level"] = output.level;
    outputs.push_back(std::move(json));
  }
  return outputs;
}

void print_tensors(const RunReport& report, llvm::raw_ostream& out) {
  const auto print = [&](const char* kind, const std::vector<TensorReport>& tensors) {
    for (const TensorReport& tensor : tensors) {
      const std::string level = tensor.is_dense() ? "-" : std::to_string(tensor.level);
      out << llvm::formatv("{0,-40}  {1,-6}  {2,5}  {3}\n", tensor.name, kind, level,
                           shape_text(tensor.shape));
    }
  };
  out << "\ntensor                                    kind    level  shape\n";
  print("input", report.inputs);
  print("output", report.outputs);
}

void print_grid(const Grid& grid, llvm::raw_ostream& out) {
  out << llvm::formatv("range: {0},{1},{2} to {3},{4},{5} m, {6} x {7} x {8} cells\n", digits(grid.low[0]),
                       digits(grid.low[1]), digits(grid.low[2]), digits(grid.high[0]), digits(grid.high[1]),
                       digits(grid.high[2]), grid.shape[0], grid.shape[1], grid.shape[2]);
}

void print_input(const RunReport& report, llvm::raw_ostream& out) {
  if (report.weights_file.empty()) {
    out << llvm::formatv("weights: random, seed {0}\n", report.weights_seed);
  } else {
    out << llvm::formatv("weights: {0}, sha256 {1}{2}\n", report.weights_file, report.weights_sha256,
                         report.weights_order.empty() ? "" : ", order " + report.weights_order);
  }
  out << "cloud: " << report.cloud << (report.columns.empty() ? "" : "; ") << report.columns << "\n";
  if (report.grid) {
    print_grid(*report.grid, out);
  } else if (report.frame.is_moved()) {
    const Position& origin = report.frame.origin;
    out << llvm::formatv(
        "origin: {0:g15},{1:g15},{2:g15} m; features are relative to it, output voxels are not\n",
        real(origin[0]), real(origin[1]), real(origin[2]));
  }
  if (report.frame.is_coarse()) {
    out << llvm::formatv("positions are rounded to steps of up to {0:g2} m, {1:g2} % of a voxel\n",
                         real(report.frame.step), real(100 * report.frame.step_voxels));
  }
  out << llvm::formatv("{0} points", report.points);
  if (report.skipped > 0) out << llvm::formatv(", {0} invalid ones dropped", report.skipped);
  if (report.outside > 0) out << llvm::formatv(", {0} outside the range", report.outside);
  if (report.past_points > 0) out << llvm::formatv(", {0} past --max-points", report.past_points);
  if (report.past_voxels > 0) out << llvm::formatv(", {0} past --max-voxels", report.past_voxels);
  out << llvm::formatv(", {0} voxels of {1} m; output {2}\n", report.voxels,
                       size_text(report.frame.voxel_size), shape_text(report.outputs.front().shape));
  if (report.network.missing_head != 0) out << missing_head_text(report.network) << "\n";
}

void print_times(const RunReport& report, llvm::raw_ostream& out) {
  const minuet_stage_times& stages = report.stages;
  out << "\nstages, ms: ";
  if (report.is_voxelized && !report.takes_points)
    out << llvm::formatv("voxelize {0:f3}, ", real(report.voxelize_ms));
  out << llvm::formatv("sort {0:f3}, map {1:f3}, gather {2:f3}, gemm {3:f3}, scatter {4:f3}, other {5:f3}\n",
                       real(stages.sort), real(stages.map), real(stages.gather), real(stages.gemm),
                       real(stages.scatter), real(stages.other));
  if (report.repeats == 0) {
    out << llvm::formatv(
        "first (cold) {0:f2} ms, including the inference of {1:f3} ms (--repeat measures warm inferences)\n",
        real(report.first_ms), real(report.total_ms));
    return;
  }
  out << llvm::formatv("first (cold) {0:f2} ms, total (median of {1} {2}) {3:f3} ms\n", real(report.first_ms),
                       report.repeats, report.is_replay ? "inferences in capacity mode" : "warm inferences",
                       real(report.total_ms));
}

llvm::json::Array kernels_json(const std::vector<KernelFacts>& kernels) {
  llvm::json::Array list;
  for (const KernelFacts& kernel : kernels) {
    list.push_back(llvm::json::Object{{"name", kernel.name},
                                      {"origin", kernel.origin},
                                      {"registers", kernel.registers},
                                      {"shared_bytes", kernel.shared_bytes},
                                      {"cubin_bytes", kernel.cubin_bytes},
                                      {"compile_ms", kernel.compile_ms}});
  }
  return list;
}

}  // namespace

llvm::Error query_shapes(minuet_execution* execution, const minuet_plan_info& network, RunReport& report) {
  report.network = network;
  for (int32_t i = 0; i < network.levels; ++i) {
    minuet_level_info level = {};
    level.struct_size = sizeof(level);
    MINUET_TRY(check(minuet_execution_query_level(execution, i, &level)));
    report.levels.push_back(level);
  }
  for (int32_t i = 0; i < network.layers; ++i) {
    minuet_layer_info layer = {};
    layer.struct_size = sizeof(layer);
    MINUET_TRY(check(minuet_execution_query_layer(execution, i, &layer)));
    report.layers.push_back(layer);
  }
  return llvm::Error::success();
}

std::string json_text(const llvm::json::Value& value) { return print_json(value, 2) + "\n"; }

llvm::json::Object stages_json(const minuet_stage_times& stages) {
  return llvm::json::Object{{"sort", stages.sort}, {"map", stages.map},         {"gather", stages.gather},
                            {"gemm", stages.gemm}, {"scatter", stages.scatter}, {"other", stages.other}};
}

std::string version_text() {
  const uint32_t version = minuet_version();
  return llvm::formatv("{0}.{1}.{2}{3}", version / 10000, version / 100 % 100, version % 100,
                       MINUET_VERSION_SUFFIX)
      .str();
}

llvm::json::Array levels_json(const RunReport& report) {
  llvm::json::Array levels;
  for (const minuet_level_info& level : report.levels) {
    levels.push_back(llvm::json::Object{{"maps", map_method_name(level.map_method)},
                                        {"tensor_stride", axes(level.tensor_stride, level.ndim)},
                                        {"voxels", level.voxels}});
  }
  return levels;
}

llvm::json::Value to_json(const RunReport& report) {
  const bool is_cpu = report.device.is_cpu();
  llvm::json::Object stages = stages_json(report.stages);
  if (report.is_voxelized && !report.takes_points) stages["voxelize"] = report.voxelize_ms;
  llvm::json::Object json{
      {"version", version_text()},
      {"device", report.device.name},
      {"description", report.device.description},
      {"network", std::string(report.network.name)},
      {"dtype", dtype_name(report.network.dtype)},
      {"weights", weights_json(report)},
      {"cloud", llvm::json::fixUTF8(report.cloud)},
      {"voxel_size", size_json(report.frame.voxel_size)},
      {"origin", llvm::json::Array(report.frame.origin)},
      {"points", report.points},
      {"skipped", report.skipped},
      {"voxels", report.voxels},
      {"output", output_json(report.outputs.front())},
      {"inputs", inputs_json(report)},
      {"outputs", outputs_json(report)},
      {"missing_head", report.network.missing_head != 0},
      {"convolutions", report.network.convolutions},
      {"int8_convolutions", report.network.int8_convolutions},
      {"levels", levels_json(report)},
      {"layers", layers_json(report)},
      {"stages_ms", std::move(stages)},
      {"first_ms", report.first_ms},
      {"total_ms", report.total_ms},
      {"repeats", report.repeats},
  };
  if (report.grid) {
    const Grid& grid = *report.grid;
    json["range"] =
        llvm::json::Array{grid.low[0], grid.low[1], grid.low[2], grid.high[0], grid.high[1], grid.high[2]};
    json["shape"] = llvm::json::Array(grid.shape);
  }
  if (report.takes_points) json["takes_points"] = true;
  if (report.grid || report.takes_points) {
    json["outside"] = report.outside;
    json["past_max_points"] = report.past_points;
    json["past_max_voxels"] = report.past_voxels;
  }
  if (report.cloud_seed) json["seed"] = *report.cloud_seed;
  if (!report.overflow.empty()) json["overflow"] = report.overflow;
  if (report.is_replay) json["replay"] = true;
  if (!report.columns.empty()) json["columns"] = llvm::json::fixUTF8(report.columns);
  if (!is_cpu) {
    json["kernels"] = llvm::json::Object{{"compiled", report.kernels.compiled},
                                         {"bundle_hits", report.kernels.bundle_hits},
                                         {"disk_hits", report.kernels.disk_hits},
                                         {"memory_hits", report.kernels.memory_hits}};
    json["kernel_list"] = kernels_json(report.kernel_list);
    json["launches"] = launches(report.counters);
    json["host_syncs"] = report.counters.host_syncs;
  }
  return json;
}

void print_tables(const RunReport& report, llvm::raw_ostream& out) {
  out << report.network.name << " in " << dtype_name(report.network.dtype) << " on " << report.device.name
      << " (" << report.device.description << ")\n";
  const minuet_plan_info& network = report.network;
  if (network.int8_convolutions > 0)
    out << int8_text(network.int8_convolutions, network.convolutions) << "\n";
  print_input(report, out);
  print_tensors(report, out);
  print_levels(report, out);
  print_layers(report, out);
  print_times(report, out);
  if (report.device.is_cpu()) return;  // The CPU launches and compiles nothing.
  const minuet_execution_counters& counters = report.counters;
  out << llvm::formatv(
      "one warm inference: {0} kernels, {1} copies, {2} fills, {3} matmuls, {4} host waits, {5} "
      "allocations\n",
      counters.kernels, counters.copies, counters.fills, counters.matmuls, counters.host_syncs,
      counters.allocations);
  out << llvm::formatv("kernels: {0} compiled, {1} found in bundles, {2} on disk, {3} in memory\n",
                       report.kernels.compiled, report.kernels.bundle_hits, report.kernels.disk_hits,
                       report.kernels.memory_hits);
}

void print_kernels(const std::vector<KernelFacts>& kernels, llvm::raw_ostream& out) {
  if (kernels.empty()) return;  // The CPU has no kernels.
  out << "\nregisters  shared, bytes  cubin, bytes  compile, ms  origin    kernel\n";
  for (const KernelFacts& kernel : kernels) {
    out << llvm::formatv("{0,9}  {1,13}  {2,12}  {3,11:f1}  {4,-8}  {5}\n", kernel.registers,
                         kernel.shared_bytes, kernel.cubin_bytes, real(kernel.compile_ms), kernel.origin,
                         kernel.name);
  }
}

double quantile(std::vector<double> values, double fraction) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<size_t>(std::ceil(fraction * static_cast<double>(values.size())));
  return values[rank == 0 ? 0 : std::min(rank, values.size()) - 1];
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

llvm::json::Object spread_json(const std::vector<double>& values) {
  return llvm::json::Object{{"median", median(values)},
                            {"p10", quantile(values, 0.1)},
                            {"p90", quantile(values, 0.9)},
                            {"max", quantile(values, 1)},
                            {"min", quantile(values, 0)}};
}

int64_t launches(const minuet_execution_counters& counters) {
  return counters.kernels + counters.copies + counters.fills + counters.matmuls;
}

}  // namespace minuet::tool
