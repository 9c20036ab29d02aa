// Memory that nothing may touch. AddressSanitizer reports each access to it; in other builds these functions
// do nothing. Tests do not include <sanitizer/asan_interface.h> themselves: where AddressSanitizer is off,
// LLVM's Compiler.h defines macros of its functions' names, and g++ does not compile the header behind them.
#pragma once

#include <cstddef>

#include "tests/support/shim/sanitizers.h"

namespace minuet {

inline void forbid_access([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) {
#ifdef MINUET_SHIM_ASAN
  __asan_poison_memory_region(memory, bytes);
#endif
}

inline void allow_access([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) {
#ifdef MINUET_SHIM_ASAN
  __asan_unpoison_memory_region(memory, bytes);
#endif
}

}  // namespace minuet
