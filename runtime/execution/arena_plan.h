// Decides where the parts of an execution's memory are placed. Pure: no memory is accessed here.
#pragma once

#include <vector>

#include "kernels_templates/shared/types.h"
#include "llvm/ADT/ArrayRef.h"

namespace minuet {

/// The phases of an execution's work on a cloud, in this order.
enum class Phase : i32 {
  Maps,   // prepare makes coordinate sets and kernel maps
  Views,  // prepare makes views of the maps, and the other data that runs read
  Run,
};

/// The phases in which a part is in use; both ends are included.
struct Lifetime {
  Phase first, last;
};

/// The block of device memory that contains a part.
enum class Owner : i32 {
  Arena,         // the execution's own block or the caller's workspace
  QueueScratch,  // a block of the queue, which other executions may use between two calls
};

struct ArenaPart {
  i64 bytes = 0;
  Lifetime lifetime{Phase::Maps, Phase::Run};
  Owner owner = Owner::Arena;
};

struct ArenaPlan {
  std::vector<i64> offsets;  // of each part, within its block
  i64 arena_bytes = 0, scratch_bytes = 0;
};

/// Places each part after all earlier parts of its block that are in use in one of its phases. If `shares` is
/// false, no two parts of a block overlap.
ArenaPlan plan_arena(llvm::ArrayRef<ArenaPart> parts, bool shares);

}  // namespace minuet
