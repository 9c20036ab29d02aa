// Defines the search space of tuning, which is the valid configurations of the kernels of an op, in order of
// expected gain. All functions are pure.
#pragma once

#include <vector>

#include "codegen/choose/ops/parameter_gradient.h"
#include "codegen/choose/tuning_snapshot.h"

namespace minuet {

/// Describes one decision to make by measuring: which configuration to use for the problems of a bucket.
struct TuningTask {
  TuningBucket bucket;
  TuningConfig default_config;  // This configuration is used without tuning.
  /// Holds the other valid configurations, in order of expected gain.
  std::vector<TuningConfig> candidates;
  /// This is true if the first of `candidates` won in an earlier tuning run and is tried first.
  bool has_favourite = false;
};

/// Returns the tasks of a convolution that has `rows` output rows and `density` pairs of input and output row
/// per output row, and runs by `dataflow`. For gather-GEMM-scatter, the tasks choose the tiles of the gather
/// and the scatter kernel (all divisors of the channels, those near the default first) and cuBLASLt's
/// algorithm. For the fused dataflow, there is one task, which chooses a FusedSpec. Its candidates are the
/// default and the Spec that multiplies with the other MmaUnit, each also with one or two fields changed,
/// and, if the default stages row numbers, a Spec that does not, also with one field changed. There are no
/// tasks for the CPU, whose `arch` is empty, because its kernels are not specialized.
std::vector<TuningTask> kernel_tasks(const ConvolutionProblem& problem, llvm::StringRef arch,
                                     Dataflow dataflow, i64 rows, std::optional<double> density = {});

/// Returns the task that chooses the kernel for the gradient of a convolution's weight
/// (is_gradient_tunable()). `rows` and `density` are those of kernel_tasks(), and the list of pairs has room
/// for `most_pairs`. `arch` is that of a GPU. The candidates are the default and the other tiles for the
/// channels of a group, each also with other stages, copiers and blocks, or other warps. On GPUs that have
/// warpgroups, those without them come last.
TuningTask weight_gradient_task(const ConvolutionProblem& forward, llvm::StringRef arch, i64 rows,
                                i64 most_pairs, std::optional<double> density = {});

/// Returns the task for the search that makes the sorted maps of a network. It chooses the sizes of source
/// and query blocks (B and C in the Minuet paper) and the number of threads (SearchChoice). The network's
/// kernels have at most `volume` offsets, and its maps about `rows` rows.
TuningTask search_task(KeyType key, i32 ndim, i64 volume, i64 rows);
/// Returns the task that chooses how a layer's GEMMs are grouped: their padding, the step of their heights
/// and the number of their streams (GroupingChoice). `problem` has the largest kernel of the network.
TuningTask grouping_task(const WindowProblem& problem, i64 rows);

/// Returns the task that chooses the order in which fused kernels process rows (OrderChoice). `problem` has
/// the largest kernel of the network.
TuningTask order_task(const WindowProblem& problem, i64 rows);

/// Returns the task that chooses the dataflow of a layer. It has no candidate if only one dataflow can run
/// the problem.
TuningTask dataflow_task(const ConvolutionProblem& problem, llvm::StringRef arch, i64 rows,
                         std::optional<double> density = {});

}  // namespace minuet
