// A compiler backend in small: it lowers a graph of sparse ops to plans, compiles these for GPUs that need
// not be here, and writes one artifact. runtime.c runs the artifact.
//
//   backend FILE ARCH...     for example: backend toy.artifact cpu sm_80 sm_90a
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <minuet/pointwise.hpp>
#include <minuet/pyramid.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "artifact.h"

namespace {

// ---- the graph: what the frontend hands over -------------------------------------------------------------

enum class Op { Input, Convolution, MaxPool, Affine, Add, Relu, LayerNorm, Gelu, Softmax };

/// A value and the op that makes it: a matrix of `channels` columns, with a row for each voxel of its level.
struct Node {
  Op op = Op::Input;
  std::vector<int> inputs;
  int level = 0, channels = 0;
  int kernel = 1, stride = 1;                 // of windows, the same along x, y and z
  std::vector<float> weight = {};             // of a convolution, [kernel^3, channels of the input, channels]
  std::vector<float> scale = {}, shift = {};  // of an affine op, [channels]
};

constexpr float kEpsilon = 1e-5f;  // of layer norms

struct Graph {
  std::vector<Node> nodes;
  int add(Node node) {
    nodes.push_back(std::move(node));
    return static_cast<int>(nodes.size()) - 1;
  }
  int users(int value) const {
    int count = 0;
    for (const Node& node : nodes)
      count += static_cast<int>(std::count(node.inputs.begin(), node.inputs.end(), value));
    return count;
  }
  int output() const { return static_cast<int>(nodes.size()) - 1; }
};

/// Level 1 has a voxel for each 2 x 2 x 2 of level 0.
constexpr int kLevels = 2, kStride = 2;
/// The most rows of each level. Shapes are static, and only the device knows how many rows there are.
constexpr std::int64_t kCapacity[kLevels] = {512, 512};

Graph build_graph(std::mt19937& random) {
  Graph graph;
  const auto draw = [&](std::size_t count, float range) {
    std::vector<float> values(count);
    for (float& value : values) value = std::uniform_real_distribution<float>(-range, range)(random);
    return values;
  };
  const auto convolution = [&](int input, int channels, int kernel, int stride) {
    const Node& from = graph.nodes[input];
    const auto in = static_cast<std::size_t>(from.channels),
               volume = static_cast<std::size_t>(kernel * kernel * kernel);
    Node node{Op::Convolution, {input}, from.level + (stride > 1 ? 1 : 0), channels, kernel, stride};
    node.weight = draw(volume * in * static_cast<std::size_t>(channels), 0.3f);
    return graph.add(std::move(node));
  };
  const auto same_shape = [&](Op op, std::vector<int> inputs, int kernel = 1) {
    const Node from = graph.nodes[inputs[0]];
    Node node{op, std::move(inputs), from.level, from.channels, kernel};
    if (op == Op::Affine) node.scale = draw(from.channels, 1), node.shift = draw(from.channels, 1);
    return graph.add(std::move(node));
  };
  const int input = graph.add({Op::Input, {}, 0, 4});
  const int stem = same_shape(Op::Relu, {same_shape(Op::Affine, {convolution(input, 16, 3, 1)})});
  const int inner = same_shape(Op::Affine, {convolution(stem, 16, 3, 1)});
  const int block = same_shape(Op::Relu, {same_shape(Op::Add, {inner, stem})});
  const int normed = same_shape(Op::Gelu, {same_shape(Op::Affine, {same_shape(Op::LayerNorm, {block})})});
  const int down = same_shape(Op::Relu, {convolution(normed, 32, 2, kStride)});
  const int pooled = same_shape(Op::MaxPool, {down}, 3);
  same_shape(Op::Softmax, {same_shape(Op::Affine, {convolution(pooled, 5, 1, 1)})});
  return graph;
}

// ---- fusion: which nodes become one kernel ---------------------------------------------------------------

/// Nodes that run as one plan. The last one's value is the group's.
struct Group {
  std::vector<int> nodes;
  std::vector<int> inputs;  // values of other groups, in the order in which the plan takes them
  int output() const { return nodes.back(); }
};

bool is_pointwise(Op op) { return op >= Op::Affine; }

/// A convolution takes the affine op, the sum and the ReLU behind it, in this order; what remains of
/// pointwise ops becomes chains.
std::vector<Group> fuse(const Graph& graph) {
  std::vector<Group> groups;
  std::vector<bool> done(graph.nodes.size(), false);
  for (int first = 0; first < static_cast<int>(graph.nodes.size()); ++first) {
    const Op op = graph.nodes[first].op;
    if (op == Op::Input || done[first]) continue;
    Group group{{first}, graph.nodes[first].inputs};
    Op last = op;
    for (int next = first + 1; next < static_cast<int>(graph.nodes.size()); ++next) {
      const Node& node = graph.nodes[next];
      const bool is_next = !node.inputs.empty() && node.inputs[0] == group.output();
      if (!is_next || graph.users(group.output()) != 1 || !is_pointwise(node.op)) continue;
      const bool fits = op == Op::Convolution ? node.op <= Op::Relu && node.op > last : is_pointwise(op);
      if (!fits) break;
      group.nodes.push_back(next);
      if (node.op == Op::Add) group.inputs.push_back(node.inputs[1]);
      last = node.op;
    }
    for (const int node : group.nodes) done[node] = true;
    groups.push_back(std::move(group));
  }
  return groups;
}

// ---- lowering: a group becomes a plan --------------------------------------------------------------------

minuet::Plan lower_convolution(const minuet::Context& context, const Graph& graph, const Group& group) {
  const Node& node = graph.nodes[group.nodes[0]];
  minuet_convolution_options options = MINUET_CONVOLUTION_OPTIONS_INIT;
  options.in_channels = graph.nodes[node.inputs[0]].channels;
  options.out_channels = node.channels;
  std::fill_n(options.kernel_size, 3, node.kernel);
  std::fill_n(options.stride, 3, node.stride);
  options.submanifold = node.stride == 1 ? 1 : 0;
  options.dataflow = MINUET_DATAFLOW_FUSED;  // one kernel, which needs no counts on the host
  options.weight = node.weight.data();
  options.weight_count = static_cast<std::int64_t>(node.weight.size());
  for (const int number : group.nodes) {
    const Node& behind = graph.nodes[number];
    if (behind.op == Op::Affine) {
      options.scale = behind.scale.data(), options.shift = behind.shift.data();
      options.scale_count = options.shift_count = behind.channels;
    }
    if (behind.op == Op::Add) options.residual = 1;
    if (behind.op == Op::Relu) options.activation = MINUET_ACTIVATION_RELU;
  }
  return minuet::Plan::convolution(context, options);
}

minuet::Plan lower_chain(const minuet::Context& context, const Graph& graph, const Group& group) {
  std::vector<minuet_pointwise_step> steps;
  for (const int number : group.nodes) {
    const Node& node = graph.nodes[number];
    switch (node.op) {
      case Op::Affine:
        steps.push_back({MINUET_POINTWISE_AFFINE, 0, node.scale.data(), node.shift.data()});
        break;
      case Op::Add:
        steps.push_back({MINUET_POINTWISE_ADD, 0, nullptr, nullptr});
        break;
      case Op::Relu:
        steps.push_back({MINUET_POINTWISE_RELU, 0, nullptr, nullptr});
        break;
      case Op::LayerNorm:
        steps.push_back({MINUET_POINTWISE_LAYER_NORM, kEpsilon, nullptr, nullptr});
        break;
      case Op::Gelu:
        steps.push_back({MINUET_POINTWISE_GELU, 0, nullptr, nullptr});
        break;
      case Op::Softmax:
        steps.push_back({MINUET_POINTWISE_SOFTMAX, 0, nullptr, nullptr});
        break;
      default:
        throw std::logic_error("not a pointwise op");
    }
  }
  minuet_pointwise_options options = MINUET_POINTWISE_OPTIONS_INIT;
  options.channels = graph.nodes[group.nodes[0]].channels;
  options.steps = steps.data();
  options.step_count = static_cast<std::int32_t>(steps.size());
  return minuet::pointwise(context, options);
}

minuet::Plan lower(const minuet::Context& context, const Graph& graph, const Group& group) {
  const Node& node = graph.nodes[group.nodes[0]];
  if (node.op == Op::Convolution) return lower_convolution(context, graph, group);
  if (node.op != Op::MaxPool) return lower_chain(context, graph, group);
  minuet_pooling_options options = MINUET_POOLING_OPTIONS_INIT;
  options.channels = node.channels;
  std::fill_n(options.kernel_size, 3, node.kernel);
  options.submanifold = 1;
  return minuet::Plan::pooling(context, options);
}

// ---- the geometry: levels and kernel maps of all groups, in one pyramid ----------------------------------

struct Geometry {
  std::vector<minuet_pyramid_level> levels;
  std::vector<minuet_pyramid_map> maps;

