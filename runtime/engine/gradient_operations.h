// Declares the computation of the gradients of parameters of convolutions and of affine steps.
#pragma once

#include "codegen/base/error.h"
#include "codegen/choose/ops/affine_gradient.h"
#include "codegen/choose/ops/parameter_gradient.h"
#include "llvm/ADT/ArrayRef.h"

namespace minuet {

/// Requests the steps of a list of pairs, for the gradients of the weights of all layers that read the list.
struct PairStepsRequest {
  PairList list;
  i64 volume = 1;
  i32* steps = nullptr;  // Receives step_words() numbers.
};

/// Requests the gradients that the choice's problem names.
struct ParameterGradientRequest {
  const ParameterGradientChoice* choice = nullptr;
  /// Lists the pairs of the kernel map. It is not read if only the gradient of the bias is computed.
  PairList list = {};
  /// Points to what list_steps() has found for the list. Null means that compute() finds it.
  i32* steps = nullptr;
  bool is_swapped = false;  // Says whether the pairs name the output row before the input row.
  const void* input = nullptr;
  i64 input_rows = 0, input_ld = 0;
  const void* gradient = nullptr;  // Points to the gradient of the output.
  i64 gradient_rows = 0, gradient_ld = 0;
  /// Points to the number of output rows. Null means that it is `gradient_rows`.
  const i32* gradient_count = nullptr;
  float* weight_gradient = nullptr;
  /// Hold the distances of neighbouring elements of the weight's gradient along the axes of the kernel and
  /// along the channels.
  i64 offset_strides[kMaxDim] = {}, input_stride = 0, output_stride = 0;
  float* bias_gradient = nullptr;
  bool adds = false;          // Says whether the gradients are added to what is there.
  void* workspace = nullptr;  // Has workspace_bytes() bytes and is aligned to 16 bytes.
  i32 timed_op = -1;          // Is the number in PassTimes::ops, or -1 if the request is not timed by itself.
};

/// Requests the gradients that the choice's problem names, from all rows.
struct AffineGradientRequest {
  const AffineGradientChoice* choice = nullptr;
  const void* input = nullptr;  // Is not read without the gradient of the scale.
  i64 input_ld = 0;
  const void* gradient = nullptr;  // Points to the gradient of the output.
  i64 gradient_ld = 0;
  i64 rows = 0;
  const i32* row_count = nullptr;  // Points to the number of rows. Null means that it is `rows`.
  float *scale_gradient = nullptr, *shift_gradient = nullptr;
  bool adds = false;          // Says whether the gradients are added to what is there.
  void* workspace = nullptr;  // Has workspace_bytes() bytes and is aligned to 16 bytes.
};

/// list_steps() and compute() are called between Engine::begin() and Engine::end(). They only enqueue work,
/// allocate nothing, and may be captured into a CUDA graph. Their results repeat bit by bit.
class GradientOperations {
 public:
  virtual ~GradientOperations() = default;
  virtual i64 workspace_bytes(const ParameterGradientChoice& choice, i64 most_pairs, i64 most_rows) const = 0;
  virtual llvm::Error compute(const ParameterGradientRequest& request) = 0;
  /// Returns how many numbers list_steps() stores for a list of so many offsets.
  virtual i64 step_words(i64 volume) const = 0;
  virtual llvm::Error list_steps(llvm::ArrayRef<PairStepsRequest> requests) = 0;
  virtual i64 workspace_bytes(const AffineGradientChoice& choice, i64 most_rows) const = 0;
  virtual llvm::Error compute(const AffineGradientRequest& request) = 0;
};

}  // namespace minuet
