// Views of a kernel map that all executions of the map's queue share.
#pragma once

#include "codegen/choose/candidates.h"
#include "runtime/engine/device.h"

namespace minuet {

/// One direction of a map in one form.
struct SharedView {
  bool transposed = false;
  ViewForm form = ViewForm::Masked;
  bool is_made = false;  // or will be, by what is enqueued
  NeighbourView view;
  DeviceMemory memory;
};

/// What a family of ops makes of a map's pairs and keeps with the map, as a type of the family's own files.
class KeptView {
 public:
  virtual ~KeptView() = default;
};

}  // namespace minuet
