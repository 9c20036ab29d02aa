// A weights file's bytes as they were read, so that the report's digest is of what was run.
#pragma once

#include <memory>
#include <string>

#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

namespace minuet::tool {

/// The library takes a path and reads the file itself, so that a digest of the file would be a second read:
/// of other bytes where the file is replaced meanwhile, and of none where it is a pipe. The bytes are
/// therefore read once, into memory that has a path.
struct WeightsSnapshot {
  std::string path;  ///< as long as this lives
  std::string sha256;
  std::unique_ptr<llvm::raw_fd_ostream> memory;
};

llvm::Expected<WeightsSnapshot> read_weights(const std::string& path);

}  // namespace minuet::tool
