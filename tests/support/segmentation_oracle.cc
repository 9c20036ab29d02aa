#include "tests/support/segmentation_oracle.h"

#include <algorithm>
#include <cmath>

#include "tests/support/oracle.h"

namespace minuet::oracle {
namespace {

struct Features {
  int level = 0;  // the tensor stride is 2^level
  int64_t channels = 0;
  std::vector<double> values;  // [rows of the level, channels]
};

/// How the authors of a network call the parts of a basic block, and their batch norms' epsilon.
struct Style {
  const char* weight;
  const char *norm1, *norm2;
  const char *shortcut, *shortcut_norm;
  double epsilon;
};
constexpr Style kMinkowski{".kernel", ".norm1.bn", ".norm2.bn", ".downsample.0", ".downsample.1.bn", 1e-5};
constexpr Style kPointcept{".weight", ".bn1", ".bn2", ".proj.0", ".proj.1", 1e-3};
/// Only the weights and the epsilon matter, because its blocks are of another form.
constexpr Style kSoftGroup{".weight", "", "", "", "", 1e-4};

class Evaluator {
 public:
  /// `levels` is the number of levels below the given one.
  Evaluator(Parameters& parameters, const Style& style, const std::vector<int32_t>& coordinates, int levels)
      : parameters_(parameters), style_(style), coordinates_{coordinates} {
    for (int level = 1; level <= levels; ++level) {
      const int32_t stride = 1 << level;
      coordinates_.push_back(downsample(3, coordinates_.back(), {stride, stride, stride, 1}));
    }
  }

  /// A convolution that keeps the coordinates. Its kernel has `size` cells on each axis.
  Features same(const Features& x, const std::string& name, int64_t out, int size) {
    return convolve(x, name, out, size, x.level, /*transposed=*/false);
  }
  /// A convolution with kernel 2 and stride 2.
  Features down(const Features& x, const std::string& name, int64_t out) {
    return convolve(x, name, out, 2, x.level + 1, /*transposed=*/false);
  }
  /// The transposed one.
  Features up(const Features& x, const std::string& name, int64_t out) {
    return convolve(x, name, out, 2, x.level - 1, /*transposed=*/true);
  }

  /// `size` is the mean of the batch norm's weights.
  Features batch_norm(Features x, const std::string& name, double size = 1) {
    const std::vector<float>& weight = parameters_.vector(name + ".weight", x.channels, size, 0.3);
    const std::vector<float>& bias = parameters_.vector(name + ".bias", x.channels, 0.1, 0.3);
    const std::vector<float>& mean = parameters_.vector(name + ".running_mean", x.channels, 0, 0.3);
    // The variances are far enough from 0 that errors do not grow from block to block.
    const std::vector<float>& variance = parameters_.vector(name + ".running_var", x.channels, 2, 1.2);
    for (size_t i = 0; i < x.values.size(); ++i) {
      const size_t c = i % static_cast<size_t>(x.channels);
      const double deviation = std::sqrt(static_cast<double>(variance[c]) + style_.epsilon);
      x.values[i] =
          (x.values[i] - static_cast<double>(mean[c])) / deviation * static_cast<double>(weight[c]) +
          static_cast<double>(bias[c]);
    }
    return x;
  }

  Features relu(Features x) {
    for (double& value : x.values) value = std::max(value, 0.0);
    return noted(std::move(x));
  }

  Features basic_block(const Features& x, const std::string& name, int64_t out) {
    Features y = relu(batch_norm(same(x, name + ".conv1", out, 3), name + style_.norm1));
    // What a block adds is smaller than its input, so that many blocks in a row stay far inside fp16.
    y = batch_norm(same(y, name + ".conv2", out, 3), name + style_.norm2, 0.5);
    Features shortcut = x;
    if (x.channels != out)
      shortcut = batch_norm(same(x, name + style_.shortcut, out, 1), name + style_.shortcut_norm);
    for (size_t i = 0; i < y.values.size(); ++i) y.values[i] += shortcut.values[i];
    return relu(std::move(y));
  }

  /// A block that normalizes its input, and adds the input itself or its convolution of kernel 1.
  Features preactivated_block(const Features& x, const std::string& name, int64_t out) {
    const std::string branch = name + ".conv_branch.";
    Features y = same(relu(batch_norm(x, branch + "0")), branch + "2", out, 3);
    y = same(relu(batch_norm(y, branch + "3", 0.5)), branch + "5", out, 3);
    const Features shortcut = x.channels == out ? x : same(x, name + ".i_branch.0", out, 1);
    for (size_t i = 0; i < y.values.size(); ++i) y.values[i] += shortcut.values[i];
    return noted(std::move(y));
  }

  Features concat(const Features& first, const Features& second) {
    Features both{first.level, first.channels + second.channels, {}};
    const size_t rows = first.values.size() / static_cast<size_t>(first.channels);
    for (size_t row = 0; row < rows; ++row) {
      for (const Features* part : {&first, &second}) {
        const auto from = part->values.begin() + static_cast<int64_t>(row) * part->channels;
        both.values.insert(both.values.end(), from, from + part->channels);
      }
    }
    return both;
  }

