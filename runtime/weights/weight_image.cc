#include "runtime/weights/weight_image.h"

#include <algorithm>
#include <cstdint>

#include "codegen/choose/ops/depthwise.h"
#include "runtime/weights/rounding.h"

namespace minuet {

namespace {

/// Stores values in the format of the type, which may be S8.
void store(DType type, const std::vector<float>& values, char* target) {
  if (type != DType::S8) return store_values(type, values.data(), values.size(), target);
  std::transform(values.begin(), values.end(), target,
                 [](float value) { return static_cast<char>(static_cast<std::int8_t>(value)); });
}

/// Returns the images of a convolution's own parameters, and of the scale and the shift of its second output.
std::vector<ParameterImage> convolution_images(const ConvolutionProblem& problem, const WeightImage& weight) {
  std::vector<ParameterImage> images{
      {0, ParameterPart::Weight, weight}, {0, ParameterPart::Scale, {}}, {0, ParameterPart::Shift, {}}};
  if (problem.residual_type) images.push_back({0, ParameterPart::ResidualFactor, {}});
  if (problem.second_output) {
    images.insert(images.end(), {{1, ParameterPart::Scale, {}}, {1, ParameterPart::Shift, {}}});
  }
  return images;
}

}  // namespace

std::vector<ParameterImage> gmas_images(const OpChoice& choice, DType type, llvm::StringRef) {
  const ConvolutionProblem& problem = choice.get<GmasChoice>().problem;
  return convolution_images(problem, {type, weight_numbers(problem), {}});
}

// On the CPU, for which `arch` is empty, weights keep their order.
std::vector<ParameterImage> fused_images(const OpChoice& choice, DType type, llvm::StringRef arch) {
  const FusedChoice& fused = choice.get<FusedChoice>();
  const ConvolutionProblem& problem = fused.problem;
  WeightImage weight{problem.input_type ? DType::S8 : type, weight_numbers(problem), {}};
  if (!arch.empty()) {
    weight.fused = image_of(fused.fused);
    weight.fused->launches = launches_of(fused);
    weight.fused->groups = problem.groups / launches_of(fused);
  }
  std::vector<ParameterImage> images = convolution_images(problem, weight);
  if (!fused.fused.shortcut) return images;
  FusedSpec spec = fused.fused;
  spec.volume = 1;
  const WeightImage shortcut{weight.type, i64{spec.in_channels} * spec.out_channels, image_of(spec)};
  images.insert(
      images.end(),
      {{1, ParameterPart::Weight, shortcut}, {1, ParameterPart::Scale, {}}, {1, ParameterPart::Shift, {}}});
  return images;
}

std::vector<ParameterImage> depthwise_images(const OpChoice& choice, DType type, llvm::StringRef) {
  const ConvolutionProblem& problem = choice.get<DepthwiseChoice>().problem;
  return convolution_images(problem, {type, weight_numbers(problem), {}});
}

std::vector<ParameterImage> pointwise_images(const OpChoice&, DType, llvm::StringRef) {
  return {{0, ParameterPart::Scale, {}}, {0, ParameterPart::Shift, {}}};
}

std::vector<ParameterImage> parameter_images(const OpChoice& choice, DType type, llvm::StringRef arch) {
  const ImagesOfFamily* const known = find_family(images_of_families(), choice.kind());
  return known ? known->images(choice, type, arch) : std::vector<ParameterImage>{};
}

i64 WeightImage::bytes() const { return fused ? fused_image_bytes(*fused) : numbers * dtype_bytes(type); }

void WeightImage::write(const std::vector<float>& weight, char* image) const {
  if (!fused) return store(type, weight, image);
  const i32 per_word = 4 / dtype_bytes(type);
  const FusedImageShape shape = fused_image_shape(*fused);
  // The places of vectors are the same in every stage.
  std::vector<FusedPlacesOfVector> places;
  places.reserve(static_cast<std::size_t>(shape.stage_vectors));
  for (i32 vector = 0; vector < shape.stage_vectors; ++vector) {
    places.push_back(fused_places_of_vector(*fused, vector));
  }
  std::vector<float> values(places.size() * 4 * static_cast<std::size_t>(per_word));
  for (i32 number = 0; number < shape.stages; ++number) {
    const FusedStage stage = fused_stage(*fused, shape, static_cast<u32>(number));
    float* value = values.data();
    for (const FusedPlacesOfVector& vector : places) {
      for (i32 word = 0; word < 4; ++word) {
        for (i32 element = 0; element < per_word; ++element) {
          const i64 source = fused_weight_at(*fused, shape, stage, vector, word, element);
          *value++ = source < 0 ? 0.0f : weight[source];
        }
      }
    }
    store(type, values, image + i64{number} * shape.stage_vectors * 16);
  }
}

}  // namespace minuet
