// Selects single layers to time on the voxels of spherical shells, because other engines are measured on such
// inputs.
#pragma once

#include <vector>

#include "tools/bench/study/bench.h"

namespace minuet::tool {

struct ShellLayer {
  int32_t resolution, channels;
};

/// Returns the layers to time. A finer shell gets fewer channels, as the finer levels of networks have.
std::vector<ShellLayer> shell_layers(const StudyBench& bench);

}  // namespace minuet::tool
