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
  ReLUGradient,       // Computes x, or 0 where the operand, the step's input or its result, is <= 0.
  LeakyReLUGradient,  // Computes x, or x * number where the operand, the step's input, is <= 0.
  GeluGradient,       // The operand of this step and of the next two is the step's input.
  GeluTanhGradient,
  SiluGradient,
  SigmoidGradient,    // Computes x * y * (1 - y), where the operand y is the step's result.
  TanhGradient,       // Computes x * (1 - y^2), where the operand y is the step's result.
  LayerNormGradient,  // The operand is the step's input, and `number` its epsilon.
  SoftmaxGradient,    // Computes y * (x - sum of x * y over the row), where the operand y is the result.
};
constexpr i32 kPointwiseKinds = static_cast<i32>(PointwiseKind::SoftmaxGradient) + 1;
constexpr i32 kMostPointwiseSteps = 8;

/// Describes a kind of step.
struct PointwiseTraits {
  PointwiseKind kind;
  Activation activation = Activation::None;  // Is what the step computes, or, of a gradient, differentiates.
  bool is_row_wise = false;                  // Says whether the step combines all channels of a row.
  bool reads_operand = false;                // Says whether the step reads a further input of the op.
  bool is_gradient = false;                  // Says whether the kind's name ends with Gradient.
};
/// Returns the traits of a kind.
MINUET_HD constexpr PointwiseTraits traits_of(PointwiseKind kind) {
  using Kind = PointwiseKind;
  constexpr PointwiseTraits kTraits[] = {
      {.kind = Kind::None},
      {.kind = Kind::ReLU, .activation = Activation::ReLU},
      {.kind = Kind::LeakyReLU, .activation = Activation::LeakyReLU},
      {.kind = Kind::Gelu, .activation = Activation::Gelu},
      {.kind = Kind::GeluTanh, .activation = Activation::GeluTanh},
      {.kind = Kind::Silu, .activation = Activation::Silu},
      {.kind = Kind::Sigmoid, .activation = Activation::Sigmoid},
      {.kind = Kind::Tanh, .activation = Activation::Tanh},
      {.kind = Kind::Add, .reads_operand = true},
      {.kind = Kind::Multiply, .reads_operand = true},
      {.kind = Kind::Affine},
      {.kind = Kind::LayerNorm, .is_row_wise = true},
      {.kind = Kind::Softmax, .is_row_wise = true},
      {.kind = Kind::Argmax, .is_row_wise = true},
      {Kind::ReLUGradient, Activation::ReLU, false, true, true},
      {Kind::LeakyReLUGradient, Activation::LeakyReLU, false, true, true},
      {Kind::GeluGradient, Activation::Gelu, false, true, true},
      {Kind::GeluTanhGradient, Activation::GeluTanh, false, true, true},
      {Kind::SiluGradient, Activation::Silu, false, true, true},
      {Kind::SigmoidGradient, Activation::Sigmoid, false, true, true},
      {Kind::TanhGradient, Activation::Tanh, false, true, true},
      {Kind::LayerNormGradient, Activation::None, true, true, true},
      {Kind::SoftmaxGradient, Activation::None, true, true, true},
  };
  static_assert(sizeof kTraits == kPointwiseKinds * sizeof kTraits[0], "each kind has its traits");
  return kTraits[static_cast<i32>(kind)];
}
/// Returns true if the traits of each kind are those of that kind.
MINUET_HD constexpr bool has_traits_in_order() {
  for (i32 kind = 0; kind < kPointwiseKinds; ++kind) {
    if (static_cast<i32>(traits_of(static_cast<PointwiseKind>(kind)).kind) != kind) return false;
  }
  return true;
}
static_assert(has_traits_in_order(), "traits are in the order of the kinds");

/// Lists the steps of a chain, which end before the first None.
struct PointwiseSteps {
  PointwiseKind kinds[kMostPointwiseSteps] = {};
  bool operator==(const PointwiseSteps&) const = default;
};

/// Returns true if the step maps one number to one number.
MINUET_HD constexpr bool is_activation(PointwiseKind kind) {
  return traits_of(kind).activation != Activation::None && !traits_of(kind).is_gradient;
}
/// Returns the activation that a step computes for which is_activation() is true.
MINUET_HD constexpr Activation activation_of(PointwiseKind kind) { return traits_of(kind).activation; }

/// Returns true if the step combines all channels of a row.
MINUET_HD constexpr bool is_row_wise(PointwiseKind kind) { return traits_of(kind).is_row_wise; }

/// Returns true if the step computes the gradient of an activation.
MINUET_HD constexpr bool is_activation_gradient(PointwiseKind kind) {
  return traits_of(kind).activation != Activation::None && traits_of(kind).is_gradient;
}
/// Returns the activation whose gradient a step computes for which is_activation_gradient() is true.
MINUET_HD constexpr Activation differentiated_by(PointwiseKind kind) { return traits_of(kind).activation; }

/// Returns true if the step reads an operand, which is a further input of the op.
MINUET_HD constexpr bool reads_operand(PointwiseKind kind) { return traits_of(kind).reads_operand; }

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
  float numbers[kMostPointwiseSteps];  // Holds the slope of LeakyReLU(Gradient), the epsilon of
                                       // LayerNorm(Gradient).
  const void* operands[kMostPointwiseSteps];
  i64 operand_lds[kMostPointwiseSteps];
};

}  // namespace minuet