  /// The last convolution, of kernel 1 with a bias.
  Features classify(const Features& x, const std::string& name, int64_t classes) {
    Features y = same(x, name, classes, 1);
    const std::vector<float>& bias = parameters_.vector(name + ".bias", classes, 0, 0.5);
    for (size_t i = 0; i < y.values.size(); ++i)
      y.values[i] += static_cast<double>(bias[i % static_cast<size_t>(classes)]);
    return y;
  }

  NetworkOutput finish(Features x) {
    x = noted(std::move(x));
    return {coordinates_[static_cast<size_t>(x.level)], x.channels, std::move(x.values), largest_};
  }

 private:
  Features convolve(const Features& x, const std::string& name, int64_t out, int size, int level,
                    bool transposed) {
    const std::vector<int32_t>& from = coordinates_[static_cast<size_t>(x.level)];
    const std::vector<int32_t>& to = coordinates_[static_cast<size_t>(level)];
    const int32_t fine = 1 << std::min(x.level, level);
    const std::vector<Pair> pairs =
        find_pairs({3, {size, size, size, 1}, {1, 1, 1, 1}, {fine, fine, fine, 1}, transposed}, from, to);
    const size_t rows = to.size() / 4;
    const double neighbours =
        std::max(1.0, static_cast<double>(pairs.size()) / static_cast<double>(std::max<size_t>(rows, 1)));
    const std::vector<float>& weight =
        parameters_.weight(name + style_.weight, int64_t{size} * size * size, x.channels, out, neighbours);
    Features y{level, out, std::vector<double>(rows * static_cast<size_t>(out), 0.0)};
    for (const Pair& pair : pairs) {
      for (int64_t c = 0; c < x.channels; ++c) {
        const double value = x.values[static_cast<size_t>(pair.in * x.channels + c)];
        if (value == 0) continue;  // half of what follows a ReLU
        const float* const taps = weight.data() + (pair.k * x.channels + c) * out;
        double* const sums = y.values.data() + pair.out * out;
        for (int64_t o = 0; o < out; ++o) sums[o] += value * static_cast<double>(taps[o]);
      }
    }
    return y;
  }

  Features noted(Features x) {
    for (const double value : x.values) largest_ = std::max(largest_, std::abs(value));
    return x;
  }

