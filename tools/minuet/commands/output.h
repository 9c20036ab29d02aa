// Holds an output of a network on the host, and makes labels, rows by point and coordinates of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/input.h"

namespace minuet::tool {

struct Output {
  /// Holds [rows, channels], or the extents of a dense tensor's axes, which are more than two.
  std::vector<int64_t> shape;
  std::vector<float> features;  ///< These features have `shape`.
  /// Says whether the features are integers, such as those of an argmax. A float holds them exactly.
  bool holds_integers = false;
  /// Says whether the rows are the points that a network takes. Files have a row for every point of the
  /// cloud.
  bool is_of_points = false;
  /// Lists the axes of the network that the output's level has.
  std::vector<int32_t> axes;
  /// These coordinates have the shape [rows, 1 + number of axes]. There are none if the output is dense, or
  /// if no file needs them.
  std::vector<int32_t> coordinates;

  bool is_dense() const { return shape.size() > 2; }
  // The next two functions are for outputs that are not dense.
  int64_t rows() const { return shape[0]; }
  int64_t channels() const { return shape[1]; }
};

/// Returns each row's channel with the largest feature, or -1 if a feature of the row is NaN or infinite.
/// Among equally large features, the first one decides. Integers of one channel are the labels themselves.
std::vector<int32_t> labels_of(const Output& output);
int64_t count_non_finite(const Output& output);
/// Returns the bytes of an .npy file with the features, which are int32 if they are integers.
std::string features_npy(const Output& output);
/// Returns the output with one row for each input point. A point that voxelization dropped gets NaN, or -1
/// where the features are integers.
Output by_point(const Output& output, const std::vector<int64_t>& row_of_point);

/// Returns an error if coordinates cannot be counted from position 0 because the cloud's origin is not a
/// whole number of voxels. `flag` is the flag that needs them.
llvm::Error check_coordinates(llvm::StringRef flag, const Input& input);
/// Returns the bytes of an .npy file with the output's coordinates, counted from position 0. Returns an error
/// if one of them is outside int32. check_coordinates() must have succeeded.
llvm::Expected<std::string> coordinates_npy(llvm::StringRef flag, const Output& output, const Input& input);

}  // namespace minuet::tool