  Geometry() : levels(kLevels) {
    for (int i = 0; i < kLevels; ++i) {
      levels[i].capacity = kCapacity[i];
      levels[i].parent = i - 1;
      std::fill_n(levels[i].stride, 3, i == 0 ? 1 : kStride);
    }
  }
  /// Returns the number of the map that the group reads, which groups of the same window share.
  int map_of(const Graph& graph, const Group& group) {
    const Node& node = graph.nodes[group.nodes[0]];
    const std::uint32_t purpose =
        node.op == Op::MaxPool ? MINUET_PURPOSE_POOLING : MINUET_PURPOSE_CONVOLUTION;
    const int fine = graph.nodes[node.inputs[0]].level;
    for (std::size_t i = 0; i < maps.size(); ++i) {
      if (maps[i].fine != fine || maps[i].coarse != node.level || maps[i].kernel_size[0] != node.kernel)
        continue;
      maps[i].purposes |= purpose;
      return static_cast<int>(i);
    }
    minuet_pyramid_map map = {};
    map.fine = fine, map.coarse = node.level;
    std::fill_n(map.kernel_size, 3, node.kernel);
    map.purposes = purpose;
    maps.push_back(map);
    return static_cast<int>(maps.size()) - 1;
  }
};

/// Values inside the graph stay in the order of the set, which saves a permutation before and behind each op.
/// Only what the caller gives and takes is in the caller's order. Levels other than 0 have one order.
std::uint32_t set_order(const Graph& graph, const Group& group) {
  const auto is_inside = [&](int value) {
    const Node& node = graph.nodes[value];
    return node.level == 0 && node.op != Op::Input && value != graph.output();
  };
  std::uint32_t order = is_inside(group.output()) ? MINUET_SET_ORDER_OUTPUT : 0;
  if (is_inside(group.inputs[0])) order |= MINUET_SET_ORDER_INPUT;
  if (group.inputs.size() > 1 && is_inside(group.inputs[1])) order |= MINUET_SET_ORDER_RESIDUAL;
  return order;
}

// ---- the reference: plain loops over the graph, in double ------------------------------------------------

using Voxel = std::array<std::int32_t, 4>;  // batch, x, y, z

struct Sample {
  std::vector<Voxel> voxels, places;
  std::vector<float> features, results;
};

/// The voxels of each level, with their rows.
using Levels = std::array<std::map<Voxel, int>, kLevels>;

using Values = std::vector<double>;

Values window(const Graph& graph, const Node& node, const Values& input, const Levels& levels) {
  const Node& from = graph.nodes[node.inputs[0]];
  const int step = from.level == 0 ? 1 : kStride, least = -(node.kernel - 1) / 2;
  const int in = from.channels, out = node.channels;
  const bool is_sum = node.op == Op::Convolution;
  Values output(levels[node.level].size() * static_cast<std::size_t>(out), is_sum ? 0.0 : -INFINITY);
  for (const auto& [voxel, row] : levels[node.level]) {
    int offset = 0;
    for (int x = 0; x < node.kernel; ++x) {
      for (int y = 0; y < node.kernel; ++y) {
        for (int z = 0; z < node.kernel; ++z, ++offset) {
          const auto found =
              levels[from.level].find({voxel[0], voxel[1] + (least + x) * step, voxel[2] + (least + y) * step,
                                       voxel[3] + (least + z) * step});
          if (found == levels[from.level].end()) continue;
          for (int c = 0; c < out; ++c) {
            double& sum = output[row * out + c];
            if (!is_sum) sum = std::max(sum, input[found->second * in + c]);
            for (int i = 0; is_sum && i < in; ++i)
              sum += input[found->second * in + i] * node.weight[(offset * in + i) * out + c];
          }
        }
      }
    }
  }
  return output;
}

/// Computes the op on one row, in place.
void pointwise(const Node& node, double* x, const double* other) {
  const int channels = node.channels;
  double mean = 0, variance = 0, sum = 0;
  for (int c = 0; c < channels; ++c) mean += x[c] / channels;
  for (int c = 0; c < channels; ++c) variance += (x[c] - mean) * (x[c] - mean) / channels;
  for (int c = 0; c < channels; ++c) sum += std::exp(x[c]);
  for (int c = 0; c < channels; ++c) {
    if (node.op == Op::Affine) x[c] = x[c] * node.scale[c] + node.shift[c];
    if (node.op == Op::Add) x[c] += other[c];
    if (node.op == Op::Relu) x[c] = std::max(x[c], 0.0);
    if (node.op == Op::LayerNorm) x[c] = (x[c] - mean) / std::sqrt(variance + kEpsilon);
    if (node.op == Op::Gelu) x[c] = x[c] / 2 * (1 + std::erf(x[c] / std::sqrt(2.0)));
    if (node.op == Op::Softmax) x[c] = std::exp(x[c]) / sum;
  }
}

void interpret(const Graph& graph, Sample& sample) {
  Levels levels;
  for (const Voxel& voxel : sample.voxels) levels[0].emplace(voxel, static_cast<int>(levels[0].size()));
  for (const Voxel& voxel : sample.voxels) {
    const auto down = [](int x) { return (x >= 0 ? x : x - kStride + 1) / kStride * kStride; };
    const Voxel coarse{voxel[0], down(voxel[1]), down(voxel[2]), down(voxel[3])};
    if (levels[1].emplace(coarse, static_cast<int>(levels[1].size())).second) sample.places.push_back(coarse);
  }
  std::vector<Values> values;
  for (const Node& node : graph.nodes) {
    if (node.op == Op::Input) {
      values.emplace_back(sample.features.begin(), sample.features.end());
    } else if (!is_pointwise(node.op)) {
      values.push_back(window(graph, node, values[node.inputs[0]], levels));
    } else {
      Values result = values[node.inputs[0]];
      for (std::size_t at = 0; at < result.size(); at += static_cast<std::size_t>(node.channels))
        pointwise(node, &result[at], node.op == Op::Add ? &values[node.inputs[1]][at] : nullptr);
      values.push_back(std::move(result));
    }
  }
  sample.results.assign(values.back().begin(), values.back().end());
}

Sample make_sample(const Graph& graph, std::mt19937& random, int rows) {
  Sample sample;
  std::map<Voxel, int> known;
  while (static_cast<int>(sample.voxels.size()) < rows) {
    const auto draw = [&](int least, int greatest) {
      return std::uniform_int_distribution<int>(least, greatest)(random);
    };
    const Voxel voxel{draw(0, 1), draw(-5, 5), draw(-5, 5), draw(-2, 2)};
    if (known.emplace(voxel, 0).second) sample.voxels.push_back(voxel);
  }
  sample.features.resize(static_cast<std::size_t>(rows * graph.nodes[0].channels));
  for (float& value : sample.features) value = std::uniform_real_distribution<float>(-1, 1)(random);
  interpret(graph, sample);
  return sample;
}

// ---- the artifact ----------------------------------------------------------------------------------------

/// Bytes behind the tables, and where each piece of them lies in the file.
class Blobs {
 public:
  explicit Blobs(std::size_t begin) : begin_(begin) {}
  template <class T>
  std::uint64_t add(const std::vector<T>& values) {
    bytes_.resize((bytes_.size() + 15) / 16 * 16);
    const std::size_t at = bytes_.size(), size = values.size() * sizeof(T);
    bytes_.resize(at + size);
    std::memcpy(bytes_.data() + at, values.data(), size);
    return begin_ + at;
  }
  const std::vector<char>& bytes() const { return bytes_; }

