// The op union: sums of features on levels that have the coordinates of two others. On every device and in
// every dtype, exact, within capacities and on pyramids, with maps by an index and by sorting. The expected
// values of unions are single sums, so they are compared exactly.
#include <map>

#include "tests/runtime/execution/pyramid_fixture.h"
#include "tests/support/clouds.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

using Coordinate = std::vector<int32_t>;                       // batch, then the axes
using FeatureRows = std::map<Coordinate, std::vector<float>>;  // the features of each coordinate

constexpr int kUnionChannels = 4;

std::string random_list(Random& random, int ndim, int least, int most) {
  std::string text;
  for (int a = 0; a < ndim; ++a) text += (a > 0 ? ", " : "[") + std::to_string(random.between(least, most));
  return text + "]";
}

/// Draws poolings and unions. Result i is called "r<i>", and number -1 is the input.
struct UnionGraph {
  struct Sum {
    int result, first, second;
  };
  int ndim = 3, results = 0;
  std::string layers;
  std::vector<Sum> unions;
  std::vector<int32_t> shape;             // empty where there is none
  std::vector<std::string> more_outputs;  // follow the results r0, r1, ...

  static std::string name_of(int result) { return result < 0 ? "input" : "r" + std::to_string(result); }
  void add(const std::string& fields) {
    const std::string name = name_of(results++);
    layers += (layers.empty() ? "" : ", ") + (R"({"name": ")" + name + R"(", "output": ")" + name + "\", ") +
              fields + "}";
  }
  void add_pool(int input, const std::string& fields) {
    add(R"("op": "max_pool", "input": ")" + name_of(input) + "\", " + fields);
  }
  void add_union(int first, int second) {
    unions.push_back({results, first, second});
    add(R"("op": "union", "input": ")" + name_of(first) + R"(", "with": ")" + name_of(second) + "\"");
  }
  std::string text() const {
    std::string outputs, cells;
    for (int i = 0; i < results; ++i) outputs += (i > 0 ? ", \"" : "\"") + name_of(i) + "\"";
    for (const std::string& each : more_outputs) outputs += ", \"" + each + "\"";
    for (const int32_t each : shape)
      cells += (cells.empty() ? R"(, "shape": [)" : ", ") + std::to_string(each);
    return R"({"name": "n", "ndim": )" + std::to_string(ndim) + R"(, "in_channels": 4, "outputs": [)" +
           outputs + "]" + cells + (cells.empty() ? "" : "]") + R"(, "layers": [)" + layers + "]}";
  }
};

UnionGraph draw_union_graph(Random& random, int ndim) {
  UnionGraph graph;
  graph.ndim = ndim;
  for (int a = 0; a < ndim && ndim % 2 == 1; ++a)
    graph.shape.push_back(static_cast<int32_t>(random.between(9, 14)));
  const int count = static_cast<int>(random.between(5, 9));
  while (graph.results < count) {
    const auto any = [&] {
      return static_cast<int>(random.below(static_cast<uint64_t>(graph.results) + 1)) - 1;
    };
    const int input = any();
    if (graph.results > 1 && (random.below(2) == 0 || graph.results + 1 == count)) {
      graph.add_union(input, any());
      continue;
    }
    const bool is_reached = random.below(2) == 0;
    graph.add_pool(
        input,
        R"("kernel_size": )" + random_list(random, ndim, 1, 3) + R"(, "stride": )" +
            random_list(random, ndim, 1, 3) +
            (is_reached ? R"(, "rule": "reached", "padding": )" + random_list(random, ndim, 0, 1) : ""));
  }
  return graph;
}

/// About `count` voxels of batch items 0 and 2, inside of the shape, or around 0 if there is none.
std::vector<int32_t> draw_cloud(const UnionGraph& graph, Random& random, int64_t count) {
  std::set<Coordinate> cells;
  for (int64_t i = 0; i < count; ++i) {
    Coordinate cell{random.below(2) == 0 ? 0 : 2};
    for (int a = 0; a < graph.ndim; ++a) {
      cell.push_back(static_cast<int32_t>(
          graph.shape.empty() ? random.between(-9, 9)
                              : random.below(static_cast<uint64_t>(graph.shape[static_cast<size_t>(a)]))));
    }
    cells.insert(cell);
  }
  std::vector<int32_t> coordinates;
  for (const Coordinate& cell : cells) coordinates.insert(coordinates.end(), cell.begin(), cell.end());
  return coordinates;
}

