// Limits the coordinates of a network's clouds by the shape of its first level and by the batch size.
#pragma once

#include "runtime/maps/network_maps.h"

namespace minuet {

/// Sets NetworkMapOptions::limits from the shape of level 0 and from NetworkMapOptions::batch_size, unless
/// the caller declares bounds, which must be inside the limits. If every field has limits, they become the
/// bounds. Returns InvalidArgument if the caller's bounds exceed the limits, or if an op needs the batch size
/// and it is not declared. Returns OutOfRange if a dense tensor would have too many cells.
llvm::Error limit_coordinates(const Program& program, NetworkMapOptions& options);

/// Returns OutOfRange with a message that names the limits.
llvm::Error outside_limits(i32 ndim, const Bounds& limits);

/// Returns true if a field of `bounds` exceeds its limits.
bool exceeds(i32 ndim, const Bounds& bounds, const Bounds& limits);

/// Returns `bounds` without what lies outside the limits. The two must have coordinates in common.
Bounds intersection(i32 ndim, const Bounds& bounds, const Bounds& limits);

}  // namespace minuet
