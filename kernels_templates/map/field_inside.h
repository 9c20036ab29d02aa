// This file clamps coordinates to a cloud's bounds before they are packed.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/map_kernels.h"

namespace minuet {

/// Returns field f of a coordinate, clamped to the bounds, and sets bits of `status` if the field was
/// outside. The kernels continue, because the host sees the status only later, and clamping keeps their keys
/// valid.
MINUET_DEVICE i32 field_inside(const CloudLayout& cloud, const i32* coordinate, i32 f, u32& status) {
  const i32 value = fresh(coordinate + f);
  const i32 raised = value < cloud.least[f] ? cloud.least[f] : value;
  const i32 inside = raised > cloud.greatest[f] ? cloud.greatest[f] : raised;
  if (inside != value) status |= kStatusOutOfBounds;
  if (f == 0 && value < 0) status |= kStatusNegativeBatch;
  return inside;
}

}  // namespace minuet