/// Names the first difference only, because the whole levels are long.
testing::AssertionResult is_same(const FeatureRows& rows, const FeatureRows& expected) {
  if (rows == expected) return testing::AssertionSuccess();
  const auto [a, b] = std::mismatch(rows.begin(), rows.end(), expected.begin(), expected.end());
  testing::AssertionResult failure = testing::AssertionFailure()
                                     << rows.size() << " rows, expected " << expected.size() << "; ";
  if (a != rows.end()) failure << testing::PrintToString(*a);
  failure << " instead of ";
  if (b != expected.end()) failure << testing::PrintToString(*b);
  return failure;
}

class UnionTest : public DeviceTest {
 protected:
  NetworkSpec spec_of(const UnionGraph& graph) const {
    NetworkSpec spec;
    spec.description = graph.text(), spec.dtype = dtype();
    return spec;
  }
  Plan plan_of(const UnionGraph& graph) { return make_network(machine(), spec_of(graph)); }
  /// Draws until the library takes the graph: a shape may become too small for a kernel.
  Plan draw_plan(Random& random, int ndim, UnionGraph& graph) {
    for (int tries = 0; tries < 100; ++tries) {
      graph = draw_union_graph(random, ndim);
      Plan plan(nullptr, {minuet_plan_destroy});
      if (create_network(machine(), spec_of(graph), plan) == MINUET_OK) return plan_of(graph);
      EXPECT_NE(std::string(last_error()).find("cells of the output"), std::string::npos)
          << last_error() << graph.text();
    }
    ADD_FAILURE() << "no graph fits";
    return Plan(nullptr, {minuet_plan_destroy});
  }
  static minuet_execution_options options_of(minuet_map_method method) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.map_method = method;
    return options;
  }
  std::vector<char> features_of(const UnionGraph& graph, const std::vector<int32_t>& cloud) const {
    const auto rows = static_cast<int64_t>(cloud.size()) / (1 + graph.ndim);
    return encode(dtype(), oracle::draw_features(rows * kUnionChannels, 17));
  }
  std::vector<NetworkRun> run(const UnionGraph& graph, minuet_plan* plan, const std::vector<int32_t>& cloud,
                              minuet_map_method method) {
    const minuet_execution_options options = options_of(method);
    const Execution execution = make_execution(machine(), plan, &options);
    return run_graph(machine(), plan, execution.get(), cloud, {features_of(graph, cloud)}, dtype(),
                     graph.ndim);
  }
  FeatureRows rows_of(const std::vector<int32_t>& coordinates, const std::vector<char>& bytes,
                      int ndim) const {
    const std::vector<float> values = decode(dtype(), bytes);
    const auto fields = static_cast<size_t>(ndim) + 1;
    FeatureRows rows;
    for (size_t row = 0; row * fields < coordinates.size(); ++row) {
      const auto at = coordinates.begin() + static_cast<std::ptrdiff_t>(row * fields);
      const auto value = values.begin() + static_cast<std::ptrdiff_t>(row * kUnionChannels);
      const bool is_new = rows.emplace(Coordinate(at, at + static_cast<std::ptrdiff_t>(fields)),
                                       std::vector<float>(value, value + kUnionChannels))
                              .second;
      EXPECT_TRUE(is_new) << "row " << row << " repeats a coordinate";
    }
    return rows;
  }
  /// out[q] = first[q] + second[q], rounded once, where a level without the row counts as 0.
  FeatureRows sum_of(const FeatureRows& first, const FeatureRows& second) const {
    FeatureRows sum = first;
    for (const auto& [cell, values] : second) {
      std::vector<float>& to = sum.emplace(cell, std::vector<float>(kUnionChannels)).first->second;
      for (size_t c = 0; c < kUnionChannels; ++c) to[c] += values[c];
      to = round_to(dtype() == DType::TF32 ? DType::F32 : dtype(), std::move(to));  // nothing is multiplied
    }
    return sum;
  }
  /// Returns how many unions have a row that only one of their parents has.
  int check_unions(const UnionGraph& graph, const std::vector<NetworkRun>& runs,
                   const std::vector<int32_t>& cloud) {
    const auto rows_at = [&](int result) {
      if (result < 0) return rows_of(cloud, features_of(graph, cloud), graph.ndim);
      const NetworkRun& run = runs[static_cast<size_t>(result)];
      return rows_of(run.coordinates, run.bytes, graph.ndim);
    };
    int proper = 0;
    for (const UnionGraph::Sum& each : graph.unions) {
      const FeatureRows first = rows_at(each.first), second = rows_at(each.second),
                        sum = sum_of(first, second);
      EXPECT_TRUE(is_same(rows_at(each.result), sum))
          << UnionGraph::name_of(each.result) << " of " << graph.text();
      if (sum.size() > std::max(first.size(), second.size())) ++proper;
    }
    return proper;
  }
  /// Runs a plan whose execution or pyramid has these capacities, and expects the bytes of `exact`, with
  /// zeros behind them.
  void expect_within(
      const UnionGraph& graph, minuet_plan* plan, const Capacities& capacities,
      const std::vector<int32_t>& cloud, const std::vector<NetworkRun>& exact,
      const std::function<void(const std::vector<minuet_array>&, const std::vector<minuet_array>&)>& run) {
    std::vector<char> padded = features_of(graph, cloud);
    padded.resize(static_cast<size_t>(capacities[0]) * kUnionChannels * dtype_bytes(dtype()), '\xff');
    const Buffer input(machine(), padded);
    std::deque<Buffer> outputs;
    std::vector<minuet_array> out;
    for (size_t i = 0; i < exact.size(); ++i) {
      const minuet_tensor_info info = output_of(plan, static_cast<int32_t>(i));
      const int64_t rows = capacities[static_cast<size_t>(info.level)];
      Buffer& output = outputs.emplace_back(machine(), rows * info.channels * dtype_bytes(dtype()));
      output.poison();
      out.push_back(array_of(tensor(output, rows, info.channels, dtype())));
    }
    run({array_of(tensor(input, capacities[0], kUnionChannels, dtype()))}, out);
    for (size_t i = 0; i < exact.size(); ++i) {
      std::vector<char> expected = exact[i].bytes;
      expected.resize(static_cast<size_t>(outputs[i].bytes()));
      EXPECT_EQ(outputs[i].read<char>(), expected) << UnionGraph::name_of(static_cast<int>(i));
    }
  }
};

