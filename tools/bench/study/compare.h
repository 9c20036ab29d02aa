// Compares the paper's method with the baseline, which uses hash tables, one tile for all layers, and GEMMs
// that are not grouped.
#pragma once

#include "tools/bench/study/map_step.h"

namespace minuet::tool {

/// Holds times of the Map step (making sorted sets or hash tables, then kernel maps) and of gather, GEMM and
/// scatter. Work on input and output rows and on metadata tables is left out, because it is the same for both
/// methods.
struct Comparison {
  MapStepSamples maps;
  NetworkSamples paper, baseline;  ///< Only their `gmas` is compared.
  double paper_ms() const { return median(maps.library()) + median(paper.gmas); }
  double baseline_ms() const { return median(maps.hash()) + median(baseline.gmas); }
  double speedup() const { return baseline_ms() / paper_ms(); }
};

/// Returns a configuration with a padding threshold of 0, so that only offsets with equal numbers of pairs
/// share a GEMM.
TuningConfigs ungrouped(minuet_dtype dtype);
/// Returns the configurations of ungrouped() and a tile of 4 in every layer whose channels 4 divides.
TuningConfigs baseline_configs(const NetworkSamples& shapes, minuet_dtype dtype);

llvm::Expected<Comparison> compare_with_baseline(StudyBench& bench, const Baseline& baseline,
                                                 const std::string& network, const StudyCloud& cloud);

/// Returns the description of the baseline for the documents of all studies that compare with it.
std::string baseline_note(const StudyBench& bench);

}  // namespace minuet::tool
