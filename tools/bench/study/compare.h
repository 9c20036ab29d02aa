// Compares the method of the Minuet paper with a baseline like earlier engines. The baseline uses hash
// tables, one tile (channels per thread) in all layers, and GEMMs that are not grouped.
#pragma once

#include "tools/bench/study/map_step.h"

namespace minuet::tool {

/// Holds times of the Map step, which makes coordinate sets or hash tables and then kernel maps, and
/// of gather, GEMM and scatter. The times of filling the tables of gather and scatter and of work on input
/// and output rows are left out, because they are equal for both methods.
struct Comparison {
  MapStepSamples maps;
  NetworkSamples paper, baseline;  ///< Only `gmas`, the time of gather, GEMM and scatter, is compared.
  double paper_ms() const { return maps.sorted_ms() + median(paper.gmas); }
  double baseline_ms() const { return maps.hash_ms() + median(baseline.gmas); }
  double speedup() const { return baseline_ms() / paper_ms(); }
};

/// Returns a configuration with a padding threshold of 0, so that only offsets with equal numbers of pairs
/// share a GEMM.
TuningConfigs ungrouped(minuet_dtype dtype);
/// Returns the configurations of ungrouped() and, for every layer whose number of channels is divisible by 4,
/// a tile of 4 (channels per thread).
TuningConfigs baseline_configs(const NetworkSamples& shapes, minuet_dtype dtype);

llvm::Expected<Comparison> compare_with_baseline(StudyBench& bench, const Baseline& baseline,
                                                 const std::string& network, const StudyCloud& cloud);

/// Returns the text that describes the baseline in the results of all studies that compare with it.
std::string baseline_note(const StudyBench& bench);

}  // namespace minuet::tool
