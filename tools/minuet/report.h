// What `minuet run` found out: as tables, and as JSON.
#pragma once

#include <vector>

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "minuet/minuet.h"
#include "tools/minuet/library.h"

namespace minuet::tool {

struct RunReport {
  DeviceFacts device;
  minuet_network_info network = {};
  int64_t points = 0, skipped = 0, voxels = 0, output_rows = 0;
  std::vector<minuet_level_info> levels;
  std::vector<minuet_layer_info> layers;
  minuet_stage_times stages = MINUET_STAGE_TIMES_INIT;
  double voxelize_ms = 0, first_ms = 0, total_ms = 0;
  int repeats = 0;
  minuet_kernel_counters kernels = MINUET_KERNEL_COUNTERS_INIT;
  minuet_execution_counters counters = MINUET_EXECUTION_COUNTERS_INIT;
  std::vector<KernelFacts> kernel_list;
};

/// Levels and layers of the prepared cloud.
llvm::Error query_shapes(minuet_execution* execution, const minuet_network_info& network, RunReport& report);

/// The fields that the README lists.
llvm::json::Value to_json(const RunReport& report);
void print_tables(const RunReport& report, llvm::raw_ostream& out);
void print_kernels(const std::vector<KernelFacts>& kernels, llvm::raw_ostream& out);

/// To a file, to stdout for "-", nowhere for "".
llvm::Error write_json_file(const std::string& path, const llvm::json::Value& value);

llvm::json::Object stages_json(const minuet_stage_times& stages, double voxelize_ms);
llvm::json::Array levels_json(const RunReport& report);

/// The value in the middle, or the mean of the two; `fraction` 0.1 and 0.9 give deciles (nearest rank).
double median(std::vector<double> values);
double quantile(std::vector<double> values, double fraction);

/// Kernels, copies, fills and matmuls.
int64_t launches(const minuet_execution_counters& counters);

}  // namespace minuet::tool
