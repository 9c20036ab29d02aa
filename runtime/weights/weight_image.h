// The form in which a choice reads a layer's weights: a pure function of [volume, in_channels, out_channels].
#pragma once

#include <optional>
#include <vector>

#include "codegen/choose/candidates.h"
#include "kernels_templates/shared/fused_image.h"

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

/// `type`: Device::weight_type(). `arch`: "" for the CPU, which reads the weights as they are.
WeightImage weight_image(const OpChoice& choice, DType type, llvm::StringRef arch);
/// Of the shortcut that the choice's kernel computes too: it has one.
WeightImage shortcut_image(const OpChoice& choice, DType type);

}  // namespace minuet
