// What each fuzz target offers to libFuzzer and to the replay of its corpus.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace minuet {

/// One input of anybody's. True where the reader took it to the end.
bool fuzz_one(llvm::StringRef input);

/// Of what must hold for any input: stops where libFuzzer sees it.
inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace minuet
