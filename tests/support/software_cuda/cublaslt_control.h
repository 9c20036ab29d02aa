// What a test asks of the cuBLASLt stand-in: counts, and failures on demand. Exported by libcublasLt.so;
// found by dlsym in the library that is loaded already (dlopen with RTLD_NOLOAD). Thread-safe.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>

extern "C" {
struct SoftwareCublasltCounts {
  int64_t lookups;           // calls of cublasLtMatmulAlgoGetHeuristic, whatever they answered
  int64_t lookups_found;     // those with an algorithm
  int64_t matmuls;           // calls of cublasLtMatmul, whatever they answered
  int64_t matmuls_enqueued;  // those that succeeded
  int64_t products;          // what has run; a replay of a graph counts again
  int64_t
      wrong_calls;  // what no caller should do: no descriptor, a wrong size, an algorithm for something else
  int64_t kernels_loaded;  // algorithms that ran for the first time in the process
  int64_t handles;         // created and not destroyed; reset leaves them
};

void software_cublaslt_counts(SoftwareCublasltCounts* counts);
/// Why the last call that was refused was refused, those that a test asked for included; "" where none was.
void software_cublaslt_last_refusal(char* text, std::size_t bytes);

/// The next `count` look-ups, or matmuls, answer `status`.
void software_cublaslt_fail_lookups(int64_t count, cublasStatus_t status);
void software_cublaslt_fail_matmuls(int64_t count, cublasStatus_t status);

/// Look-ups of these modes find no algorithm; 0 takes it back.
enum SoftwareCublasltModes : uint32_t {
  kSoftwareCublasltSingle = 1,
  kSoftwareCublasltStrided = 2,
  kSoftwareCublasltPointers = 4,
  kSoftwareCublasltAll = 7,
};
void software_cublaslt_hide_algorithms(uint32_t modes);
/// One in `one_in` shapes has no algorithm for pointer arrays, the same ones every time: 8 unless told, 0:
/// none.
void software_cublaslt_set_scarcity(uint32_t one_in);
/// Whether cublasLtMatmul refuses an algorithm whose look-up had another n or batch count: one is needed that
/// was looked up for this very problem.
void software_cublaslt_refuse_inexact(int on);
/// As loaded: no failure is asked for, every count is 0.
void software_cublaslt_reset(void);
}
