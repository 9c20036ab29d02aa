// Networks that keep rows of a level, children of rows, or cells of a dense tensor as a new level, on every
// device: exact and within capacities, in batches, and with errors.
#include <gmock/gmock.h>

#include "tests/runtime/execution/stages_rows.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

class StagesPrune : public StagesRowsTest {};

TEST_P(StagesPrune, RowsByScores) {
  const Plan first = plan_of(network_of(kFirst, R"("x", "score")"));
  const Plan second =
      plan_of(R"({"name": "second", "ndim": 3, "inputs": [{"name": "kept", "channels": 8}], "outputs": [)" +
              std::string(kOutputs) + R"(], "layers": [)" + kSecond + "]}");
  for (const size_t top_k : {0, 40}) {
    SCOPED_TRACE(top_k);
    const std::string rule = top_k == 0 ? R"("threshold": 0.25)" : R"("top_k": )" + std::to_string(top_k);
    const Plan whole =
        plan_of(network_of(std::string(kFirst) + R"(, {"op": "prune", "input": "x", "by": "score", )" + rule +
                               R"(, "output": "kept"}, )" + kSecond,
                           kOutputs));
    const Execution execution = execution_of(whole);
    for (const int64_t rows : {300, 1, 0}) {
      SCOPED_TRACE(rows);
      const std::vector<int32_t> coordinates = draw_cells(rows, 3);
      const std::vector<char> features = features_of(coordinates);
      const std::vector<NetworkRun> begun =
          run_graph(machine(), first.get(), execution_of(first).get(), coordinates, {features}, dtype());
      const std::vector<size_t> kept =
          kept_of(values_of(begun[1]), coordinates, {1, 1, 1, 1}, 0.25f, static_cast<int64_t>(top_k));
      if (rows > 100) {
        ASSERT_GT(kept.size(), 10u);
      }
      StagedRun wanted;
      wanted.outputs =
          run_graph(machine(), second.get(), execution_of(second).get(), rows_of(coordinates, 4, kept),
                    {rows_of(begun[0].bytes, 8 * static_cast<size_t>(dtype_bytes(dtype())), kept)}, dtype());
      const StagedRun run = run_exact(whole, execution, coordinates, features, 400);
      for (size_t i = 0; i < 3; ++i) EXPECT_EQ(run.outputs[i], wanted.outputs[i]) << i;
      expect_within(whole, coordinates, features, 400, wanted);
    }
  }
}

/// Two tensors come onto one level, and the second one comes from there onto a further level.
TEST_P(StagesPrune, SeveralTensorsAndLevels) {
  const std::string layers = std::string(kFirst) +
                             R"(, {"op": "prune", "input": "x", "by": "score", "output": "kept"},
      {"op": "prune", "input": "input", "by": "score", "output": "given"},
      {"op": "concat", "input": "kept", "with": "given", "output": "both"},
      {"op": "linear", "name": "t", "input": "both", "out_channels": 1, "output": "again"},
      {"op": "prune", "input": "given", "by": "again", "top_k": 9, "output": "last"},
      {"op": "block", "name": "e", "input": "last", "out_channels": 4, "kernel_size": 3, "output": "end"})";
  const Plan whole = plan_of(network_of(layers, R"("both", "again", "end")"));
  const std::vector<int32_t> coordinates = draw_cells(200, 4);
  const std::vector<char> features = features_of(coordinates);
  const StagedRun run = run_exact(whole, execution_of(whole), coordinates, features, 200);
  const Plan first = plan_of(network_of(kFirst, R"("x", "score")"));
  const std::vector<NetworkRun> begun =
      run_graph(machine(), first.get(), execution_of(first).get(), coordinates, {features}, dtype());
  const std::vector<size_t> kept = kept_of(values_of(begun[1]), coordinates, {1, 1, 1, 1}, 0, 0);
  const auto size = static_cast<size_t>(dtype_bytes(dtype()));
  const std::vector<char> kept_x = rows_of(begun[0].bytes, 8 * size, kept),
                          given = rows_of(features, 4 * size, kept);
  std::vector<char> both;
  for (size_t i = 0; i < kept.size(); ++i) {
    both.insert(both.end(), kept_x.begin() + static_cast<std::ptrdiff_t>(8 * size * i),
                kept_x.begin() + static_cast<std::ptrdiff_t>(8 * size * (i + 1)));
    both.insert(both.end(), given.begin() + static_cast<std::ptrdiff_t>(4 * size * i),
                given.begin() + static_cast<std::ptrdiff_t>(4 * size * (i + 1)));
  }
  const std::vector<int32_t> kept_cells = rows_of(coordinates, 4, kept);
  EXPECT_EQ(run.outputs[0].coordinates, kept_cells);
  EXPECT_EQ(run.outputs[0].bytes, both);
  const std::vector<size_t> last = kept_of(values_of(run.outputs[1]), kept_cells, {1, 1, 1, 1}, 0, 9);
  const Plan end = plan_of(network_of(
      R"({"op": "block", "name": "e", "out_channels": 4, "kernel_size": 3, "output": "end"})", R"("end")"));
  EXPECT_EQ(run.outputs[2], run_graph(machine(), end.get(), execution_of(end).get(),
                                      rows_of(kept_cells, 4, last), {rows_of(given, 4 * size, last)}, dtype())
                                .front());
  expect_within(whole, coordinates, features, 256, run);
}

