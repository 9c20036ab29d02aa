#include "tools/minuet/report.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "llvm/Support/Format.h"
#include "tools/minuet/error.h"
#include "tools/minuet/writers/npy.h"

namespace minuet::tool {
namespace {

llvm::json::Array axes(const int32_t* values, int ndim) {
  llvm::json::Array array;
  for (int axis = 0; axis < ndim; ++axis) array.push_back(values[axis]);
  return array;
}

/// "3" where all axes agree, else "1,1,3".
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
    const std::string stride = axes_text(level.tensor_stride, report.network.ndim);
    out << llvm::format("%5zu  %13s  %10lld\n", i, stride.c_str(), static_cast<long long>(level.voxels));
  }
}

void print_layers(const RunReport& report, llvm::raw_ostream& out) {
  out << "\nlayer                                     kernel  stride  channels         pairs      padding  "
         "groups\n";
  for (const minuet_layer_info& layer : report.layers) {
    const std::string kernel = axes_text(layer.kernel_size, report.network.ndim);
    std::string stride = axes_text(layer.stride, report.network.ndim);
    if (layer.transposed) stride += " up";
    const std::string channels = llvm::formatv("{0} > {1}", layer.in_channels, layer.out_channels).str();
    out << llvm::format("%-40s  %6s  %6s  %-11s  %9lld  %11lld  %6d\n", static_cast<const char*>(layer.name),
                        kernel.c_str(), stride.c_str(), channels.c_str(), static_cast<long long>(layer.pairs),
                        static_cast<long long>(layer.padded_rows), layer.gemm_groups);
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
    });
  }
  return layers;
}

}  // namespace

llvm::Error query_shapes(minuet_execution* execution, const minuet_network_info& network, RunReport& report) {
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

llvm::Error write_json_file(const std::string& path, const llvm::json::Value& value) {
  if (path.empty()) return llvm::Error::success();
  const std::string text = llvm::formatv("{0:2}\n", value).str();
  if (path != "-") return write_file(path, text);
  llvm::outs() << text;
  return llvm::Error::success();
}

llvm::json::Object stages_json(const minuet_stage_times& stages, double voxelize_ms) {
  return llvm::json::Object{{"voxelize", voxelize_ms}, {"sort", stages.sort}, {"map", stages.map},
                            {"gather", stages.gather}, {"gemm", stages.gemm}, {"scatter", stages.scatter},
                            {"other", stages.other}};
}

llvm::json::Array levels_json(const RunReport& report) {
  llvm::json::Array levels;
  for (const minuet_level_info& level : report.levels) {
    levels.push_back(llvm::json::Object{{"tensor_stride", axes(level.tensor_stride, report.network.ndim)},
                                        {"voxels", level.voxels}});
  }
  return levels;
}

llvm::json::Value to_json(const RunReport& report) {
  return llvm::json::Object{
      {"device", report.device.name},
      {"levels", levels_json(report)},
      {"layers", layers_json(report)},
      {"stages_ms", stages_json(report.stages, report.voxelize_ms)},
      {"first_ms", report.first_ms},
      {"total_ms", report.total_ms},
      {"kernels", llvm::json::Object{{"compiled", report.kernels.compiled},
                                     {"bundle_hits", report.kernels.bundle_hits},
                                     {"disk_hits", report.kernels.disk_hits},
                                     {"memory_hits", report.kernels.memory_hits}}},
      {"launches", launches(report.counters)},
      {"host_syncs", report.counters.host_syncs},
  };
}

void print_tables(const RunReport& report, llvm::raw_ostream& out) {
  out << report.network.name << " on " << report.device.name << " (" << report.device.description << ")\n";
  out << llvm::formatv("{0} points", report.points);
  if (report.skipped > 0) out << llvm::formatv(", {0} invalid ones dropped", report.skipped);
  out << llvm::formatv(", {0} voxels; output {1} x {2}\n", report.voxels, report.output_rows,
                       report.network.out_channels);
  print_levels(report, out);
  print_layers(report, out);
  const minuet_stage_times& stages = report.stages;
  out << llvm::format(
      "\nstages, ms: voxelize %.3f, sort %.3f, map %.3f, gather %.3f, gemm %.3f, scatter %.3f, "
      "other %.3f\n",
      report.voxelize_ms, stages.sort, stages.map, stages.gather, stages.gemm, stages.scatter, stages.other);
  out << llvm::format("first (cold) %.2f ms, total (median of %d warm) %.3f ms\n", report.first_ms,
                      report.repeats, report.total_ms);
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
  out << "\nregisters  shared, bytes  cubin, bytes  compile, ms  origin    kernel\n";
  for (const KernelFacts& kernel : kernels) {
    out << llvm::format("%9d  %13d  %12lld  %11.1f  %-8s  %s\n", kernel.registers, kernel.shared_bytes,
                        static_cast<long long>(kernel.cubin_bytes), kernel.compile_ms, kernel.origin.c_str(),
                        kernel.name.c_str());
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

int64_t launches(const minuet_execution_counters& counters) {
  return counters.kernels + counters.copies + counters.fills + counters.matmuls;
}

}  // namespace minuet::tool
