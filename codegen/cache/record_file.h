// Appends the requests for kernels that no bundle has to a file, each as one line of JSON, so that `minuet
// precompile --from` can compile these kernels. All functions are thread-safe.
#pragma once

#include <string>

#include "codegen/base/error.h"
#include "codegen/source/keys.h"

namespace minuet {

class RecordFile {
 public:
  explicit RecordFile(std::string path) : path_(std::move(path)) {}
  /// Appends a line with a single write, so that the lines of several processes do not mix.
  llvm::Error append(const KernelRequest& request) const;

 private:
  std::string path_;
};

}  // namespace minuet
