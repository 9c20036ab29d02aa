// Points to voxels, the same bits on every machine.
#pragma once

#include "llvm/Support/Error.h"
#include "tools/minuet/cloud.h"

namespace minuet::tool {

/// Coordinates: floor(p / voxel_size) in IEEE float32, batch 0, in the order in which the voxels first
/// appear. Features: the mean of the voxel's x, y, z (metres) and intensity, summed in float64 in the
/// cloud's order and rounded to float32 once.
///
/// A point is invalid where one of its four numbers is NaN or infinite: an error, or with
/// `skip_invalid` dropped and counted. Errors too: a voxel size that is not a positive finite number,
/// and voxels outside int32.
llvm::Expected<VoxelCloud> voxelize(const std::vector<Point>& points, float voxel_size, bool skip_invalid);

/// Voxels that come without features: the centre of each in metres, intensity 0.
VoxelCloud features_from_centres(const Cloud& voxels, float voxel_size);

/// Voxels with the caller's features, row i to row i.
VoxelCloud with_features(const Cloud& voxels, std::vector<float> features, int channels);

/// A sentence where it is not a positive finite number.
llvm::Error check_voxel_size(float voxel_size);

}  // namespace minuet::tool
