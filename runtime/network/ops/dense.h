// The ops to_dense, birds_eye and from_dense of a description.
#pragma once

#include "runtime/network/ops/op_entry.h"

namespace minuet {

OpEntry to_dense_entry();
OpEntry birds_eye_entry();
OpEntry from_dense_entry();

}  // namespace minuet
