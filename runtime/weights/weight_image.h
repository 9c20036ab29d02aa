// The form in which a choice reads parameters: a pure function of these.
#pragma once

#include <optional>
#include <vector>

#include "codegen/choose/ops/convolution.h"
#include "kernels_templates/shared/fused_image.h"
#include "llvm/ADT/ArrayRef.h"

namespace minuet {

/// Equal ones are equal bytes.
struct WeightImage {
  DType type = DType::F16;
  i64 numbers = 0;                  // of the weights
  std::optional<FusedImage> fused;  // else they are as they come

  bool operator==(const WeightImage&) const = default;
  i64 bytes() const;
  void write(const std::vector<float>& weight, char* image) const;
};

enum class ParameterPart : i32 { Weight, Scale, Shift };

/// One block of parameters that a choice's kernels read.
struct ParameterImage {
  i32 ahead = 0;  // 0: of the choice's own op; 1: of the op behind it, which it covers; and so on
  ParameterPart part = ParameterPart::Weight;
  WeightImage weight;  // of a weight; scales and shifts are fp32 as they come

  bool operator==(const ParameterImage&) const = default;
};

std::vector<ParameterImage> gmas_images(const OpChoice& choice, DType type, llvm::StringRef arch);
std::vector<ParameterImage> fused_images(const OpChoice& choice, DType type, llvm::StringRef arch);

/// A line of the table of families that have parameters (families.cc).
struct ImagesOfFamily {
  const OpFamily& family;
  std::vector<ParameterImage> (*images)(const OpChoice& choice, DType type, llvm::StringRef arch);
};
llvm::ArrayRef<ImagesOfFamily> images_of_families();

/// What a choice reads, in the order in which its device op is given it. `type`: Device::weight_type().
/// `arch`: "" for the CPU. A scale or a shift that the op does not have is in the list all the same.
std::vector<ParameterImage> parameter_images(const OpChoice& choice, DType type, llvm::StringRef arch);

}  // namespace minuet
