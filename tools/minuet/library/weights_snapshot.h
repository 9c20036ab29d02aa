// Copies a weights file, so that the report's digest belongs to the bytes that were used.
#pragma once

#include <memory>
#include <string>

#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace minuet::tool {

/// Holds the bytes of a weights file, read once into memory that has a path. The library takes a path and
/// reads the file itself. Computing the digest from the file would be a second read, which gives other bytes
/// if the file was replaced meanwhile, and none if it is a pipe.
struct WeightsSnapshot {
  std::string path;  ///< The memory has this path while this object lives.
  std::string sha256;
  std::unique_ptr<llvm::raw_fd_ostream> memory;
};

/// Reads the file. A path of a device is an error, because a device may have no end.
llvm::Expected<WeightsSnapshot> read_weights(const std::string& path);

}  // namespace minuet::tool
