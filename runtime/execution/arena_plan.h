// Where the parts of an execution's memory lie, as a value: no memory is touched here.
#pragma once

#include <vector>

#include "kernels_templates/shared/types.h"
#include "llvm/ADT/ArrayRef.h"

namespace minuet {

/// What an execution does with a cloud, in this order.
enum class Phase : i32 {
  Maps,   // prepare makes coordinate sets and kernel maps
  Views,  // prepare makes views of the maps, and what else runs read
  Run,
};

/// The phases in which a part is in use, both ends included.
struct Lifetime {
  Phase first, last;
};

/// The block of device memory that a part lies in.
enum class Owner : i32 {
  Arena,         // the execution's own block, or the caller's workspace
  QueueScratch,  // a block of the queue, which other executions use between two calls
};

struct ArenaPart {
  i64 bytes = 0;
  Lifetime lifetime{Phase::Maps, Phase::Run};
  Owner owner = Owner::Arena;
};

struct ArenaPlan {
  std::vector<i64> offsets;  // of each part, in its block
  i64 arena_bytes = 0, scratch_bytes = 0;
};

/// Puts each part behind all earlier parts of its block that are in use in one of its phases. Where `shares`
/// is false, no two parts lie in the same memory.
ArenaPlan plan_arena(llvm::ArrayRef<ArenaPart> parts, bool shares);

}  // namespace minuet
