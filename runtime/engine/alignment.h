// Checks the alignment that kernels need to read and write the caller's matrices 16 bytes at a time.
#pragma once

#include <cstdint>

#include "codegen/base/error.h"

namespace minuet {

constexpr std::uintptr_t kVectorAlignment = 16;

/// Returns true if the address is a multiple of `bytes` bytes.
inline bool is_multiple(const void* address, std::uintptr_t bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

inline llvm::Error check_alignment(const void* pointer, std::uintptr_t alignment, const char* what) {
  if (is_multiple(pointer, alignment)) return llvm::Error::success();
  return make_error(
      StatusCode::InvalidArgument,
      "{0} begins at an address that is not a multiple of {1} bytes: copy it into aligned memory", what,
      alignment);
}

}  // namespace minuet
