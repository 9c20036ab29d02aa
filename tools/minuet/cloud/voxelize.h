// Points to voxels, the same bits on every machine.
#pragma once

#include "llvm/Support/Error.h"
#include "tools/minuet/cloud/cloud.h"

namespace minuet::tool {

/// Coordinates: on each axis floor(l / size) in IEEE float32, where l is p - origin (subtracted in float64)
/// as float32 and size is the axis's voxel size as float32; batch 0, in the order in which the voxels first
/// appear. Features: the mean of the voxel's p - origin (metres) and intensity, summed in float64 in the
/// cloud's order and rounded to float32 once.
///
/// A point is invalid where one of its four numbers is NaN or infinite: an error, or with
/// `skip_invalid` dropped and counted. Errors too: voxel sizes that are not positive finite numbers,
/// and voxels outside int32.
llvm::Expected<VoxelCloud> voxelize(const std::vector<Point>& points, const VoxelSize& voxel_size,
                                    bool skip_invalid, const Position& origin = {});

/// The middle of every voxel in metres, intensity 0; axes beyond the third are left out. The size is as
/// written: in float32 it is another grid far from 0.
std::vector<Point> centres_of(const Cloud& voxels, const VoxelSize& voxel_size);

/// Voxels that come without features: their centres relative to the origin, intensity 0.
VoxelCloud features_from_centres(const Cloud& voxels, const VoxelSize& voxel_size,
                                 const Position& origin = {});

/// Voxels with the caller's features, row i to row i.
VoxelCloud with_features(const Cloud& voxels, std::vector<float> features, int channels);

/// An error where one of the sizes is not a positive finite number, as float32 too.
llvm::Error check_voxel_size(const VoxelSize& voxel_size);

}  // namespace minuet::tool
