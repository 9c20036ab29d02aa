// One direction of a kernel map as the fused dataflow reads it.
#pragma once

#include "runtime/engine/device.h"

namespace minuet {

/// Shared by all on the map's queue.
struct FusedView {
  bool transposed = false;
  bool is_made = false;  // or will be, by what is enqueued
  NeighbourView view;
  DeviceMemory memory;
};

}  // namespace minuet
