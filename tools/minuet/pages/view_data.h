// Makes the data of the page of `minuet view`, which are points and voxels with columns of numbers.
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

/// Holds a number for every point, or for every voxel if the input was voxels. A missing number is NaN.
struct ViewColumn {
  std::string name, unit;
  std::vector<double> values;
};

/// Holds data of the points from the cloud's file and from the files of --labels and --features.
struct ViewColumns {
  std::vector<ViewColumn> numbers;
  std::vector<int32_t> labels;  ///< The list is empty if there are no labels.
};

/// Holds the values of the flags about the page's data.
struct ViewOptions {
  std::string labels;                ///< Names an NPY file of integers [N] or [N, 1], or is empty.
  std::string features;              ///< Names an NPY file [N, C], or is empty.
  std::vector<int> feature_columns;  ///< An empty list means the first 8 columns.
  int kernel_size = 3;
};

/// Reads the files of the options. Each must have one row per point or one row per voxel.
llvm::Expected<ViewColumns> read_columns(const ViewOptions& options, const Input& input);

/// Holds texts and settings that the page of `minuet view` shows.
struct ViewFacts {
  std::string title, device;
  int kernel_size = 3;
};

/// Returns the page's data, which view.js reads.
llvm::json::Object view_json(const Input& input, const std::vector<ViewLevel>& levels,
                             const ViewColumns& columns, const Palette& palette, const ViewFacts& facts);

}  // namespace minuet::tool
