// The kernel permute_weights sets output[slot] = input[order[slot]] in slices of slice_bytes. Each thread
// handles one vector at a time.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/shared/gmas_kernels.h"

namespace minuet {

template <PermuteWeightsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void permute_weights(MINUET_PARAMS(PermuteWeightsParams) p) {
  const i64 vectors = p.slice_bytes / S.vector_bytes;  // This is the number of vectors per slice.
  const i64 stride = grid_threads(S.threads);
  RowIterator walk(grid_thread(S.threads), stride, vectors);
  for (i64 i = grid_thread(S.threads); i < vectors * p.volume; i += stride, walk.advance()) {
    const i64 source = read_only(p.order + walk.outer());
    store_vector(
        p.output, i * S.vector_bytes,
        load_vector<S.vector_bytes>(p.input, source * p.slice_bytes + walk.inner() * S.vector_bytes));
  }
}

}  // namespace minuet
