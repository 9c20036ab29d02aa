// The op concat of a description.
#pragma once

#include "runtime/network/ops/op_entry.h"

namespace minuet {

OpEntry concat_entry();

/// Returns InvalidArgument if the concatenation of the current tensor and tensor `right`, which the
/// description calls `name`, would have too many channels.
llvm::Error check_concat(GraphBuilder& graph, const std::string& name, i32 right);

/// Makes the concatenation of the current tensor and tensor `right`, which is on the same level, the current
/// one. Both are placed side by side in one storage, so that the layers that compute them write in place. A
/// tensor has one place only, so a tensor that another concatenation has is copied.
llvm::Error add_concat(GraphBuilder& graph, i32 right);

}  // namespace minuet
