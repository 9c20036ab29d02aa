// This file declares the Spec (compile time) and Params (run time) of the kernel that joins words. All
// pointers are device pointers.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// The kernel join_words sets the bits of some words in other words. It runs as one block.
struct JoinWordsSpec {
  i32 threads = 32;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
constexpr i32 kMostJoinedWords = 32;
/// Names a word whose bits are set in the word at `to`.
struct JoinedWord {
  const u32* from;
  u32* to;
};
struct JoinWordsParams {
  JoinedWord words[kMostJoinedWords];
  i32 count;
};

}  // namespace minuet
