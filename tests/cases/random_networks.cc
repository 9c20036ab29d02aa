#include "tests/cases/random_networks.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <set>

#include "tests/cases/convolution_cases.h"
#include "tests/support/clouds.h"
#include "tests/support/random.h"

namespace minuet {
namespace {

using oracle::Axes;
using oracle::Finish;
using oracle::NetworkLayer;
using Op = NetworkLayer::Op;

constexpr size_t kMostLayers = 8;
constexpr int kMostVolume = 81;
constexpr int kMostStride = 64;  // of a whole network
constexpr int kMostWidth = 160;  // of children side by side
constexpr Axes kOnes{1, 1, 1, 1};
const char* const kFunctions[] = {"relu", "leaky_relu", "gelu",       "silu",       "sigmoid",
                                  "tanh", "softmax",    "batch_norm", "layer_norm", "scale_shift"};

bool is_copy(const NetworkLayer& layer) {
  return layer.op == Op::SpaceToChannel || layer.op == Op::ChannelToSpace;
}

bool may_have_offsets(const NetworkLayer& layer) { return layer.op == Op::Block || layer.op == Op::Up; }

/// The cells of the finer level in a cell of the coarser one.
int cells_of(const NetworkLayer& layer) {
  return std::accumulate(layer.stride.begin(), layer.stride.end(), 1, std::multiplies<>());
}

/// Where every layer's result lies: on which coordinates, and in whose memory. -1: the network's input.
class Shapes {
 public:
  explicit Shapes(const NetworkCase& network) : network_(network) {
    for (const NetworkLayer& layer : network.layers) fits_ = fits_ && add(layer);
  }

  bool fits() const { return fits_ && !network_.layers.empty() && network_.layers.back().op != Op::Concat; }
  int current() const { return levels_.empty() ? 0 : levels_.back(); }
  int level(int layer) const { return levels_[layer]; }
  const Axes& stride(int level) const { return strides_[level]; }
  /// The channels of the last result.
  int channels() const { return channels_.empty() ? network_.in_channels : channels_.back(); }
  /// Sums and products have operands of one shape.
  bool combines(int skip) const {
    return skip < static_cast<int>(levels_.size()) && level(skip) == current() &&
           channels_[skip] == channels();
  }
  /// Concatenations lay their operands side by side, so each has one place only.
  bool joins(int skip) const {
    return skip + 1 < static_cast<int>(levels_.size()) && level(skip) == current() && !joined_.count(skip);
  }

 private:
  bool add(const NetworkLayer& layer) {
    const int skip = layer.skip, layers = static_cast<int>(levels_.size());
    if (skip >= layers) return false;
    int level = current(), width = layer.channels;
    if (layer.op == Op::Concat) {
      if (layers == 0 || skip < 0 || !joins(skip)) return false;
      joined_.insert({skip, layers - 1});
      width = channels() + channels_[skip];
    } else if (layer.op == Op::Pointwise) {
      const bool has_operand = layer.function == "add" || layer.function == "multiply";
      if (has_operand != (skip >= 0) || (has_operand && !combines(skip))) return false;
      width = channels();
    } else if (layer.op == Op::Up || layer.op == Op::ChannelToSpace) {
      if (skip < 0 || levels_[skip] == level) return false;
      for (int a = 0; a < network_.ndim; ++a) {
        if (strides_[levels_[skip]][a] * layer.stride[a] != strides_[level][a]) return false;
      }
      level = levels_[skip];
      if (layer.op == Op::ChannelToSpace) {
        if (layer.stride == kOnes || channels() % cells_of(layer) != 0) return false;
        width = channels() / cells_of(layer);
      }
    } else if (layer.op == Op::SpaceToChannel && layer.stride == kOnes) {
      return false;
    } else if (layer.stride != kOnes) {
      if (layer.op == Op::SpaceToChannel) width = channels() * cells_of(layer);
      if (layer.op == Op::SpaceToChannel && width > kMostWidth) return false;
      level = coarser(level, layer.stride);
      const Axes& stride = strides_[level];
      if (*std::max_element(stride.begin(), stride.end()) > kMostStride) return false;
    }
    levels_.push_back(level);
    channels_.push_back(width);
    return true;
  }

