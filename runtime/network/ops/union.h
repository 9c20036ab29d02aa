// The ops union and intersection of a description.
#pragma once

#include "runtime/network/ops/op_entry.h"

namespace minuet {

OpEntry union_entry();
OpEntry intersection_entry();

}  // namespace minuet
