// Describes the parameters of chains of pointwise steps.
#pragma once

#include "runtime/engine/engine.h"

namespace minuet {

/// Points to the parameters of a chain on a device. The constructor takes them in the order of
/// parameter_images(). Both arrays have a row of [channels] numbers for each Affine step, in the order of the
/// steps, and are null if there is none.
struct PointwiseParameters {
  const float *scale = nullptr, *shift = nullptr;

  explicit PointwiseParameters(llvm::ArrayRef<const void*> parameters) {
    if (parameters.size() < 2) return;
    scale = static_cast<const float*>(parameters[0]), shift = static_cast<const float*>(parameters[1]);
  }
};

}  // namespace minuet
