// Reads a weight from an array of the caller, whose axes are in the order of any engine (WeightsOrder).
#pragma once

#include "runtime/weights/given_array.h"
#include "runtime/weights/weights_order.h"

namespace minuet {

/// Describes how the elements of [kernel sizes..., in_channels, out_channels] are found in an array.
struct GivenWeight {
  llvm::SmallVector<i64, kMaxArrayAxes> shape, strides;
};

/// Returns where the elements of the weight are in `array`. Returns InvalidArgument if the array has none of
/// the shapes that a weight of this order has, or if the engine of this order computes another function for
/// the layer.
llvm::Expected<GivenWeight> find_weight(const GivenArray& array, WeightsOrder order,
                                        const ConvolutionProblem& problem, llvm::StringRef name);

}  // namespace minuet
