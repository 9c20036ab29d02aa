// The op union: sums of features on levels that have the coordinates of two others. On every device and in
// every dtype, with maps by an index and by sorting. union_capacity_test.cc has capacities and pyramids.
#include "tests/runtime/network/union_fixture.h"
#include "tests/support/compare.h"
#include "tests/support/safetensors_writer.h"

namespace minuet::abi {
namespace {

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

/// Features side by side, of different widths: of two levels, and of two results on one level.
TEST_P(UnionTest, PutsFeaturesSideBySide) {
  NetworkSpec spec;
  spec.dtype = dtype();
  spec.description =
      R"({"name": "n", "ndim": 3, "in_channels": 4, "outputs": ["p", "w", "both", "same"], "layers": [
    {"op": "max_pool", "name": "p", "kernel_size": 3, "stride": 2, "rule": "reached", "padding": 1, "output": "p"},
    {"op": "linear", "name": "w", "input": "input", "out_channels": 3, "bias": false, "output": "w"},
    {"op": "union", "name": "b", "input": "p", "with": "w", "combine": "concat", "output": "both"},
    {"op": "union", "name": "s", "input": "input", "with": "w", "combine": "concat", "output": "same"}]})";
  const Plan plan = make_network(machine(), spec);
  Random random(12);
  const std::vector<int32_t> cloud = draw_cloud(UnionGraph{}, random, 60);
  const std::vector<char> features = features_of(UnionGraph{}, cloud);
  using Rows = std::map<Coordinate, std::vector<float>>;
  const auto rows_at = [&](const std::vector<int32_t>& coordinates, const std::vector<char>& bytes,
                           std::ptrdiff_t channels) {
    const std::vector<float> values = decode(dtype(), bytes);
    Rows rows;
    for (std::ptrdiff_t row = 0; row * 4 < static_cast<std::ptrdiff_t>(coordinates.size()); ++row) {
      const auto at = coordinates.begin() + row * 4;
      const auto value = values.begin() + row * channels;
      rows.emplace(Coordinate(at, at + 4), std::vector<float>(value, value + channels));
    }
    return rows;
  };
  const auto side_by_side = [&](const Rows& left, const Rows& right) {
    Rows both;
    for (const auto& [cell, values] : left) {
      std::vector<float>& row = both.emplace(cell, std::vector<float>(7)).first->second;
      std::copy(values.begin(), values.end(), row.begin());
    }
    for (const auto& [cell, values] : right) {
      std::vector<float>& row = both.emplace(cell, std::vector<float>(7)).first->second;
      std::copy(values.begin(), values.end(), row.begin() + 4);
    }
    return both;
  };
  for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
    const minuet_execution_options options = options_of(method);
    const Execution execution = make_execution(machine(), plan.get(), &options);
    const std::vector<NetworkRun> runs =
        run_graph(machine(), plan.get(), execution.get(), cloud, {features}, dtype(), 3);
    const auto result = [&](size_t i) {
      return rows_at(runs[i].coordinates, runs[i].bytes, runs[i].channels);
    };
    EXPECT_EQ(result(2), side_by_side(result(0), result(1)));
    EXPECT_EQ(result(3), side_by_side(rows_at(cloud, features, 4), result(1)));
    EXPECT_GT(runs[2].rows, std::max(runs[0].rows, runs[1].rows));
  }
}

MINUET_INSTANTIATE_DEVICE_TEST(UnionTest);

}  // namespace
}  // namespace minuet::abi