/// Unions of levels by both rules, of unions, and of the input, whose strides need not divide each other.
TEST_P(UnionTest, HasTheRowsOfBothLevels) {
  const uint64_t seeds = machine().is_software() ? 1 : 8;
  int proper = 0;
  for (int ndim = 1; ndim <= 4; ++ndim) {
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      Random random(100 * seed + static_cast<uint64_t>(ndim));
      UnionGraph graph;
      const Plan plan = draw_plan(random, ndim, graph);
      SCOPED_TRACE(graph.text());
      for (const int64_t count : {50, 0, 1}) {
        const std::vector<int32_t> cloud = draw_cloud(graph, random, count);
        for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
          const std::vector<NetworkRun> runs = run(graph, plan.get(), cloud, method);
          proper += check_unions(graph, runs, cloud);
          EXPECT_EQ(run(graph, plan.get(), cloud, method), runs) << "again";
        }
      }
    }
  }
  EXPECT_GT(proper, 0);
}

/// Strides that do not divide each other. The last cells of the union come from either level.
UnionGraph strided_graph() {
  UnionGraph graph;
  graph.shape = {13, 12, 30};
  graph.add_pool(-1, R"("kernel_size": 1, "stride": [4, 3, 8])");
  graph.add_pool(-1, R"("kernel_size": 1, "stride": [6, 2, 4])");
  graph.add_union(0, 1);
  graph.add_union(1, 0);
  return graph;
}

