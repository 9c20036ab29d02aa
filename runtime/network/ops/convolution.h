// The ops of a description that are one convolution: block, up, inverse, head, linear and generative_up.
#pragma once

#include "runtime/network/ops/op_entry.h"

namespace minuet {

OpEntry block_entry();
OpEntry up_entry();
OpEntry inverse_entry();
OpEntry head_entry();
OpEntry linear_entry();
OpEntry generative_up_entry();

}  // namespace minuet
