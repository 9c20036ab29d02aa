// Random problems of voxelizing, devoxelizing and selecting, and problems that are a step simpler.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/point_oracle.h"
#include "tests/support/select_oracle.h"

namespace minuet {

/// Points, of which voxels are made. With `blends`, features of two thirds of the voxels are blended instead,
/// or with `is_nearest` each point takes those of its own voxel.
struct PointsCase {
  bool blends = false, at_centres = true, is_nearest = false;
  int tensor_stride = 1;  // of the blended voxels
  int ndim = 3, more_columns = 1, first_column = 0, channels = 4;
  int feature = 0;  // oracle::PointFeature
  bool has_range = false, is_wild = false, is_dense = false;
  int64_t points = 0, most_points = 0, most_voxels = 0;
  int batches = 0;                // 0: no batch indices
  int64_t batch_size = 0;         // 0: not limited
  int64_t spare_rows = 0;         // of the outputs, which no voxel needs
  int64_t points_past_count = 0;  // they are not read; the count is on the device then
  uint64_t seed = 1;
  bool operator==(const PointsCase&) const = default;

  oracle::PointCloud cloud() const;
  oracle::VoxelRules rules() const;
};
PointsCase draw_points_case(uint64_t seed);
std::vector<PointsCase> simpler_cases(const PointsCase& test);
std::string as_initializer(const PointsCase& test);

/// Candidates, of which a rule keeps some.
struct SelectionCase {
  bool of_cells = false;
  int rule = 0;  // oracle::Rule
  int ndim = 3;
  int64_t rows = 0;                      // of rows
  std::array<int, 4> parts{1, 1, 1, 1};  // the children of a row, or the cells
  int batches = 1, channels = 1;
  bool channels_last = false, is_turned = false;  // the dense tensor has its axes in the other order
  uint64_t share = 128;                           // of 256 candidates, this many are kept by a mask
  int64_t best = 5;
  int64_t spare_rows = 0;       // of the outputs, which nothing that is kept needs; -1: one row is lacking
  int64_t rows_past_count = 0;  // they are not read; the count is on the device then
  int64_t shift = 0;            // of the dense tensor's memory, in elements
  uint64_t seed = 1;
  bool operator==(const SelectionCase&) const = default;

  oracle::SelectCase problem() const;
};
SelectionCase draw_selection(uint64_t seed);
std::vector<SelectionCase> simpler_cases(const SelectionCase& test);
std::string as_initializer(const SelectionCase& test);

}  // namespace minuet