/// The tensor stride is the greatest common divisor on each axis.
TEST_P(UnionTest, LevelsTellTheirStrides) {
  const UnionGraph graph = strided_graph();
  const Plan plan = plan_of(graph);
  Random random(3);
  const std::vector<int32_t> cloud = draw_cloud(graph, random, 60);
  const std::vector<NetworkRun> runs = run(graph, plan.get(), cloud, MINUET_MAPS_INDEXED);
  check_unions(graph, runs, cloud);
  EXPECT_EQ(runs[2], runs[3]) << "the order of both levels changes nothing";
  const minuet_tensor_info info = output_of(plan.get(), 2);
  EXPECT_EQ(info.level, output_of(plan.get(), 3).level);
  const int32_t expected[] = {2, 1, 4};
  for (int a = 0; a < 3; ++a) EXPECT_EQ(info.tensor_stride[a], expected[a]);
}

/// The shape ends with the last cell of the level that reaches farther: the last cells of the levels are at
/// 3 * [4, 3, 8] and at [2, 5, 7] * [6, 2, 4], in units of [2, 1, 4]. Dense tensors have this shape, and the
/// union's features in its cells.
TEST_P(UnionTest, DenseTensorsHaveItsShape) {
  UnionGraph graph = strided_graph();
  graph.layers += R"(, {"op": "to_dense", "input": "r2", "output": "dense"},
      {"op": "birds_eye", "input": "r2", "image_axes": [1, 0], "output": "image"})";
  const Plan sparse = plan_of(strided_graph());
  graph.more_outputs = {"dense", "image"};
  const Plan plan = plan_of(graph);
  constexpr int64_t kBatch = 3, kX = 7, kY = 11, kZ = 8;
  const std::vector<std::vector<int64_t>> shapes = {{kBatch, kUnionChannels, kX, kY, kZ},
                                                    {kBatch, kUnionChannels * kZ, kY, kX}};
  for (int32_t i = 0; i < 2; ++i) {
    const minuet_tensor_info info = output_of(plan.get(), 4 + i);
    const std::vector<int64_t>& shape = shapes[static_cast<size_t>(i)];
    EXPECT_THAT(std::vector<int64_t>(info.shape + 1, info.shape + info.rank),
                testing::ElementsAreArray(shape.begin() + 1, shape.end()));
  }
  Random random(6);
  std::vector<int32_t> cloud = draw_cloud(graph, random, 60);
  cloud.insert(cloud.end(), {2, 12, 11, 29});
  for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
    const std::vector<NetworkRun> runs = run(strided_graph(), sparse.get(), cloud, method);
    std::vector<float> dense(static_cast<size_t>(kBatch * kUnionChannels * kX * kY * kZ)), image = dense;
    std::array<int64_t, 3> last{};
    for (const auto& [cell, values] : rows_of(runs[2].coordinates, runs[2].bytes, 3)) {
      const int64_t x = cell[1] / 2, y = cell[2], z = cell[3] / 4;
      last = {std::max(last[0], x), std::max(last[1], y), std::max(last[2], z)};
      for (int64_t c = 0; c < kUnionChannels; ++c) {
        const int64_t channel = cell[0] * kUnionChannels + c;
        const float value = values[static_cast<size_t>(c)];
        dense.at(static_cast<size_t>(((channel * kX + x) * kY + y) * kZ + z)) = value;
        image.at(static_cast<size_t>(((channel * kZ + z) * kY + y) * kX + x)) = value;
      }
    }
    EXPECT_EQ(last, (std::array<int64_t, 3>{kX - 1, kY - 1, kZ - 1})) << "the cloud has the last cells";
    minuet_execution_options options = options_of(method);
    options.batch_size = kBatch;
    const Execution execution = make_execution(machine(), plan.get(), &options);
    check(prepare(machine(), execution.get(), cloud));
    const std::vector<char> features = features_of(graph, cloud);
    const Buffer input(machine(), features);
    const auto rows = static_cast<int64_t>(cloud.size()) / 4;
    std::deque<Buffer> memory;
    std::vector<minuet_array> outputs;
    for (const NetworkRun& run : runs) {
      memory.emplace_back(machine(), static_cast<int64_t>(run.bytes.size())).poison();
      outputs.push_back(array_of(tensor(memory.back(), run.rows, run.channels, dtype())));
    }
    for (const std::vector<int64_t>& shape : shapes) {
      memory.emplace_back(machine(), static_cast<int64_t>(dense.size()) * dtype_bytes(dtype())).poison();
      outputs.push_back(array_of(memory.back().data(), shape, outputs.front().element));
    }
    check(run_arrays(execution.get(), {array_of(tensor(input, rows, kUnionChannels, dtype()))}, outputs));
    for (size_t i = 0; i < runs.size(); ++i) EXPECT_EQ(memory[i].read<char>(), runs[i].bytes);
    EXPECT_EQ(decode(dtype(), memory[4].read<char>()), dense);
    EXPECT_EQ(decode(dtype(), memory[5].read<char>()), image);
  }
}

