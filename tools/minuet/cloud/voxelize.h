// Makes voxels of points by libminuet (library/voxelizer.h), with identical bits on every machine.
#pragma once

#include <functional>
#include <optional>

#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"

namespace minuet::tool {

/// Holds what a device makes voxels of, in float32.
struct VoxelizeTask {
  std::vector<float> points;  ///< Holds x, y, z and the intensity of each point.
  std::array<float, 3> low = {}, voxel_size = {};
  std::optional<std::array<float, 3>> high;  ///< If it is set, points outside the range are dropped.
  int64_t most_points = 0, most_voxels = 0;  ///< These are limits as in VoxelLimits.
};
/// Makes voxels by minuet_voxelize(), with the means of all four numbers as features. In the result,
/// VoxelCloud::skipped counts the points whose position is not finite.
using Voxelizer = std::function<llvm::Expected<VoxelCloud>(const VoxelizeTask& task)>;

/// Makes unique voxels of points, in the order of first appearance.
///
/// The coordinate of a point p on each axis is floor(l / size) in IEEE float32. Here l is p - origin,
/// subtracted in float64 and rounded to float32, and size is the axis's voxel size in float32. The batch
/// index is 0. The features of a voxel are the means of l (in metres) and of the intensity, in float32, of
/// its points. The means are summed in float64 in the cloud's order and rounded to float32 once.
///
/// A point is invalid if one of its four numbers is NaN or infinite. With `skip_invalid`, invalid points are
/// dropped and counted, and otherwise they are an error. Voxel sizes that are not positive finite numbers and
/// voxels outside int32 are errors.
llvm::Expected<VoxelCloud> voxelize(const std::vector<Point>& points, const VoxelSize& voxel_size,
                                    bool skip_invalid, const Voxelizer& voxelizer,
                                    const Position& origin = {});

/// Returns the centre of every voxel in metres, with intensity 0. Axes after the third are ignored. The voxel
/// size is used in float64, because rounding it to float32 would shift voxels that are far from 0.
std::vector<Point> centres_of(const Cloud& voxels, const VoxelSize& voxel_size);

/// Adds features to voxels that have none. The features of a voxel are its centre relative to the origin, and
/// intensity 0.
VoxelCloud features_from_centres(const Cloud& voxels, const VoxelSize& voxel_size,
                                 const Position& origin = {});

/// Adds the caller's features to voxels. Row i of `features` belongs to voxel i.
VoxelCloud with_features(const Cloud& voxels, std::vector<float> features, int channels);

/// Returns the numbers in float32.
std::array<float, 3> in_float32(const std::array<double, 3>& numbers);
/// Appends a point to the points of a task. Its numbers become infinite if float32 cannot hold them.
void append_point(std::vector<float>& points, const Position& position, double intensity);
/// Appends a point that the device drops.
void append_dropped(std::vector<float>& points);

/// Returns true unless one of the four numbers is NaN or infinite.
bool is_finite(const Point& point);
/// Returns the error for a point with a number that is NaN or infinite.
llvm::Error refuse_not_finite(const Point& point, int64_t row);
/// Returns an error if the point's intensity is beyond float32.
llvm::Error check_intensity(const Point& point, int64_t row);

/// Returns an error unless all sizes are positive and finite in float32.
llvm::Error check_voxel_size(const VoxelSize& voxel_size);

}  // namespace minuet::tool
