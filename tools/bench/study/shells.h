// Single layers on the voxels of a sphere, as peers are measured.
#pragma once

#include <vector>

#include "tools/bench/study/bench.h"

namespace minuet::tool {

struct ShellLayer {
  int32_t resolution, channels;
};

/// The finer the shell, the fewer the channels, as networks have them that go from coarse to fine.
std::vector<ShellLayer> shell_layers(const StudyBench& bench);

}  // namespace minuet::tool