/// The union with a level that has no row is the identity.
TEST_P(UnionTest, AnEmptyLevelAddsNothing) {
  UnionGraph graph;
  graph.shape = {12, 12, 12};
  // A kernel of one offset reaches the even coordinates only.
  graph.add_pool(-1, R"("kernel_size": 1, "stride": 2, "rule": "reached")");
  graph.add_pool(-1, R"("kernel_size": 1, "stride": [2, 1, 1], "rule": "reached")");
  graph.add_union(-1, 0);
  graph.add_union(0, -1);
  graph.add_union(0, 1);
  const Plan plan = plan_of(graph);
  Random random(4);
  std::vector<int32_t> cloud = draw_cloud(graph, random, 40);
  for (size_t i = 1; i < cloud.size(); i += 4) cloud[i] = cloud[i] / 2 * 2 + 1;
  std::set<Coordinate> cells;
  for (size_t i = 0; i < cloud.size(); i += 4)
    cells.insert({cloud[i], cloud[i + 1], cloud[i + 2], cloud[i + 3]});
  cloud.clear();
  for (const Coordinate& cell : cells) cloud.insert(cloud.end(), cell.begin(), cell.end());
  const FeatureRows input = rows_of(cloud, features_of(graph, cloud), 3);
  for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
    const std::vector<NetworkRun> runs = run(graph, plan.get(), cloud, method);
    ASSERT_EQ(runs[0].rows, 0);
    ASSERT_EQ(runs[1].rows, 0);
    EXPECT_TRUE(is_same(rows_of(runs[2].coordinates, runs[2].bytes, 3), input));
    EXPECT_EQ(runs[3], runs[2]);
    EXPECT_EQ(runs[4].rows, 0);
  }
}

/// A convolution of kernel size 3, in fp64, over a level whose tensor stride is 2 on each axis.
std::vector<double> convolved(const FeatureRows& rows, const std::vector<float>& weight) {
  std::vector<double> result;
  for (const auto& [cell, unused] : rows) {
    std::vector<double> sum(kUnionChannels);
    for (int k = 0; k < 27; ++k) {
      const auto from = rows.find(
          {cell[0], cell[1] + 2 * (k / 9 - 1), cell[2] + 2 * (k / 3 % 3 - 1), cell[3] + 2 * (k % 3 - 1)});
      if (from == rows.end()) continue;
      for (size_t i = 0; i < kUnionChannels; ++i)
        for (size_t o = 0; o < kUnionChannels; ++o)
          sum[o] +=
              static_cast<double>(from->second[i]) *
              static_cast<double>(weight[(static_cast<size_t>(k) * kUnionChannels + i) * kUnionChannels + o]);
    }
    result.insert(result.end(), sum.begin(), sum.end());
  }
  return result;
}

