// cuBLASLt, opened with dlopen at first use: the table of its entry points, its errors.
#pragma once

#include <cublasLt.h>

#include <string>
#include <vector>

#include "codegen/base/error.h"

namespace minuet {

struct CublasLt {
#define MINUET_CUBLASLT_ROW(name) decltype(&::name) name = nullptr;
#include "runtime/cuda/cublaslt.inc"
  std::string path;     // as the loader found it
  std::string version;  // "13.0.2"

  /// The process's library, or the file that the caller names. Thread-safe; never unloaded. Unavailable, with
  /// every place that was tried and the way to get it, where there is none; asked again, it looks again.
  static llvm::Expected<const CublasLt*> get(const std::string& named = {});
};

/// Where the library is looked for, in order: `named` or MINUET_CUBLASLT alone where it is set, else the
/// loader's path, CUDA toolkits, and the wheels of the Python environments that are visible from here.
std::vector<std::string> cublaslt_candidates(const std::string& named = {});

llvm::Error cublaslt_error(const CublasLt& library, cublasStatus_t status, llvm::StringRef attempt);

inline llvm::Error check(const CublasLt& library, cublasStatus_t status, const char* attempt) {
  if (status == CUBLAS_STATUS_SUCCESS) return llvm::Error::success();
  return cublaslt_error(library, status, attempt);
}

}  // namespace minuet