  Parameters& parameters_;
  const Style& style_;
  std::vector<std::vector<int32_t>> coordinates_;
  double largest_ = 0;
};

Features start(const std::vector<int32_t>& coordinates, const std::vector<float>& features) {
  const auto channels = static_cast<int64_t>(features.size() / (coordinates.size() / 4));
  return {0, channels, {features.begin(), features.end()}};
}

std::string numbered(const std::string& before, int number) { return before + std::to_string(number); }

}  // namespace

NetworkOutput minkunet(Parameters& parameters, const SegmentationSize& size,
                       const std::vector<int32_t>& coordinates, const std::vector<float>& features,
                       int64_t classes) {
  const int stages = static_cast<int>(size.blocks.size()), downward = stages / 2;
  Evaluator net(parameters, kMinkowski, coordinates, downward);
  const auto width = [&](int stage) { return size.widths[static_cast<size_t>(stage) + 1]; };
  const auto run_stage = [&](Features x, int stage) {
    for (int i = 0; i < size.blocks[static_cast<size_t>(stage)]; ++i)
      x = net.basic_block(x, numbered("block", stage + 1) + "." + std::to_string(i), width(stage));
    return x;
  };
  Features x = start(coordinates, features);
  x = net.relu(net.batch_norm(net.same(x, "conv0p1s1", size.widths[0], 5), "bn0.bn"));
  std::vector<Features> skips;
  const char* const downs[] = {"conv1p1s2", "conv2p2s2", "conv3p4s2", "conv4p8s2"};
  for (int i = 0; i < downward; ++i) {
    skips.push_back(x);
    x = net.relu(net.batch_norm(net.down(x, downs[i], x.channels), numbered("bn", i + 1) + ".bn"));
    x = run_stage(std::move(x), i);
  }
  const char* const ups[] = {"convtr4p16s2", "convtr5p8s2", "convtr6p4s2", "convtr7p2s2"};
  for (int i = downward; i < stages; ++i) {
    x = net.relu(net.batch_norm(net.up(x, ups[i - downward], width(i)), numbered("bntr", i) + ".bn"));
    x = run_stage(net.concat(x, skips[static_cast<size_t>(stages - 1 - i)]), i);
  }
  if (classes > 0) x = net.classify(x, "final", classes);
  return net.finish(std::move(x));
}

NetworkOutput spunet(Parameters& parameters, const SegmentationSize& size,
                     const std::vector<int32_t>& coordinates, const std::vector<float>& features,
                     int64_t classes) {
  const int stages = static_cast<int>(size.blocks.size()), downward = stages / 2;
  Evaluator net(parameters, kPointcept, coordinates, downward);
  const auto width = [&](int stage) { return size.widths[static_cast<size_t>(stage) + 1]; };
  // A SparseSequential of a convolution, a batch norm and a ReLU.
  const auto finished = [&](Features x, const std::string& name) {
    return net.relu(net.batch_norm(std::move(x), name + ".1"));
  };
  const auto run_stage = [&](Features x, const std::string& name, int stage) {
    for (int i = 0; i < size.blocks[static_cast<size_t>(stage)]; ++i)
      x = net.basic_block(x, name + numbered(".block", i), width(stage));
    return x;
  };
  Features x = start(coordinates, features);
  x = finished(net.same(x, "conv_input.0", size.widths[0], 5), "conv_input");
  std::vector<Features> skips;
  for (int i = 0; i < downward; ++i) {
    skips.push_back(x);
    const std::string name = numbered("down.", i);
    x = finished(net.down(x, name + ".0", width(i)), name);
    x = run_stage(std::move(x), numbered("enc.", i), i);
  }
  for (int i = downward - 1; i >= 0; --i) {
    const std::string name = numbered("up.", i);
    const int stage = stages - 1 - i;
    x = finished(net.up(x, name + ".0", width(stage)), name);
    x = run_stage(net.concat(x, skips[static_cast<size_t>(i)]), numbered("dec.", i), stage);
  }
  if (classes > 0) x = net.classify(x, "final", classes);
  return net.finish(std::move(x));
}

NetworkOutput softgroup_unet(Parameters& parameters, const std::vector<int32_t>& widths,
                             const std::vector<int32_t>& coordinates, const std::vector<float>& features) {
  const size_t levels = widths.size();
  Evaluator net(parameters, kSoftGroup, coordinates, static_cast<int>(levels) - 1);
  const auto normalized = [&](const Features& x, const std::string& name) {
    return net.relu(net.batch_norm(x, name));
  };
  Features x = net.same(start(coordinates, features), "input_conv.0", widths[0], 3);
  // The authors' module contains itself, once for each level.
  std::vector<Features> skips;
  std::string name = "unet";
  for (size_t level = 0; level < levels; ++level) {
    for (const char* const block : {".blocks.block0", ".blocks.block1"})
      x = net.preactivated_block(x, name + block, widths[level]);
    if (level + 1 == levels) break;
    skips.push_back(x);
    x = net.down(normalized(x, name + ".conv.0"), name + ".conv.2", widths[level + 1]);
    name += ".u";
  }
  for (size_t level = levels - 1; level-- > 0;) {
    name.resize(name.size() - 2);
    x = net.up(normalized(x, name + ".deconv.0"), name + ".deconv.2", widths[level]);
    x = net.concat(skips[level], x);
    for (const char* const block : {".blocks_tail.block0", ".blocks_tail.block1"})
      x = net.preactivated_block(x, name + block, widths[level]);
  }
  return net.finish(normalized(x, "output_layer.0"));
}

std::map<std::string, FileTensor> in_minkowski(const Parameters& parameters) {
  std::map<std::string, FileTensor> moved = parameters.all();
  for (auto& [name, tensor] : moved) {
    if (name == "final.bias") tensor.shape.insert(tensor.shape.begin(), 1);
    if (tensor.shape.size() != 3) continue;
    const std::vector<float> from = tensor.values;
    const int64_t volume = tensor.shape[0], matrix = tensor.shape[1] * tensor.shape[2];
    const auto size = static_cast<int64_t>(std::lround(std::cbrt(static_cast<double>(volume))));
    for (int64_t k = 0; k < volume; ++k) {
      const int64_t x = k / size / size, y = k / size % size, z = k % size;
      std::copy_n(from.begin() + k * matrix, matrix,
                  tensor.values.begin() + (x + (y + z * size) * size) * matrix);
    }
    if (volume == 1) tensor.shape.erase(tensor.shape.begin());
  }
  return moved;
}

std::map<std::string, FileTensor> in_spconv_xyz(const Parameters& parameters, bool is_linear) {
  std::map<std::string, FileTensor> moved = parameters.all();
  for (auto& [name, tensor] : moved) {
    if (tensor.shape.size() != 3) continue;
    const std::vector<float> from = tensor.values;
    const int64_t volume = tensor.shape[0], in = tensor.shape[1], out = tensor.shape[2];
    const auto size = static_cast<int64_t>(std::lround(std::cbrt(static_cast<double>(volume))));
    for (int64_t k = 0; k < volume; ++k)
      for (int64_t i = 0; i < in; ++i)
        for (int64_t o = 0; o < out; ++o)
          tensor.values[static_cast<size_t>((o * volume + k) * in + i)] =
              from[static_cast<size_t>((k * in + i) * out + o)];
    tensor.shape = {out, size, size, size, in};
    if (volume == 1 && !is_linear) tensor.values = from;
  }
  return moved;
}

}  // namespace minuet::oracle
