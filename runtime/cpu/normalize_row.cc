#include "runtime/cpu/normalize_row.h"

#include "kernels_templates/shared/activation_functions.h"

namespace minuet {

float normalize_row(float epsilon, float* values, i32 count) {
  const auto channels = static_cast<float>(count);
  const float mean = sum_of(count, [&](i32 c) { return values[c]; }) / channels;
  for (i32 c = 0; c < count; ++c) values[c] -= mean;
  const float variance = sum_of(count, [&](i32 c) { return values[c] * values[c]; }) / channels;
  const float factor = 1.0f / square_root(variance + epsilon);
  for (i32 c = 0; c < count; ++c) values[c] *= factor;
  return factor;
}

}  // namespace minuet