/// The children of a pooled level, with the features of their parents, or with their part of them.
TEST_P(StagesPrune, ChildrenByScores) {
  const std::string first =
      R"({"op": "block", "name": "a", "out_channels": 16, "kernel_size": 2, "stride": 2, "output": "x"},
      {"op": "linear", "name": "s", "out_channels": 8, "output": "score"})";
  const auto size = static_cast<size_t>(dtype_bytes(dtype()));
  const Plan begin = plan_of(network_of(first, R"("x", "score")"));
  for (const bool divides : {false, true}) {
    SCOPED_TRACE(divides);
    const size_t channels = divides ? 2 : 16;
    const std::string second =
        R"({"op": "block", "name": "b", "input": "kept", "out_channels": 8, "kernel_size": 3, "output": "y"})";
    const Plan whole = plan_of(network_of(
        first + R"(, {"op": "subdivide", "input": "x", "by": "score", "threshold": 0.5, "features": ")" +
            (divides ? "channel_to_space" : "copy") + R"(", "output": "kept"}, )" + second,
        R"("y")"));
    const Plan end =
        plan_of(R"({"name": "second", "ndim": 3, "inputs": [{"name": "kept", "channels": )" +
                std::to_string(channels) + R"(}], "outputs": ["y"], "layers": [)" + second + "]}");
    const std::vector<int32_t> coordinates = draw_cells(300, 6);
    const std::vector<char> features = features_of(coordinates);
    const std::vector<NetworkRun> begun =
        run_graph(machine(), begin.get(), execution_of(begin).get(), coordinates, {features}, dtype());
    // The rows of the pooled level are in an order of the library's, which is the same in the whole network.
    const std::vector<size_t> kept =
        kept_of(values_of(begun[1]), begun[1].coordinates, {2, 2, 2, 1}, 0.5f, 0);
    ASSERT_GT(kept.size(), 20u);
    std::vector<int32_t> cells;
    std::vector<char> given;
    for (const size_t i : kept) {
      const size_t row = i / 8, child = i % 8;
      cells.push_back(begun[1].coordinates[4 * row]);
      for (size_t a = 0; a < 3; ++a) {
        cells.push_back(begun[1].coordinates[4 * row + 1 + a] + static_cast<int32_t>(child >> (2 - a) & 1));
      }
      const size_t from = (16 * row + (divides ? 2 * child : 0)) * size;
      given.insert(given.end(), begun[0].bytes.begin() + static_cast<std::ptrdiff_t>(from),
                   begun[0].bytes.begin() + static_cast<std::ptrdiff_t>(from + channels * size));
    }
    StagedRun wanted;
    wanted.outputs = run_graph(machine(), end.get(), execution_of(end).get(), cells, {given}, dtype());
    const StagedRun run = run_exact(whole, execution_of(whole), coordinates, features, 2000);
    EXPECT_EQ(run.outputs[0], wanted.outputs[0]);
    expect_within(whole, coordinates, features, 2000, wanted);
  }
}

