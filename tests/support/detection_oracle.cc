#include "tests/support/detection_oracle.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/support/random.h"

namespace minuet::oracle {
namespace {

using Cell = std::array<int32_t, 4>;  // batch, then the three axes in the authors' order

constexpr double kEpsilon = 1e-3;  // of every batch norm of these networks but one

uint64_t seed_of(uint64_t seed, const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325ull ^ seed;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

struct Sparse {
  Triple shape{};
  Triple stride{1, 1, 1};
  std::vector<Cell> cells;
  int64_t channels = 0;
  std::vector<double> values;
};

struct Window {
  Triple kernel{3, 3, 3}, stride{1, 1, 1}, padding{1, 1, 1};
};

/// Calls visit(row of the output, flat offset of the kernel, row of the input) for every pair.
template <class Visit>
void for_pairs(const Sparse& x, const std::vector<Cell>& outputs, const Window& window, Visit visit) {
  std::map<Cell, int64_t> rows;
  for (size_t i = 0; i < x.cells.size(); ++i) rows.emplace(x.cells[i], static_cast<int64_t>(i));
  const auto& [kernel, stride, padding] = window;
  for (size_t row = 0; row < outputs.size(); ++row) {
    int64_t offset = 0;
    for (int32_t i = 0; i < kernel[0]; ++i)
      for (int32_t j = 0; j < kernel[1]; ++j)
        for (int32_t k = 0; k < kernel[2]; ++k, ++offset) {
          const Cell& q = outputs[row];
          const auto found =
              rows.find({q[0], q[1] * stride[0] - padding[0] + i, q[2] * stride[1] - padding[1] + j,
                         q[3] * stride[2] - padding[2] + k});
          if (found != rows.end()) visit(static_cast<int64_t>(row), offset, found->second);
        }
  }
}

class Evaluator {
 public:
  /// `is_zyx`: the authors' axes are z, y, x. Otherwise they are x, y, z.
  Evaluator(Checkpoint& checkpoint, bool is_zyx) : checkpoint_(checkpoint), is_zyx_(is_zyx) {}

  Sparse start(const DetectionInput& input) const {
    Sparse x{theirs(input.shape), {1, 1, 1}, {}, input.channels, {}};
    for (size_t i = 0; i < input.coordinates.size(); i += 4) {
      const int32_t* row = input.coordinates.data() + i;
      const Triple cell = theirs({row[1], row[2], row[3]});
      x.cells.push_back({row[0], cell[0], cell[1], cell[2]});
    }
    x.values.assign(input.features.begin(), input.features.end());
    return x;
  }

  /// SubMConv3d: a kernel of 3 on each axis, whose outputs are the inputs' cells.
  Sparse subm(const Sparse& x, const std::string& name, int64_t out, bool bias, const Window& window = {}) {
    return convolve(x, x.cells, x.shape, window, name, out, bias);
  }

  /// SparseConv3d without bias: an output wherever the kernel reaches an input, inside the output's shape.
  Sparse down(const Sparse& x, const std::string& name, int64_t out, const Window& window) {
    const auto& [kernel, stride, padding] = window;
    Triple shape{};
    for (int a = 0; a < 3; ++a) shape[a] = (x.shape[a] + 2 * padding[a] - kernel[a]) / stride[a] + 1;
    std::set<Cell> reached;
    for (const Cell& cell : x.cells)
      for (int32_t i = 0; i < kernel[0]; ++i)
        for (int32_t j = 0; j < kernel[1]; ++j)
          for (int32_t k = 0; k < kernel[2]; ++k) {
            const Triple offset{i, j, k};
            Cell q{cell[0], 0, 0, 0};
            bool is_inside = true;
            for (int a = 0; a < 3; ++a) {
              const int32_t moved = cell[a + 1] + padding[a] - offset[a];
              is_inside &= moved >= 0 && moved % stride[a] == 0 && moved / stride[a] < shape[a];
              q[a + 1] = moved / stride[a];
            }
            if (is_inside) reached.insert(q);
          }
    std::vector<Cell> cells(reached.begin(), reached.end());
    std::sort(cells.begin(), cells.end(), [&](const Cell& a, const Cell& b) { return ours(a) < ours(b); });
    Sparse y = convolve(x, cells, shape, window, name, out, /*bias=*/false);
    for (int a = 0; a < 3; ++a) y.stride[a] = x.stride[a] * stride[a];
    return y;
  }

  Sparse batch_norm(Sparse x, const std::string& name, double epsilon = kEpsilon) {
    const auto channels = static_cast<size_t>(x.channels);
    const std::vector<float>& weight = checkpoint_.vector(name + ".weight", x.channels, 1, 0.3);
    const std::vector<float>& bias = checkpoint_.vector(name + ".bias", x.channels, 0.1, 0.3);
    const std::vector<float>& mean = checkpoint_.vector(name + ".running_mean", x.channels, 0, 0.3);
    // The variance is mostly above 1, so that the sums of many residuals stay far inside fp16. Some are
    // small, so that a wrong epsilon shows.
    const std::vector<float>& variance = checkpoint_.vector(name + ".running_var", x.channels, 2, 1.8);
    for (size_t i = 0; i < x.values.size(); ++i) {
      const size_t c = i % channels;
      x.values[i] = (x.values[i] - static_cast<double>(mean[c])) /
                        std::sqrt(static_cast<double>(variance[c]) + epsilon) *
                        static_cast<double>(weight[c]) +
                    static_cast<double>(bias[c]);
    }
    return x;
  }

  Sparse relu(Sparse x) {
    for (double& value : x.values) {
      value = std::max(value, 0.0);
      largest_ = std::max(largest_, value);
    }
    return x;
  }

  /// Returns the features of all levels, summed over z, at their cells y, x of the first one. Indices of
  /// coarser levels are multiplied by their strides first. `z_stride` is the library's stride of the axis
  /// that is left.
  Sparse sum_over_z(const std::vector<Sparse>& levels, int32_t z_stride) {
    const Sparse& finest = levels.front();
    std::map<Cell, std::vector<double>> sums;
    for (const Sparse& level : levels) {
      const auto channels = static_cast<size_t>(level.channels);
      for (size_t row = 0; row < level.cells.size(); ++row) {
        Cell cell = level.cells[row];
        cell[1] = 0;
        for (size_t a = 1; a < 3; ++a) cell[a + 1] *= level.stride[a] / finest.stride[a];
        std::vector<double>& sum = sums.emplace(cell, std::vector<double>(channels)).first->second;
        for (size_t c = 0; c < channels; ++c) sum[c] += level.values[row * channels + c];
      }
    }
    Sparse flat{{1, finest.shape[1], finest.shape[2]},
                {z_stride, finest.stride[1], finest.stride[2]},
                {},
                finest.channels,
                {}};
    for (const auto& [cell, sum] : sums) flat.cells.push_back(cell);
    std::sort(flat.cells.begin(), flat.cells.end(),
              [&](const Cell& a, const Cell& b) { return ours(a) < ours(b); });
    for (const Cell& cell : flat.cells) {
      const std::vector<double>& sum = sums.at(cell);
      flat.values.insert(flat.values.end(), sum.begin(), sum.end());
      for (const double value : sum) largest_ = std::max(largest_, std::abs(value));
    }
    return flat;
  }

  /// Finishes a network that has no bird's-eye tensor.
  DetectionOutput finish() {
    output_.largest = largest_;
    return std::move(output_);
  }

  /// SparseBasicBlock.
  Sparse basic_block(const Sparse& x, const std::string& name, bool bias) {
    Sparse y = relu(batch_norm(subm(x, name + ".conv1", x.channels, bias), name + ".bn1"));
    y = batch_norm(subm(y, name + ".conv2", x.channels, bias), name + ".bn2");
    for (size_t i = 0; i < y.values.size(); ++i) y.values[i] += x.values[i];
    return relu(std::move(y));
  }

  void keep(const std::string& name, const Sparse& x) {
    DetectionLevel& level = output_.levels[name];
    level.shape = theirs(x.shape), level.tensor_stride = theirs(x.stride);
    level.channels = x.channels, level.features = x.values;
    for (const Cell& cell : x.cells) {
      const Cell at = ours(cell);
      for (int a = 0; a < 4; ++a)
        level.coordinates.push_back(a == 0 ? at[0] : at[a] * level.tensor_stride[static_cast<size_t>(a) - 1]);
    }
  }

  /// dense(), with the channels and z side by side, on the image axes y, x, or x, y where the authors' axes
  /// are x, y, z.
  DetectionOutput finish(const Sparse& x, int64_t batch_size) {
    const int z = is_zyx_ ? 0 : 2, first = is_zyx_ ? 1 : 0, second = is_zyx_ ? 2 : 1;
    const int64_t depth = x.shape[z], height = x.shape[first], width = x.shape[second];
    output_.bev_shape = {batch_size, x.channels * depth, height, width};
    output_.bev.assign(static_cast<size_t>(batch_size * x.channels * depth * height * width), 0.0);
    for (size_t row = 0; row < x.cells.size(); ++row) {
      const Cell& cell = x.cells[row];
      for (int64_t c = 0; c < x.channels; ++c) {
        const int64_t channel = cell[0] * x.channels * depth + c * depth + cell[z + 1];
        output_.bev[static_cast<size_t>((channel * height + cell[first + 1]) * width + cell[second + 1])] =
            x.values[row * static_cast<size_t>(x.channels) + static_cast<size_t>(c)];
      }
    }
    output_.largest = largest_;
    return std::move(output_);
  }

 private:
  /// From x, y, z to the authors' order, or back.
  Triple theirs(const Triple& triple) const {
    return is_zyx_ ? Triple{triple[2], triple[1], triple[0]} : triple;
  }
  Cell ours(const Cell& cell) const {
    const Triple axes = theirs({cell[1], cell[2], cell[3]});
    return {cell[0], axes[0], axes[1], axes[2]};
  }

  Sparse convolve(const Sparse& x, const std::vector<Cell>& cells, const Triple& shape, const Window& window,
                  const std::string& name, int64_t out, bool bias) {
    Sparse y{shape, x.stride, cells, out, std::vector<double>(cells.size() * static_cast<size_t>(out), 0.0)};
    int64_t pairs = 0;
    for_pairs(x, cells, window, [&](int64_t, int64_t, int64_t) { ++pairs; });
    const double neighbours = std::max(1.0, static_cast<double>(pairs) / std::max<double>(1, cells.size()));
    const std::vector<float>& weight =
        checkpoint_.weight(name + ".weight", out, window.kernel, x.channels, neighbours);
    const int64_t volume = int64_t{window.kernel[0]} * window.kernel[1] * window.kernel[2], in = x.channels;
    for_pairs(x, cells, window, [&](int64_t row, int64_t offset, int64_t from) {
      const double* const input = x.values.data() + from * in;
      for (int64_t o = 0; o < out; ++o) {
        const float* const taps = weight.data() + (o * volume + offset) * in;
        double sum = 0;
        for (int64_t c = 0; c < in; ++c) sum += input[c] * static_cast<double>(taps[c]);
        y.values[static_cast<size_t>(row * out + o)] += sum;
      }
    });
    if (bias) {
      const std::vector<float>& added = checkpoint_.vector(name + ".bias", out, 0, 0.5);
      for (size_t i = 0; i < y.values.size(); ++i)
        y.values[i] += static_cast<double>(added[i % static_cast<size_t>(out)]);
    }
    return y;
  }

  Checkpoint& checkpoint_;
  bool is_zyx_;
  double largest_ = 0;
  DetectionOutput output_;
};

/// A SparseSequential of a convolution, a batch norm and a ReLU.
Sparse subm_block(Evaluator& net, const Sparse& x, const std::string& name, int64_t out) {
  return net.relu(net.batch_norm(net.subm(x, name + ".0", out, /*bias=*/false), name + ".1"));
}
Sparse down_block(Evaluator& net, const Sparse& x, const std::string& convolution, const std::string& norm,
                  int64_t out, const Window& window) {
  return net.relu(net.batch_norm(net.down(x, convolution, out, window), norm));
}

constexpr Window kHalf{{3, 3, 3}, {2, 2, 2}, {1, 1, 1}};

}  // namespace

const std::vector<float>& Checkpoint::weight(const std::string& name, int64_t out, const Triple& kernel,
                                             int64_t in, double neighbours) {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second.values;
  // Whole numbers up to `most`, uniform, over a power of two.
  const double deviation = std::sqrt(2.0 / (neighbours * static_cast<double>(in)));
  int shift = 0;
  while (std::ldexp(deviation, shift + 1) * std::sqrt(3.0) < 127) ++shift;
  const int64_t most = std::lround(std::ldexp(deviation, shift) * std::sqrt(3.0));
  FileTensor tensor{{out, kernel[0], kernel[1], kernel[2], in}, {}};
  tensor.values.resize(static_cast<size_t>(out * kernel[0] * kernel[1] * kernel[2] * in));
  Random random(seed_of(seed_, name));
  for (float& value : tensor.values)
    value = std::ldexp(static_cast<float>(random.between(-most, most)), -shift);
  return tensors_.emplace(name, std::move(tensor)).first->second.values;
}

const std::vector<float>& Checkpoint::vector(const std::string& name, int64_t channels, double mean,
                                             double spread) {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second.values;
  FileTensor tensor{{channels}, std::vector<float>(static_cast<size_t>(channels))};
  Random random(seed_of(seed_, name));
  for (float& value : tensor.values) value = static_cast<float>(random.uniform(mean - spread, mean + spread));
  return tensors_.emplace(name, std::move(tensor)).first->second.values;
}

void Checkpoint::flatten(const std::string& name) {
  FileTensor& tensor = tensors_.at(name);
  if (tensor.shape.size() == 5) tensor.shape.erase(tensor.shape.begin() + 1);
}

std::map<std::string, FileTensor> Checkpoint::in_spconv1() const {
  std::map<std::string, FileTensor> moved = tensors_;
  for (auto& [name, tensor] : moved) {
    if (tensor.shape.size() < 4) continue;
    const FileTensor& from = tensors_.at(name);
    const int64_t out = from.shape.front(), in = from.shape.back();
    tensor.shape.assign(from.shape.begin() + 1, from.shape.end());
    tensor.shape.push_back(out);
    int64_t volume = 1;
    for (size_t a = 1; a + 1 < from.shape.size(); ++a) volume *= from.shape[a];
    for (int64_t o = 0; o < out; ++o)
      for (int64_t k = 0; k < volume; ++k)
        for (int64_t i = 0; i < in; ++i)
          tensor.values[static_cast<size_t>((k * in + i) * out + o)] =
              from.values[static_cast<size_t>((o * volume + k) * in + i)];
  }
  return moved;
}

DetectionOutput voxel_backbone_8x(Checkpoint& checkpoint, const std::vector<int32_t>& widths,
                                  const DetectionInput& input) {
  Evaluator net(checkpoint, /*is_zyx=*/true);
  Sparse x = subm_block(net, net.start(input), "conv_input", widths[0]);
  x = subm_block(net, x, "conv1.0", widths[0]);
  net.keep("x_conv1", x);
  for (int i = 2; i <= 4; ++i) {
    const std::string name = "conv" + std::to_string(i);
    Window window = kHalf;
    if (i == 4) window.padding = {0, 1, 1};
    const int32_t width = widths[static_cast<size_t>(i) - 1];
    x = down_block(net, x, name + ".0.0", name + ".0.1", width, window);
    x = subm_block(net, x, name + ".1", width);
    x = subm_block(net, x, name + ".2", width);
    net.keep("x_" + name, x);
  }
  x = down_block(net, x, "conv_out.0", "conv_out.1", widths[4], {{3, 1, 1}, {2, 1, 1}, {0, 0, 0}});
  net.keep("encoded", x);
  return net.finish(x, input.batch_size);
}

DetectionOutput voxel_res_backbone_8x(Checkpoint& checkpoint, const std::vector<int32_t>& widths,
                                      const DetectionInput& input, bool is_centerpoint) {
  Evaluator net(checkpoint, /*is_zyx=*/true);
  Sparse x = subm_block(net, net.start(input), "conv_input", widths[0]);
  x = net.basic_block(x, "conv1.0", /*bias=*/true);
  x = net.basic_block(x, "conv1.1", /*bias=*/true);
  net.keep("x_conv1", x);
  for (int i = 2; i <= 4; ++i) {
    const std::string name = "conv" + std::to_string(i), part = name + (is_centerpoint ? "." : ".0.");
    Window window = kHalf;
    if (i == 4) window.padding = {0, 1, 1};
    x = down_block(net, x, part + "0", part + "1", widths[static_cast<size_t>(i) - 1], window);
    x = net.basic_block(x, name + (is_centerpoint ? ".3" : ".1"), /*bias=*/true);
    x = net.basic_block(x, name + (is_centerpoint ? ".4" : ".2"), /*bias=*/true);
    net.keep("x_" + name, x);
  }
  const std::string last = is_centerpoint ? "extra_conv" : "conv_out";
  x = down_block(net, x, last + ".0", last + ".1", widths[4], {{3, 1, 1}, {2, 1, 1}, {0, 0, 0}});
  net.keep("encoded", x);
  return net.finish(x, input.batch_size);
}

DetectionOutput bevfusion_encoder(Checkpoint& checkpoint, const std::vector<int32_t>& widths,
                                  const DetectionInput& input) {
  Evaluator net(checkpoint, /*is_zyx=*/false);
  Sparse x = subm_block(net, net.start(input), "conv_input", widths[0]);
  for (int i = 1; i <= 4; ++i) {
    const std::string stage = "encoder_layer" + std::to_string(i), name = "encoder_layers." + stage;
    x = net.basic_block(x, name + ".0", /*bias=*/false);
    x = net.basic_block(x, name + ".1", /*bias=*/false);
    Window window = kHalf;
    if (i == 3) window.padding = {1, 1, 0};
    if (i < 4) x = down_block(net, x, name + ".2.0", name + ".2.1", widths[static_cast<size_t>(i)], window);
    net.keep(stage, x);
  }
  x = down_block(net, x, "conv_out.0", "conv_out.1", widths[4], {{1, 1, 3}, {1, 1, 2}, {0, 0, 0}});
  net.keep("encoded", x);
  return net.finish(x, input.batch_size);
}

DetectionOutput voxelnext(Checkpoint& checkpoint, const std::vector<int32_t>& widths,
                          const DetectionInput& input) {
  Evaluator net(checkpoint, /*is_zyx=*/true);
  Sparse x = subm_block(net, net.start(input), "conv_input", widths[0]);
  std::vector<Sparse> last;
  for (int i = 1; i <= 6; ++i) {
    const std::string name = "conv" + std::to_string(i);
    const int32_t width = widths[static_cast<size_t>(std::min(i, 5)) - 1];
    if (i > 1) x = down_block(net, x, name + ".0.0", name + ".0.1", width, kHalf);
    x = net.basic_block(x, name + (i > 1 ? ".1" : ".0"), /*bias=*/true);
    x = net.basic_block(x, name + (i > 1 ? ".2" : ".1"), /*bias=*/true);
    net.keep("x_" + name, x);
    if (i >= 4) last.push_back(x);
  }
  // The library's collapse divides z by a power of two that is at least the number of cells.
  int32_t z_stride = last[0].stride[0];
  while (z_stride < last[0].stride[0] * last[0].shape[0]) z_stride *= 2;
  x = net.sum_over_z(last, z_stride);
  net.keep("bev_out", x);
  const Window flat{{1, 3, 3}, {1, 1, 1}, {0, 1, 1}};
  x = down_block(net, x, "conv_out.0", "conv_out.1", widths[5], flat);
  net.keep("conv_out", x);
  x = net.subm(x, "shared_conv.0", widths[5], /*bias=*/true, flat);
  x = net.relu(net.batch_norm(std::move(x), "shared_conv.1", 1e-5));
  net.keep("encoded", x);
  for (const char* name : {"conv_out.0.weight", "shared_conv.0.weight"}) checkpoint.flatten(name);
  return net.finish();
}

std::vector<int32_t> draw_voxels(const Triple& shape, int64_t batch_size, int64_t empty_item, int64_t count,
                                 uint64_t seed) {
  Random random(seed);
  std::vector<Cell> rows;
  for (int32_t batch = 0; batch < batch_size; ++batch) {
    if (batch == empty_item) continue;
    std::set<Cell> cells;
    // The corners of the shape are always there, because their neighbours are partly outside.
    cells.insert({batch, 0, 0, 0});
    cells.insert({batch, shape[0] - 1, shape[1] - 1, shape[2] - 1});
    for (int64_t tries = 0; tries < 20 * count && static_cast<int64_t>(cells.size()) < count; ++tries) {
      const auto any = [&](int a) {
        return static_cast<int32_t>(random.below(static_cast<uint64_t>(shape[a])));
      };
      Cell cell{batch, any(0), any(1), any(2)};
      const uint64_t kind = random.below(4);
      if (kind < 2) cell[3] = std::min(shape[2] - 1, 2 + cell[1] / 8);
      if (kind == 2) cell[1] = std::min(shape[0] - 1, cell[2] / 2);
      cells.insert(cell);
    }
    rows.insert(rows.end(), cells.begin(), cells.end());
  }
  for (size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random.below(i)]);
  std::vector<int32_t> coordinates;
  for (const Cell& row : rows) coordinates.insert(coordinates.end(), row.begin(), row.end());
  return coordinates;
}

}  // namespace minuet::oracle
