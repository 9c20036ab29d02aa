// The view of a kernel map that gather-GEMM-scatter reads.
#pragma once

#include "runtime/engine/device.h"

namespace minuet {

/// A map's pairs in groups, and where each pair lies in the buffers. Of one execution, or shared by all on
/// the map's queue.
struct GmasView {
  bool is_made = false;  // of a shared view: its tables are, or will be, by what is enqueued
  i32 direct_offset = -1;
  GroupingChoice grouping;
  GroupPlan groups;
  // Of a shared view, as in GmasTables; those of an execution's own lie in its arena.
  i32 *source_table = nullptr, *query_table = nullptr;
  DeviceMemory memory;
};

}  // namespace minuet
