// The fields of a description that belong to a convolution: its bias, norm and activation.
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
  bool affine = true;      // true if the batch norm has a weight and a bias
  double epsilon = 1e-5;   // of the batch norm
  Activation activation = Activation::ReLU;
  float slope = 0;  // of a leaky ReLU
};

/// Where fields appear in a description. The place determines which fields and values are allowed.
enum class FieldPlace {
  Layer,              // a layer of convolutions
  Head,               // a head, which has no norm
  Part,               // a convolution of a residual block
  PartBeforeAddition  // a convolution whose result is added in the block; it has no activation
};

/// Returns the names of all fields that are allowed at `place`.
llvm::ArrayRef<llvm::StringRef> convolution_field_names(FieldPlace place);

/// Overwrites the defaults in `fields` with the fields of `object`; other fields of the object are ignored.
/// Returns InvalidArgument, also for fields that contradict each other, or Unimplemented. The error names the
/// field and the reason.
llvm::Error read_convolution_fields(const llvm::json::Object& object, FieldPlace place,
                                    ConvolutionFields& fields);

/// Reads the epsilon of a batch norm, a number above 0 and below 1.
llvm::Expected<double> read_epsilon(const llvm::json::Value& value, llvm::StringRef field);

/// Returns "relu", "leaky_relu" or "none".
const char* activation_name(Activation activation);

}  // namespace minuet