/// Layers below a union read its level as any other: poolings, ways back, convolutions, and sums with other
/// tensors of the level.
TEST_P(UnionTest, OtherLayersReadTheLevel) {
  UnionGraph graph;
  graph.shape = {14, 10, 12};
  graph.add_pool(-1, R"("kernel_size": 3, "stride": 2, "rule": "reached", "padding": 1)");
  graph.add_pool(0, R"("kernel_size": 3, "stride": 2, "rule": "reached", "padding": 1)");
  graph.add_union(0, 1);
  graph.add_pool(2, R"("kernel_size": 2, "stride": 2)");
  graph.add(R"("op": "upsample", "input": "r3", "onto": "r2")");
  graph.add(R"("op": "block", "input": "r2", "kernel_size": 3, "out_channels": 4, "norm": "none",
      "activation": "none")");
  graph.add_union(2, 4);
  graph.layers += R"(, {"op": "union", "name": "same", "input": "r0", "with": "r0", "output": "twice"},
      {"op": "relu", "input": "r2"}, {"op": "add", "with": "r4", "output": "sum"})";
  graph.more_outputs = {"twice", "sum"};
  Random random(5);
  FileTensor weight{{27, kUnionChannels, kUnionChannels}, {}};
  for (int i = 0; i < 27 * kUnionChannels * kUnionChannels; ++i)
    weight.values.push_back(static_cast<float>(random.between(-8, 8)) / 8);
  const TemporaryPath file("union.safetensors");
  write_safetensors(file.path(), {{"r5.conv.weight", weight}});
  NetworkSpec spec = spec_of(graph);
  spec.weights = file.path();
  const Plan plan = make_network(machine(), spec);
  EXPECT_EQ(output_of(plan.get(), 2).level, output_of(plan.get(), 6).level) << "a union with itself";
  EXPECT_EQ(output_of(plan.get(), 0).level, output_of(plan.get(), 7).level);
  const std::vector<int32_t> cloud = draw_cloud(graph, random, machine().is_software() ? 20 : 100);
  for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
    const std::vector<NetworkRun> runs = run(graph, plan.get(), cloud, method);
    check_unions(graph, runs, cloud);
    const auto rows_at = [&](size_t i) { return rows_of(runs[i].coordinates, runs[i].bytes, 3); };
    const FeatureRows both = rows_at(2), below = rows_at(3), back = rows_at(4);
    EXPECT_TRUE(is_same(rows_at(7), sum_of(rows_at(0), rows_at(0))));
    FeatureRows pooled, copied, rectified = both;
    for (const auto& [cell, values] : both) {
      Coordinate coarse = cell;
      for (size_t a = 1; a < 4; ++a) coarse[a] = cell[a] / 4 * 4;
      std::vector<float>& most = pooled.emplace(coarse, values).first->second;
      for (size_t c = 0; c < kUnionChannels; ++c) most[c] = std::max(most[c], values[c]);
    }
    EXPECT_TRUE(is_same(below, pooled));
    for (const auto& [cell, values] : both) {
      Coordinate coarse = cell;
      for (size_t a = 1; a < 4; ++a) coarse[a] = cell[a] / 4 * 4;
      copied[cell] = pooled[coarse];
      for (float& value : rectified[cell]) value = std::max(value, 0.0f);
    }
    EXPECT_TRUE(is_same(back, copied));
    EXPECT_TRUE(is_same(rows_at(8), sum_of(rectified, back)));
    std::vector<float> block;
    for (const auto& [cell, values] : rows_at(5)) block.insert(block.end(), values.begin(), values.end());
    EXPECT_TRUE(is_close(block, convolved(both, weight.values), kUnionChannels, error_bound(dtype())));
  }
}

/// Exact mode reserves memory for the usual number of rows. Isolated voxels make unions larger than that.
TEST_P(UnionTest, MoreRowsThanUsual) {
  UnionGraph graph;
  graph.add_pool(-1, R"("kernel_size": 3, "rule": "reached", "padding": 1)");
  graph.add_pool(-1, R"("kernel_size": 3, "dilation": 2, "rule": "reached", "padding": 2)");
  graph.add_union(0, 1);
  const Plan plan = plan_of(graph);
  std::vector<int32_t> cloud;
  const int side = machine().is_software() ? 2 : 7;
  for (int x = 0; x < side; ++x)
    for (int y = 0; y < side; ++y)
      for (int z = 0; z < side; ++z) cloud.insert(cloud.end(), {0, 20 * x, 20 * y, -20 * z});
  for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
    const std::vector<NetworkRun> runs = run(graph, plan.get(), cloud, method);
    EXPECT_EQ(check_unions(graph, runs, cloud), 1);
    EXPECT_EQ(runs[2].rows, side * side * side * (2 * 27 - 1));
  }
}

