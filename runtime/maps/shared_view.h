// Views of a kernel map that all executions on the map's queue share.
#pragma once

#include "codegen/choose/candidates.h"
#include "runtime/engine/device.h"

namespace minuet {

/// One direction of a map in one form.
struct SharedView {
  bool transposed = false;
  ViewForm form = ViewForm::Masked;
  bool is_made = false;  // true once the work that makes it is enqueued
  NeighbourView view;
  DeviceMemory memory;
};

/// A view that a family of ops makes from a map's pairs and keeps with the map. Its type is defined in the
/// family's files.
class KeptView {
 public:
  virtual ~KeptView() = default;
};

}  // namespace minuet
