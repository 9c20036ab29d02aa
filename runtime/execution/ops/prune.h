// Runs the layers that keep rows of a level, or some of their children, as a new level.
#pragma once

#include "runtime/execution/leading_op.h"

namespace minuet {

LeadingFamily prune_family();

}  // namespace minuet
