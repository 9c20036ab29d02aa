// The op concat of a description.
#pragma once

#include "runtime/network/ops/op_entry.h"

namespace minuet {

OpEntry concat_entry();

}  // namespace minuet
