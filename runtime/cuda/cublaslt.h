// Opens cuBLASLt with dlopen at its first use. Declares the table of its entry points and the conversion of
// its errors.
#pragma once

#include <cublasLt.h>

#include <string>
#include <vector>

#include "codegen/base/error.h"

namespace minuet {

struct CublasLt {
#define MINUET_CUBLASLT_ROW(name) decltype(&::name) name = nullptr;
#include "runtime/cuda/cublaslt.inc"
  std::string path;     // Holds the path that dlopen() accepted.
  std::string version;  // An example is "13.0.2".

  /// Returns the entry points of the library in the file `named`, or of the first usable library if `named`
  /// is empty. The function is thread-safe, and the library is never unloaded. If no library is usable, it
  /// returns Unavailable; the message lists every place that was tried and says how to get the library. The
  /// next call searches again.
  static llvm::Expected<const CublasLt*> get(const std::string& named = {});
};

/// Returns the paths at which the library is searched for, in order. If `named` is not empty, it is the only
/// one. Otherwise the value of the environment variable MINUET_CUBLASLT is the only one, if it is set.
/// Otherwise the places are the search path of the loader, CUDA toolkits, and Python environments with
/// wheels.
std::vector<std::string> cublaslt_candidates(const std::string& named = {});

llvm::Error cublaslt_error(const CublasLt& library, cublasStatus_t status, llvm::StringRef attempt);

inline llvm::Error check(const CublasLt& library, cublasStatus_t status, const char* attempt) {
  if (status == CUBLAS_STATUS_SUCCESS) return llvm::Error::success();
  return cublaslt_error(library, status, attempt);
}

}  // namespace minuet
