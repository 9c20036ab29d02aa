// Normalizes rows on the CPU, for layer norms and their gradients.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// Adds term(c) of all channels, in a fixed order. Several partial sums are faster than one, and lose fewer
/// digits.
template <class Term>
float sum_of(i32 count, const Term& term) {
  constexpr i32 kPartial = 16;
  float partial[kPartial] = {}, sum = 0;
  i32 c = 0;
  for (; c + kPartial <= count; c += kPartial) {
    for (i32 i = 0; i < kPartial; ++i) partial[i] += term(c + i);
  }
  for (i32 i = 0; c + i < count; ++i) partial[i] += term(c + i);
  for (const float part : partial) sum += part;
  return sum;
}

/// Replaces each value by (value - mean) / sqrt(variance + epsilon), and returns the factor 1 /
/// sqrt(variance + epsilon).
float normalize_row(float epsilon, float* values, i32 count);

}  // namespace minuet
