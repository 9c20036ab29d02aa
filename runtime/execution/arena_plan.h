// Decides where the parts of an execution's memory are placed. The functions are pure and access no memory of
// the execution.
#pragma once

#include <vector>

#include "kernels_templates/shared/types.h"
#include "llvm/ADT/ArrayRef.h"

namespace minuet {

/// Lists the phases of an execution's work on a cloud, in the order in which they happen.
enum class Phase : i32 {
  // In this phase, prepare makes coordinate sets and kernel maps.
  Maps,
  // In this phase, prepare makes the views of the maps (ViewForm) and the other data that Execution::run()
  // reads.
  Views,
  Run,
};

/// Holds the first and the last phase in which a part of the memory is in use.
struct Lifetime {
  Phase first, last;
};

/// Names the block of device memory that contains a part of an execution's memory.
enum class Owner : i32 {
  // This is the execution's own block, or the caller's workspace.
  Arena,
  // This is a block of the execution's Queue. Between two calls, other executions may use the block.
  QueueScratch,
};

struct ArenaPart {
  i64 bytes = 0;
  Lifetime lifetime{Phase::Maps, Phase::Run};
  Owner owner = Owner::Arena;
};

struct ArenaPlan {
  // Holds the offset of each part within its block, in bytes.
  std::vector<i64> offsets;
  i64 arena_bytes = 0, scratch_bytes = 0;
};

/// Places each part behind all earlier parts of the same block that are in use in the same phase as the part.
/// Parts that are never in use in the same phase may overlap. If `shares` is false, no two parts of a block
/// overlap.
ArenaPlan plan_arena(llvm::ArrayRef<ArenaPart> parts, bool shares);

}  // namespace minuet
