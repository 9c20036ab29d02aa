// Reads a weight from an array of the caller, whose axes are in the order of any engine (WeightsOrder).
#pragma once

#include "runtime/weights/given_array.h"
#include "runtime/weights/weights_order.h"

namespace minuet {

/// Describes where the elements of a parameter are in an array. The axes of a weight are [kernel sizes...,
/// in_channels, out_channels].
struct GivenWeight {
  llvm::SmallVector<i64, kMaxArrayAxes> shape, strides;
  i64 first = 0;  // Gives the place of the first element, from which strides may lead backwards.

  /// Joins axes that are neighbours in the array too, and drops axes of extent 1. At least one axis is left.
  void join_axes();
};

/// Returns where the elements of the weight are in `array`. Returns InvalidArgument if the array has none of
/// the shapes that a weight of this order has, if it could be either of two, or if the engine of this order
/// computes another function for the layer.
llvm::Expected<GivenWeight> find_weight(const GivenArray& array, WeightsOrder order,
                                        const ConvolutionProblem& problem, llvm::StringRef name);
/// Returns where the elements of the weight of the gradient `problem` (ConvolutionProblem::gradient_of) are,
/// from where those of its convolution's weight are. The axes of the result are [kernel sizes...,
/// in_channels / groups, groups, out_channels / groups] of `problem`. Those of the kernel run backwards if
/// the gradient is_mirrored().
GivenWeight transposed(const GivenWeight& forward, const ConvolutionProblem& problem);
/// Does the same as find_weight() for a vector of `channels` elements, such as a bias.
llvm::Expected<GivenWeight> find_vector(const GivenArray& array, WeightsOrder order, i64 channels);

/// Lets the job read the elements of a parameter, whose axes it joins. ParameterCopy::source must be the
/// beginning of the array, and ParameterCopy::element the type of its elements.
void read_from(GivenWeight given, ParameterCopy& job);
/// Returns the job that makes an image of a weight without groups from an array of fp32 numbers at `data`.
/// `given` says where the elements are in the array. Its first `kernel_axes` axes are those of the kernel.
WeightImageJob image_from(const GivenWeight& given, i32 kernel_axes, const void* data,
                          const FusedImage& layout, void* image);
/// Returns InvalidArgument if the elements are not f32.
llvm::Error check_f32(const GivenArray& array);
/// Returns InvalidArgument if two elements of an array that a call writes may share memory.
llvm::Error check_distinct(const GivenArray& array);

}  // namespace minuet
