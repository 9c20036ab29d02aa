// The images in which a choice reads its parameters. They depend only on the choice, the type and the
// architecture.
#pragma once

#include <optional>
#include <vector>

#include "codegen/choose/ops/convolution.h"
#include "kernels_templates/shared/fused_image.h"
#include "llvm/ADT/ArrayRef.h"

namespace minuet {

/// The layout of a weight in memory. Equal images of one weight have equal bytes.
struct WeightImage {
  DType type = DType::F16;
  i64 numbers = 0;                  // number of weights
  std::optional<FusedImage> fused;  // if empty, the weights keep their order

  bool operator==(const WeightImage&) const = default;
  i64 bytes() const;
  void write(const std::vector<float>& weight, char* image) const;
};

enum class ParameterPart : i32 { Weight, Scale, Shift };

/// One block of parameters that a choice's kernels read.
struct ParameterImage {
  i32 ahead = 0;  // 0 for the choice's own op, 1 for the op behind it, which the choice covers, and so on
  ParameterPart part = ParameterPart::Weight;
  WeightImage weight;  // for a weight; scales and shifts are fp32 in their own order

  bool operator==(const ParameterImage&) const = default;
};

std::vector<ParameterImage> gmas_images(const OpChoice& choice, DType type, llvm::StringRef arch);
std::vector<ParameterImage> fused_images(const OpChoice& choice, DType type, llvm::StringRef arch);

/// A row of the table of families that have parameters (families.cc).
struct ImagesOfFamily {
  const OpFamily& family;
  std::vector<ParameterImage> (*images)(const OpChoice& choice, DType type, llvm::StringRef arch);
};
llvm::ArrayRef<ImagesOfFamily> images_of_families();

/// Returns the images of a choice in the order in which its device op receives them. `type` is that of
/// Device::weight_type(); `arch` is empty for the CPU. The list always has a scale and a shift, even if the
/// op does not.
std::vector<ParameterImage> parameter_images(const OpChoice& choice, DType type, llvm::StringRef arch);

}  // namespace minuet
