// The paper's road beside the baseline that is written for the comparison: hash tables, one tile for all
// layers, GEMMs that are not grouped.
#pragma once

#include "tools/bench/study/map_step.h"

namespace minuet::tool {

/// The Map step (sets or tables, and kernel maps) and gather, GEMM and scatter. What is the same in all (rows
/// in and out, metadata tables) is left out.
struct Comparison {
  MapStepSamples maps;
  NetworkSamples paper, baseline;  ///< their `gmas` counts
  double paper_ms() const { return median(maps.library()) + median(paper.gmas); }
  double baseline_ms() const { return median(maps.hash()) + median(baseline.gmas); }
  double speedup() const { return baseline_ms() / paper_ms(); }
};

/// Only offsets of exactly as many pairs share a GEMM; every layer by a tile of 4.
TuningConfigs ungrouped(minuet_dtype dtype);
TuningConfigs baseline_configs(const NetworkSamples& shapes, minuet_dtype dtype);

llvm::Expected<Comparison> compare_with_baseline(StudyBench& bench, const Baseline& baseline,
                                                 const std::string& network, const StudyCloud& cloud);

/// What all studies that compare say of it.
std::string baseline_note(const StudyBench& bench);

}  // namespace minuet::tool