 private:
  std::size_t begin_;
  std::vector<char> bytes_;
};

template <class T>
void write(std::ofstream& file, const T* values, std::size_t count) {
  file.write(reinterpret_cast<const char*>(values), static_cast<std::streamsize>(count * sizeof(T)));
}

void compile(const std::string& path, const std::vector<std::string>& archs) {
  std::mt19937 random(7);
  const Graph graph = build_graph(random);
  const std::vector<Group> groups = fuse(graph);
  const std::vector<Sample> samples{make_sample(graph, random, 300), make_sample(graph, random, 120)};

  const minuet::Context context;
  Geometry geometry;
  toy_header header = {};
  std::memcpy(header.magic, TOY_MAGIC, sizeof(header.magic));
  header.levels = kLevels;
  header.level_bytes = sizeof(minuet_pyramid_level);
  header.map_bytes = sizeof(minuet_pyramid_map);
  header.tensors = static_cast<std::int32_t>(graph.nodes.size());
  header.calls = static_cast<std::int32_t>(groups.size());
  header.samples = static_cast<std::int32_t>(samples.size());
  header.output = graph.output();
  std::vector<toy_tensor> tensors;
  for (const Node& node : graph.nodes) tensors.push_back({node.level, node.channels});
  std::vector<toy_call> calls;
  std::vector<std::vector<unsigned char>> plans;
  for (const Group& group : groups) {
    const minuet::Plan plan = lower(context, graph, group);
    plans.push_back(plan.serialize(archs));  // compiles for every architecture: no GPU, no driver
    toy_call call = {};
    std::snprintf(call.name, sizeof(call.name), "%s of %d nodes", plan.info().name,
                  static_cast<int>(group.nodes.size()));
    std::copy(group.inputs.begin(), group.inputs.end(), call.inputs);
    call.input_count = static_cast<std::int32_t>(group.inputs.size());
    call.output = group.output();
    call.map = geometry.map_of(graph, group);
    call.set_order = set_order(graph, group);
    calls.push_back(call);
    std::printf("%-24s map %d, %zu bytes\n", call.name, call.map, plans.back().size());
  }
  header.maps = static_cast<std::int32_t>(geometry.maps.size());

  Blobs blobs(sizeof(header) + geometry.levels.size() * sizeof(geometry.levels[0]) +
              geometry.maps.size() * sizeof(geometry.maps[0]) + tensors.size() * sizeof(toy_tensor) +
              calls.size() * sizeof(toy_call) + samples.size() * sizeof(toy_sample));
  for (std::size_t i = 0; i < calls.size(); ++i)
    calls[i].plan_offset = blobs.add(plans[i]), calls[i].plan_bytes = plans[i].size();
  std::vector<toy_sample> table;
  for (const Sample& sample : samples) {
    table.push_back({blobs.add(sample.voxels), blobs.add(sample.features), blobs.add(sample.places),
                     blobs.add(sample.results), static_cast<std::int32_t>(sample.voxels.size()),
                     static_cast<std::int32_t>(sample.places.size())});
  }
  std::ofstream file(path, std::ios::binary);
  write(file, &header, 1);
  write(file, geometry.levels.data(), geometry.levels.size());
  write(file, geometry.maps.data(), geometry.maps.size());
  write(file, tensors.data(), tensors.size());
  write(file, calls.data(), calls.size());
  write(file, table.data(), table.size());
  write(file, blobs.bytes().data(), blobs.bytes().size());
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace

int main(int count, char** arguments) try {
  if (count < 3) {
    std::fprintf(stderr, "usage: backend FILE ARCH...\n");
    return 2;
  }
  compile(arguments[1], {arguments + 2, arguments + count});
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
