// The ops unpool and upsample of a description.
#pragma once

#include "runtime/network/graph_builder.h"
#include "runtime/network/ops/op_entry.h"

namespace minuet {

OpEntry unpool_entry();
OpEntry upsample_entry();

/// Returns the map that pairs each cell of the level of graph.current() with the voxels of level `fine` in
/// it. The field "onto" of the layer has the name of a result on level `fine`.
llvm::Expected<WindowRecord> find_cells_map(GraphBuilder& graph, const std::string& onto, i32 fine);

}  // namespace minuet
