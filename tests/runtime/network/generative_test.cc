// Layers that make their own coordinates (generative_up): on every device and in every dtype, exact, within
// capacities and on pyramids, with maps by an index and by sorting, against plain loops in float64.
#include "tests/runtime/network/union_fixture.h"
#include "tests/support/compare.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

/// One axis of a generative layer. Output p = q + (k * dilation - padding) * step for k = 0 ... kernel_size
/// - 1.
struct GenerativeAxis {
  int kernel_size = 1, stride = 1, dilation = 1, padding = 0;
  int step = 1;   // the tensor stride of the outputs
  int shape = 0;  // of the outputs, in steps; 0: no limit
};

struct GenerativeLayer {
  int result = 0, input = 0;
  std::vector<GenerativeAxis> axes;
  std::vector<float> weight;  // [offsets, in channels, out channels]
};

/// Calls visit(k, p) for every output p that the layer makes of q, batch first.
void visit_outputs(const GenerativeLayer& layer, const Coordinate& q,
                   const std::function<void(size_t, const Coordinate&)>& visit) {
  size_t volume = 1;
  for (const GenerativeAxis& axis : layer.axes) volume *= static_cast<size_t>(axis.kernel_size);
  for (size_t k = 0; k < volume; ++k) {
    Coordinate p = q;
    bool is_inside = true;
    size_t rest = k;
    for (size_t a = layer.axes.size(); a-- > 0;) {
      const GenerativeAxis& axis = layer.axes[a];
      const auto index = static_cast<int>(rest % static_cast<size_t>(axis.kernel_size));
      rest /= static_cast<size_t>(axis.kernel_size);
      p[a + 1] += (index * axis.dilation - axis.padding) * axis.step;
      is_inside = is_inside && (axis.shape == 0 || (p[a + 1] >= 0 && p[a + 1] < axis.shape * axis.step));
    }
    if (is_inside) visit(k, p);
  }
}

/// A graph of poolings, unions and generative layers.
struct GenerativeGraph : UnionGraph {
  std::vector<GenerativeLayer> layers_made;
  std::vector<std::vector<int>> strides, shapes;  // of each result; a shape is empty where there is none
  std::map<std::string, FileTensor> weights;

