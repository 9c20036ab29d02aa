// This file declares the Spec (compile time) and Params (run time) of the kernel for chains of pointwise
// steps. All pointers are device pointers.
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// Selects what one step of a chain computes from the value x of the step before. The first step reads the
/// op's input. Steps whose names end with Gradient compute the gradient of the input of a step from x, the
/// gradient of its result, and from an operand, which holds what that step read or computed.
enum class PointwiseKind : i32 {
  None,       // The chain has ended.
  ReLU,       // Computes x, or 0 if x is negative.
  LeakyReLU,  // Computes x, or x * number if x is negative.
  Gelu,       // Computes x / 2 * (1 + erf(x / sqrt(2))).
  GeluTanh,   // Computes x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
  Silu,       // Computes x / (1 + exp(-x)).
  Sigmoid,    // Computes 1 / (1 + exp(-x)).
  Tanh,
  Add,        // Computes x + the operand's element at the same row and channel.
  Multiply,   // Computes x * the operand's element at the same row and channel.
  Affine,     // Computes x * scale[channel] + shift[channel].
  LayerNorm,  // Computes (x - mean) / sqrt(variance + number), with the mean and variance of the row.
  Softmax,    // Computes exp(x - maximum of the row) / the sum of exp(x - maximum) over the row.
  /// Computes the channel of the row's maximum as an i32. It ends the chain. Of equal channels, the lowest
  /// wins. NaN counts as the largest number.
  Argmax,
  ReLUGradient,       // Computes x, or 0 where the operand, the step's input or its result, is not positive.
  LeakyReLUGradient,  // Computes x, or x * number where the operand, the step's input, is not positive.
  GeluGradient,       // The operand of this step and of the next two is the step's input.
  GeluTanhGradient,
  SiluGradient,
  SigmoidGradient,    // Computes x * y * (1 - y), where the operand y is the step's result.
  TanhGradient,       // Computes x * (1 - y^2), where the operand y is the step's result.
  LayerNormGradient,  // The operand is the step's input, and `number` its epsilon.
  SoftmaxGradient,    // Computes y * (x - sum of x * y over the row), where the operand y is the result.
};
static_assert(static_cast<i32>(PointwiseKind::Tanh) == static_cast<i32>(Activation::Tanh),
              "the activations come first, in the order of Activation");
constexpr i32 kFirstGradientStep = static_cast<i32>(PointwiseKind::ReLUGradient);
static_assert(static_cast<i32>(PointwiseKind::TanhGradient) - kFirstGradientStep ==
                  static_cast<i32>(Activation::Tanh) - static_cast<i32>(Activation::ReLU),
              "the gradients of activations are in the order of Activation");
constexpr i32 kPointwiseKinds = static_cast<i32>(PointwiseKind::SoftmaxGradient) + 1;
constexpr i32 kMostPointwiseSteps = 8;

/// Lists the steps of a chain, which end before the first None.
struct PointwiseSteps {
  PointwiseKind kinds[kMostPointwiseSteps] = {};
  bool operator==(const PointwiseSteps&) const = default;
};

/// Returns true if the step maps one number to one number.
MINUET_HD constexpr bool is_activation(PointwiseKind kind) {
  return kind > PointwiseKind::None && kind <= PointwiseKind::Tanh;
}
/// Returns the activation that a step computes for which is_activation() is true.
MINUET_HD constexpr Activation activation_of(PointwiseKind kind) { return static_cast<Activation>(kind); }

/// Returns true if the step combines all channels of a row.
MINUET_HD constexpr bool is_row_wise(PointwiseKind kind) {
  return (kind >= PointwiseKind::LayerNorm && kind <= PointwiseKind::Argmax) ||
         kind >= PointwiseKind::LayerNormGradient;
}

/// Returns true if the step computes the gradient of an activation.
MINUET_HD constexpr bool is_activation_gradient(PointwiseKind kind) {
  return kind >= PointwiseKind::ReLUGradient && kind <= PointwiseKind::TanhGradient;
}
/// Returns the activation whose gradient a step computes for which is_activation_gradient() is true.
MINUET_HD constexpr Activation differentiated_by(PointwiseKind kind) {
  return static_cast<Activation>(static_cast<i32>(kind) - kFirstGradientStep +
                                 static_cast<i32>(Activation::ReLU));
}

/// Returns true if the step reads an operand, which is a further input of the op.
MINUET_HD constexpr bool reads_operand(PointwiseKind kind) {
  return kind == PointwiseKind::Add || kind == PointwiseKind::Multiply || kind >= PointwiseKind::ReLUGradient;
}

MINUET_HD constexpr bool is_row_wise(const PointwiseSteps& steps) {
  for (const PointwiseKind kind : steps.kinds) {
    if (is_row_wise(kind)) return true;
  }
  return false;
}

/// Returns how many steps before step `end` are of this kind.
MINUET_HD constexpr i32 count_steps(const PointwiseSteps& steps, PointwiseKind kind,
                                    i32 end = kMostPointwiseSteps) {
  i32 count = 0;
  for (i32 i = 0; i < end; ++i) count += steps.kinds[i] == kind ? 1 : 0;
  return count;
}

/// The kernel pointwise computes a chain of steps on each row, in fp32. Only the result is rounded.
struct PointwiseSpec {
  DType io = DType::F16;
  i32 channels = 64;
  i32 vector_bytes = 16;  // Gives the width of one access, which divides every row's start and length.
  PointwiseSteps steps = {{PointwiseKind::ReLU}};
  /// Gives the number of threads that process a row together. It is the number of a row's vectors if no step
  /// is row-wise, and otherwise a power of two that is at most 32 or equal to `threads`.
  i32 lanes = 8;
  i32 threads = 256;
  bool operator==(const PointwiseSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("channels", channels), visitor("vector_bytes", vector_bytes),
        visitor("steps", steps), visitor("lanes", lanes), visitor("threads", threads);
  }
};
struct PointwiseParams {
  const void* input;
  i64 input_ld;
  const i32* count;  // The count must be at most `rows`.
  i64 rows;
  i32 pads_output;  // If not 0, output rows at and after *count become zeros, or -1 where they are argmaxima.
  void* output;     // Holds elements of the type `io`, or i32 if the last step is an argmax.
  i64 output_ld;
  /// The kernel sets *overflow to overflow_mark if it writes an infinite or NaN number, or takes the argmax
  /// of a row that has one, and otherwise leaves it unchanged.
  u32* overflow;
  u32 overflow_mark;  // Gives the value to store in *overflow, which must not be 0.
  /// Hold one row of `channels` numbers for each Affine step, in the order of the steps. Both are aligned to
  /// 16 bytes.
  const float *scale, *shift;
  // The following members have an element for each step.
  float numbers[kMostPointwiseSteps];  // Holds the slope of a LeakyReLU or the epsilon of a LayerNorm.
  const void* operands[kMostPointwiseSteps];
  i64 operand_lds[kMostPointwiseSteps];
};

}  // namespace minuet
