#include "runtime/plan/parameters.h"

#include <algorithm>
#include <cmath>

#include "kernels_templates/shared/parameter_kernels.h"
#include "runtime/network/weights_check.h"
#include "runtime/program/ops/convolution.h"
#include "runtime/weights/rounding.h"

namespace minuet {
namespace {

constexpr i64 kMostClasses = 1 << 16;

i64 input_channels(const ProgramLayer& layer) {
  return layer.problem.kind().shape(layer.problem).in_channels;
}

/// Returns the names of the dtypes in which the value is finite, for example "tf32, bf16 or fp32".
std::string dtypes_that_hold(float value) {
  std::string names;
  static_assert(kDTypes[0] == DType::F32);
  for (i32 number = kDTypeCount - 1; number > 0; --number) {
    float rounded = value;
    if (!round_values(kDTypes[number], &rounded, 1, &rounded)) continue;
    names += (names.empty() ? "" : ", ") + std::string(kDTypeNames[number]);
  }
  return names + (names.empty() ? "fp32" : " or fp32");
}

/// Generates numbers by splitmix64, because the numbers are then the same on every platform, unlike those of
/// the distributions of the standard library.
class RandomStream {
 public:
  RandomStream(uint64_t seed, llvm::StringRef name) : state_(seed ^ 0x9e3779b97f4a7c15ull) {
    for (char c : name) state_ = next() ^ static_cast<unsigned char>(c);
  }

  /// Returns the sum of twelve uniform numbers minus six. Its distribution is close enough to the normal one
  /// for weights, and the result does not depend on libm.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(next() >> 11) * 0x1p-53;
    return sum;
  }

 private:
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  uint64_t state_;
};

// Limits the number of values that are rounded at once, so that the memory that resize() clears is still in
// the cache when the rounded values are written to it.
constexpr std::size_t kRoundedAtOnce = 4096;

}  // namespace

ParameterCounts parameter_counts(const ProgramLayer& layer) {
  const ConvolutionProblem* const problem = convolution_of(layer);
  if (problem == nullptr) {
    const i64 numbers = static_cast<i64>(layer.affines.size()) * input_channels(layer);
    return {0, numbers, numbers, 0};
  }
  const i64 channels = problem->out_channels,
            affine = problem->scale_shift || problem->input_type ? channels : 0;
  return {weight_numbers(*problem), affine, affine, problem->residual_type ? channels : 0};
}

std::optional<std::size_t> find_lost(DType dtype, llvm::ArrayRef<float> values) {
  float rounded = 0;
  const auto* const lost = std::find_if(values.begin(), values.end(), [&](const float& value) {
    return !round_values(dtype, &value, 1, &rounded);
  });
  if (lost == values.end()) return std::nullopt;
  return static_cast<std::size_t>(lost - values.begin());
}

std::vector<float> rounded_copy(DType dtype, llvm::ArrayRef<float> values, bool& all_finite) {
  std::vector<float> rounded;
  rounded.reserve(values.size());
  all_finite = true;
  for (std::size_t first = 0; first < values.size(); first += kRoundedAtOnce) {
    const std::size_t count = std::min(kRoundedAtOnce, values.size() - first);
    rounded.resize(first + count);
    const bool are_finite = round_values(dtype, values.data() + first, count, rounded.data() + first);
    all_finite = all_finite && are_finite;
  }
  return rounded;
}

std::string overflow_text(DType dtype, float value) {
  return std::string("which ") + kDTypeNames[static_cast<int>(dtype)] + " cannot hold; use " +
         dtypes_that_hold(value) + kAllowNonFiniteHint;
}

std::vector<float> ParameterSource::draw(const std::string& name, i64 count, Draw draw) const {
  std::vector<float> values(static_cast<std::size_t>(count));
  RandomStream random(seed_, name);
  for (float& value : values) value = static_cast<float>(draw.mean + draw.deviation * random.normal());
  return values;
}

llvm::Expected<std::vector<float>> ParameterSource::vector(const std::string& name, i64 channels,
                                                           Draw drawn) const {
  if (file_) return file_->read_vector(name, channels);
  return draw(name, channels, drawn);
}

/// Returns the error about a weight in the file that is not finite in the layer's dtype. Reads the file
/// again, because the weights were rounded in place.
llvm::Error ParameterSource::refuse_weight(const ProgramLayer& layer) const {
  const ConvolutionProblem& problem = *convolution_of(layer);
  MINUET_ASSIGN(const std::vector<float> weight, file_->read_weight(layer.weight, problem));
  const std::optional<std::size_t> lost = find_lost(problem.dtype, weight);
  const std::vector<int64_t> shape{kernel_volume(problem), group_inputs(problem), problem.out_channels};
  return make_error(StatusCode::InvalidArgument,
                    "weights file {0}: \"{1}\" is {2} at {3} (offset, input, output), {4}", file_->path(),
                    layer.weight, number_text(weight[*lost]), place_text(shape, *lost),
                    overflow_text(problem.dtype, weight[*lost]));
}

