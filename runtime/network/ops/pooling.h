// The ops max_pool, average_pool and sum_pool of a description.
#pragma once

#include "runtime/network/graph_builder.h"
#include "runtime/network/ops/op_entry.h"

namespace minuet {

OpEntry max_pool_entry();
OpEntry average_pool_entry();
OpEntry sum_pool_entry();

/// Appends a pooling to the program and returns the number of its output tensor.
llvm::Expected<i32> add_pooling(GraphBuilder& graph, const std::string& name, i32 input, const Window& window,
                                Reduction reduction);

/// Appends a pooling over a kernel map, from its finer level to its coarser one, or the other way round with
/// `is_backward`. Returns the number of its output tensor.
llvm::Expected<i32> add_pooling_over(GraphBuilder& graph, const std::string& name, i32 input,
                                     const WindowRecord& window, bool is_backward, Reduction reduction);

}  // namespace minuet
