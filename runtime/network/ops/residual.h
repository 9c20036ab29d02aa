// The ops residual and bottleneck of a description.
#pragma once

#include "runtime/network/ops/op_entry.h"

namespace minuet {

OpEntry residual_entry();
OpEntry bottleneck_entry();

}  // namespace minuet
