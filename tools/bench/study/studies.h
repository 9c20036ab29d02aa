// Declares the studies and their list, which has one row for each study in studies.cc.
#pragma once

#include <vector>

#include "tools/bench/study/bench.h"
#include "tools/bench/study/document.h"

namespace minuet::tool {

struct Study {
  const char* name;
  const char* title;
  const char* help;  ///< Describes the study in one line of --help.
  llvm::Error (*run)(StudyBench& bench, StudyDocument& document);
};

/// Returns the studies in the order in which the name `all` runs them.
const std::vector<Study>& all_studies();

llvm::Error study_end_to_end(StudyBench& bench, StudyDocument& document);
llvm::Error study_layers(StudyBench& bench, StudyDocument& document);
llvm::Error study_map(StudyBench& bench, StudyDocument& document);
llvm::Error study_gmas(StudyBench& bench, StudyDocument& document);
llvm::Error study_density(StudyBench& bench, StudyDocument& document);
llvm::Error study_breakdown(StudyBench& bench, StudyDocument& document);
llvm::Error study_search(StudyBench& bench, StudyDocument& document);
llvm::Error study_padding(StudyBench& bench, StudyDocument& document);
llvm::Error study_tiles(StudyBench& bench, StudyDocument& document);
llvm::Error study_dtype(StudyBench& bench, StudyDocument& document);
llvm::Error study_batch(StudyBench& bench, StudyDocument& document);
llvm::Error study_voxels(StudyBench& bench, StudyDocument& document);
llvm::Error study_dataflow(StudyBench& bench, StudyDocument& document);
llvm::Error study_specs(StudyBench& bench, StudyDocument& document);
llvm::Error study_shells(StudyBench& bench, StudyDocument& document);
llvm::Error study_index(StudyBench& bench, StudyDocument& document);

}  // namespace minuet::tool
