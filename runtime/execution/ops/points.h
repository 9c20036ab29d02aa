// Runs the layers that make voxels of points, and give features of voxels back to points.
#pragma once

#include "runtime/execution/leading_op.h"

namespace minuet {

LeadingFamily voxelize_family();
LeadingFamily devoxelize_family();

}  // namespace minuet
