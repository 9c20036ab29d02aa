// Computes the gradients of the parameters of affine steps for the functions of gradient.h.
#pragma once

#include "runtime/abi/single_op.h"

namespace minuet {

/// The engine that runs the gradients of affine steps has this many axes, which do not matter.
inline constexpr i32 kAffineGradientNdim = 3;

/// Returns InvalidArgument unless `which` names the gradients of the weight and the bias, or one of them. The
/// other arguments say what these are, and what computes the gradient of the input.
llvm::Error check_gradients(minuet_gradient which, const char* weight, const char* bias, const char* input);
/// Returns InvalidArgument if an argument is given although the op does not compute the gradient for which
/// it would be needed.
inline llvm::Error refuse_without_gradient(bool is_given, const char* name, const char* gradient) {
  return refuse_unused(is_given, name,
                       "the op does not compute the gradient of the " + std::string(gradient));
}

llvm::Expected<AffineGradientChoice> read_affine_gradient(const minuet_affine_gradient_options& given,
                                                          minuet_gradient which);
llvm::Error compute_affine_gradient(const AffineGradientChoice& choice, const minuet_device& device,
                                    const minuet_gradient_arguments& given, void* stream);

}  // namespace minuet