  int coarser(int level, const Axes& stride) {
    Axes product = strides_[level];
    for (int a = 0; a < network_.ndim; ++a) product[a] *= stride[a];
    const auto [found, fresh] =
        coarser_.emplace(std::pair(level, product), static_cast<int>(strides_.size()));
    if (fresh) strides_.push_back(product);
    return found->second;
  }

  const NetworkCase& network_;
  bool fits_ = true;
  std::vector<int> levels_, channels_;
  std::vector<Axes> strides_{kOnes};
  std::map<std::pair<int, Axes>, int> coarser_;
  std::set<int> joined_;
};

Axes draw_axes(Random& random, int ndim, int least, int greatest) {
  Axes axes = kOnes;
  const bool alike = random.below(2) == 0;
  for (int a = 0; a < ndim; ++a) {
    axes[a] = alike && a > 0 ? axes[0] : static_cast<int32_t>(random.between(least, greatest));
  }
  return axes;
}

bool adds_shortcut(const NetworkLayer& layer) {
  return layer.op == Op::Residual || layer.op == Op::Bottleneck;
}

/// The shortcut's among them.
size_t convolutions_of(const NetworkLayer& layer) {
  return layer.op == Op::Concat || layer.op == Op::Pointwise || is_copy(layer) ? 0
         : layer.op == Op::Residual                                            ? 3
         : layer.op == Op::Bottleneck                                          ? 4
                                                                               : 1;
}

Finish draw_finish(Random& random) {
  Finish finish;
  finish.bias = random.below(2) == 0, finish.norm = random.below(3) != 0;
  if (finish.norm) {
    finish.affine = random.below(3) != 0;
    finish.epsilon = std::vector{1e-5, 1e-3, 0.25}[random.below(3)];
  }
  finish.activation = static_cast<Activation>(random.below(kActivations));
  if (finish.activation == Finish::Activation::LeakyReLU)
    finish.slope = std::vector{0.01, 0.25, -0.5}[random.below(3)];
  return finish;
}

void draw_finishes(Random& random, NetworkLayer& layer) {
  if (random.below(2) == 0) return;
  for (size_t i = 0; i < convolutions_of(layer); ++i) layer.finishes.push_back(draw_finish(random));
}

NetworkLayer draw_residual(Random& random, const NetworkCase& network, NetworkLayer layer) {
  layer.op = random.below(3) == 0 ? Op::Bottleneck : Op::Residual;
  if (layer.op == Op::Bottleneck) layer.inner_channels = static_cast<int>(random.between(1, 9));
  const bool is_usual = random.below(2) == 0;
  layer.kernel_size = draw_axes(random, network.ndim, is_usual ? 3 : 1, 3);
  if (random.below(3) == 0) layer.stride = draw_axes(random, network.ndim, 1, 2);
  if (random.below(4) == 0) layer.dilation = draw_axes(random, network.ndim, 1, 3);
  return layer;
}

NetworkLayer draw_pointwise(Random& random, const NetworkCase& network, const Shapes& shapes) {
  if (!network.layers.empty() && random.below(3) == 0) {
    const auto skip = static_cast<int>(random.below(network.layers.size()));
    const char* const function = random.below(2) == 0 ? "add" : "multiply";
    if (shapes.combines(skip)) return {.op = Op::Pointwise, .skip = skip, .function = function};
  }
  return {.op = Op::Pointwise, .function = kFunctions[random.below(std::size(kFunctions))]};
}

NetworkLayer draw_shape(Random& random, const NetworkCase& network) {
  const Shapes shapes(network);
  if (random.below(4) == 0) return draw_pointwise(random, network, shapes);
  NetworkLayer layer;
  layer.channels = static_cast<int>(random.between(1, random.below(4) == 0 ? 40 : 12));
  const uint64_t wish = random.below(10);
  if (wish < 3) return draw_residual(random, network, layer);
  layer.kernel_size = draw_axes(random, network.ndim, 1, 3);
  layer.dilation = random.below(4) == 0 ? draw_axes(random, network.ndim, 1, 3) : kOnes;
  if (wish < 5) return layer;
  if (wish < 7 || network.layers.empty()) {
    layer.stride = draw_axes(random, network.ndim, 1, 3);
    if (random.below(3) == 0) return {.op = Op::SpaceToChannel, .stride = layer.stride};
    return layer;
  }
  layer.skip = static_cast<int>(random.below(network.layers.size()));
  if (shapes.level(layer.skip) == shapes.current()) return {.op = Op::Concat, .skip = layer.skip};
  layer.op = Op::Up;
  for (int a = 0; a < network.ndim; ++a) {
    layer.stride[a] =
        std::max(shapes.stride(shapes.current())[a] / shapes.stride(shapes.level(layer.skip))[a], 1);
  }
  if (shapes.channels() % cells_of(layer) == 0 && random.below(2) == 0)
    return {.op = Op::ChannelToSpace, .stride = layer.stride, .skip = layer.skip};
  return layer;
}

/// Draws a list of offsets in place of a box: near ones, or ones that are far apart.
void draw_offsets(Random& random, int ndim, NetworkLayer& layer) {
  constexpr int kMostOffsets = 9;
  const int reach = random.below(4) == 0 ? 40 : 2;
  layer.kernel_size = layer.dilation = kOnes;
  for (int64_t i = random.between(1, kMostOffsets); i > 0; --i) {
    Axes offset{};
    for (int a = 0; a < ndim; ++a) offset[a] = static_cast<int32_t>(random.between(-reach, reach));
    if (std::find(layer.offsets.begin(), layer.offsets.end(), offset) == layer.offsets.end())
      layer.offsets.push_back(offset);
  }
}

NetworkLayer draw_layer(Random& random, const NetworkCase& network) {
  NetworkLayer layer = draw_shape(random, network);
  const bool has_kernel = layer.op != Op::Concat && layer.op != Op::Pointwise;
  layer.is_cross = has_kernel && random.below(4) == 0;
  if (!layer.is_cross && may_have_offsets(layer) && random.below(4) == 0)
    draw_offsets(random, network.ndim, layer);
  draw_finishes(random, layer);
  return layer;
}

int64_t volume_of(const NetworkLayer& layer) {
  return std::accumulate(layer.kernel_size.begin(), layer.kernel_size.end(), int64_t{1}, std::multiplies<>());
}

std::string list(const Axes& axes, int count, const char* open, const char* close) {
  std::string text;
  for (int a = 0; a < count; ++a) text += (a > 0 ? ", " : "") + std::to_string(axes[a]);
  return open + text + close;
}

std::string offsets_text(const NetworkLayer& layer, int count, const char* open, const char* close) {
  std::string text;
  for (const Axes& offset : layer.offsets)
    text += (text.empty() ? "" : ", ") + list(offset, count, open, close);
  return text;
}

std::string number(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

std::string activation_fields(const Finish& finish) {
  std::string text =
      std::string(", \"activation\": \"") + kActivationNames[static_cast<int>(finish.activation)] + "\"";
  if (finish.activation == Finish::Activation::LeakyReLU) text += ", \"slope\": " + number(finish.slope);
  return text;
}

std::string norm_fields(const Finish& finish) {
  std::string text = std::string("\"bias\": ") + (finish.bias ? "true" : "false");
  if (!finish.norm) return text + ", \"norm\": \"none\"";
  return text + ", \"affine\": " + (finish.affine ? "true" : "false") +
         ", \"epsilon\": " + number(finish.epsilon);
}

/// A shortcut that is the input itself must have no fields.
std::string fields_of(const NetworkLayer& layer, bool has_shortcut) {
  if (layer.finishes.empty()) return "";
  if (!adds_shortcut(layer)) return ", " + norm_fields(layer.finish(0)) + activation_fields(layer.finish(0));
  const size_t last = convolutions_of(layer) - 2;
  std::string text = activation_fields(layer.finish(last));
  for (size_t i = 0; i <= last; ++i) {
    text += ", \"conv" + std::to_string(i + 1) + "\": {" + norm_fields(layer.finish(i)) +
            (i < last ? activation_fields(layer.finish(i)) : "") + "}";
  }
  return text + (has_shortcut ? ", \"shortcut\": {" + norm_fields(layer.finish(last + 1)) + "}" : "");
}

/// The channels that each layer reads.
std::vector<int> input_channels(const NetworkCase& network) {
  std::vector<int> inputs, results;
  for (const NetworkLayer& layer : network.layers) {
    inputs.push_back(results.empty() ? network.in_channels : results.back());
    results.push_back(layer.op == Op::Concat           ? inputs.back() + results[layer.skip]
                      : layer.op == Op::Pointwise      ? inputs.back()
                      : layer.op == Op::SpaceToChannel ? inputs.back() * cells_of(layer)
                      : layer.op == Op::ChannelToSpace ? inputs.back() / cells_of(layer)
                                                       : layer.channels);
  }
  return inputs;
}

bool is_skip(const NetworkCase& network, size_t layer) {
  return std::any_of(network.layers.begin(), network.layers.end(),
                     [&](const NetworkLayer& later) { return later.skip == static_cast<int>(layer); });
}

/// The fields of a pointwise op behind its name.
std::string pointwise_fields(const NetworkLayer& layer, size_t index, const std::string& skip) {
  const std::string& function = layer.function;
  if (layer.skip >= 0) return ", \"with\": " + skip;
  const bool is_norm = function == "batch_norm" || function == "layer_norm";
  std::string text;
  if (is_norm || function == "scale_shift") text += ", \"name\": \"" + oracle::layer_name(index) + "\"";
  if (is_norm) text += ", \"epsilon\": " + number(NetworkLayer::kNumber);
  if (function == "leaky_relu") text += ", \"slope\": " + number(NetworkLayer::kNumber);
  return text;
}

/// ".finishes = {...}", or nothing.
std::string finishes_text(const NetworkLayer& layer) {
  std::string text;
  for (const Finish& finish : layer.finishes) {
    text += std::string(text.empty() ? "{" : ", {") + ".bias = " + (finish.bias ? "true" : "false") +
            ", .norm = " + (finish.norm ? "true" : "false") +
            ", .affine = " + (finish.affine ? "true" : "false") + ", .epsilon = " + number(finish.epsilon) +
            ", .activation = " + activation_text(finish.activation) + ", .slope = " + number(finish.slope) +
            "}";
  }
  return text.empty() ? "" : ", .finishes = {" + text + "}";
}

}  // namespace

bool is_feasible(const NetworkCase& network) {
  for (const NetworkLayer& layer : network.layers) {
    if (volume_of(layer) > kMostVolume) return false;
    if (!layer.offsets.empty() && (!may_have_offsets(layer) || layer.is_cross || layer.kernel_size != kOnes ||
                                   layer.dilation != kOnes)) {
      return false;
    }
    for (const Axes& offset : layer.offsets) {
      if (std::any_of(offset.begin() + network.ndim, offset.end(), [](int32_t value) { return value != 0; }))
        return false;
    }
    for (const Axes* axes : {&layer.kernel_size, &layer.stride, &layer.dilation}) {
      if (std::any_of(axes->begin() + network.ndim, axes->end(), [](int32_t value) { return value != 1; }))
        return false;
    }
  }
  return Shapes(network).fits();
}

NetworkCase draw_network(DType dtype, uint64_t seed) {
  Random random(seed);
  NetworkCase network;
  network.dtype = dtype;
  network.ndim = static_cast<int>(random.below(4) == 0 ? random.between(1, 4) : 3);
  network.in_channels = static_cast<int>(random.between(1, 9));
  network.points = random.below(8) == 0 ? random.between(0, 3) : random.between(30, 200);
  network.batches = static_cast<int>(random.between(1, 3));
  network.seed = random.below(1000000);
  const size_t wanted = static_cast<size_t>(random.between(1, kMostLayers));
  // What does not fit is drawn again; a chain must not end in a concatenation.
  while (network.layers.size() < wanted || !Shapes(network).fits()) {
    NetworkCase longer = network;
    longer.layers.push_back(draw_layer(random, network));
    NetworkCase ended = longer;
    ended.layers.push_back({});
    if (is_feasible(ended)) network = longer;
  }
  return network;
}

std::string NetworkCase::json(bool names_all) const {
  static const char* const kOps[] = {
      "block", "residual", "up", "concat", "bottleneck", "", "space_to_channel", "channel_to_space"};
  std::string widths, text;
  const std::vector<int> inputs = input_channels(*this);
  for (size_t i = 0; i < layers.size(); ++i) {
    const NetworkLayer& layer = layers[i];
    widths +=
        (i > 0 ? ", " : "") + std::to_string(layer.channels) + ", " + std::to_string(layer.inner_channels);
    const bool is_pointwise = layer.op == Op::Pointwise;
    const std::string op = is_pointwise ? layer.function : kOps[static_cast<int>(layer.op)];
    text += std::string(i > 0 ? ",\n" : "") + "{\"op\": \"" + op + "\"";
    // A pointwise op whose result has no name may run in one kernel with the next one.
    if (names_all || !is_pointwise || is_skip(*this, i)) {
      text += ", \"save\": \"result" + std::to_string(i) + "\"";
    }
    const std::string skip = "\"result" + std::to_string(layer.skip) + "\"";
    if (is_pointwise) {
      text += pointwise_fields(layer, i, skip) + "}";
      continue;
    }
    if (layer.op == Op::Concat) {
      text += ", \"with\": " + skip + "}";
      continue;
    }
    text += ", \"name\": \"" + oracle::layer_name(i) + "\"";
    if (is_copy(layer)) {
      text += layer.op == Op::SpaceToChannel ? ", \"stride\": " + list(layer.stride, ndim, "[", "]")
                                             : ", \"onto\": " + skip;
      text += "}";
      continue;
    }
    text += ", \"width\": " + std::to_string(2 * i);
    if (layer.op == Op::Up) text += ", \"onto\": " + skip;
    if (layer.op == Op::Bottleneck) text += ", \"inner_width\": " + std::to_string(2 * i + 1);
    if (layer.is_cross) text += ", \"kernel_shape\": \"cross\"";
    text += layer.offsets.empty() ? ", \"kernel_size\": " + list(layer.kernel_size, ndim, "[", "]") +
                                        ", \"dilation\": " + list(layer.dilation, ndim, "[", "]")
                                  : ", \"kernel_shape\": \"custom\", \"offsets\": [" +
                                        offsets_text(layer, ndim, "[", "]") + "]";
    text += ", \"stride\": " + list(layer.stride, ndim, "[", "]");
    text += fields_of(layer, inputs[i] != layer.channels || layer.stride != kOnes) + "}";
  }
  return "{\"name\": \"random\", \"ndim\": " + std::to_string(ndim) +
         ", \"in_channels\": " + std::to_string(in_channels) + ", \"channels\": [" + widths +
         "],\n\"layers\": [\n" + text + "]}\n";
}

std::vector<int32_t> NetworkCase::coordinates() const {
  VoxelOptions options;
  options.ndim = ndim, options.count = points, options.batches = batches, options.seed = seed;
  options.extent = extent_for_neighbours(ndim, points / batches + 1, ndim == 1 ? 2.0 : 5.0);
  options.least = -options.extent / 2;
  return make_voxels(options);
}

std::string as_initializer(const NetworkCase& network) {
  static const char* const kOps[] = {
      "Block", "Residual", "Up", "Concat", "Bottleneck", "Pointwise", "SpaceToChannel", "ChannelToSpace"};
  const std::string dtype = kDTypeEnumerators[static_cast<int>(network.dtype)];
  std::string layers;
  for (const NetworkLayer& layer : network.layers) {
    layers +=
        (layers.empty() ? "{.op = Op::" : ", {.op = Op::") + std::string(kOps[static_cast<int>(layer.op)]);
    layers += ", .channels = " + std::to_string(layer.channels);
    for (const auto& [name, axes] : {std::pair(".kernel_size", layer.kernel_size),
                                     {".stride", layer.stride},
                                     {".dilation", layer.dilation}}) {
      if (axes != kOnes) layers += std::string(", ") + name + " = " + list(axes, kMaxDim, "{", "}");
    }
    if (layer.is_cross) layers += ", .is_cross = true";
    if (!layer.offsets.empty()) layers += ", .offsets = {" + offsets_text(layer, kMaxDim, "{", "}") + "}";
    if (layer.skip >= 0) layers += ", .skip = " + std::to_string(layer.skip);
    if (layer.op == Op::Bottleneck) layers += ", .inner_channels = " + std::to_string(layer.inner_channels);
    if (!layer.function.empty()) layers += ", .function = \"" + layer.function + "\"";
    layers += finishes_text(layer) + "}";
  }
  return "NetworkCase{.dtype = DType::" + dtype + ", .ndim = " + std::to_string(network.ndim) +
         ", .in_channels = " + std::to_string(network.in_channels) + ", .layers = {" + layers +
         "}, .points = " + std::to_string(network.points) +
         ", .batches = " + std::to_string(network.batches) + ", .seed = " + std::to_string(network.seed) +
         "u}";
}

}  // namespace minuet
