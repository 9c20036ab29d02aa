// The op global_pool of a description.
#pragma once

#include "runtime/network/ops/op_entry.h"

namespace minuet {

OpEntry global_pool_entry();

}  // namespace minuet
