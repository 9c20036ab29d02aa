#include "tools/bench/study/studies.h"

namespace minuet::tool {

const std::vector<Study>& all_studies() {
  static const std::vector<Study> studies = {
      {"end_to_end", "End to end", "both networks over all scenes, against a hash-table baseline (paper 6.2)",
       study_end_to_end},
      {"layers", "Layer by layer", "single layers of common widths, against the baseline (paper 6.3)",
       study_layers},
      {"map", "The Map step",
       "time of hash tables, binary search and double-traversed search by number of voxels (paper 6.4)",
       study_map},
      {"gmas", "The GMaS step", "gather, GEMM and scatter of single layers, against the baseline (paper 6.5)",
       study_gmas},
      {"density", "Density", "random voxels in 400^3, against the baseline (paper 6.2)", study_density},
      {"breakdown", "The four ideas",
       "the paper's ideas, switched on one after another over the baseline (paper 6.2)", study_breakdown},
      {"search", "Block sizes B and C of the search",
       "time of the Map step by the block sizes B and C of its search (paper 6.4)", study_search},
      {"tiles", "Best tiles", "the best tile of each layer's gather and scatter (paper 6.5)", study_tiles},
      {"padding", "Padding and number of GEMMs", "offsets grouped by size and in map order (paper 5.2, 6.5)",
       study_padding},
      {"dtype", "Data types", "both networks in fp32, tf32, fp16 and bf16", study_dtype},
      {"batch", "Batches", "1 to 16 clouds at a time", study_batch},
      {"voxels", "Number of voxels", "1e4 to 5e6 voxels with five neighbours each", study_voxels},
      {"dataflow", "The fused dataflow", "each layer fused, and by gather-GEMM-scatter", study_dataflow},
      {"specs", "Configurations of the fused kernel",
       "the default configurations beside the best that the tuner finds", study_specs},
      {"shells", "Single layers on shells and scenes",
       "layers of 64 to 1024 channels, alone and with their kernel map", study_shells},
  };
  return studies;
}

}  // namespace minuet::tool