  const std::vector<int>& stride_of(int input) const { return strides[static_cast<size_t>(input)]; }
  std::string list(const std::vector<GenerativeAxis>& axes, int GenerativeAxis::*member) const {
    std::string text;
    for (const GenerativeAxis& axis : axes)
      text += (text.empty() ? "[" : ", ") + std::to_string(axis.*member);
    return text + "]";
  }
  void add_cells(int input, const std::vector<int>& stride) {
    std::string text;
    std::vector<int> made, cells;
    for (size_t a = 0; a < stride.size(); ++a) {
      text += (a > 0 ? ", " : "[") + std::to_string(stride[a]);
      made.push_back(stride[a] * (input < 0 ? 1 : stride_of(input)[a]));
      const int of_input = shape.empty() || (input >= 0 && shapes[static_cast<size_t>(input)].empty()) ? 0
                           : input < 0 ? shape[a]
                                       : shapes[static_cast<size_t>(input)][a];
      if (of_input > 0) cells.push_back((of_input + stride[a] - 1) / stride[a]);
    }
    add_pool(input, R"("kernel_size": )" + text + R"(], "stride": )" + text + "]");
    strides.push_back(made), shapes.push_back(cells);
  }
  /// Returns false, and adds nothing, if the outputs would have no cells.
  bool add_generative(Random& random, int input, std::vector<GenerativeAxis> axes, bool is_reached) {
    const std::vector<int>& of_input = shapes[static_cast<size_t>(input)];
    std::vector<int> made, cells, output_padding;
    size_t volume = 1;
    for (size_t a = 0; a < axes.size(); ++a) {
      GenerativeAxis& axis = axes[a];
      axis.step = stride_of(input)[a] / axis.stride;
      if (!is_reached) axis.padding = (axis.kernel_size - 1) / 2 * axis.dilation;
      output_padding.push_back(static_cast<int>(random.below(2)));
      if (is_reached && !of_input.empty()) {
        axis.shape = (of_input[a] - 1) * axis.stride - 2 * axis.padding +
                     axis.dilation * (axis.kernel_size - 1) + 1 + output_padding.back();
        if (axis.shape < 1) return false;
        cells.push_back(axis.shape);
      }
      made.push_back(axis.step);
      volume *= static_cast<size_t>(axis.kernel_size);
    }
    GenerativeLayer layer{results, input, axes, {}};
    for (size_t i = 0; i < volume * kUnionChannels * kUnionChannels; ++i)
      layer.weight.push_back(static_cast<float>(random.between(-2, 2)) / 4);
    weights[name_of(results) + ".conv.weight"] = {
        {static_cast<int64_t>(volume), kUnionChannels, kUnionChannels}, layer.weight};
    std::string paddings;
    for (const int cell : output_padding) paddings += (paddings.empty() ? "[" : ", ") + std::to_string(cell);
    add(R"("op": "generative_up", "out_channels": 4, "norm": "none", "activation": "none", "input": ")" +
        name_of(input) + R"(", "kernel_size": )" + list(axes, &GenerativeAxis::kernel_size) +
        R"(, "stride": )" + list(axes, &GenerativeAxis::stride) + R"(, "dilation": )" +
        list(axes, &GenerativeAxis::dilation) +
        (is_reached ? R"(, "rule": "reached", "padding": )" + list(axes, &GenerativeAxis::padding) +
                          R"(, "output_padding": )" + paddings + "]"
                    : ""));
    layers_made.push_back(std::move(layer));
    strides.push_back(made), shapes.push_back(cells);
    return true;
  }
};

GenerativeGraph draw_generative_graph(Random& random, int ndim) {
  GenerativeGraph graph;
  graph.ndim = ndim;
  for (int a = 0; a < ndim && random.below(2) == 0; ++a)
    graph.shape.push_back(static_cast<int32_t>(random.between(9, 14)));
  if (graph.shape.size() < static_cast<size_t>(ndim)) graph.shape.clear();
  std::vector<int> stride(static_cast<size_t>(ndim));
  for (int& each : stride) each = static_cast<int>(2 * random.between(1, 3));
  graph.add_cells(-1, stride);
  while (graph.layers_made.size() < 2) {
    const int input = static_cast<int>(random.below(static_cast<uint64_t>(graph.results)));
    std::vector<GenerativeAxis> axes;
    for (int a = 0; a < ndim; ++a) {
      GenerativeAxis axis;
      axis.stride = static_cast<int>(random.between(1, 3));
      if (graph.stride_of(input)[static_cast<size_t>(a)] % axis.stride != 0) axis.stride = 1;
      axis.kernel_size = static_cast<int>(random.between(1, ndim < 3 ? 4 : ndim == 3 ? 3 : 2));
      axis.dilation = static_cast<int>(random.between(1, 2));
      axis.padding = static_cast<int>(random.between(0, 3));
      axes.push_back(axis);
    }
    graph.add_generative(random, input, axes, random.below(2) == 0);
  }
  // Layers below what is generated: a pooling by the rule of cells, and a sum with the input's cells.
  graph.add_cells(graph.layers_made.back().result, std::vector<int>(static_cast<size_t>(ndim), 2));
  graph.add_union(graph.layers_made.front().result, -1);
  graph.add_union(graph.layers_made.back().result, -1, /*is_intersection=*/true);
  return graph;
}

