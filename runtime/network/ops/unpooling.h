// The ops unpool and upsample of a description.
#pragma once

#include "runtime/network/ops/op_entry.h"

namespace minuet {

OpEntry unpool_entry();
OpEntry upsample_entry();

}  // namespace minuet
