// The segmentation networks in fp64 by plain loops, written out from their authors' modules in the authors'
// own terms: parameters have the authors' names and layouts. Nothing is shared with the library, neither its
// descriptions nor its weights maps, and nothing is rounded between layers.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/support/network_oracle.h"

namespace minuet::oracle {

/// The numbers that distinguish the U-Nets from each other. Stages 0 to 3 go down, stages 4 to 7 up.
struct SegmentationWidths {
  int32_t stem = 32;
  std::array<int32_t, 8> planes{};
  std::array<int32_t, 8> blocks{};
};

/// A MinkUNet of MinkowskiEngine with basic blocks. `classes` > 0 adds the last convolution.
NetworkOutput minkunet(Parameters& parameters, const SegmentationWidths& widths,
                       const std::vector<int32_t>& coordinates, const std::vector<float>& features,
                       int64_t classes);
/// SpUNet-v1m1 of Pointcept.
NetworkOutput spunet(Parameters& parameters, const SegmentationWidths& widths,
                     const std::vector<int32_t>& coordinates, const std::vector<float>& features,
                     int64_t classes);

/// The drawn parameters as MinkowskiEngine stores them: the weight of several offsets is [volume, in, out]
/// with x fastest, that of one offset is [in, out], and a bias of a convolution is [1, out].
std::map<std::string, FileTensor> in_minkowski(const Parameters& parameters);
/// The drawn parameters as spconv 2.x stores them, [out, kernel x, kernel y, kernel z, in].
std::map<std::string, FileTensor> in_spconv_xyz(const Parameters& parameters);

}  // namespace minuet::oracle