class GenerativeTest : public UnionTest {
 protected:
  Plan generative_plan(const GenerativeGraph& graph, minuet_dataflow dataflow = tested_dataflow()) {
    const TemporaryPath file("generative.safetensors");
    write_safetensors(file.path(), graph.weights);
    NetworkSpec spec = spec_of(graph);
    spec.weights = file.path();
    spec.dataflow = dataflow;
    return make_network(machine(), spec);
  }
  /// Compares each generative layer with plain loops over what the layer read. Returns how many of them have
  /// other coordinates than their input.
  int check_generative(const GenerativeGraph& graph, const std::vector<NetworkRun>& runs) {
    int proper = 0;
    for (const GenerativeLayer& layer : graph.layers_made) {
      const NetworkRun &in = runs[static_cast<size_t>(layer.input)],
                       &out = runs[static_cast<size_t>(layer.result)];
      const FeatureRows read = rows_of(in.coordinates, in.bytes, graph.ndim);
      std::map<Coordinate, std::vector<double>> expected;
      for (const auto& [q, values] : read) {
        visit_outputs(layer, q, [&, &from = values](size_t k, const Coordinate& p) {
          std::vector<double>& sums = expected.emplace(p, std::vector<double>(kUnionChannels)).first->second;
          for (size_t i = 0; i < kUnionChannels; ++i) {
            for (size_t o = 0; o < kUnionChannels; ++o)
              sums[o] +=
                  from[i] * static_cast<double>(layer.weight[(k * kUnionChannels + i) * kUnionChannels + o]);
          }
        });
      }
      const FeatureRows got = rows_of(out.coordinates, out.bytes, graph.ndim);
      std::vector<Coordinate> cells, expected_cells;
      std::vector<float> values;
      std::vector<double> expected_values;
      for (const auto& [cell, row] : got) {
        cells.push_back(cell);
        values.insert(values.end(), row.begin(), row.end());
      }
      for (const auto& [cell, row] : expected) {
        expected_cells.push_back(cell);
        expected_values.insert(expected_values.end(), row.begin(), row.end());
      }
      EXPECT_EQ(cells, expected_cells) << UnionGraph::name_of(layer.result);
      if (cells != expected_cells) continue;
      EXPECT_TRUE(is_close(values, expected_values, kUnionChannels, error_bound(dtype())))
          << UnionGraph::name_of(layer.result);
      if (got.size() != read.size()) ++proper;
    }
    return proper;
  }
};

/// By both rules, with and without a shape, also of what was generated; with layers below.
TEST_P(GenerativeTest, HasEveryCoordinateThatAnInputReaches) {
  const uint64_t seeds = machine().is_software() ? 1 : 8;
  int proper = 0;
  for (int ndim = 1; ndim <= 4; ++ndim) {
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      Random random(100 * seed + static_cast<uint64_t>(ndim));
      const GenerativeGraph graph = draw_generative_graph(random, ndim);
      SCOPED_TRACE("seed " + std::to_string(seed) + ": " + graph.text());
      const Plan plan = generative_plan(graph);
      for (const int64_t count : {30, 0, 1}) {
        const std::vector<int32_t> cloud = draw_cloud(graph, random, count);
        for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
          const std::vector<NetworkRun> runs = run(graph, plan.get(), cloud, method);
          proper += check_generative(graph, runs);
          check_unions(graph, runs, cloud);
          EXPECT_EQ(run(graph, plan.get(), cloud, method), runs) << "again";
        }
      }
    }
  }
  EXPECT_GT(proper, 0);
}

