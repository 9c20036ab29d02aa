// The op collapse of a description.
#pragma once

#include "runtime/network/ops/op_entry.h"

namespace minuet {

OpEntry collapse_entry();

}  // namespace minuet
