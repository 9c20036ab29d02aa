// The ops that keep rows of a level, or some of their children, as a new level.
#pragma once

#include "codegen/choose/ops/prune.h"
#include "runtime/network/graph_builder.h"
#include "runtime/network/ops/op_entry.h"

namespace minuet {

OpEntry prune_entry();
OpEntry subdivide_entry();

/// Appends a layer that makes the level `made` of scores, or of a dense tensor, and brings the current tensor
/// onto it. If an earlier layer has made the level by the same rule of the tensor `by`, the new layer brings
/// its tensor onto that level. The result is the new layer's output.
llvm::Error add_made_level(GraphBuilder& graph, PruneProblem problem, i32 by, LevelSpec made);

}  // namespace minuet
