// The fields of a description that say what follows a convolution: its bias, norm and activation.
#pragma once

#include "codegen/base/error.h"
#include "kernels_templates/shared/types.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/JSON.h"

namespace minuet {

/// activation(norm(convolution(x) + bias)). The defaults are those of a block.
struct ConvolutionFields {
  bool bias = false;
  bool batch_norm = true;  // "norm": "batch_norm" or "none"
  bool affine = true;      // the batch norm has a weight and a bias
  double epsilon = 1e-5;   // of the batch norm
  Activation activation = Activation::ReLU;
  float slope = 0;  // of a leaky ReLU
};

/// Where fields stand, which decides what they may say.
enum class FieldPlace {
  Layer,              // a layer of convolutions
  Head,               // a head, which has no norm
  Part,               // a convolution of a residual block
  PartBeforeAddition  // one whose result goes into the block's addition, with no activation of its own
};

/// The names of all fields that may stand there.
llvm::ArrayRef<llvm::StringRef> convolution_field_names(FieldPlace place);

/// Reads the fields of `object` over `fields`, which hold the defaults. Other fields of the object are
/// ignored. InvalidArgument and Unimplemented name the field and the reason; fields that contradict each
/// other are refused.
llvm::Error read_convolution_fields(const llvm::json::Object& object, FieldPlace place,
                                    ConvolutionFields& fields);

/// Reads the epsilon of a batch norm, a number above 0 and below 1.
llvm::Expected<double> read_epsilon(const llvm::json::Value& value, llvm::StringRef field);

/// "relu", "leaky_relu", "none"
const char* activation_name(Activation activation);

}  // namespace minuet
