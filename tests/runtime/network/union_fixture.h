// Tests of the ops union and intersection share this: graphs of poolings and of these ops, and their expected
// rows. The expected values are single sums, so they are compared exactly.
#pragma once

#include <map>

#include "tests/runtime/execution/pyramid_fixture.h"
#include "tests/support/clouds.h"
#include "tests/support/random.h"

namespace minuet::abi {

using Coordinate = std::vector<int32_t>;                       // batch, then the axes
using FeatureRows = std::map<Coordinate, std::vector<float>>;  // the features of each coordinate

inline constexpr int kUnionChannels = 4;

inline std::string random_list(Random& random, int ndim, int least, int most) {
  std::string text;
  for (int a = 0; a < ndim; ++a) text += (a > 0 ? ", " : "[") + std::to_string(random.between(least, most));
  return text + "]";
}

/// Draws poolings, unions and intersections. Result i is called "r<i>", and number -1 is the input.
struct UnionGraph {
  struct Sum {
    int result, first, second;
    bool is_intersection;
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
  void add_union(int first, int second, bool is_intersection = false) {
    unions.push_back({results, first, second, is_intersection});
    add(std::string(is_intersection ? R"("op": "intersection")" : R"("op": "union")") + R"(, "input": ")" +
        name_of(first) + R"(", "with": ")" + name_of(second) + "\"");
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

inline UnionGraph draw_union_graph(Random& random, int ndim) {
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
      graph.add_union(input, any(), random.below(3) == 0);
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
inline std::vector<int32_t> draw_cloud(const UnionGraph& graph, Random& random, int64_t count) {
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
inline testing::AssertionResult is_same(const FeatureRows& rows, const FeatureRows& expected) {
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
  /// out[q] = first[q] + second[q], rounded once, where a level without the row counts as 0. An intersection
  /// has the rows that both levels have.
  FeatureRows sum_of(const FeatureRows& first, const FeatureRows& second,
                     bool is_intersection = false) const {
    FeatureRows sum = first;
    for (const auto& [cell, values] : first) {
      if (is_intersection && !second.count(cell)) sum.erase(cell);
    }
    for (const auto& [cell, values] : second) {
      if (is_intersection && !sum.count(cell)) continue;
      std::vector<float>& to = sum.emplace(cell, std::vector<float>(kUnionChannels)).first->second;
      for (size_t c = 0; c < kUnionChannels; ++c) to[c] += values[c];
      to = round_to(dtype() == DType::TF32 ? DType::F32 : dtype(), std::move(to));  // nothing is multiplied
    }
    return sum;
  }
  /// Returns how many unions and intersections have neither the rows of one of their parents nor none.
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
                        sum = sum_of(first, second, each.is_intersection);
      EXPECT_TRUE(is_same(rows_at(each.result), sum))
          << UnionGraph::name_of(each.result) << " of " << graph.text();
      if (each.is_intersection ? !sum.empty() && sum.size() < std::min(first.size(), second.size())
                               : sum.size() > std::max(first.size(), second.size())) {
        ++proper;
      }
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

}  // namespace minuet::abi
