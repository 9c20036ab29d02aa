// Makes the report of `minuet run`, as tables and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include "minuet/diagnostics.h"
#include "minuet/minuet.h"
#include "tools/minuet/cloud/frame.h"
#include "tools/minuet/cloud/grid.h"
#include "tools/minuet/library/library.h"

namespace minuet::tool {

/// Describes an input or output of an inference.
struct TensorReport {
  std::string name;
  int32_t level = 0;
  std::vector<int64_t> shape;  ///< Holds [rows, channels], or the extents of a dense tensor's axes.
  int64_t non_finite = 0;      ///< Counts the numbers of an output that are infinite or NaN.

  bool is_dense() const { return shape.size() > 2; }
};

struct RunReport {
  DeviceFacts device;
  minuet_plan_info network = {};
  std::string weights_file, weights_sha256;  ///< These texts are empty if the weights are random.
  std::string weights_order;                 ///< An empty text means the order in the network's description.
  uint64_t weights_seed = 0;
  /// `cloud` names the file or the generator, and `columns` says how its columns were read.
  std::string cloud, columns;
  std::optional<uint64_t> cloud_seed;  ///< Holds the seed of a generated cloud.
  Frame frame;
  bool is_voxelized = true;  ///< False means that the input was voxels.
  /// Says whether the network makes the voxels itself. Then `voxelize_ms` is part of the stages and 0.
  bool takes_points = false;
  /// Holds the grid of the voxels, if there is one.
  std::optional<Grid> grid;
  /// Counts the points that were outside the grid, and those past the limits of points and voxels.
  int64_t outside = 0, past_points = 0, past_voxels = 0;
  int64_t points = 0, skipped = 0, voxels = 0;
  /// Describe the inputs and outputs of the network, in its order.
  std::vector<TensorReport> inputs, outputs;
  /// Names the first layer whose output has an infinite or NaN value. It is empty if there is none.
  std::string overflow;
  std::vector<minuet_level_info> levels;
  std::vector<minuet_layer_info> layers;
  minuet_stage_times stages = MINUET_STAGE_TIMES_INIT;
  double voxelize_ms = 0, first_ms = 0, total_ms = 0;
  /// Counts the timed inferences. If it is 0, total_ms is the time of the first inference without compiling
  /// and loading.
  int repeats = 0;
  /// If this is true, total_ms is the time in capacity mode (library/replay.h). Stages and counters always
  /// come from an inference outside this mode.
  bool is_replay = false;
  minuet_kernel_counters kernels = MINUET_KERNEL_COUNTERS_INIT;
  minuet_execution_counters counters = MINUET_EXECUTION_COUNTERS_INIT;
  std::vector<KernelFacts> kernel_list;
};

/// Reads the levels and layers of the prepared cloud into `report`.
llvm::Error query_shapes(minuet_execution* execution, const minuet_plan_info& network, RunReport& report);

/// Returns the JSON that tools/minuet/JSON.md describes.
llvm::json::Value to_json(const RunReport& report);
void print_tables(const RunReport& report, llvm::raw_ostream& out);
void print_kernels(const std::vector<KernelFacts>& kernels, llvm::raw_ostream& out);

/// Returns JSON text as the tool prints and writes it: indented by 2, with a newline at the end.
std::string json_text(const llvm::json::Value& value);

llvm::json::Object stages_json(const minuet_stage_times& stages);
/// Returns the library's version, for example "0.3.0", or "0.3.0-dev" before that release.
std::string version_text();
llvm::json::Array levels_json(const RunReport& report);

/// Returns the middle one of the sorted values, or the mean of the two middle ones.
double median(std::vector<double> values);
/// Returns the quantile by the nearest rank. For example, a `fraction` of 0.9 gives the ninth decile.
double quantile(std::vector<double> values, double fraction);
/// Returns an object with the median, p10, p90, max and min of the values.
llvm::json::Object spread_json(const std::vector<double>& values);

/// Returns the sum of the numbers of launched kernels, copies, fills and matrix multiplications.
int64_t launches(const minuet_execution_counters& counters);

}  // namespace minuet::tool
