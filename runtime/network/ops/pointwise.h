// The ops of a description that compute each row of their result from the same row of their inputs, such as
// relu, add and softmax. Consecutive ones become one op of the program if nothing else reads what is between
// them.
#pragma once

#include "runtime/network/ops/op_entry.h"

namespace minuet {

/// Returns InvalidArgument, at the field "with", if the tensor `operand`, which the description calls `name`,
/// has another number of channels than the layer's input.
llvm::Error check_same_channels(GraphBuilder& graph, const std::string& name, i32 operand);
/// Adds the sum of the layer's input and the tensor `operand`, and makes it the layer's result.
llvm::Error add_sum(GraphBuilder& graph, i32 operand);

OpEntry relu_entry();
OpEntry leaky_relu_entry();
OpEntry gelu_entry();
OpEntry silu_entry();
OpEntry sigmoid_entry();
OpEntry tanh_entry();
OpEntry add_entry();
OpEntry multiply_entry();
OpEntry softmax_entry();
OpEntry argmax_entry();
OpEntry batch_norm_entry();
OpEntry scale_shift_entry();
OpEntry layer_norm_entry();

}  // namespace minuet
