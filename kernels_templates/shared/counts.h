// Reads counts of rows, points and pairs that are in device memory. Kernels and the CPU device share it.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// Returns the number that `count` points to, or `most` if the pointer is null. A number that is not 0 to
/// `most` counts as 0.
MINUET_HD i64 count_within(const i32* count, i64 most) {
  if (count == nullptr) return most;
  const i64 given = *count;
  return given < 0 || given > most ? 0 : given;
}

}  // namespace minuet
