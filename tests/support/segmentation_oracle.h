// The segmentation networks in fp64 by plain loops, written out from their authors' modules in the authors'
// own terms: parameters have the authors' names and layouts. Nothing is shared with the library, neither its
// descriptions nor its weights maps, and nothing is rounded between layers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/support/network_oracle.h"

namespace minuet::oracle {

/// What distinguishes U-Nets of one family from each other.
struct SegmentationSize {
  std::vector<int32_t>
      widths;  // of the stem and then of each stage: the first half goes down, the other half up
  std::vector<int32_t> blocks;  // of each stage
};

/// A MinkUNet of MinkowskiEngine with basic blocks. `classes` > 0 adds the last convolution.
NetworkOutput minkunet(Parameters& parameters, const SegmentationSize& size,
                       const std::vector<int32_t>& coordinates, const std::vector<float>& features,
                       int64_t classes);
/// SpUNet-v1m1 of Pointcept.
NetworkOutput spunet(Parameters& parameters, const SegmentationSize& size,
                     const std::vector<int32_t>& coordinates, const std::vector<float>& features,
                     int64_t classes);
/// The backbone of SoftGroup and PointGroup, whose blocks normalize their inputs. Level i has widths[i]
/// channels.
NetworkOutput softgroup_unet(Parameters& parameters, const std::vector<int32_t>& widths,
                             const std::vector<int32_t>& coordinates, const std::vector<float>& features);

/// The drawn parameters as MinkowskiEngine stores them: the weight of several offsets is [volume, in, out]
/// with x fastest, that of one offset is [in, out], and a bias of a convolution is [1, out].
std::map<std::string, FileTensor> in_minkowski(const Parameters& parameters);
/// The drawn parameters as spconv 2.x stores them, [out, kernel x, kernel y, kernel z, in]. It multiplies
/// with the memory of a kernel of one offset as [in, out]; with is_linear, such a weight is of a layer that
/// multiplies with [out, in], as SoftGroup's do.
std::map<std::string, FileTensor> in_spconv_xyz(const Parameters& parameters, bool is_linear);

}  // namespace minuet::oracle
