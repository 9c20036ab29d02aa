// The kernel join_words computes *to |= *from for each of its pairs of words, of which several may have the
// same target. It runs as one block, and thread i handles pair i.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/word_kernels.h"

namespace minuet {

template <JoinWordsSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void join_words(MINUET_PARAMS(JoinWordsParams) p) {
  follow_last_launch();
  for (i32 i = static_cast<i32>(threadIdx.x); i < p.count; i += S.threads) {
    atomicOr(p.words[i].to, *p.words[i].from);
  }
}

}  // namespace minuet
