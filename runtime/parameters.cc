#include "runtime/parameters.h"

#include <algorithm>
#include <cmath>

#include "runtime/rounding.h"

namespace minuet {
namespace {

constexpr double kBatchNormEpsilon = 1e-5;

/// splitmix64: a few lines that give the same numbers everywhere, unlike std distributions.
class RandomStream {
 public:
  RandomStream(uint64_t seed, llvm::StringRef name) : state_(seed ^ 0x9e3779b97f4a7c15ull) {
    for (char c : name) state_ = next() ^ static_cast<unsigned char>(c);
  }

  /// Sum of twelve uniforms less six: normal enough for weights, and free of libm's last bits.
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

}  // namespace

llvm::Expected<std::vector<float>> ParameterSource::tensor(const std::string& name,
                                                           const std::vector<int64_t>& shape,
                                                           Draw draw) const {
  if (file_) return file_->read(name, shape);
  std::size_t count = 1;
  for (int64_t size : shape) count *= static_cast<std::size_t>(size);
  std::vector<float> values(count);
  RandomStream random(seed_, name);
  for (float& value : values) value = static_cast<float>(draw.mean + draw.deviation * random.normal());
  return values;
}

llvm::Expected<i32> ParameterSource::head_channels(const std::string& name, i32) const {
  const std::string weight = name + ".weight";
  if (!file_ || !file_->contains(weight)) return 0;
  MINUET_ASSIGN(const std::vector<int64_t> shape, file_->shape(weight));
  if (shape.size() != 3 || shape[2] < 1 || shape[2] > (1 << 16)) {
    return make_error(StatusCode::InvalidArgument,
                      "weights file {0}: \"{1}\" must have shape [1, C_in, classes]", file_->path(), weight);
  }
  return static_cast<i32>(shape[2]);
}

llvm::Error ParameterSource::fold_batch_norm(const ProgramLayer& layer, LayerParameters& parameters) const {
  const int64_t channels = layer.problem.out_channels;
  const std::string& prefix = layer.batch_norm;
  MINUET_ASSIGN(const std::vector<float> weight, tensor(prefix + ".weight", {channels}, {1, 0.05}));
  MINUET_ASSIGN(const std::vector<float> bias, tensor(prefix + ".bias", {channels}, {0, 0.05}));
  MINUET_ASSIGN(const std::vector<float> mean, tensor(prefix + ".running_mean", {channels}, {0, 0.05}));
  MINUET_ASSIGN(const std::vector<float> variance, tensor(prefix + ".running_var", {channels}, {1, 0.05}));
  parameters.scale.resize(channels);
  parameters.shift.resize(channels);
  for (int64_t c = 0; c < channels; ++c) {
    if (!(variance[c] >= 0)) {
      return make_error(StatusCode::InvalidArgument,
                        "\"{0}.running_var\" of channel {1} is {2}; it must not be negative", prefix, c,
                        variance[c]);
    }
    const double scale = weight[c] / std::sqrt(static_cast<double>(variance[c]) + kBatchNormEpsilon);
    parameters.scale[c] = static_cast<float>(scale);
    parameters.shift[c] = static_cast<float>(bias[c] - mean[c] * scale);
  }
  return llvm::Error::success();
}

llvm::Expected<LayerParameters> ParameterSource::layer(const ProgramLayer& layer) const {
  const ConvolutionProblem& problem = layer.problem;
  const i64 volume = kernel_volume(problem);
  LayerParameters parameters;
  const double variance = 2.0 / static_cast<double>(volume * problem.in_channels);
  MINUET_ASSIGN(parameters.weight, tensor(layer.weight, {volume, problem.in_channels, problem.out_channels},
                                          {0, std::sqrt(variance)}));
  round_values(problem.dtype, parameters.weight.data(), parameters.weight.size());
  if (!std::all_of(parameters.weight.begin(), parameters.weight.end(),
                   [](float w) { return std::isfinite(w); })) {
    return make_error(StatusCode::InvalidArgument,
                      "\"{0}\" holds a value that is not finite in the network's dtype", layer.weight);
  }
  if (!layer.batch_norm.empty()) MINUET_TRY(fold_batch_norm(layer, parameters));
  if (!layer.bias.empty()) {
    MINUET_ASSIGN(parameters.shift, tensor(layer.bias, {problem.out_channels}, {0, 0.05}));
    parameters.scale.assign(parameters.shift.size(), 1.0f);
  }
  return parameters;
}

}  // namespace minuet