TEST_P(GenerativeTest, WithinCapacitiesAndOnPyramids) {
  for (const uint64_t seed : {1u, 2u, 3u}) {
    Random random(seed);
    const GenerativeGraph graph = draw_generative_graph(random, 3);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + graph.text());
    const Plan plan = generative_plan(graph, MINUET_DATAFLOW_FUSED);
    const std::vector<int32_t> cloud = draw_cloud(graph, random, 40);
    Capacities capacities(static_cast<size_t>(info_of(plan.get()).levels));
    const auto count = static_cast<int32_t>(capacities.size());
    for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
      minuet_execution_options options = options_of(method);
      const Execution first = make_execution(machine(), plan.get(), &options);
      check(prepare(machine(), first.get(), cloud));
      check(minuet_execution_suggest_capacities(first.get(), 1.0, capacities.data(), count));
      const std::vector<NetworkRun> exact = run_graph(machine(), plan.get(), first.get(), cloud,
                                                      {features_of(graph, cloud)}, dtype(), graph.ndim);
      check_generative(graph, exact);
      options.level_capacity = capacities.data();
      options.level_count = count;
      const Execution within = make_execution(machine(), plan.get(), &options);
      const auto run_once = [&](const std::vector<minuet_array>& in, const std::vector<minuet_array>& out) {
        check(prepare(machine(), within.get(), cloud));
        check(run_arrays(within.get(), in, out));
      };
      expect_within(graph, plan.get(), capacities, cloud, exact, run_once);
      expect_within(graph, plan.get(), capacities, cloud, exact, run_once);
      // Where a generated level has room for one row only, the cloud is refused.
      Capacities fewer = capacities;
      fewer[static_cast<size_t>(output_of(plan.get(), graph.layers_made.front().result).level)] = 1;
      options.level_capacity = fewer.data();
      const Execution full = make_execution(machine(), plan.get(), &options);
      check(prepare(machine(), full.get(), cloud));
      uint32_t status = 0;
      check(minuet_execution_read_cloud(full.get(), &status, nullptr, 0, nullptr));
      EXPECT_EQ(status, static_cast<uint32_t>(MINUET_CLOUD_PAST_CAPACITY));
      if (method == MINUET_MAPS_SORTED) continue;
      minuet_pyramid_options of_network = MINUET_PYRAMID_OPTIONS_INIT;
      of_network.network = plan.get();
      of_network.level_capacity = capacities.data();
      of_network.level_count = count;
      TestPyramid pyramid(machine(), of_network);
      pyramid.build(cloud);
      expect_within(graph, plan.get(), capacities, cloud, exact,
                    [&](const std::vector<minuet_array>& in, const std::vector<minuet_array>& out) {
                      run_on(machine(), plan.get(), pyramid.run_arguments(), in, out);
                    });
    }
  }
}

/// A cloud of which more rows are generated than are expected in exact mode.
TEST_P(GenerativeTest, LevelsThatGrowMuch) {
  GenerativeGraph graph;
  Random random(9);
  graph.add_cells(-1, {1, 1, 1});
  graph.add_generative(random, 0, std::vector<GenerativeAxis>(3, {3, 1, 2, 0}), false);
  const Plan plan = generative_plan(graph);
  std::vector<int32_t> cloud;
  const int side = machine().is_software() ? 3 : 7;
  for (int x = 0; x < side; ++x)
    for (int y = 0; y < side; ++y)
      for (int z = 0; z < side; ++z) cloud.insert(cloud.end(), {0, 20 * x, 20 * y, -20 * z});
  for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
    const std::vector<NetworkRun> runs = run(graph, plan.get(), cloud, method);
    EXPECT_EQ(check_generative(graph, runs), 1);
    EXPECT_EQ(runs[1].rows, side * side * side * 27);
  }
}

