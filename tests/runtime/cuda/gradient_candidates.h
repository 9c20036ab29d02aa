// Runs candidates for the gradient of a weight that the library does not choose, so that a benchmark can
// compare them.
#pragma once

#include <string>
#include <vector>

#include "runtime/cuda/gradient_step.h"

namespace minuet {

/// A submanifold convolution of kernel 3^3, whose operands are in device memory.
struct CandidateLayer {
  PairList list;
  const void *input, *gradient;  // fp16 [rows, channels]
  i64 rows;
  i32 channels;
  float* weight_gradient;  // [27, channels, channels]
};

/// The choices of one candidate each, for so many input and output channels of fp16.
struct NamedCandidate {
  std::string name;
  ParameterGradientChoice choice;
};
std::vector<NamedCandidate> gradient_candidates(i32 channels);

/// Compiles and runs one candidate on the GPU of tests/runtime/cuda/gpu.h.
class CandidateRun {
 public:
  explicit CandidateRun(const ParameterGradientChoice& choice);
  i64 workspace_bytes(const CandidateLayer& layer) const;
  void compute(const CandidateLayer& layer, void* workspace, CUstream stream);

 private:
  const ParameterGradientChoice choice_;
  std::unique_ptr<Launcher> launcher_;
  std::unique_ptr<GradientStep> step_;
};

}  // namespace minuet
