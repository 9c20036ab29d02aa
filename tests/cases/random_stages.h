// Random networks whose second part lies on a level that an op makes of the result of the first part.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/cases/random_networks.h"
#include "tests/support/random.h"

namespace minuet {

constexpr float kStagedVoxelSize = 0.5f;

/// What makes the level: scores above a threshold or the best ones, a mask, or cells of a dense tensor.
enum class Maker { Above, Best, Mask, Cells };

struct StagedCase {
  NetworkCase first, second;
  bool takes_points = false;
  bool is_wild = false;               // Some points have positions that are not finite or far away.
  oracle::Axes children{1, 1, 1, 1};  // All 1: prune.
  bool divides_channels = false;
  Maker maker = Maker::Above;
  int top_k = 1;
  float threshold = 0;             // It is chosen so that about half of the scores are above it.
  oracle::Axes shape{0, 0, 0, 0};  // Of the network, for Cells.
  int64_t child_count() const { return int64_t{children[0]} * children[1] * children[2] * children[3]; }
};

/// The tensor strides of each layer's result.
std::vector<oracle::Axes> strides_of(const NetworkCase& network);

/// What runtime/network/networks/README.md asks for. The first output are the scores, or the result of the
/// first chain of which Maker::Cells makes cells; the second one is the result of the second chain; a third
/// one has features of the points.
std::string json_of(const StagedCase& test);

/// A case without its second chain. Its threshold follows from its scores, and its shape from its cloud.
StagedCase draw_first(DType dtype, Random& random);

std::vector<StagedCase> simpler_cases(const StagedCase& test);

/// C++ text of the case, to read.
std::string as_initializer(const StagedCase& test);

}  // namespace minuet