/// With stride 1 and an odd kernel, what prune keeps at the input's coordinates are the rows of the
/// submanifold layer whose offsets have the reverse order. All numbers are small, so sums are exact in any
/// order.
TEST_P(GenerativeTest, IsASubmanifoldLayerOnTheInputsCoordinates) {
  constexpr int64_t kOffsets = 27;
  Random random(21);
  std::vector<float> weight(kOffsets * kUnionChannels * kUnionChannels);
  for (float& each : weight) each = static_cast<float>(random.between(-1, 1)) / 4;
  std::vector<float> reversed;
  const auto matrix = std::ptrdiff_t{kUnionChannels * kUnionChannels};
  for (int64_t k = kOffsets; k-- > 0;)
    reversed.insert(reversed.end(), weight.begin() + k * matrix, weight.begin() + (k + 1) * matrix);
  const char* const finish = R"("kernel_size": 3, "out_channels": 4, "norm": "none", "activation": "none")";
  NetworkSpec spec;
  spec.dtype = dtype();
  spec.description = R"({"name": "law", "ndim": 3, "outputs": ["generated", "sub", "kept"],
    "inputs": [{"name": "input", "channels": 4},
               {"name": "inside", "channels": 1, "type": "mask", "level": "generated"}],
    "layers": [{"op": "generative_up", "name": "up", "input": "input", "output": "generated", )" +
                     std::string(finish) +
                     R"(}, {"op": "block", "name": "sub", "input": "input", "output": "sub", )" + finish +
                     R"(}, {"op": "prune", "input": "generated", "by": "inside", "output": "kept"}]})";
  const TemporaryPath file("law.safetensors");
  write_safetensors(file.path(),
                    {{"up.conv.weight", {{kOffsets, kUnionChannels, kUnionChannels}, weight}},
                     {"sub.conv.weight", {{kOffsets, kUnionChannels, kUnionChannels}, reversed}}});
  spec.weights = file.path();
  const Plan plan = make_network(machine(), spec);
  const std::vector<int32_t> cloud = draw_cloud(UnionGraph{}, random, 400);
  const auto rows = static_cast<int64_t>(cloud.size() / 4);
  std::vector<float> features(cloud.size());
  for (float& each : features) each = static_cast<float>(random.between(-2, 2));
  const Buffer input(machine(), encode(dtype(), features));
  FeatureRows inside;  // Has the coordinates of the cloud.
  for (size_t i = 0; i < cloud.size(); i += 4) inside[Coordinate(&cloud[i], &cloud[i] + 4)] = {};
  const auto element =
      dtype() == DType::TF32 ? MINUET_ELEMENT_F32 : static_cast<minuet_element>(abi_dtype(dtype()));
  const auto features_on = [&](const Buffer& memory, int64_t count) {
    return array_of(memory.data(), {count, kUnionChannels}, element);
  };
  for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
    const minuet_execution_options options = options_of(method);
    const Execution execution = make_execution(machine(), plan.get(), &options);
    check(prepare(machine(), execution.get(), cloud));
    int64_t generated = 0;
    int32_t channels = 0;
    check(minuet_execution_output_shape_of(execution.get(), 0, &generated, &channels));
    EXPECT_GT(generated, rows);
    const auto coordinates_of = [&](int32_t output, int64_t count) {
      const Buffer where(machine(), count * 16);
      check(minuet_execution_output_coordinates_of(execution.get(), output,
                                                   static_cast<int32_t*>(where.data()), nullptr));
      return where.read<int32_t>();
    };
    const std::vector<int32_t> cells = coordinates_of(0, generated);
    std::vector<uint8_t> mask;
    for (size_t i = 0; i < cells.size(); i += 4)
      mask.push_back(static_cast<uint8_t>(inside.count(Coordinate(&cells[i], &cells[i] + 4))));
    const Buffer keep(machine(), mask), all(machine(), generated * kUnionChannels * dtype_bytes(dtype())),
        sub(machine(), rows * kUnionChannels * dtype_bytes(dtype())),
        kept(machine(), rows * kUnionChannels * dtype_bytes(dtype()));
    check(run_arrays(execution.get(),
                     {features_on(input, rows), array_of(keep.data(), {generated, 1}, MINUET_ELEMENT_U8)},
                     {features_on(all, generated), features_on(sub, rows), features_on(kept, rows)}));
    int64_t kept_rows = 0;
    check(minuet_execution_output_shape_of(execution.get(), 2, &kept_rows, &channels));
    ASSERT_EQ(kept_rows, rows);
    EXPECT_TRUE(is_same(rows_of(coordinates_of(2, rows), kept.read<char>(), 3),
                        rows_of(coordinates_of(1, rows), sub.read<char>(), 3)));
  }
}

