// Implements, on the GPU, the copies between a level and a coarser one whose rows have the features of their
// children side by side, with one launch per layer.
#pragma once

#include "runtime/cuda/ops.h"

namespace minuet {

/// Makes the object that runs all ops with a SpaceToChannelChoice.
std::unique_ptr<CudaOps> make_space_to_channel(Launcher& launcher, const CudaEngineOptions& options);
/// Makes the object that runs all ops with a ChannelToSpaceChoice.
std::unique_ptr<CudaOps> make_channel_to_space(Launcher& launcher, const CudaEngineOptions& options);

}  // namespace minuet
