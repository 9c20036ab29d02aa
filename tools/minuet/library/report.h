// The report of `minuet run`, as tables and as JSON.
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
  std::string weights_file, weights_sha256;  ///< empty means random weights
  std::string weights_order;                 ///< empty means that of the network
  uint64_t weights_seed = 0;
  std::string cloud, columns;          ///< file or generator; how its columns were read
  std::optional<uint64_t> cloud_seed;  ///< seed of a generated cloud
  Frame frame;
  bool is_voxelized = true;  ///< false if the input was voxels
  int64_t points = 0, skipped = 0, voxels = 0, output_rows = 0;
  int64_t non_finite = 0;  ///< numbers of the output that are infinite or NaN
  std::string overflow;    ///< the first layer whose output is not finite
  std::vector<minuet_level_info> levels;
  std::vector<minuet_layer_info> layers;
  minuet_stage_times stages = MINUET_STAGE_TIMES_INIT;
  double voxelize_ms = 0, first_ms = 0, total_ms = 0;
  int repeats = 0;         ///< if 0, total_ms is the first inference without compiling and loading
  bool is_replay = false;  ///< true if total_ms is of capacity mode; stages and counts are of exact mode
  minuet_kernel_counters kernels = MINUET_KERNEL_COUNTERS_INIT;
  minuet_execution_counters counters = MINUET_EXECUTION_COUNTERS_INIT;
  std::vector<KernelFacts> kernel_list;
};

/// Reads the levels and layers of the prepared cloud into `report`.
llvm::Error query_shapes(minuet_execution* execution, const minuet_plan_info& network, RunReport& report);

/// Returns the JSON that tools/minuet/REFERENCE.md describes.
llvm::json::Value to_json(const RunReport& report);
void print_tables(const RunReport& report, llvm::raw_ostream& out);
void print_kernels(const std::vector<KernelFacts>& kernels, llvm::raw_ostream& out);

/// Returns JSON text as the tool prints and writes it: indented by 2, with a newline at the end.
std::string json_text(const llvm::json::Value& value);

llvm::json::Object stages_json(const minuet_stage_times& stages);
/// Returns for example "0.3.0", or "0.3.0-dev" before that release.
std::string version_text();
llvm::json::Array levels_json(const RunReport& report);

/// Returns the middle value, or the mean of the two middle values.
double median(std::vector<double> values);
/// Returns the quantile by the nearest rank. `fraction` 0.1 and 0.9 give deciles.
double quantile(std::vector<double> values, double fraction);
/// Returns median, p10, p90, max and min.
llvm::json::Object spread_json(const std::vector<double>& values);

/// Returns the sum of kernels, copies, fills and matmuls.
int64_t launches(const minuet_execution_counters& counters);

}  // namespace minuet::tool
