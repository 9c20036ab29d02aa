// The search space of tuning: configurations that fit an op, in order of expected gain. All functions are
// pure.
#pragma once

#include <vector>

#include "codegen/choose/ops/convolution.h"
#include "codegen/choose/tuning_snapshot.h"

namespace minuet {

/// One decision to make by measuring.
struct TuningTask {
  TuningBucket bucket;
  TuningConfig default_config;           // chosen without tuning
  std::vector<TuningConfig> candidates;  // other configurations that fit, by expected gain
  bool has_favourite = false;            // true if the first candidate won before and is tried first
};

/// Returns the tasks of an op with `rows` output rows and `density` pairs per row that runs by `dataflow`.
/// For gather-GEMM-scatter these are tiles (all divisors of the channels, those near the default first) and
/// cuBLASLt's algorithms. For the fused dataflow they are Specs: the default's and that of the other matrix
/// unit, with one or two fields changed. Returns none for the CPU, whose `arch` is empty, because its kernels
/// are not specialized.
std::vector<TuningTask> kernel_tasks(const ConvolutionProblem& problem, llvm::StringRef arch,
                                     Dataflow dataflow, i64 rows, std::optional<double> density = {});

/// Returns the task for B, C and threads of the search that makes the sorted maps of a network, with at most
/// `volume` offsets and about `rows` rows.
TuningTask search_task(KeyType key, i32 ndim, i64 volume, i64 rows);
/// Returns the task for the padding of groups of GEMMs, the multiple of their heights and the number of their
/// streams. The problem has the largest kernel of the network.
TuningTask grouping_task(const WindowProblem& problem, i64 rows);

/// Returns the task for the order of rows. The problem is as for grouping_task().
TuningTask order_task(const WindowProblem& problem, i64 rows);

/// Returns the task for the dataflow. It has no candidate if only one dataflow can run the problem.
TuningTask dataflow_task(const ConvolutionProblem& problem, llvm::StringRef arch, i64 rows,
                         std::optional<double> density = {});

}  // namespace minuet
