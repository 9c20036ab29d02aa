// This file has functions of pointwise chains that the kernel and the CPU device share. Those that map one
// number to one number are in activation_functions.h, and their gradients in activation_gradients.h.
#pragma once

#include "kernels_templates/shared/activation_gradients.h"
#include "kernels_templates/shared/pointwise_kernels.h"

namespace minuet {

/// Returns true if `value` replaces the maximum `before` of lower channels. The first of several equal
/// numbers, or of several NaN, stays. NaN counts as the largest number.
MINUET_HD bool is_larger(float value, float before) {
  return value > before || (value != value && before == before);
}

}  // namespace minuet
