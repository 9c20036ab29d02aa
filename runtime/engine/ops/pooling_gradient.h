// Describes the request of the gradient of a pooling's input.
#pragma once

#include "runtime/engine/engine.h"

namespace minuet {

/// Requests an op of the family PoolingGradientChoice. Its input is the gradient of the pooling's output, and
/// its operand, if there is one, holds the winners of the pooling.
struct PoolingGradientRequest : NeighbourRequest {
  /// Points to a word for each input row, in which the op counts the inputs of an average. It is null for
  /// other poolings.
  u32* counts = nullptr;
};

}  // namespace minuet
