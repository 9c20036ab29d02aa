// What the page of `minuet view` shows: points and voxels, each with its columns of numbers.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include "tools/minuet/cloud/cloud.h"
#include "tools/minuet/cloud/input.h"
#include "tools/minuet/cloud/palette.h"
#include "tools/minuet/library/view_levels.h"

namespace minuet::tool {

/// A number of every point (of every voxel, where the cloud came as voxels); NaN where there is none.
struct ViewColumn {
  std::string name, unit;
  std::vector<double> values;
};

/// What the cloud's own file and the files of the flags say of the points.
struct ViewColumns {
  std::vector<ViewColumn> numbers;
  std::vector<int32_t> labels;  ///< empty: none
};

struct ViewOptions {
  std::string labels;                ///< an NPY file, integer [N] or [N, 1]; empty: none
  std::string features;              ///< an NPY file [N, C]; empty: none
  std::vector<int> feature_columns;  ///< empty: the first 8
  int kernel_size = 3;
};

/// Reads the files, of as many rows as the cloud has points, or voxels.
llvm::Expected<ViewColumns> read_columns(const ViewOptions& options, const Input& input);

struct ViewFacts {
  std::string title, device;
  int kernel_size = 3;
};

/// The page's data; pages/view.js reads them.
llvm::json::Object view_json(const Input& input, const std::vector<ViewLevel>& levels,
                             const ViewColumns& columns, const Palette& palette, const ViewFacts& facts);

}  // namespace minuet::tool