/// Returns the layer's weight, rounded to the dtype of its problem. A weight that becomes one of 8 bits is
/// not rounded before.
llvm::Expected<std::vector<float>> ParameterSource::weight(const ProgramLayer& layer) const {
  const ConvolutionProblem& problem = *convolution_of(layer);
  const i64 inputs = kernel_volume(problem) * group_inputs(problem);
  std::vector<float> weight;
  if (file_) {
    MINUET_ASSIGN(weight, file_->read_weight(layer.weight, problem));
  } else {
    weight =
        draw(layer.weight, inputs * problem.out_channels, {0, std::sqrt(2.0 / static_cast<double>(inputs))});
  }
  if (problem.input_type) return weight;
  const bool is_finite = round_values(problem.dtype, weight.data(), weight.size(), weight.data());
  // Weights that were drawn at random are finite in every dtype.
  if (!is_finite && file_ && !allows_non_finite()) return refuse_weight(layer);
  return weight;
}

llvm::Expected<i32> ParameterSource::head_channels(const std::string& name, i32 in_channels) const {
  const std::string* stored = file_ ? file_->find(name + ".weight") : nullptr;
  if (!stored) return 0;
  MINUET_ASSIGN(const std::vector<int64_t> shape, file_->shape(*stored));
  // The weight may be stored in any order of axes, so only the number of its elements is used here. check()
  // verifies the shape.
  const i64 count = element_count(shape);
  const i64 classes = count / in_channels;
  if (shape.size() < 2 || classes < 1 || classes > kMostClasses || count % in_channels != 0) {
    return make_error(
        StatusCode::InvalidArgument,
        "weights file {0}: \"{1}\" has shape {2}, but a head for {3} channels needs [1, {3}, classes]",
        file_->path(), *stored, shape_text(shape), in_channels);
  }
  return static_cast<i32>(classes);
}

llvm::Error ParameterSource::check(const Program& program) const {
  return file_ ? check_weights(*file_, program) : llvm::Error::success();
}

llvm::Expected<std::vector<float>> ParameterSource::optional_vector(const std::string& name, i64 channels,
                                                                    float where_absent, Draw drawn) const {
  if (name.empty()) return std::vector<float>(static_cast<std::size_t>(channels), where_absent);
  return vector(name, channels, drawn);
}

/// Appends the scale and the shift of a batch norm. `bias` is the name of the bias that a convolution adds
/// before, or empty. `layer` is the name of the layer for messages.
llvm::Error ParameterSource::fold_batch_norm(const AffineNames& names, const std::string& bias_before,
                                             const std::string& layer, i64 channels,
                                             LayerParameters& parameters) const {
  const std::string& prefix = names.batch_norm;
  const std::string source = file_ ? "weights file " + file_->path() : layer;
  const auto affine = [&](const char* part) { return names.is_affine ? prefix + part : ""; };
  MINUET_ASSIGN(const std::vector<float> weight, optional_vector(affine(".weight"), channels, 1, {1, 0.05}));
  MINUET_ASSIGN(const std::vector<float> bias, optional_vector(affine(".bias"), channels, 0, {0, 0.05}));
  MINUET_ASSIGN(const std::vector<float> mean, vector(prefix + ".running_mean", channels, {0, 0.05}));
  MINUET_ASSIGN(const std::vector<float> variance, vector(prefix + ".running_var", channels, {1, 0.05}));
  MINUET_ASSIGN(const std::vector<float> before, optional_vector(bias_before, channels, 0, {0, 0.05}));
  for (int64_t c = 0; c < channels; ++c) {
    if (variance[c] < 0 && !allows_non_finite()) {
      return make_error(StatusCode::InvalidArgument,
                        "{0}: \"{1}.running_var\" of channel {2} is {3}; it must not be negative{4}", source,
                        prefix, c, number_text(variance[c]), file_ ? kAllowNonFiniteHint : "");
    }
    const auto [scale, shift] =
        fold_channel(weight[c], bias[c], mean[c], variance[c], before[c], names.epsilon);
    parameters.scale.push_back(static_cast<float>(scale));
    parameters.shift.push_back(static_cast<float>(shift));
    if (allows_non_finite()) continue;
    if (!std::isfinite(parameters.scale.back()) || !std::isfinite(parameters.shift.back())) {
      const std::string of_convolution =
          bias_before.empty() ? "" : ", bias of the convolution " + number_text(before[c]);
      return make_error(StatusCode::InvalidArgument,
                        "{0}: \"{1}\" scales channel {2} by {3} and shifts it by {4}, which float32 cannot "
                        "hold: weight {5}, bias {6}, mean {7}, variance {8}",
                        source, prefix, c, number_text(scale), number_text(shift), number_text(weight[c]),
                        number_text(bias[c]), number_text(mean[c]),
                        number_text(variance[c]) + of_convolution + (file_ ? kAllowNonFiniteHint : ""));
    }
  }
  return llvm::Error::success();
}

