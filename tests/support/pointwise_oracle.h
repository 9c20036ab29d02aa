// Chains of pointwise steps in fp64 by plain loops, with bounds of the errors that fp32 may make on the way.
// Shares no code with the library.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels_templates/shared/types.h"

namespace minuet::oracle {

/// One step. `op` is its name in a description: "relu", "leaky_relu", "gelu", "gelu_tanh", "silu", "sigmoid",
/// "tanh", "add", "multiply", "affine", "layer_norm" (without parameters), "softmax" or "argmax". The name of
/// the gradient of an activation, "layer_norm" or "softmax" ends with "_gradient"; its operand is the input
/// of that step, or the result of a "sigmoid", "tanh" or "softmax".
struct ChainStep {
  std::string op;
  double number = 0;                          // the slope or the epsilon
  std::vector<float> operand = {};            // [rows, channels]
  std::vector<float> scale = {}, shift = {};  // [channels]
};

/// The names of the steps (ChainStep::op), by the numbers that kernels and the C ABI give them.
inline constexpr const char* kStepNames[] = {"",
                                             "relu",
                                             "leaky_relu",
                                             "gelu",
                                             "gelu_tanh",
                                             "silu",
                                             "sigmoid",
                                             "tanh",
                                             "add",
                                             "multiply",
                                             "affine",
                                             "layer_norm",
                                             "softmax",
                                             "argmax",
                                             "relu_gradient",
                                             "leaky_relu_gradient",
                                             "gelu_gradient",
                                             "gelu_tanh_gradient",
                                             "silu_gradient",
                                             "sigmoid_gradient",
                                             "tanh_gradient",
                                             "layer_norm_gradient",
                                             "softmax_gradient"};

/// What a chain computes before its result is rounded, [rows, channels].
struct ChainResult {
  std::vector<double> values;
  std::vector<double> errors;  // how far fp32 may be from each value
};

/// An argmax at the end is left out: is_argmax_of() has it.
ChainResult evaluate_chain(const std::vector<ChainStep>& steps, const std::vector<float>& input,
                           int64_t channels);

/// Says whether the step is a gradient, and whether it reads an operand.
bool is_gradient(const std::string& op);
bool reads_operand(const std::string& op);

/// A step that maps one number to one number, or "none". A leaky ReLU of slope 0 is a ReLU.
double apply_function(const std::string& op, double x, double number);

/// A step on one row. An operand has one row.
void apply_step(const ChainStep& step, double* values, int64_t channels);

/// `roundings`: how often numbers were rounded to the type on the way, which each count as a whole error of
/// the result.
testing::AssertionResult is_chain(const std::vector<float>& out, const ChainResult& expected, DType type,
                                  int roundings = 1);

/// Checks that each number is a channel that may be the largest within the errors. If the errors are 0, it
/// must be the lowest of equal channels, and NaN counts as the largest number.
testing::AssertionResult is_argmax_of(const std::vector<int32_t>& out, const ChainResult& expected,
                                      int64_t channels);

}  // namespace minuet::oracle