TEST_P(UnionTest, WithinCapacitiesAndOnPyramids) {
  int proper = 0;
  for (const uint64_t seed : {1u, 2u, 3u}) {
    Random random(seed);
    UnionGraph graph;
    const Plan plan = draw_plan(random, 3, graph);
    SCOPED_TRACE(graph.text());
    const std::vector<int32_t> cloud = draw_cloud(graph, random, 60);
    Capacities capacities(static_cast<size_t>(info_of(plan.get()).levels));
    const auto count = static_cast<int32_t>(capacities.size());
    for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
      minuet_execution_options options = options_of(method);
      const Execution first = make_execution(machine(), plan.get(), &options);
      check(prepare(machine(), first.get(), cloud));
      check(minuet_execution_suggest_capacities(first.get(), 1.0, capacities.data(), count));
      const std::vector<NetworkRun> exact = run(graph, plan.get(), cloud, method);
      proper += check_unions(graph, exact, cloud);
      options.level_capacity = capacities.data();
      options.level_count = count;
      const Execution within = make_execution(machine(), plan.get(), &options);
      const auto run_once = [&](const std::vector<minuet_array>& in, const std::vector<minuet_array>& out) {
        check(prepare(machine(), within.get(), cloud));
        check(run_arrays(within.get(), in, out));
      };
      expect_within(graph, plan.get(), capacities, cloud, exact, run_once);
      expect_within(graph, plan.get(), capacities, cloud, exact, run_once);
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
  EXPECT_GT(proper, 0);
}

/// The order of the layers numbers the parents of a union, but it has the same rows: the pyramid of either
/// network serves both, and contains the coordinates of the union.
TEST_P(UnionTest, APyramidServesEveryOrderOfTheLayers) {
  const std::string coarse = R"("kernel_size": 1, "stride": 4)",
                    dilated = R"("kernel_size": 3, "dilation": 2, "padding": 2, "rule": "reached")";
  std::array<UnionGraph, 2> graphs;
  graphs[0].add_pool(-1, coarse), graphs[0].add_pool(-1, dilated);
  graphs[1].add_pool(-1, dilated), graphs[1].add_pool(-1, coarse);
  for (UnionGraph& graph : graphs) graph.add_union(0, 1);
  const std::array<Plan, 2> plans = {plan_of(graphs[0]), plan_of(graphs[1])};
  Random random(7);
  const std::vector<int32_t> cloud = draw_cloud(graphs[0], random, 30);
  const Capacities capacities(4, 1024);
  for (const Plan& of : plans) {
    minuet_pyramid_options of_network = MINUET_PYRAMID_OPTIONS_INIT;
    of_network.network = of.get();
    of_network.level_capacity = capacities.data();
    of_network.level_count = 4;
    of_network.keep_coordinates = 1u << 3;
    TestPyramid pyramid(machine(), of_network);
    pyramid.build(cloud);
    for (size_t i = 0; i < 2; ++i) {
      const std::vector<NetworkRun> exact = run(graphs[i], plans[i].get(), cloud, MINUET_MAPS_INDEXED);
      EXPECT_EQ(check_unions(graphs[i], exact, cloud), 1);
      expect_within(graphs[i], plans[i].get(), capacities, cloud, exact,
                    [&](const std::vector<minuet_array>& in, const std::vector<minuet_array>& out) {
                      run_on(machine(), plans[i].get(), pyramid.run_arguments(), in, out);
                    });
      Buffer kept(machine(), capacities[3] * 16);
      kept.poison();
      check(minuet_pyramid_coordinates(pyramid.get(), machine().device(), pyramid.buffer().data(),
                                       pyramid.buffer().bytes(), 3, static_cast<int32_t*>(kept.data()),
                                       nullptr));
      std::vector<int32_t> expected = exact[2].coordinates;
      expected.resize(static_cast<size_t>(capacities[3] * 4));
      EXPECT_EQ(kept.read<int32_t>(), expected);
    }
  }
}

/// Each union has two ways to every level before it. The time must not grow with the number of ways.
TEST_P(UnionTest, DeeplyNested) {
  UnionGraph graph;
  graph.add_pool(-1, R"("kernel_size": 1, "stride": 2)");
  for (int i = 0; i < 40; ++i) {
    const int last = graph.results - 1;
    graph.add_pool(last, R"("kernel_size": 1, "rule": "reached")");
    graph.add_union(last, last + 1);
  }
  const Plan plan = plan_of(graph);
  const std::vector<int32_t> cloud = {0, 2, 4, 6, 0, 1, 5, 9};
  check_unions(graph, run(graph, plan.get(), cloud, MINUET_MAPS_INDEXED), cloud);
  const Capacities capacities(static_cast<size_t>(info_of(plan.get()).levels), 8);
  minuet_pyramid_options of_network = MINUET_PYRAMID_OPTIONS_INIT;
  of_network.network = plan.get();
  of_network.level_capacity = capacities.data();
  of_network.level_count = static_cast<int32_t>(capacities.size());
  for (const uint32_t kept : {0u, 1u << 20}) {
    of_network.keep_coordinates = kept;
    minuet_pyramid* pyramid = nullptr;
    EXPECT_EQ(minuet_pyramid_create(machine().context(), &of_network, &pyramid), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), testing::HasSubstr("the pyramid has 82 levels; it must have 1 to 16")) << kept;
  }
}

