// Reads those fields of a network's JSON description that belong to a convolution. They describe its bias,
// norm, activation and precision.
#pragma once

#include "codegen/base/error.h"
#include "kernels_templates/shared/types.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/JSON.h"

namespace minuet {

/// Describes activation(norm(convolution(x) + bias)). The defaults are those of the op "block".
struct ConvolutionFields {
  bool bias = false;
  // The field "norm" is "batch_norm" if the flag is true, and "none" if it is false.
  bool batch_norm = true;
  // The flag is true if the batch norm has a weight and a bias.
  bool affine = true;
  // Holds the epsilon of the batch norm.
  double epsilon = 1e-5;
  Activation activation = Activation::ReLU;
  // Holds the slope of a leaky ReLU for negative numbers.
  float slope = 0;
  i32 groups = 1;
  // The field "precision" is "int8" if the flag is true, and "float" if it is false. A convolution of 8 bits
  // multiplies 8-bit features by 8-bit weights. Other ones compute in the plan's dtype.
  bool is_int8 = false;
  // Holds the field "output_range": the largest magnitude that the result has when it is stored in 8 bits. It
  // is 0 if the description does not give it, and the result is then never stored in 8 bits.
  double output_range = 0;
};

/// Says where in a network's description the fields of a convolution are. This determines which fields and
/// values are allowed.
enum class FieldPlace {
  // The fields belong to a layer other than a head, and apply to all of its convolutions.
  Layer,
  // The fields belong to a head, whose convolution has no norm.
  Head,
  // The fields belong to one convolution of a residual or bottleneck block, for example "conv1".
  Part,
  // The fields belong to a convolution whose result a residual or bottleneck block adds, for example
  // "shortcut". Such a convolution has no activation.
  PartBeforeAddition
};

/// Returns the names of all fields that are allowed at `place`. A block with several convolutions has
/// "groups" at Part and PartBeforeAddition only.
llvm::ArrayRef<llvm::StringRef> convolution_field_names(FieldPlace place);

/// Overwrites the defaults in `fields` with the fields of `object`. Fields of `object` that do not belong to
/// a convolution are ignored. Returns InvalidArgument for a wrong value or for fields that contradict each
/// other, and Unimplemented for a value that no kernel supports. The error has the place of the field and the
/// reason.
llvm::Error read_convolution_fields(const llvm::json::Object& object, FieldPlace place,
                                    ConvolutionFields& fields);

/// Writes to `object` the fields that read_convolution_fields() reads as `fields`.
void print_convolution_fields(const ConvolutionFields& fields, FieldPlace place, llvm::json::Object& object);

/// Returns the value of the field "precision".
const char* precision_name(bool is_int8);

llvm::Expected<bool> read_flag(const llvm::json::Value& value, llvm::StringRef field);

// This is PyTorch's default slope of a leaky ReLU.
inline constexpr float kUsualSlope = 0.01f;

/// Reads the slope of a leaky ReLU, which must be a number in the range of float32.
llvm::Expected<float> read_slope(const llvm::json::Value& value, llvm::StringRef field);

/// Reads the epsilon of a batch norm, which must be a number above 0 and below 1.
llvm::Expected<double> read_epsilon(const llvm::json::Value& value, llvm::StringRef field);

}  // namespace minuet
