// This file reads the candidates of a selection (shared/select_kernels.h).
#pragma once

#include "kernels_templates/core/convert.h"
#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/map_kernels.h"
#include "kernels_templates/shared/select_kernels.h"

namespace minuet {

/// Returns the number of candidates that exist. A number of rows that is not 0 to most_rows counts as 0.
template <SelectSource Source>
MINUET_DEVICE i64 count_candidates(const Candidates& candidates) {
  if constexpr (Source == SelectSource::Cells) return candidates.most;
  if (candidates.row_count == nullptr) return candidates.most;
  const i64 rows = fresh(candidates.row_count);
  return rows < 0 || rows > candidates.most_rows ? 0 : rows * candidates.children;
}

/// Returns the row of a child, or the number of a cell.
template <SelectSource Source>
MINUET_DEVICE i64 row_of_candidate(const Candidates& candidates, i64 candidate) {
  if constexpr (Source == SelectSource::Cells) return candidate;
  // The usual case, in which each row is its own child, needs no division.
  return candidates.children == 1 ? candidate : quotient(candidate, candidates.children);
}

/// Returns the bits of an element of the dtype.
template <DType T>
MINUET_DEVICE u32 fresh_bits(const void* base, i64 element) {
  if constexpr (dtype_bytes(T) == 4) {
    return fresh(static_cast<const u32*>(base) + element);
  } else {
    return fresh(static_cast<const u16*>(base) + element);
  }
}
template <DType T>
MINUET_DEVICE float float_of_bits(u32 bits) {
  if constexpr (dtype_bytes(T) == 4) {
    return float_of(bits);
  } else {
    return from_16_bits<T>(static_cast<u16>(bits));
  }
}

/// Returns the bits of the score of a candidate.
template <DType T, SelectSource Source>
MINUET_DEVICE u32 score_bits_of(const SelectParams& p, i64 candidate) {
  const i64 row = row_of_candidate<Source>(p.candidates, candidate);
  const i64 child = Source == SelectSource::Cells ? 0 : candidate - row * p.candidates.children;
  return fresh_bits<T>(p.scores, row * p.scores_ld + child);
}

/// Finds the coordinate of a candidate, batch first. Returns false if int32 cannot hold it.
template <i32 Ndim, SelectSource Source>
MINUET_DEVICE bool find_coordinate(const Candidates& candidates, i64 candidate, i32* coordinate) {
  if constexpr (Source == SelectSource::Cells) {
    find_cell_of_grid<Ndim>(candidates.grid, static_cast<i32>(candidate), coordinate);
    return true;
  } else {
    const i64 row = row_of_candidate<Source>(candidates, candidate);
    i32 parent[1 + Ndim];
    MINUET_UNROLL
    for (i32 f = 0; f <= Ndim; ++f) parent[f] = fresh(candidates.coordinates + row * (1 + Ndim) + f);
    return find_child<Ndim>(candidates, parent, static_cast<i32>(candidate - row * candidates.children),
                            coordinate);
  }
}

}  // namespace minuet
