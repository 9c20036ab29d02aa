// cuBLASLt, opened with dlopen at first use: the table of its entry points, and its errors.
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

  /// Returns the process's library, or the file `named`. Thread-safe; the library is never unloaded. If there
  /// is none, returns Unavailable with every place that was tried and how to get it; the next call looks
  /// again.
  static llvm::Expected<const CublasLt*> get(const std::string& named = {});
};

/// Returns the places where the library is looked for, in order. If `named` or MINUET_CUBLASLT is set, it is
/// the only one; otherwise they are the loader's path, CUDA toolkits, and the wheels of visible Python
/// environments.
std::vector<std::string> cublaslt_candidates(const std::string& named = {});

llvm::Error cublaslt_error(const CublasLt& library, cublasStatus_t status, llvm::StringRef attempt);

inline llvm::Error check(const CublasLt& library, cublasStatus_t status, const char* attempt) {
  if (status == CUBLAS_STATUS_SUCCESS) return llvm::Error::success();
  return cublaslt_error(library, status, attempt);
}

}  // namespace minuet
