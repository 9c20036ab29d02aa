// Selects single layers to time on the voxels of spherical shells, which other engines use as inputs of
// benchmarks.
#pragma once

#include <vector>

#include "tools/bench/study/bench.h"

namespace minuet::tool {

struct ShellLayer {
  int32_t resolution, channels;
};

/// Returns the layers to time. A shell of finer voxels gets fewer channels, because the finer levels of
/// networks have fewer.
std::vector<ShellLayer> shell_layers(const StudyBench& bench);

}  // namespace minuet::tool
