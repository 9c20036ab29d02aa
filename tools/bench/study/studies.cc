#include "tools/bench/study/studies.h"

namespace minuet::tool {

const std::vector<Study>& all_studies() {
  static const std::vector<Study> studies = {
      {"end_to_end", "End to end",
       "MinkUNet42 and SparseResNet21D on all scenes, against a hash-table baseline (paper 6.2)",
       study_end_to_end},
      {"layers", "Layer by layer",
       "single layers with common numbers of channels, against the hash-table baseline (paper 6.3)",
       study_layers},
      {"map", "The Map step",
       "time of hash tables, binary search, double-traversed search and index by cloud size (paper 6.4)",
       study_map},
      {"gmas", "Gather, GEMM and scatter (GMaS)",
       "gather, GEMM and scatter of single layers, against the hash-table baseline (paper 6.5)", study_gmas},
      {"density", "Density",
       "MinkUNet42 on 1e4 to 1e6 random voxels in 400^3, against the hash-table baseline (paper 6.2)",
       study_density},
      {"breakdown", "The paper's four ideas",
       "the paper's ideas, added one after another to the hash-table baseline (paper 6.2)", study_breakdown},
      {"search", "Block sizes of the search",
       "time of the Map step by the block sizes of its search: B sources, C queries (paper 6.4)",
       study_search},
      {"tiles", "Best tiles",
       "the best tile (channels per thread) of each layer's gather and scatter (paper 6.5)", study_tiles},
      {"padding", "Padding and number of GEMMs",
       "kernel offsets grouped by number of pairs and in map order (paper 5.2 and 6.5)", study_padding},
      {"dtype", "Data types", "MinkUNet42 and SparseResNet21D in fp32, tf32, fp16 and bf16", study_dtype},
      {"batch", "Batches", "inference on batches of 1 to 16 clouds", study_batch},
      {"voxels", "Number of voxels", "inference on 1e4 to 5e6 random voxels", study_voxels},
      {"dataflow", "The fused dataflow", "each layer with the fused dataflow, against gather-GEMM-scatter",
       study_dataflow},
      {"specs", "Configurations of the fused kernel",
       "the default configurations, compared with the best ones that the tuner finds", study_specs},
      {"shells", "Single layers on spherical shells and scenes",
       "layers of 64 to 1024 channels, alone and with their kernel map", study_shells},
      {"index", "The index of voxels",
       "time and memory of the index by declared bounds, capacities and slots", study_index},
  };
  return studies;
}

}  // namespace minuet::tool
