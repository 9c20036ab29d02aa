// Describes the images of parameters, which are the bytes that the kernels of a choice (OpChoice) read. The
// images depend only on the choice, the type and the architecture.
#pragma once

#include <optional>
#include <vector>

#include "codegen/choose/ops/convolution.h"
#include "kernels_templates/shared/fused_image.h"
#include "llvm/ADT/ArrayRef.h"

namespace minuet {

/// Describes the layout of a weight tensor in memory. Equal images of one tensor have equal bytes.
struct WeightImage {
  DType type = DType::F16;
  i64 numbers = 0;                  // Counts the elements of the weight tensor.
  std::optional<FusedImage> fused;  // If this is empty, the elements keep their order.

  bool operator==(const WeightImage&) const = default;
  i64 bytes() const;
  /// If the type is S8, the numbers of `weight` must be integers from -127 to 127 (quantized_weight.h).
  void write(const std::vector<float>& weight, char* image) const;
};

/// ResidualFactor is QuantizedParameters::residual_factor. If the input has 8 bits, Scale and Shift are
/// QuantizedParameters::factor and QuantizedParameters::shift.
enum class ParameterPart : i32 { Weight, Scale, Shift, ResidualFactor };

/// Describes one block of parameters that the kernels of a choice read.
struct ParameterImage {
  /// Selects the op that has the parameters. It is 0 for the choice's own op, and i for the op i places later
  /// in the program, which the choice's kernels compute too.
  i32 ahead = 0;
  ParameterPart part = ParameterPart::Weight;
  WeightImage weight;  // Applies only to a weight. The other parts are fp32 in their own order.

  bool operator==(const ParameterImage&) const = default;
};

std::vector<ParameterImage> gmas_images(const OpChoice& choice, DType type, llvm::StringRef arch);
std::vector<ParameterImage> fused_images(const OpChoice& choice, DType type, llvm::StringRef arch);
std::vector<ParameterImage> depthwise_images(const OpChoice& choice, DType type, llvm::StringRef arch);
std::vector<ParameterImage> pointwise_images(const OpChoice& choice, DType type, llvm::StringRef arch);

/// Represents a row of the table of op families that have parameters (families.cc).
struct ImagesOfFamily {
  const OpFamily& family;
  std::vector<ParameterImage> (*images)(const OpChoice& choice, DType type, llvm::StringRef arch);
};
llvm::ArrayRef<ImagesOfFamily> images_of_families();

/// Returns the images of a choice in the order of OpRequest::parameters. `type` comes from
/// Device::weight_type(). `arch` is empty for the CPU. If the choice's family has parameters, the list always
/// has a scale and a shift, even if the op does not. Otherwise the list is empty.
std::vector<ParameterImage> parameter_images(const OpChoice& choice, DType type, llvm::StringRef arch);

}  // namespace minuet
