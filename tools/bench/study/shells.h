// Times single layers on the voxels of spherical shells, the inputs on which other engines are measured.
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
