// Computes the checksum of zip archives. llvm::crc32() computes the same, but it calls zlib, which the
// library would link for this alone.
#pragma once

#include <cstdint>

#include "llvm/ADT/StringRef.h"

namespace minuet {

/// Returns the CRC-32 of the bytes. The function is thread-safe.
std::uint32_t zip_checksum(llvm::StringRef bytes);

}  // namespace minuet
