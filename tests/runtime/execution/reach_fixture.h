// Chains of layers by the rule of a dense convolution, as networks of the library and as plain loops.
#pragma once

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "tests/runtime/execution/pyramid_fixture.h"
#include "tests/support/compare.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi::chains {

inline constexpr int64_t kBatch = 3;  // the last item is empty

/// A tensor [kBatch, cells..., channels].
struct Dense {
  std::vector<int> cells;
  int channels = 0;
  std::vector<double> values;

  Dense(std::vector<int> shape, int width) : cells(std::move(shape)), channels(width) {
    int64_t count = kBatch * width;
    for (const int cell : cells) count *= cell;
    values.resize(static_cast<size_t>(count));
  }
  /// Where the channels of a cell begin, or -1 outside of the shape.
  int64_t at(int batch, const std::vector<int>& cell) const {
    int64_t place = batch;
    for (size_t a = 0; a < cells.size(); ++a) {
      if (cell[a] < 0 || cell[a] >= cells[a]) return -1;
      place = place * cells[a] + cell[a];
    }
    return place * channels;
  }
  void visit(const std::function<void(int batch, const std::vector<int>& cell)>& visit) const {
    std::vector<int> cell(cells.size());
    for (int batch = 0; batch < kBatch; ++batch) {
      std::fill(cell.begin(), cell.end(), 0);
      while (true) {
        visit(batch, cell);
        size_t a = cells.size();
        while (a > 0 && ++cell[a - 1] == cells[a - 1]) cell[--a] = 0;
        if (a == 0) break;
      }
    }
  }
};

/// One layer of a network.
struct Layer {
  std::vector<int> kernel_size, stride, padding, dilation;
  int channels = 0;
  std::vector<float> weight;  // [offsets, in channels, channels], the last axis fastest

  int offsets() const {
    return std::accumulate(kernel_size.begin(), kernel_size.end(), 1, std::multiplies<>());
  }
  std::vector<int> offset(int k) const {
    std::vector<int> offset(kernel_size.size());
    for (size_t a = kernel_size.size(); a-- > 0; k /= kernel_size[a])
      offset[a] = k % kernel_size[a] * dilation[a] - padding[a];
    return offset;
  }
  /// Cells of the output, or none if there would be no cell.
  std::vector<int> shape_of(const std::vector<int>& input) const {
    std::vector<int> shape;
    for (size_t a = 0; a < input.size(); ++a) {
      const int room = input[a] + 2 * padding[a] - dilation[a] * (kernel_size[a] - 1) - 1;
      if (room < 0) return {};
      shape.push_back(room / stride[a] + 1);
    }
    return shape;
  }
};

inline Dense convolve(const Dense& input, const Layer& layer) {
  Dense output(layer.shape_of(input.cells), layer.channels);
  output.visit([&](int batch, const std::vector<int>& cell) {
    double* const sums = &output.values[static_cast<size_t>(output.at(batch, cell))];
    for (int k = 0; k < layer.offsets(); ++k) {
      std::vector<int> from = layer.offset(k);
      for (size_t a = 0; a < from.size(); ++a) from[a] += cell[a] * layer.stride[a];
      const int64_t place = input.at(batch, from);
      if (place < 0) continue;
      for (int i = 0; i < input.channels; ++i) {
        if (input.values[static_cast<size_t>(place + i)] == 0) continue;
        for (int o = 0; o < layer.channels; ++o) {
          sums[o] += input.values[static_cast<size_t>(place + i)] *
                     layer.weight[static_cast<size_t>((k * input.channels + i) * layer.channels + o)];
        }
      }
    }
  });
  return output;
}

struct Points {
  std::vector<int32_t> coordinates;
  std::vector<float> features;
};

/// A chain of layers over a grid.
struct Chain {
  std::vector<int> shape;
  int channels = 4;
  std::vector<Layer> layers;

  int ndim() const { return static_cast<int>(shape.size()); }
  std::vector<int> output_shape() const {
    std::vector<int> cells = shape;
    for (const Layer& layer : layers) cells = layer.shape_of(cells);
    return cells;
  }
};

