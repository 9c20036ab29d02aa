// Defines the search space of tuning, which is the configurations that fit an op in order of expected gain.
// All functions are pure.
#pragma once

#include <vector>

#include "codegen/choose/ops/convolution.h"
#include "codegen/choose/tuning_snapshot.h"

namespace minuet {

/// Describes one decision to make by measuring.
struct TuningTask {
  TuningBucket bucket;
  TuningConfig default_config;           // This is the configuration without tuning.
  std::vector<TuningConfig> candidates;  // Holds the others that fit, in order of expected gain.
  /// This is true if the first candidate won in an earlier tuning run and is tried first.
  bool has_favourite = false;
};

/// Returns the tasks of an op that has `rows` output rows and `density` pairs per row and runs by `dataflow`.
/// For gather-GEMM-scatter, these choose tiles (all divisors of the channels, those near the default first)
/// and cuBLASLt's algorithms. For the fused dataflow, there is one task, which chooses a Spec. Its candidates
/// are the default's Spec and that of the other matrix unit, each also with one or two fields changed. There
/// are no tasks for the CPU, whose `arch` is empty, because its kernels are not specialized.
std::vector<TuningTask> kernel_tasks(const ConvolutionProblem& problem, llvm::StringRef arch,
                                     Dataflow dataflow, i64 rows, std::optional<double> density = {});

/// Returns the task for the search that makes the sorted maps of a network. It chooses B, C and the number of
/// threads (SearchChoice). The network's kernels have at most `volume` offsets, and its maps about `rows`
/// rows.
TuningTask search_task(KeyType key, i32 ndim, i64 volume, i64 rows);
/// Returns the task for the padding of groups of GEMMs, the step of their heights and the number of their
/// streams. `problem` has the largest kernel of the network.
TuningTask grouping_task(const WindowProblem& problem, i64 rows);

/// Returns the task for the order of rows. `problem` has the largest kernel of the network.
TuningTask order_task(const WindowProblem& problem, i64 rows);

/// Returns the task for the dataflow of a layer. It has no candidate if only one dataflow can run the
/// problem.
TuningTask dataflow_task(const ConvolutionProblem& problem, llvm::StringRef arch, i64 rows,
                         std::optional<double> density = {});

}  // namespace minuet
