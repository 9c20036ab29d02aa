// Declares the options of an execution.
#pragma once

#include <memory>

#include "runtime/engine/queue.h"
#include "runtime/maps/network_maps.h"
#include "runtime/maps/pyramid.h"
#include "runtime/plan/parameter_set.h"

namespace minuet {

/// Names the sets and maps on which an execution runs if they are in a buffer of the caller.
struct PyramidUse {
  // The pointer is null if the execution prepares sets or maps.
  std::shared_ptr<const Pyramid> pyramid;
  // Holds the number of the pyramid's map that a single op reads. A network's maps are found by their kernels
  // and tensor strides.
  i32 map = 0;
  // Says of which tensors the rows are in the order of the set, and not in the caller's. Only level 0 has two
  // orders.
  u32 set_order = 0;
  static constexpr u32 kInput = 1, kOutput = 2, kResidual = 4;
  bool operator==(const PyramidUse&) const = default;
};

struct ExecutionOptions {
  i64 max_points = 0;
  NetworkMapOptions cloud;
  // If the flag is false, the execution allocates its memory. If it is true, the execution uses the memory at
  // `workspace`, or takes no memory before set_workspace() if the pointer is null.
  bool has_callers_memory = false;
  void* workspace = nullptr;
  i64 workspace_bytes = 0;
  // Limits the bytes of the buffers of a layer that runs as gather-GEMM-scatter. If the value is 0, the limit
  // depends on the size of the cloud.
  i64 scratch_bytes = 0;
  // The pointer is null if the execution uses no queue.
  std::shared_ptr<Queue> queue;
  // Holds the values of the parameters. If the pointer is null, the plan's own values are used.
  std::shared_ptr<ParameterSet> parameters;
  // Says whether run() takes the parameters as inputs, behind those of the program.
  bool parameter_inputs = false;
  PyramidUse on;
};

}  // namespace minuet