/// Sets the scale and the shift that a convolution has from a chain (ProgramLayer::scale), which follow its
/// bias.
[[gnu::cold]] llvm::Error ParameterSource::fold_scale_shift(const ProgramLayer& layer, i64 channels,
                                                            LayerParameters& parameters) const {
  MINUET_ASSIGN(parameters.scale, vector(layer.scale, channels, {1, 0.05}));
  MINUET_ASSIGN(parameters.shift, vector(layer.shift, channels, {0, 0.05}));
  MINUET_ASSIGN(const std::vector<float> before, optional_vector(layer.bias, channels, 0, {0, 0.05}));
  for (i64 c = 0; c < channels; ++c) {
    const FoldedChannel folded = fold_channel(parameters.scale[c], parameters.shift[c], 0, 1, before[c], 0);
    parameters.shift[c] = static_cast<float>(folded.shift);
    if (std::isfinite(parameters.shift[c]) || allows_non_finite()) continue;
    return make_error(StatusCode::InvalidArgument,
                      "{0}: \"{1}\" and \"{2}\" shift channel {3} by {4}, which float32 cannot hold{5}",
                      file_ ? "weights file " + file_->path() : layer.name, layer.bias, layer.shift, c,
                      number_text(folded.shift), file_ ? kAllowNonFiniteHint : "");
  }
  return llvm::Error::success();
}

/// Returns the parameters of a chain of pointwise steps.
[[gnu::cold]] llvm::Expected<LayerParameters> ParameterSource::chain(const ProgramLayer& layer) const {
  LayerParameters parameters;
  const i64 channels = input_channels(layer);
  for (const AffineNames& names : layer.affines) {
    if (names.factor != 0) {
      parameters.scale.insert(parameters.scale.end(), static_cast<std::size_t>(channels), names.factor);
      parameters.shift.insert(parameters.shift.end(), static_cast<std::size_t>(channels), 0.0f);
      continue;
    }
    if (!names.batch_norm.empty()) {
      MINUET_TRY(fold_batch_norm(names, "", names.batch_norm, channels, parameters));
      continue;
    }
    MINUET_ASSIGN(const std::vector<float> scale, vector(names.scale, channels, {1, 0.05}));
    MINUET_ASSIGN(const std::vector<float> shift, vector(names.shift, channels, {0, 0.05}));
    parameters.scale.insert(parameters.scale.end(), scale.begin(), scale.end());
    parameters.shift.insert(parameters.shift.end(), shift.begin(), shift.end());
  }
  return parameters;
}

[[gnu::cold]] static TensorScales scales_of(const ProgramLayer& layer) {
  TensorScales scales;
  scales.input.assign(layer.input_scales.begin(), layer.input_scales.end());
  if (layer.residual_scale > 0) scales.residual = static_cast<double>(layer.residual_scale);
  if (layer.output_scale > 0) scales.output = static_cast<double>(layer.output_scale);
  return scales;
}

[[gnu::cold]] llvm::Expected<std::optional<std::string>> keep_floating_reason(
    const ProgramLayer& layer, const LayerParameters& parameters) {
  return keep_floating_reason(*convolution_of(layer), parameters.weight, parameters.scale, parameters.shift,
                              scales_of(layer));
}

/// Replaces the parameters of a convolution that computes in 8 bits by those that its kernel reads.
[[gnu::cold]] static llvm::Error quantize_parameters(const ProgramLayer& layer, LayerParameters& parameters) {
  llvm::Expected<QuantizedParameters> quantized = quantize(
      *convolution_of(layer), parameters.weight, parameters.scale, parameters.shift, scales_of(layer));
  if (!quantized) return annotate(quantized.takeError(), "the weight \"" + layer.weight + "\" in 8 bits");
  parameters.weight.assign(quantized->weight.begin(), quantized->weight.end());
  parameters.scale = std::move(quantized->factor);
  parameters.shift = std::move(quantized->shift);
  parameters.residual_factor = std::move(quantized->residual_factor);
  return llvm::Error::success();
}

llvm::Expected<LayerParameters> ParameterSource::layer(const ProgramLayer& layer) const {
  const ConvolutionProblem* const problem = convolution_of(layer);
  LayerParameters parameters;
  if (problem == nullptr) return chain(layer);
  const i64 channels = problem->out_channels;
  MINUET_ASSIGN(parameters.weight, weight(layer));
  if (!layer.batch_norm.empty()) {
    const AffineNames names{"", "", layer.batch_norm, layer.batch_norm_epsilon, layer.is_affine};
    MINUET_TRY(fold_batch_norm(names, layer.bias, layer.name, channels, parameters));
  } else if (!layer.scale.empty()) {
    MINUET_TRY(fold_scale_shift(layer, channels, parameters));
  } else if (problem->scale_shift) {
    MINUET_ASSIGN(parameters.shift, optional_vector(layer.bias, channels, 0, {0, 0.05}));
    parameters.scale.assign(parameters.shift.size(), 1.0f);
  }
  if (problem->input_type) MINUET_TRY(quantize_parameters(layer, parameters));
  return parameters;
}

}  // namespace minuet
