// The list of kernels that no bundle had, one JSON line each, for `minuet precompile --from` (R22).
// Thread-safe.
#pragma once

#include <string>

#include "codegen/base/error.h"
#include "codegen/source/keys.h"

namespace minuet {

class RecordFile {
 public:
  explicit RecordFile(std::string path) : path_(std::move(path)) {}
  /// One write to the end of the file, so that lines of many processes do not mix.
  llvm::Error append(const KernelRequest& request) const;

 private:
  std::string path_;
};

}  // namespace minuet
