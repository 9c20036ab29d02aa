// The problem that four layouts and an operation make, checked; algorithms for it.
#pragma once

#include "tests/support/software_cuda/cublaslt_types.h"

namespace minuet::software {

struct MatmulCall {
  Operation operation;
  MatrixLayout layouts[kOperands];

  int mode() const { return layouts[kA].pointers ? kPointers : layouts[kA].batch > 1 ? kStrided : kSingle; }
  uint64_t m() const { return layouts[kA].rows; }
  uint64_t n() const { return layouts[kB].columns; }
  uint64_t k() const { return layouts[kA].columns; }
  int32_t batch() const { return layouts[kA].batch; }
};

/// Null, or what makes the call one that nobody should make.
const char* read_call(const cublasLtMatmulDescOpaque_t* operation,
                      const cublasLtMatrixLayoutOpaque_t* const (&layouts)[4], MatmulCall& call);
/// Whether there are such products at all.
bool is_supported(const MatmulCall& call);

uint64_t hash_of(const MatmulCall& call);
Algorithm algorithm_for(const MatmulCall& call, const Preference& preference, uint64_t number);
/// Null, or why `algorithm` is none for this call. `exact`: its look-up must have been for this very problem.
const char* refusal(const Algorithm& algorithm, const MatmulCall& call, bool exact);

}  // namespace minuet::software
