// Of which offsets a place of an ordered view has entries (kernels_templates/shared/fused_kernels.h).
#pragma once

#include <algorithm>

#include "kernels_templates/shared/fused_kernels.h"

namespace minuet {

/// Whether any of the places that read together with `place`, of `places` in all, has(place).
template <class Has>
bool any_together(i64 place, i64 places, const Has& has) {
  const i64 first = place / kPositionGroup * kPositionGroup,
            end = std::min<i64>(first + kPositionGroup, places);
  for (i64 other = first; other < end; ++other) {
    if (has(other)) return true;
  }
  return false;
}

}  // namespace minuet
