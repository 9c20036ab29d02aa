// Networks whose levels follow the rule of a dense convolution. Without a bias, such a network of a dense
// tensor is a chain of dense convolutions, which plain loops compute here. On every device, exact, within
// capacities and on pyramids, with maps by an index and by sorting.
#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "tests/runtime/execution/pyramid_fixture.h"
#include "tests/support/compare.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

constexpr int64_t kBatch = 3;  // the last item is empty

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

Dense convolve(const Dense& input, const Layer& layer) {
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
std::vector<float> draw_numbers(Random& random, int64_t count) {
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& number : numbers) number = static_cast<float>(random.between(-1, 1));
  return numbers;
}

Chain draw_chain(Random& random, int ndim, int depth) {
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

Points draw_points(const Chain& chain, Random& random, int count) {
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

std::string list(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "[" : ", ") + std::to_string(number);
  return text + "]";
}

/// The description of the chain, then of `more` layers.
std::string describe(const Chain& chain, const std::string& more) {
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

Dense input_of(const Chain& chain, const Points& points) {
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

constexpr const char* kToDense = R"({"op": "to_dense", "format": "channels_last"})";

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
    check(minuet_execution_read_cloud(execution, nullptr, &status, nullptr, 0));
    EXPECT_EQ(status, expected_status);
    return doubles_of(output);
  }
};

TEST_P(ReachTest, ChainsAreThoseOfDenseConvolutions) {
  const uint64_t trials = machine().is_software() ? 1 : 6;
  for (int ndim = 1; ndim <= 4; ++ndim) {
    for (uint64_t seed = 0; seed < trials; ++seed) {
      Random random(100 * seed + static_cast<uint64_t>(ndim));
      const Chain chain = draw_chain(random, ndim, 1 + static_cast<int>(seed % 3));
      SCOPED_TRACE(describe(chain, kToDense));
      const Plan plan = plan_of(chain);
      for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
        const minuet_execution_options options = options_of(method);
        const Execution execution = make_execution(machine(), plan.get(), &options);
        for (const int count : {60, 0, 1, 20}) {
          const Points points = draw_points(chain, random, count);
          EXPECT_EQ(run_exact(execution.get(), chain, points), expected_of(chain, points)) << count;
        }
      }
    }
  }
}

TEST_P(ReachTest, WithinCapacitiesAndOnPyramids) {
  for (const uint64_t seed : {1u, 2u}) {
    Random random(seed);
    const Chain chain = draw_chain(random, 3, 2);
    SCOPED_TRACE(describe(chain, kToDense));
    const Plan plan = plan_of(chain);
    const Points many = draw_points(chain, random, 100), few = draw_points(chain, random, 7);
    const minuet_execution_options exact_options = options_of(MINUET_MAPS_SORTED);
    const Execution exact = make_execution(machine(), plan.get(), &exact_options);
    run_exact(exact.get(), chain, many);
    const Capacities capacities = counts_of(plan.get(), exact.get());
    for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
      minuet_execution_options options = options_of(method);
      options.level_capacity = capacities.data();
      options.level_count = static_cast<int32_t>(capacities.size());
      const Execution within = make_execution(machine(), plan.get(), &options);
      for (const Points& points : {many, Points{}, few, many}) {
        EXPECT_EQ(run_within(within.get(), chain, points, capacities[0], 0), expected_of(chain, points));
      }
      // One level has room for one row only.
      for (size_t level = 1; level < capacities.size(); ++level) {
        Capacities fewer = capacities;
        fewer[level] = 1;
        options.level_capacity = fewer.data();
        const Execution full = make_execution(machine(), plan.get(), &options);
        EXPECT_EQ(run_within(full.get(), chain, many, capacities[0], MINUET_CLOUD_PAST_CAPACITY),
                  std::vector<double>(static_cast<size_t>(elements_of(chain))));
        EXPECT_EQ(run_within(full.get(), chain, Points{}, capacities[0], 0), expected_of(chain, {}));
      }
    }
    minuet_pyramid_options options = MINUET_PYRAMID_OPTIONS_INIT;
    options.network = plan.get();
    options.level_capacity = capacities.data();
    options.level_count = static_cast<int32_t>(capacities.size());
    options.batch_size = kBatch;
    TestPyramid pyramid(machine(), options);
    for (const Points& points : {many, Points{}, few}) {
      pyramid.build(points.coordinates);
      std::vector<char> features = encode(dtype(), points.features);
      features.resize(static_cast<size_t>(capacities[0] * chain.channels * dtype_bytes(dtype())), '\x7f');
      const Buffer input(machine(), features);
      const Buffer output(machine(), elements_of(chain) * dtype_bytes(dtype()));
      run_on(machine(), plan.get(), pyramid.run_arguments(),
             {array_of(input.data(), {capacities[0], chain.channels}, element())},
             {dense_of(output.data(), chain)});
      EXPECT_EQ(doubles_of(output), expected_of(chain, points));
    }
  }
}

