// The ops space_to_channel and channel_to_space of a description.
#pragma once

#include "runtime/network/ops/op_entry.h"

namespace minuet {

OpEntry space_to_channel_entry();
OpEntry channel_to_space_entry();

}  // namespace minuet
