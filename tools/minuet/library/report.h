// What `minuet run` found out: as tables, and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "minuet/minuet.h"
#include "tools/minuet/cloud/frame.h"
#include "tools/minuet/library/library.h"

namespace minuet::tool {

struct RunReport {
  DeviceFacts device;
  minuet_plan_info network = {};
  std::string weights_file, weights_sha256;  ///< empty: random
  std::string weights_order;                 ///< empty: as the network says
  uint64_t weights_seed = 0;
  std::string cloud, columns;          ///< the file, or what generates it; what was read as what
  std::optional<uint64_t> cloud_seed;  ///< of a generated one
  Frame frame;
  bool is_voxelized = true;  ///< else the voxels came as such
  int64_t points = 0, skipped = 0, voxels = 0, output_rows = 0;
  int64_t non_finite = 0;  ///< numbers of the output
  std::string overflow;    ///< the first layer that gives what is infinite or NaN
  std::vector<minuet_level_info> levels;
  std::vector<minuet_layer_info> layers;
  minuet_stage_times stages = MINUET_STAGE_TIMES_INIT;
  double voxelize_ms = 0, first_ms = 0, total_ms = 0;
  int repeats = 0;         ///< 0: total_ms is that of the first inference, without compiling and loading
  bool is_replay = false;  ///< total_ms is of capacity mode, the stages and counts of exact mode
  minuet_kernel_counters kernels = MINUET_KERNEL_COUNTERS_INIT;
  minuet_execution_counters counters = MINUET_EXECUTION_COUNTERS_INIT;
  std::vector<KernelFacts> kernel_list;
};

/// Levels and layers of the prepared cloud.
llvm::Error query_shapes(minuet_execution* execution, const minuet_plan_info& network, RunReport& report);

/// The fields that the README lists.
llvm::json::Value to_json(const RunReport& report);
void print_tables(const RunReport& report, llvm::raw_ostream& out);
void print_kernels(const std::vector<KernelFacts>& kernels, llvm::raw_ostream& out);

/// As the tool prints and writes it.
std::string json_text(const llvm::json::Value& value);

llvm::json::Object stages_json(const minuet_stage_times& stages);
/// "0.3.0", or "0.3.0-dev" before that release.
std::string version_text();
llvm::json::Array levels_json(const RunReport& report);

/// The value in the middle, or the mean of the two; `fraction` 0.1 and 0.9 give deciles (nearest rank).
double median(std::vector<double> values);
double quantile(std::vector<double> values, double fraction);
/// Median, p10, p90, max and min of times.
llvm::json::Object spread_json(const std::vector<double>& values);

/// Kernels, copies, fills and matmuls.
int64_t launches(const minuet_execution_counters& counters);

}  // namespace minuet::tool
