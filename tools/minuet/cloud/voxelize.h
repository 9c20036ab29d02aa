// Voxelization of points, with identical bits on every machine.
#pragma once

#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"

namespace minuet::tool {

/// Makes unique voxels of points, in the order of first appearance.
///
/// The coordinate on each axis is floor(l / size) in IEEE float32, where l is p - origin, subtracted in
/// float64 and rounded to float32, and size is the axis's voxel size in float32. The batch index is 0.
/// Features are the mean of the voxel's p - origin (metres) and intensity, summed in float64 in the cloud's
/// order and rounded to float32 once.
///
/// A point is invalid if one of its four numbers is NaN or infinite. An invalid point is an error, or with
/// `skip_invalid` is dropped and counted. Voxel sizes that are not positive finite numbers and voxels outside
/// int32 are errors.
llvm::Expected<VoxelCloud> voxelize(const std::vector<Point>& points, const VoxelSize& voxel_size,
                                    bool skip_invalid, const Position& origin = {});

/// Returns the centre of every voxel in metres, with intensity 0. Axes after the third are ignored. The voxel
/// size is used in float64, because rounding it to float32 would shift the grid far from 0.
std::vector<Point> centres_of(const Cloud& voxels, const VoxelSize& voxel_size);

/// Adds features to voxels without any: their centres relative to the origin, and intensity 0.
VoxelCloud features_from_centres(const Cloud& voxels, const VoxelSize& voxel_size,
                                 const Position& origin = {});

/// Adds the caller's features to voxels. Row i of `features` belongs to voxel i.
VoxelCloud with_features(const Cloud& voxels, std::vector<float> features, int channels);

/// Returns an error unless all sizes are positive and finite in float32.
llvm::Error check_voxel_size(const VoxelSize& voxel_size);

}  // namespace minuet::tool