/// The cells of a dense tensor that are not 0 are the rows that it was made of.
TEST_P(StagesPrune, CellsOfADenseTensor) {
  const char* const kBlock =
      R"({"op": "block", "name": "a", "input": "fed", "out_channels": 4, "kernel_size": 3, "output": "y"})";
  const Plan whole = plan_of(R"({"name": "cells", "ndim": 3, "in_channels": 4, "shape": [9, 8, 7],
    "outputs": ["y"], "layers": [{"op": "to_dense", "output": "dense"},
    {"op": "from_dense", "input": "dense", "new_level": true, "output": "fed"}, )" +
                             std::string(kBlock) + "]}");
  const Plan end = plan_of(R"({"name": "end", "ndim": 3, "inputs": [{"name": "fed", "channels": 4}],
    "shape": [9, 8, 7], "outputs": ["y"], "layers": [)" +
                           std::string(kBlock) + "]}");
  std::vector<int32_t> coordinates;
  std::vector<float> values;
  Random random(12);
  for (int32_t i = 0; i < 3 * 9 * 8 * 7; ++i) {
    if (i / 504 == 1 || random.below(4) != 0) continue;
    coordinates.insert(coordinates.end(), {i / 504, i / 56 % 9, i / 7 % 8, i % 7});
    for (int c = 0; c < 4; ++c)
      values.push_back(static_cast<float>(1 + random.below(9)) * (c % 2 == 0 ? 1 : -1));
  }
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.batch_size = batch_size_ = 3;
  StagedRun wanted;
  wanted.outputs = run_graph(machine(), end.get(), execution_of(end, options).get(), coordinates,
                             {stored(values)}, dtype());
  const StagedRun run = run_exact(whole, execution_of(whole, options), coordinates, stored(values), 3 * 504);
  EXPECT_EQ(run.outputs[0], wanted.outputs[0]);
  expect_within(whole, coordinates, stored(values), 800, wanted);
}

/// A second level of the cells of one tensor is the first one.
TEST_P(StagesPrune, CellsOfADenseTensorTwice) {
  const Plan plan = plan_of(R"({"name": "cells", "ndim": 3, "in_channels": 4, "shape": [5, 4, 3],
    "outputs": ["first", "second", "end"], "layers": [{"op": "to_dense", "output": "dense"},
    {"op": "from_dense", "input": "dense", "new_level": true, "output": "first"},
    {"op": "from_dense", "input": "dense", "new_level": true, "output": "second"},
    {"op": "linear", "name": "l", "out_channels": 3, "output": "end"}]})");
  std::vector<int32_t> coordinates;
  std::vector<float> values;
  Random random(13);
  for (int32_t i = 0; i < 60; ++i) {
    if (random.below(3) == 0) continue;
    coordinates.insert(coordinates.end(), {0, i / 12, i / 3 % 4, i % 3});
    for (int c = 0; c < 4; ++c) values.push_back(static_cast<float>(1 + random.below(9)));
  }
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.batch_size = batch_size_ = 1;
  const StagedRun run = run_exact(plan, execution_of(plan, options), coordinates, stored(values), 60);
  EXPECT_EQ(run.outputs[0].coordinates, coordinates);
  EXPECT_EQ(run.outputs[0].bytes, stored(values));
  EXPECT_EQ(run.outputs[1], run.outputs[0]);
  EXPECT_EQ(run.outputs[2].coordinates, coordinates);
  expect_within(plan, coordinates, stored(values), 60, run);
}

TEST_P(StagesPrune, Refusals) {
  const auto refuses = [&](const std::string& layers, const char* text) {
    NetworkSpec spec;
    spec.description = network_of(std::string(kFirst) + ", " + layers, R"("end")");
    spec.dtype = dtype();
    Plan plan{nullptr, {minuet_plan_destroy}};
    EXPECT_EQ(create_network(machine(), spec, plan), MINUET_INVALID_ARGUMENT);
    EXPECT_THAT(last_error(), HasSubstr(text));
  };
  const std::string prune = R"({"op": "prune", "input": "x", "by": "score", "output": "kept"}, )";
  refuses(prune + R"({"op": "add", "input": "kept", "with": "x", "output": "end"})", "different sides");
  refuses(prune + R"({"op": "union", "name": "u", "input": "kept", "with": "x", "output": "end"})",
          "different sides");
  refuses(R"({"op": "prune", "input": "x", "by": "x", "output": "end"})",
          "8 channels, but the layer needs 1 score for each row");
  refuses(R"({"op": "prune", "input": "x", "by": "score", "threshold": 1, "top_k": 2, "output": "end"})",
          "are both given");
  refuses(R"({"op": "subdivide", "input": "x", "by": "score", "output": "end"})", "no whole number");
  refuses(R"({"op": "devoxelize", "input": "x", "output": "end"})", "does not begin with voxelize");
  refuses(R"({"op": "voxelize", "voxel_size": [1, 1, 1], "output": "end"})", "can only be the first layer");
}

MINUET_INSTANTIATE_DEVICE_TEST(StagesPrune);

}  // namespace
}  // namespace minuet::abi
