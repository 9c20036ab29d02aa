// The ops that make voxels of points, and give features of voxels back to points.
#pragma once

#include "runtime/network/ops/op_entry.h"

namespace minuet {

OpEntry voxelize_entry();
OpEntry devoxelize_entry();

}  // namespace minuet
