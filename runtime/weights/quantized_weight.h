// Quantizes the parameters of a convolution whose input has 8-bit elements. A number x of a tensor with the
// scale s is stored as the integer nearest to x / s. The kernel knows no scales: they are in the weights and
// in three numbers of each output channel (FusedParams).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "codegen/choose/ops/convolution.h"
#include "llvm/ADT/ArrayRef.h"

namespace minuet {

/// Holds the scales of a convolution's tensors.
struct TensorScales {
  /// Has a scale for each input channel, because the parts of a concatenation may have different ones.
  std::vector<double> input;
  double residual = 1;  // Applies only if the problem has an 8-bit residual.
  double output = 1;    // Applies only if the problem has an 8-bit output.
  /// Holds the largest magnitude of the weights of each output channel, after they are multiplied by the
  /// scales of their inputs and of the batch norm. Larger weights are limited to it. If this is empty, the
  /// largest magnitude is that of the weights themselves.
  std::vector<double> ranges;
};

/// Holds the parameters as the kernel reads them. `weight` has the shape [volume][in_channels][out_channels].
/// The other members have a number for each output channel. `residual_factor` is empty if there is no
/// residual.
struct QuantizedParameters {
  std::vector<std::int8_t> weight;
  std::vector<float> factor, shift, residual_factor;
};

/// Quantizes the parameters of a valid problem with an 8-bit input. `weight` has the shape
/// [volume][in_channels][out_channels], and `scale` and `shift` have a number for each output channel, or
/// none if the problem has no scale and shift. Returns an error that names the output channel:
/// InvalidArgument if a number is not finite or a scale is not positive, and OutOfRange if the convolution
/// must keep floating numbers (keep_floating_reason()).
llvm::Expected<QuantizedParameters> quantize(const ConvolutionProblem& problem, llvm::ArrayRef<float> weight,
                                             llvm::ArrayRef<float> scale, llvm::ArrayRef<float> shift,
                                             const TensorScales& scales);

/// Returns why a convolution with these parameters must keep floating numbers, as the end of a sentence that
/// names the output channel: a sum of 32-bit integers could overflow, or fp32 cannot hold a factor. Returns
/// nothing if quantize() can quantize them, and its error InvalidArgument for the same parameters.
llvm::Expected<std::optional<std::string>> keep_floating_reason(const ConvolutionProblem& problem,
                                                                llvm::ArrayRef<float> weight,
                                                                llvm::ArrayRef<float> scale,
                                                                llvm::ArrayRef<float> shift,
                                                                const TensorScales& scales);

}  // namespace minuet
