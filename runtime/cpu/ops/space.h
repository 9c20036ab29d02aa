// Implements, on the CPU, the copies between a level and a coarser one whose rows have the features of their
// children side by side.
#pragma once

#include "runtime/cpu/ops.h"

namespace minuet {

/// Makes an op. `choice` must hold a SpaceToChannelChoice.
llvm::Expected<std::unique_ptr<CpuOp>> make_space_to_channel_op(const OpChoice& choice);
/// Makes an op. `choice` must hold a ChannelToSpaceChoice.
llvm::Expected<std::unique_ptr<CpuOp>> make_channel_to_space_op(const OpChoice& choice);

}  // namespace minuet
