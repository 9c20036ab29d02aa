// The structs of points.h, from callers of every age.
#pragma once

#include "include/minuet/points.h"
#include "tests/support/abi.h"

namespace minuet::abi {

void check_voxelize_options(Machine& machine);
void check_devoxelize_options(Machine& machine);
void check_voxelize_arguments(Machine& machine);
void check_devoxelize_arguments(Machine& machine);

/// The bytes of the workspace, the coordinates and the features of three points, one of which is not finite.
/// They have three numbers each.
std::vector<int32_t> voxels_with(Machine& machine, const minuet_voxelize_options* options);
/// The features of three points, one of which has no row.
std::vector<int32_t> features_with(Machine& machine, const minuet_devoxelize_options* options);

}  // namespace minuet::abi