/// A cloud that grows more than is expected in exact mode: each voxel reaches 27 others, with none in common.
TEST_P(ReachTest, LevelsThatGrowMuch) {
  Chain chain;
  chain.shape = {36, 36, 36};
  Random random(5);
  Layer layer{{3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 3, {}};
  layer.weight = draw_numbers(random, int64_t{27} * chain.channels * layer.channels);
  chain.layers = {layer};
  const Plan plan = plan_of(chain);
  Points points;
  for (int32_t x = 1; x < 36; x += 3) {
    for (int32_t y = 1; y < 36; y += 3) {
      for (const int32_t z : {1, 4, 13, 31}) {
        points.coordinates.insert(points.coordinates.end(), {0, x, y, z, 1, z, x, y});
      }
    }
  }
  points.features = draw_numbers(random, rows_of(chain, points) * chain.channels);
  for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
    const minuet_execution_options options = options_of(method);
    const Execution execution = make_execution(machine(), plan.get(), &options);
    EXPECT_EQ(run_exact(execution.get(), chain, points), expected_of(chain, points));
    EXPECT_EQ(counts_of(plan.get(), execution.get())[1], (27 * rows_of(chain, points) + 255) / 256 * 256);
  }
}

/// An inverse layer is the transposed dense convolution, on the voxels that its layer started from.
TEST_P(ReachTest, AnInverseLeadsBackToTheSameVoxels) {
  for (const uint64_t seed : {3u, 4u, 5u}) {
    Random random(seed);
    Chain chain = draw_chain(random, 3, 2);
    const Layer& last = chain.layers.back();
    constexpr int kOutputs = 5;
    const std::vector<float> weight =
        draw_numbers(random, int64_t{last.offsets()} * last.channels * kOutputs);
    const std::string inverse =
        R"({"op": "inverse", "name": "back", "of": "l1", "out_channels": 5, "norm": "none", "activation": "none"},)";
    const Plan plan =
        plan_of(chain, inverse + kToDense,
                {{"back.conv.weight", FileTensor{{last.offsets(), last.channels, kOutputs}, weight}}});
    const Points points = draw_points(chain, random, 60);
    const Dense middle = convolve(input_of(chain, points), chain.layers[0]);
    const Dense coarse = convolve(middle, last);
    // The level that l1 starts from has the cells that l0 reaches.
    Points ones = points;
    std::fill(ones.features.begin(), ones.features.end(), 1.0f);
    Layer counting = chain.layers[0];
    std::fill(counting.weight.begin(), counting.weight.end(), 1.0f);
    const Dense reached = convolve(input_of(chain, ones), counting);
    Dense expected(middle.cells, kOutputs);
    expected.visit([&](int batch, const std::vector<int>& cell) {
      if (reached.values[static_cast<size_t>(reached.at(batch, cell))] == 0) return;
      double* const sums = &expected.values[static_cast<size_t>(expected.at(batch, cell))];
      for (int k = 0; k < last.offsets(); ++k) {
        const std::vector<int> offset = last.offset(k);
        std::vector<int> from(cell.size());
        bool is_there = true;
        for (size_t a = 0; a < cell.size(); ++a) {
          const int scaled = cell[a] - offset[a];
          from[a] = scaled / last.stride[a];
          is_there = is_there && from[a] * last.stride[a] == scaled;
        }
        const int64_t place = is_there ? coarse.at(batch, from) : -1;
        if (place < 0) continue;
        for (int i = 0; i < last.channels; ++i) {
          for (int o = 0; o < kOutputs; ++o) {
            sums[o] += coarse.values[static_cast<size_t>(place + i)] *
                       weight[static_cast<size_t>((k * last.channels + i) * kOutputs + o)];
          }
        }
      }
    });
    // Sums of this length are exact in fp32 only.
    if (dtype() != DType::F32) continue;
    Chain to_middle = chain;
    to_middle.layers.pop_back();
    to_middle.layers.back().channels = kOutputs;
    for (const minuet_map_method method : {MINUET_MAPS_SORTED, MINUET_MAPS_INDEXED}) {
      const minuet_execution_options options = options_of(method);
      const Execution execution = make_execution(machine(), plan.get(), &options);
      check(prepare(machine(), execution.get(), points.coordinates, 3));
      const Buffer input(machine(), encode(dtype(), points.features));
      const Buffer output(machine(), elements_of(to_middle) * dtype_bytes(dtype()));
      check(run_arrays(execution.get(),
                       {array_of(input.data(), {rows_of(chain, points), chain.channels}, element())},
                       {dense_of(output.data(), to_middle)}));
      EXPECT_EQ(doubles_of(output), expected.values) << seed;
    }
  }
}

