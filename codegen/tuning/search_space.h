// What there is to try: configurations that fit an op, those first that are expected to gain most. Pure.
#pragma once

#include <vector>

#include "codegen/choose/ops/convolution.h"
#include "codegen/choose/tuning_snapshot.h"

namespace minuet {

/// One thing to decide.
struct TuningTask {
  TuningBucket bucket;
  TuningConfig default_config;           // what is chosen without tuning
  std::vector<TuningConfig> candidates;  // others that fit, by expected gain
  bool has_favourite = false;            // the first one won before: it is tried first
};

/// Of an op on an output of so many rows, with `density` pairs each, which runs by `dataflow`: gather and
/// scatter tiles (all divisors of the channels, those near the default's first) and cuBLASLt's algorithms, or
/// Specs of the fused kernel: the default's and that of the other matrix unit with one or two of their fields
/// changed. `arch`: "" for the CPU, whose kernels are not specialized: none.
std::vector<TuningTask> kernel_tasks(const ConvolutionProblem& problem, llvm::StringRef arch,
                                     Dataflow dataflow, i64 rows, std::optional<double> density = {});

/// B, C and threads of the search that makes the sorted maps of a network: `volume` offsets at most, of about
/// `rows` rows.
TuningTask search_task(KeyType key, i32 ndim, i64 volume, i64 rows);
/// How much padding a group of GEMMs may have, what their heights are multiples of, and how many streams they
/// are spread over, for a network whose largest kernel is the problem's.
TuningTask grouping_task(const WindowProblem& problem, i64 rows);

/// In which order rows are taken, for such a network.
TuningTask order_task(const WindowProblem& problem, i64 rows);

/// By which dataflow it runs. No candidate where only one takes it.
TuningTask dataflow_task(const ConvolutionProblem& problem, llvm::StringRef arch, i64 rows,
                         std::optional<double> density = {});

}  // namespace minuet