/// A union with more rows than its capacity makes the cloud fail, and the next cloud succeeds.
TEST_P(UnionTest, PastItsCapacity) {
  UnionGraph graph;
  graph.add_pool(-1, R"("kernel_size": 1, "stride": 2)");
  graph.add_union(-1, 0);
  const Plan plan = plan_of(graph);
  const std::vector<int32_t> many = {0, 1, 1, 1, 0, 3, 3, 3, 0, 5, 5, 5}, few = {0, 2, 2, 2};
  const Capacities capacities{3, 3, 5};
  for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
    minuet_execution_options options = options_of(method);
    options.level_capacity = capacities.data();
    options.level_count = 3;
    const Execution within = make_execution(machine(), plan.get(), &options);
    for (const bool is_full : {true, false, true}) {
      const std::vector<int32_t>& cloud = is_full ? many : few;
      std::vector<NetworkRun> expected(2);
      if (!is_full) expected = run(graph, plan.get(), cloud, method);
      expect_within(graph, plan.get(), capacities, cloud, expected,
                    [&](const std::vector<minuet_array>& in, const std::vector<minuet_array>& out) {
                      check(prepare(machine(), within.get(), cloud));
                      check(run_arrays(within.get(), in, out));
                    });
      uint32_t status = ~0u;
      check(minuet_execution_read_cloud(within.get(), nullptr, &status, nullptr, 0));
      EXPECT_EQ(status, is_full ? static_cast<uint32_t>(MINUET_CLOUD_PAST_CAPACITY) : 0u);
    }
  }
}

/// A pyramid of other levels does not serve the network.
TEST_P(UnionTest, APyramidWithoutTheUnionIsRefused) {
  UnionGraph graph, other;
  graph.add_pool(-1, R"("kernel_size": 1, "stride": 2)");
  graph.add_union(-1, 0);
  other.add_pool(-1, R"("kernel_size": 1, "stride": 2)");
  const Plan plan = plan_of(graph), without = plan_of(other);
  const Capacities capacities{8, 8};
  minuet_pyramid_options of_network = MINUET_PYRAMID_OPTIONS_INIT;
  of_network.network = without.get();
  of_network.level_capacity = capacities.data();
  of_network.level_count = 2;
  TestPyramid pyramid(machine(), of_network);
  const minuet_run_arguments given = pyramid.run_arguments();
  int64_t bytes = 0;
  EXPECT_EQ(minuet_plan_run_bytes(plan.get(), machine().arch().c_str(), &given, &bytes),
            MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), testing::HasSubstr("that is the union of the same levels"));
}

MINUET_INSTANTIATE_DEVICE_TEST(UnionTest);

}  // namespace
}  // namespace minuet::abi