TEST_P(ReachTest, RefusesWhatNoSetCanHave) {
  const Buffer points(machine(), std::vector<int32_t>{0, 1, 2, 3});
  minuet_coordinates_options of_set = MINUET_COORDINATES_OPTIONS_INIT;
  minuet_coordinates* made = nullptr;
  check(minuet_coordinates_create(machine().device(), &of_set, points.integers(), 1, nullptr, &made));
  const Coordinates set(made, {minuet_coordinates_destroy});
  const auto refused = [&](const minuet_reach_options& options, minuet_status status, const char* words) {
    minuet_coordinates* reached = nullptr;
    EXPECT_EQ(minuet_coordinates_reach(set.get(), &options, nullptr, &reached), status);
    EXPECT_EQ(reached, nullptr);
    EXPECT_THAT(last_error(), HasSubstr(words));
  };
  minuet_reach_options usual = MINUET_REACH_OPTIONS_INIT, options = usual;
  options.padding[1] = -1;
  refused(options, MINUET_INVALID_ARGUMENT, "padding of axis 1 is -1");
  options = usual, options.padding[3] = 1;
  refused(options, MINUET_INVALID_ARGUMENT, "padding of axis 3 is 1");
  options = usual, options.shape[0] = 4;
  refused(options, MINUET_INVALID_ARGUMENT, "shape of axis 1 is 0");
  options = usual, options.kernel_size[0] = 1 << 20, options.kernel_size[1] = 1 << 20;
  refused(options, MINUET_INVALID_ARGUMENT, "offsets; at most");
  options = usual, options.stride[2] = (1 << 24) + 1;
  refused(options, MINUET_INVALID_ARGUMENT, "axis 2: stride");
  options = usual, options.kernel_size[0] = 3, options.dilation[0] = 1 << 28;
  refused(options, MINUET_INVALID_ARGUMENT, "axis 0");

  minuet_kernel_map_options map_options = MINUET_KERNEL_MAP_OPTIONS_INIT;
  minuet_kernel_map* map = nullptr;
  map_options.padding[0] = 1;
  EXPECT_EQ(minuet_kernel_map_create(set.get(), set.get(), &map_options, nullptr, &map),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("dense_offsets is 0"));
  map_options.dense_offsets = 2;
  EXPECT_EQ(minuet_kernel_map_create(set.get(), set.get(), &map_options, nullptr, &map),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("dense_offsets is 2"));
}

MINUET_INSTANTIATE_DEVICE_TEST(ReachTest);

}  // namespace
}  // namespace minuet::abi
