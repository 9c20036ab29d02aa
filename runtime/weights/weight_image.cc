#include "runtime/weights/weight_image.h"

#include "runtime/weights/rounding.h"

namespace minuet {

WeightImage weight_image(const OpChoice& choice, DType type, llvm::StringRef arch) {
  const ConvolutionProblem& problem = problem_of(choice);
  WeightImage image{type, kernel_volume(problem) * problem.in_channels * problem.out_channels, {}};
  const auto* const fused = std::get_if<FusedChoice>(&choice);
  if (fused && !arch.empty()) image.fused = image_of(fused->fused);
  return image;
}

WeightImage shortcut_image(const OpChoice& choice, DType type) {
  FusedSpec spec = std::get_if<FusedChoice>(&choice)->fused;
  spec.volume = 1;
  return {type, i64{spec.in_channels} * spec.out_channels, image_of(spec)};
}

i64 WeightImage::bytes() const { return fused ? fused_image_bytes(*fused) : numbers * dtype_bytes(type); }

void WeightImage::write(const std::vector<float>& weight, char* image) const {
  if (!fused) return store_values(type, weight.data(), weight.size(), image);
  const i64 element = dtype_bytes(type), stage = fused_stage_bytes(*fused) / element;
  std::vector<float> values(static_cast<std::size_t>(stage));
  for (i64 first = 0; first < bytes() / element; first += stage) {
    for (i64 i = 0; i < stage; ++i) {
      const i64 source = fused_weight_of(*fused, first + i);
      values[i] = source < 0 ? 0.0f : weight[source];
    }
    store_values(type, values.data(), values.size(), image + first * element);
  }
}

}  // namespace minuet
