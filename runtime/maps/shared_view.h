// Declares the views of a kernel map that all executions on the map's queue share.
#pragma once

#include "codegen/choose/candidates.h"
#include "runtime/engine/device.h"

namespace minuet {

/// Holds one view of a map, which is one direction of the map in one form (ViewForm).
struct SharedView {
  bool transposed = false;
  ViewForm form = ViewForm::Masked;
  // The flag is true once the work that makes the view is enqueued.
  bool is_made = false;
  NeighbourView view;
  DeviceMemory memory;
};

/// Represents a view that a family of ops (OpFamily) makes from the pairs of a map and keeps with the map.
/// The files of that family define the derived type.
class KeptView {
 public:
  virtual ~KeptView() = default;
};

}  // namespace minuet