/// Small whole numbers, whose sums every dtype holds exactly.
inline std::vector<float> draw_numbers(Random& random, int64_t count) {
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& number : numbers) number = static_cast<float>(random.between(-1, 1));
  return numbers;
}

inline Chain draw_chain(Random& random, int ndim, int depth) {
  while (true) {
    Chain chain;
    for (int a = 0; a < ndim; ++a)
      chain.shape.push_back(static_cast<int>(random.between(3, ndim < 4 ? 9 : 5)));
    int width = chain.channels;
    for (int i = 0; i < depth; ++i) {
      Layer layer;
      for (int a = 0; a < ndim; ++a) {
        layer.kernel_size.push_back(static_cast<int>(random.between(1, 3)));
        layer.stride.push_back(static_cast<int>(random.between(1, 3)));
        layer.padding.push_back(static_cast<int>(random.between(0, 2)));
        layer.dilation.push_back(static_cast<int>(random.between(1, 2)));
      }
      layer.channels = i + 1 == depth ? 3 : 4;
      layer.weight = draw_numbers(random, int64_t{layer.offsets()} * width * layer.channels);
      width = layer.channels;
      chain.layers.push_back(std::move(layer));
    }
    std::vector<int> cells = chain.shape;
    for (const Layer& layer : chain.layers) {
      if (!cells.empty()) cells = layer.shape_of(cells);
    }
    if (!cells.empty()) return chain;
  }
}

inline Points draw_points(const Chain& chain, Random& random, int count) {
  Points points;
  std::set<std::vector<int32_t>> taken;
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> coordinate{static_cast<int32_t>(random.below(2))};
    for (const int cells : chain.shape) {
      coordinate.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(cells))));
    }
    if (!taken.insert(coordinate).second) continue;
    points.coordinates.insert(points.coordinates.end(), coordinate.begin(), coordinate.end());
  }
  points.features = draw_numbers(random, static_cast<int64_t>(taken.size()) * chain.channels);
  return points;
}

inline std::string list(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "[" : ", ") + std::to_string(number);
  return text + "]";
}

/// The description of the chain, then of `more` layers.
inline std::string describe(const Chain& chain, const std::string& more) {
  std::string layers;
  for (size_t i = 0; i < chain.layers.size(); ++i) {
    const Layer& layer = chain.layers[i];
    layers += R"({"op": "block", "name": "l)" + std::to_string(i) + R"(", "out_channels": )" +
              std::to_string(layer.channels) +
              R"(, "norm": "none", "activation": "none", "rule": "reached")" + R"(, "kernel_size": )" +
              list(layer.kernel_size) + R"(, "stride": )" + list(layer.stride) + R"(, "padding": )" +
              list(layer.padding) + R"(, "dilation": )" + list(layer.dilation) + "}, ";
  }
  return R"({"name": "chain", "ndim": )" + std::to_string(chain.ndim()) + R"(, "in_channels": )" +
         std::to_string(chain.channels) + R"(, "shape": )" + list(chain.shape) + R"(, "layers": [)" + layers +
         more + "]}";
}

inline Dense input_of(const Chain& chain, const Points& points) {
  Dense input(chain.shape, chain.channels);
  const size_t fields = static_cast<size_t>(chain.ndim()) + 1;
  for (size_t row = 0; row * fields < points.coordinates.size(); ++row) {
    const auto* const at = &points.coordinates[row * fields];
    const auto place = static_cast<size_t>(input.at(at[0], {at + 1, at + fields}));
    for (int c = 0; c < chain.channels; ++c) {
      input.values[place + static_cast<size_t>(c)] =
          points.features[row * static_cast<size_t>(chain.channels) + static_cast<size_t>(c)];
    }
  }
  return input;
}

inline constexpr const char* kToDense = R"({"op": "to_dense", "format": "channels_last"})";

