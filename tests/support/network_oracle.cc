#include "tests/support/network_oracle.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "codegen/choose/problem.h"
#include "tests/support/oracle.h"
#include "tests/support/pointwise_oracle.h"
#include "tests/support/random.h"

namespace minuet::oracle {
namespace {

constexpr Axes kOnes{1, 1, 1, 1};
constexpr int64_t kInChannels = 4;

uint64_t seed_of(uint64_t seed, const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325ull ^ seed;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

int64_t volume_of(const Axes& axes) { return int64_t{axes[0]} * axes[1] * axes[2] * axes[3]; }

struct Level {
  std::vector<int32_t> coordinates;
  Axes tensor_stride{1, 1, 1, 1};
  int64_t rows = 0;
};

struct Tensor {
  int level = 0;
  int64_t channels = 0;
  std::vector<double> values;  // [rows of the level, channels]
};

struct Map {
  std::vector<Pair> pairs;
  int64_t volume = 1;
  int level = 0;          // of the output
  double neighbours = 1;  // pairs per output
};

/// Evaluates layer by layer; levels appear as the layers go down.
class Evaluator {
 public:
  Evaluator(Parameters& parameters, std::vector<int32_t> coordinates, int ndim = 3)
      : parameters_(parameters), ndim_(ndim) {
    add_level(std::move(coordinates), {1, 1, 1, 1});
  }

  Tensor block(const Tensor& x, const std::string& name, int64_t out, Axes kernel, Axes stride,
               Axes dilation = kOnes, const Finish& finish = {}) {
    const Map map = around(x.level, kernel, stride, dilation);
    return activate(convolve_and_normalize(x, name + ".conv", name + ".bn", out, map, finish), finish);
  }

  /// Transposed, back onto the coordinates of an earlier tensor.
  Tensor up(const Tensor& x, const std::string& name, int64_t out, int onto, Axes kernel,
            Axes dilation = kOnes, const Finish& finish = {}) {
    const Level &coarse = levels_[x.level], &fine = levels_[onto];
    Map map;
    const Geometry geometry = geometry_of(kernel, dilation, fine.tensor_stride, true);
    map.pairs = find_pairs(geometry, coarse.coordinates, fine.coordinates);
    this->finish(map, onto, geometry);
    return activate(convolve_and_normalize(x, name + ".conv", name + ".bn", out, map, finish), finish);
  }

  Tensor residual(const Tensor& x, const std::string& name, int64_t out) {
    Axes kernel = kOnes;
    std::fill(kernel.begin(), kernel.begin() + ndim_, 3);
    return residual(
        x, name,
        {.op = NetworkLayer::Op::Residual, .channels = static_cast<int>(out), .kernel_size = kernel});
  }

  /// A residual or a bottleneck.
  Tensor residual(const Tensor& x, const std::string& name, const NetworkLayer& layer) {
    struct Window {
      Axes kernel, stride, dilation;
    };
    const Window whole{layer.kernel_size, layer.stride, layer.dilation}, one{kOnes, kOnes, kOnes},
        unstrided{layer.kernel_size, kOnes, layer.dilation};
    const bool is_bottleneck = layer.op == NetworkLayer::Op::Bottleneck;
    const std::vector<Window> windows =
        is_bottleneck ? std::vector{one, whole, one} : std::vector{whole, unstrided};
    Tensor y = x;
    for (size_t i = 0; i < windows.size(); ++i) {
      const bool is_last = i + 1 == windows.size();
      const Map map = around(y.level, windows[i].kernel, windows[i].stride, windows[i].dilation);
      const std::string number = std::to_string(i + 1);
      y = convolve_and_normalize(y, name + ".conv" + number, name + ".bn" + number,
                                 is_bottleneck && !is_last ? layer.inner_channels : layer.channels, map,
                                 layer.finish(i));
      if (!is_last) y = activate(std::move(y), layer.finish(i));
    }
    Tensor shortcut = x;
    if (x.channels != layer.channels || layer.stride != kOnes) {
      shortcut =
          convolve_and_normalize(x, name + ".shortcut.conv", name + ".shortcut.bn", layer.channels,
                                 around(x.level, kOnes, layer.stride, kOnes), layer.finish(windows.size()));
      note_largest(shortcut);
    }
    for (size_t i = 0; i < y.values.size(); ++i) y.values[i] += shortcut.values[i];
    return activate(std::move(y), layer.finish(windows.size() - 1));
  }

  /// Says whether the kernels of the next layer are crosses, or lists of these offsets if there are any.
  void take_shape(bool is_cross, const std::vector<Axes>& offsets) {
    is_cross_ = is_cross;
    offsets_ = offsets;
  }

  Tensor concat(const Tensor& first, const Tensor& second) {
    Tensor both{first.level, first.channels + second.channels, {}};
    for (int64_t row = 0; row < levels_[first.level].rows; ++row) {
      for (const Tensor* part : {&first, &second}) {
        const double* values = part->values.data() + row * part->channels;
        both.values.insert(both.values.end(), values, values + part->channels);
      }
    }
    return both;
  }

  /// The children of each cell at `stride` side by side.
  Tensor space_to_channel(const Tensor& x, Axes stride) {
    const int level = level_below(x.level, stride);
    const Level &fine = levels_[x.level], &coarse = levels_[level];
    Tensor y{level, x.channels * volume_of(stride), {}};
    y.values.resize(static_cast<size_t>(coarse.rows * y.channels));
    for (const Pair& pair : children_of(fine, coarse, stride)) {
      std::copy_n(x.values.data() + pair.in * x.channels, x.channels,
                  y.values.data() + pair.out * y.channels + pair.k * x.channels);
    }
    return y;
  }

  /// The part of its cell's features for each voxel of level `onto`.
  Tensor channel_to_space(const Tensor& x, int onto, Axes stride) {
    const Level &fine = levels_[onto], &coarse = levels_[x.level];
    Tensor y{onto, x.channels / volume_of(stride), {}};
    y.values.resize(static_cast<size_t>(fine.rows * y.channels));
    for (const Pair& pair : children_of(fine, coarse, stride)) {
      std::copy_n(x.values.data() + pair.out * x.channels + pair.k * y.channels, y.channels,
                  y.values.data() + pair.in * y.channels);
    }
    return y;
  }

  Tensor combine(Tensor x, bool is_sum, const Tensor& other) {
    for (size_t i = 0; i < x.values.size(); ++i) {
      x.values[i] = is_sum ? x.values[i] + other.values[i] : x.values[i] * other.values[i];
    }
    return noted(std::move(x));
  }

  /// A pointwise op of one input.
  Tensor pointwise(Tensor x, const std::string& name, const std::string& function, double number) {
    const bool is_norm = function == "layer_norm", has_parameters = is_norm || function == "scale_shift";
    if (function == "batch_norm") return noted(normalize(std::move(x), name, {.epsilon = number}));
    ChainStep affine{"affine"};
    if (has_parameters) {
      affine.scale = parameters_.vector(name + ".weight", x.channels, 1, 0.3);
      affine.shift = parameters_.vector(name + ".bias", x.channels, 0.1, 0.3);
    }
    for (size_t at = 0; at < x.values.size(); at += static_cast<size_t>(x.channels)) {
      double* const row = x.values.data() + at;
      if (function != "scale_shift") apply_step({function, number}, row, x.channels);
      if (has_parameters) apply_step(affine, row, x.channels);
    }
    return noted(std::move(x));
  }

  Tensor head(const Tensor& x, int64_t classes) {
    Tensor y = convolve(x, "head", classes, same(x.level, kOnes));
    add_bias(y, "head");
    return y;
  }

  NetworkOutput output(Tensor x) {
    note_largest(x);
    return {levels_[x.level].coordinates, x.channels, std::move(x.values), largest_};
  }

 private:
  int add_level(std::vector<int32_t> coordinates, Axes tensor_stride) {
    const int64_t rows = static_cast<int64_t>(coordinates.size()) / (1 + ndim_);
    levels_.push_back({std::move(coordinates), tensor_stride, rows});
    return static_cast<int>(levels_.size()) - 1;
  }

  Map around(int level, Axes kernel, Axes stride, Axes dilation) {
    return stride == kOnes ? same(level, kernel, dilation) : down(level, kernel, stride, dilation);
  }

  Map same(int level, Axes kernel, Axes dilation = kOnes) {
    Map& map = same_[{level, is_cross_, offsets_, kernel, dilation}];
    if (!map.pairs.empty()) return map;
    const Level& at = levels_[level];
    const Geometry geometry = geometry_of(kernel, dilation, at.tensor_stride, false);
    map.pairs = find_pairs(geometry, at.coordinates, at.coordinates);
    finish(map, level, geometry);
    return map;
  }

  int level_below(int level, Axes stride) {
    Axes tensor_stride = levels_[level].tensor_stride;
    for (int a = 0; a < ndim_; ++a) tensor_stride[a] *= stride[a];
    const auto [found, fresh] = coarser_.emplace(std::pair(level, tensor_stride), 0);
    if (fresh) {
      found->second = add_level(downsample(ndim_, levels_[level].coordinates, tensor_stride), tensor_stride);
    }
    return found->second;
  }

  Map down(int level, Axes kernel, Axes stride, Axes dilation) {
    const int below = level_below(level, stride);
    const Level &fine = levels_[level], &coarse = levels_[below];
    Map map;
    const Geometry geometry = geometry_of(kernel, dilation, fine.tensor_stride, false);
    map.pairs = find_pairs(geometry, fine.coordinates, coarse.coordinates);
    finish(map, below, geometry);
    return map;
  }

  /// Each voxel (in), its number among the children of its cell (k) and its cell (out).
  std::vector<Pair> children_of(const Level& fine, const Level& coarse, Axes stride) const {
    return find_pairs({ndim_, stride, kOnes, fine.tensor_stride, false, /*is_dense=*/true}, fine.coordinates,
                      coarse.coordinates);
  }

  /// The offsets of a box, x slowest, without those that are not 0 on several axes.
  Geometry geometry_of(const Axes& kernel, const Axes& dilation, const Axes& tensor_stride, bool transposed) {
    Geometry geometry{ndim_, kernel, dilation, tensor_stride, transposed};
    geometry.offsets = offsets_;
    if (!is_cross_) return geometry;
    for (int i = 0; i < kernel[0] * kernel[1] * kernel[2] * kernel[3]; ++i) {
      Axes offset{};
      int rest = i, others = 0;
      for (int a = 3; a >= 0; rest /= kernel[a], --a) {
        offset[a] = (rest % kernel[a] - (kernel[a] - 1) / 2) * dilation[a];
        if (offset[a] != 0) ++others;
      }
      if (others <= 1) geometry.offsets.push_back(offset);
    }
    return geometry;
  }

  void finish(Map& map, int level, const Geometry& geometry) {
    map.level = level;
    map.volume = geometry.offsets.empty() ? volume_of(geometry.kernel_size)
                                          : static_cast<int64_t>(geometry.offsets.size());
    const double rows = static_cast<double>(std::max<int64_t>(levels_[level].rows, 1));
    map.neighbours = std::max(1.0, static_cast<double>(map.pairs.size()) / rows);
  }

  Tensor convolve(const Tensor& x, const std::string& name, int64_t out, const Map& map) {
    const std::vector<float>& weight =
        parameters_.weight(name + ".weight", map.volume, x.channels, out, map.neighbours);
    Tensor result{map.level, out, std::vector<double>(levels_[map.level].rows * out, 0.0)};
    for (const Pair& pair : map.pairs) {
      double* row = result.values.data() + pair.out * out;
      const double* input = x.values.data() + pair.in * x.channels;
      const float* matrix = weight.data() + pair.k * x.channels * out;
      for (int64_t c = 0; c < x.channels; ++c) {
        const double value = input[c];
        if (value == 0) continue;  // half of what follows a ReLU
        for (int64_t o = 0; o < out; ++o) row[o] += value * static_cast<double>(matrix[c * out + o]);
      }
    }
    return result;
  }

  Tensor convolve_and_normalize(const Tensor& x, const std::string& convolution, const std::string& norm,
                                int64_t out, const Map& map, const Finish& finish) {
    Tensor y = convolve(x, convolution, out, map);
    if (finish.bias) add_bias(y, convolution);
    return finish.norm ? normalize(std::move(y), norm, finish) : y;
  }

  void add_bias(Tensor& x, const std::string& convolution) {
    const std::vector<float>& bias = parameters_.vector(convolution + ".bias", x.channels, 0, 0.5);
    for (size_t i = 0; i < x.values.size(); ++i) x.values[i] += bias[i % static_cast<size_t>(x.channels)];
  }

  Tensor normalize(Tensor x, const std::string& name, const Finish& finish) {
    const int64_t channels = x.channels;
    std::vector<float> weight(channels, 1), bias(channels, 0);
    if (finish.affine) {
      weight = parameters_.vector(name + ".weight", channels, 1, 0.3);
      bias = parameters_.vector(name + ".bias", channels, 0.1, 0.3);
    }
    const std::vector<float>& mean = parameters_.vector(name + ".running_mean", channels, 0, 0.3);
    // Above 1, so that the sums of many residuals stay far inside fp16.
    const std::vector<float>& variance = parameters_.vector(name + ".running_var", channels, 2, 0.9);
    for (size_t i = 0; i < x.values.size(); ++i) {
      const size_t c = i % channels;
      const double deviation = std::sqrt(static_cast<double>(variance[c]) + finish.epsilon);
      x.values[i] = (x.values[i] - mean[c]) / deviation * weight[c] + bias[c];
    }
    return x;
  }

  Tensor activate(Tensor x, const Finish& finish) {
    const std::string function = kActivationNames[static_cast<int>(finish.activation)];
    for (double& value : x.values) value = apply_function(function, value, finish.slope);
    note_largest(x);
    return x;
  }

  Tensor noted(Tensor x) {
    note_largest(x);
    return x;
  }
  void note_largest(const Tensor& x) {
    for (double value : x.values) largest_ = std::max(largest_, std::abs(value));
  }

  Parameters& parameters_;
  const int ndim_;
  std::vector<Level> levels_;
  bool is_cross_ = false;  // take_shape()
  std::vector<Axes> offsets_;
  std::map<std::tuple<int, bool, std::vector<Axes>, Axes, Axes>, Map> same_;
  std::map<std::pair<int, Axes>, int> coarser_;  // level and tensor stride
  double largest_ = 0;
};

std::string numbered(const std::string& part, int i, const std::string& rest) {
  return part + "." + std::to_string(i) + "." + rest;
}

Tensor widen(const std::vector<float>& features) {
  return {0, kInChannels, std::vector<double>(features.begin(), features.end())};
}

}  // namespace

const std::vector<float>& Parameters::weight(const std::string& name, int64_t volume, int64_t in, int64_t out,
                                             double neighbours) {
  if (!drawn_ || tensors_.count(name)) return tensors_.at(name).values;
  // Whole numbers up to `most`, uniform, over a power of two: variance most (most + 1) / 3 / 4^shift.
  const double deviation = std::sqrt(2.0 / (neighbours * static_cast<double>(in)));
  int shift = 0;
  while (std::ldexp(deviation, shift + 1) * std::sqrt(3.0) < 127) ++shift;
  const int64_t most = std::lround(std::ldexp(deviation, shift) * std::sqrt(3.0));
  FileTensor tensor{{volume, in, out}, std::vector<float>(volume * in * out)};
  Random random(seed_of(seed_, name));
  for (float& value : tensor.values) {
    value = std::ldexp(static_cast<float>(random.between(-most, most)), -shift);
  }
  return tensors_.emplace(name, std::move(tensor)).first->second.values;
}

const std::vector<float>& Parameters::vector(const std::string& name, int64_t channels, double mean,
                                             double spread) {
  if (!drawn_ || tensors_.count(name)) return tensors_.at(name).values;
  FileTensor tensor{{channels}, std::vector<float>(channels)};
  Random random(seed_of(seed_, name));
  for (float& value : tensor.values) value = static_cast<float>(random.uniform(mean - spread, mean + spread));
  return tensors_.emplace(name, std::move(tensor)).first->second.values;
}

NetworkOutput minkunet42(Parameters& parameters, const std::vector<int32_t>& channels,
                         const std::vector<int32_t>& coordinates, const std::vector<float>& features,
                         int64_t classes) {
  const std::vector<int32_t>& c = channels;
  Evaluator network(parameters, coordinates);
  std::vector<Tensor> skips;
  Tensor x = network.block(widen(features), "stem.0", c[0], {3, 3, 3, 1}, {1, 1, 1, 1});
  x = network.block(x, "stem.1", c[0], {3, 3, 3, 1}, {1, 1, 1, 1});
  skips.push_back(x);
  for (int i = 0; i < 4; ++i) {
    x = network.block(x, numbered("encoder", i, "down"), c[i], {2, 2, 2, 1}, {2, 2, 2, 1});
    x = network.residual(x, numbered("encoder", i, "residual.0"), c[i + 1]);
    x = network.residual(x, numbered("encoder", i, "residual.1"), c[i + 1]);
    skips.push_back(x);
  }
  for (int i = 0; i < 4; ++i) {
    x = network.up(x, numbered("decoder", i, "up"), c[i + 5], x.level - 1, {2, 2, 2, 1});
    x = network.concat(x, skips[3 - i]);
    x = network.residual(x, numbered("decoder", i, "residual.0"), c[i + 5]);
    x = network.residual(x, numbered("decoder", i, "residual.1"), c[i + 5]);
  }
  if (classes > 0) x = network.head(x, classes);
  return network.output(std::move(x));
}

NetworkOutput sparseresnet21d(Parameters& parameters, const std::vector<int32_t>& channels,
                              const std::vector<int32_t>& coordinates, const std::vector<float>& features) {
  Evaluator network(parameters, coordinates);
  Tensor x = widen(features);
  for (int i = 0; i < 4; ++i) {
    const int s = i == 0 ? 1 : 2;
    x = network.block(x, numbered("stage", i, "down"), channels[i], {3, 3, 3, 1}, {s, s, s, 1});
    x = network.residual(x, numbered("stage", i, "residual.0"), channels[i]);
    x = network.residual(x, numbered("stage", i, "residual.1"), channels[i]);
  }
  x = network.block(x, "stage.4.down", channels[3], {1, 1, 3, 1}, {1, 1, 2, 1});
  return network.output(std::move(x));
}

std::string layer_name(size_t index) { return "layer" + std::to_string(index); }

std::vector<NetworkOutput> evaluate_layers(Parameters& parameters, int ndim, int in_channels,
                                           const std::vector<NetworkLayer>& layers,
                                           const std::vector<int32_t>& coordinates,
                                           const std::vector<float>& features,
                                           const std::vector<size_t>& wanted) {
  Evaluator network(parameters, coordinates, ndim);
  std::vector<Tensor> results;
  Tensor x{0, in_channels, std::vector<double>(features.begin(), features.end())};
  for (const NetworkLayer& layer : layers) {
    const std::string name = layer_name(results.size());
    network.take_shape(layer.is_cross, layer.offsets);
    if (layer.input >= 0) x = results[layer.input];
    switch (layer.op) {
      case NetworkLayer::Op::Block:
        x = network.block(x, name, layer.channels, layer.kernel_size, layer.stride, layer.dilation,
                          layer.finish(0));
        break;
      case NetworkLayer::Op::Residual:
      case NetworkLayer::Op::Bottleneck:
        x = network.residual(x, name, layer);
        break;
      case NetworkLayer::Op::Up:
        x = network.up(x, name, layer.channels, results[layer.skip].level, layer.kernel_size, layer.dilation,
                       layer.finish(0));
        break;
      case NetworkLayer::Op::Concat:
        x = network.concat(x, results[layer.skip]);
        break;
      case NetworkLayer::Op::SpaceToChannel:
        x = network.space_to_channel(x, layer.stride);
        break;
      case NetworkLayer::Op::ChannelToSpace:
        x = network.channel_to_space(x, results[layer.skip].level, layer.stride);
        break;
      case NetworkLayer::Op::Pointwise:
        x = layer.skip >= 0 ? network.combine(x, layer.function == "add", results[layer.skip])
                            : network.pointwise(x, name, layer.function, layer.number);
        break;
    }
    results.push_back(x);
  }
  std::vector<NetworkOutput> outputs;
  for (const size_t layer : wanted) outputs.push_back(network.output(results[layer]));
  return outputs;
}

NetworkOutput evaluate(Parameters& parameters, int ndim, int in_channels,
                       const std::vector<NetworkLayer>& layers, const std::vector<int32_t>& coordinates,
                       const std::vector<float>& features) {
  return evaluate_layers(parameters, ndim, in_channels, layers, coordinates, features, {layers.size() - 1})
      .front();
}

std::vector<float> draw_features(int64_t count, uint64_t seed) {
  std::vector<float> values(count);
  Random random(seed);
  for (float& value : values) value = static_cast<float>(random.between(-127, 127)) / 64.0f;
  return values;
}

}  // namespace minuet::oracle
