// A weights file's bytes as they were read, so that the report's digest is of what was run.
#pragma once

#include <string>

#include "llvm/Support/Error.h"

namespace minuet::tool {

/// The file is read once, so that it may be a pipe, and may be replaced while the tool works.
class WeightsSnapshot {
 public:
  static llvm::Expected<WeightsSnapshot> read(const std::string& path);
  WeightsSnapshot(WeightsSnapshot&& other) noexcept;
  WeightsSnapshot& operator=(WeightsSnapshot&&) = delete;
  ~WeightsSnapshot();

  /// The bytes for the library, which takes a path; as long as this lives.
  std::string path() const;
  const std::string& sha256() const { return sha256_; }

 private:
  WeightsSnapshot(std::string file, int descriptor) : file_(std::move(file)), descriptor_(descriptor) {}
  llvm::Error copy(int from);

  std::string file_, sha256_;
  int descriptor_;  ///< of memory
};

}  // namespace minuet::tool