/// Dense tensors have the shape of spconv's SparseConvTranspose3d: (3 - 1) * 2 - 2 + 2 + 1 + 1 cells of x and
/// (4 - 1) * 2 + 1 + 1 of y.
TEST_P(GenerativeTest, DenseTensorsHaveItsShape) {
  NetworkSpec spec;
  spec.dtype = dtype();
  spec.description = R"({"name": "n", "ndim": 2, "in_channels": 4, "shape": [5, 7], "layers": [
    {"op": "block", "name": "d", "out_channels": 4, "kernel_size": 2, "stride": 2},
    {"op": "generative_up", "name": "u", "out_channels": 4, "kernel_size": [3, 2], "stride": 2, "rule": "reached",
     "padding": [1, 0], "output_padding": [1, 0]}, {"op": "to_dense"}]})";
  const Plan plan = make_network(machine(), spec);
  const minuet_tensor_info info = output_of(plan.get(), 0);
  EXPECT_THAT(std::vector<int64_t>(info.shape + 1, info.shape + info.rank), testing::ElementsAre(4, 6, 8));
}

TEST_P(GenerativeTest, MistakesAreRefusedWithTheirPlace) {
  const auto refused = [&](const std::string& fields, const char* words, const std::string& shape = "") {
    NetworkSpec spec;
    spec.description =
        R"({"name": "n", "ndim": 3, "in_channels": 4, )" + shape +
        R"("layers": [{"op": "block", "name": "d", "out_channels": 4, "kernel_size": 2, "stride": 2},
                       {"op": "generative_up", "name": "u", "out_channels": 4, )" +
        fields + "}]}";
    Plan plan(nullptr, {minuet_plan_destroy});
    EXPECT_EQ(create_network(machine(), spec, plan), MINUET_INVALID_ARGUMENT) << fields;
    EXPECT_THAT(last_error(), HasSubstr(words));
  };
  refused(R"("stride": 3)", "layers[1].stride: ");
  refused(R"("stride": [2, 2, 4])", "axis 2: the tensor stride of the layer's input is 2");
  refused(R"("padding": 1)", "layers[1].padding: ");
  refused(R"("output_padding": 1)", "layers[1].output_padding: ");
  refused(R"("rule": "reached", "output_padding": -1)", "layers[1].output_padding: ");
  refused(R"("rule": "reached", "output_padding": [1, 2])", "layers[1].output_padding: ");
  refused(R"("rule": "reached", "padding": 4)", "an input of 2 cells gives -6 cells",
          R"("shape": [4, 4, 4], )");
  refused(R"("onto": "d")", "\"onto\" is not a field of the op generative_up");
  const auto refused_whole = [&](const std::string& layers, const char* place, const char* words) {
    NetworkSpec spec;
    spec.description = R"({"name": "n", "ndim": 3, "in_channels": 4, "layers": [)" + layers + "]}";
    Plan plan(nullptr, {minuet_plan_destroy});
    EXPECT_EQ(create_network(machine(), spec, plan), MINUET_INVALID_ARGUMENT) << layers;
    EXPECT_THAT(last_error(), HasSubstr(place));
    EXPECT_THAT(last_error(), HasSubstr(words));
  };
  refused_whole(R"({"op": "global_pool", "name": "g", "reduction": "max"},
                   {"op": "generative_up", "name": "u", "out_channels": 4})",
                "layers[1].op: ", "the layer's input has one row for each batch item");
  refused_whole(R"({"op": "max_pool", "name": "a", "stride": 4096, "output": "a"},
                   {"op": "max_pool", "name": "b", "input": "input", "stride": 8191},
                   {"op": "intersection", "name": "c", "with": "a"})",
                "layers[2].with: ", "the tensor stride 33550336");
}

MINUET_INSTANTIATE_DEVICE_TEST(GenerativeTest);

}  // namespace
}  // namespace minuet::abi
