// Applies an activation to a row of numbers on the CPU.
#pragma once

#include "runtime/vector/vector_kernels.h"

namespace minuet {

/// Replaces each value by the activation of it. Only a leaky ReLU reads `slope`.
void activate_row(const VectorKernels& kernels, Activation activation, float slope, float* values, i64 count);

}  // namespace minuet