class ReachTest : public DeviceTest {
 protected:
  /// A plan of the chain, with its weights, and then of `more` layers whose weights are `others`.
  Plan plan_of(const Chain& chain, const std::string& more = kToDense,
               std::map<std::string, FileTensor> others = {}) {
    int width = chain.channels;
    for (size_t i = 0; i < chain.layers.size(); ++i) {
      const Layer& layer = chain.layers[i];
      others["l" + std::to_string(i) + ".conv.weight"] = {{layer.offsets(), width, layer.channels},
                                                          layer.weight};
      width = layer.channels;
    }
    const TemporaryPath file("chain.safetensors");
    write_safetensors(file.path(), others);
    NetworkSpec spec;
    spec.description = describe(chain, more);
    spec.dtype = dtype();
    spec.weights = file.path();
    spec.dataflow = MINUET_DATAFLOW_FUSED;
    return make_network(machine(), spec);
  }
  minuet_element element() const {
    return dtype() == DType::TF32 ? MINUET_ELEMENT_F32 : static_cast<minuet_element>(abi_dtype(dtype()));
  }
  static int64_t rows_of(const Chain& chain, const Points& points) {
    return static_cast<int64_t>(points.coordinates.size()) / (1 + chain.ndim());
  }
  minuet_array dense_of(void* data, const Chain& chain) const {
    std::vector<int64_t> dims{kBatch};
    const std::vector<int> cells = chain.output_shape();
    dims.insert(dims.end(), cells.begin(), cells.end());
    dims.push_back(chain.layers.back().channels);
    return array_of(data, dims, element());
  }
  static minuet_execution_options options_of(minuet_map_method method) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.batch_size = kBatch;
    options.map_method = method;
    return options;
  }
  std::vector<double> run_exact(minuet_execution* execution, const Chain& chain, const Points& points) {
    check(prepare(machine(), execution, points.coordinates, chain.ndim()));
    const Buffer input(machine(), encode(dtype(), points.features));
    const Buffer output(machine(), elements_of(chain) * dtype_bytes(dtype()));
    check(run_arrays(execution, {array_of(input.data(), {rows_of(chain, points), chain.channels}, element())},
                     {dense_of(output.data(), chain)}));
    return doubles_of(output);
  }
  static int64_t elements_of(const Chain& chain) {
    return static_cast<int64_t>(Dense(chain.output_shape(), chain.layers.back().channels).values.size());
  }
  std::vector<double> doubles_of(const Buffer& output) const {
    const std::vector<float> values = decode(dtype(), output.read<char>());
    return {values.begin(), values.end()};
  }
  static std::vector<double> expected_of(const Chain& chain, const Points& points) {
    Dense dense = input_of(chain, points);
    for (const Layer& layer : chain.layers) dense = convolve(dense, layer);
    return dense.values;
  }
  /// The counts of all levels of the plan after a prepare.
  Capacities counts_of(minuet_plan* plan, minuet_execution* execution) {
    Capacities capacities(static_cast<size_t>(info_of(plan).levels));
    check(minuet_execution_suggest_capacities(execution, 1.0, capacities.data(),
                                              static_cast<int32_t>(capacities.size())));
    return capacities;
  }
  std::vector<double> run_within(minuet_execution* execution, const Chain& chain, const Points& points,
                                 int64_t capacity, uint32_t expected_status) {
    std::vector<char> features = encode(dtype(), points.features);
    features.resize(static_cast<size_t>(capacity * chain.channels * dtype_bytes(dtype())), '\x7f');
    const Buffer input(machine(), features);
    const Buffer output(machine(), elements_of(chain) * dtype_bytes(dtype()));
    check(prepare(machine(), execution, points.coordinates, chain.ndim()));
    check(run_arrays(execution, {array_of(input.data(), {capacity, chain.channels}, element())},
                     {dense_of(output.data(), chain)}));
    uint32_t status = ~0u;
    check(minuet_execution_read_cloud(execution, &status, nullptr, 0, nullptr));
    EXPECT_EQ(status, expected_status);
    return doubles_of(output);
  }
};

}  // namespace minuet::abi::chains
