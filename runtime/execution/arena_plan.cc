#include "runtime/execution/arena_plan.h"

#include <algorithm>

namespace minuet {
namespace {

bool meet(Lifetime a, Lifetime b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

ArenaPlan plan_arena(llvm::ArrayRef<ArenaPart> parts, bool shares) {
  ArenaPlan plan;
  for (const ArenaPart& part : parts) {
    i64 offset = 0;
    for (std::size_t i = 0; i < plan.offsets.size(); ++i) {
      const ArenaPart& earlier = parts[i];
      if (earlier.owner != part.owner || (shares && !meet(earlier.lifetime, part.lifetime))) continue;
      offset = std::max(offset, plan.offsets[i] + earlier.bytes);
    }
    plan.offsets.push_back(offset);
    i64& bytes = part.owner == Owner::Arena ? plan.arena_bytes : plan.scratch_bytes;
    bytes = std::max(bytes, offset + part.bytes);
  }
  return plan;
}

}  // namespace minuet
