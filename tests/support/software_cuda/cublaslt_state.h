// What the stand-in remembers between calls: counts, and the failures that a test has asked for.
#pragma once

#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "tests/support/software_cuda/cublaslt_control.h"
#include "tests/support/software_cuda/cublaslt_problem.h"

namespace minuet::software {

/// Thread-safe.
class State {
 public:
  static State& get();

  cublasLtHandle_t add_handle();
  bool has_handle(const void* handle);
  bool drop_handle(const void* handle);

  /// Counts a call; a status where a test wants it to fail.
  std::optional<cublasStatus_t> begin_lookup();
  std::optional<cublasStatus_t> begin_matmul();
  void count_found();
  void count_enqueued(const Algorithm& algorithm);
  /// How many products have run before.
  uint64_t count_product();

  /// Null, or why look-ups of such a call find nothing.
  const char* hidden(const MatmulCall& call);
  bool refuses_inexact();

  /// What nobody should call.
  cublasStatus_t wrong(const char* why, cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE);
  /// What cuBLASLt may refuse, and a caller must be ready for.
  cublasStatus_t refuse(const char* why, cublasStatus_t status);

  SoftwareCublasltCounts counts();
  std::string last_refusal();
  struct Failures {
    int64_t count = 0;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  };
  struct Wishes {
    Failures lookups, matmuls;
    uint32_t hidden = 0;
    uint32_t scarcity = 8;
    bool exact_only = false;
  };
  template <class Change>
  void wish(const Change& change) {
    const std::lock_guard<std::mutex> lock(mutex_);
    change(wishes_);
  }
  void reset();

 private:
  std::optional<cublasStatus_t> begin(int64_t& count, Failures& failures);

  std::mutex mutex_;
  std::set<const void*> handles_;
  std::set<std::string> loaded_;  // algorithms that have run, byte by byte
  uintptr_t last_handle_ = 0;
  SoftwareCublasltCounts counts_ = {};
  Wishes wishes_;
  std::string last_refusal_;
};

}  // namespace minuet::software
