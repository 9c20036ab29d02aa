// The data of the page of `minuet view`: points and voxels with columns of numbers.
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

/// A number for every point (for every voxel, if the input was voxels), or NaN if there is none.
struct ViewColumn {
  std::string name, unit;
  std::vector<double> values;
};

/// Data of the points from the cloud's file and from the files of --labels and --features.
struct ViewColumns {
  std::vector<ViewColumn> numbers;
  std::vector<int32_t> labels;  ///< empty means no labels
};

/// The values of the flags about the page's data.
struct ViewOptions {
  std::string labels;                ///< an NPY file, integer [N] or [N, 1]; empty means none
  std::string features;              ///< an NPY file [N, C]; empty means none
  std::vector<int> feature_columns;  ///< empty means the first 8
  int kernel_size = 3;
};

/// Reads the files. Each must have one row per point or one row per voxel.
llvm::Expected<ViewColumns> read_columns(const ViewOptions& options, const Input& input);

/// Texts and settings that the page shows.
struct ViewFacts {
  std::string title, device;
  int kernel_size = 3;
};

/// Returns the page's data, which view.js reads.
llvm::json::Object view_json(const Input& input, const std::vector<ViewLevel>& levels,
                             const ViewColumns& columns, const Palette& palette, const ViewFacts& facts);

}  // namespace minuet::tool
