// Levels that lack axes of their network (collapse): what layers on them compute, and what the library tells
// of them, on every device and in every dtype.
#include <gmock/gmock.h>

#include <set>

#include "tests/support/compare.h"
#include "tests/support/network_abi.h"
#include "tests/support/network_oracle.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

constexpr int kAxes = 3;
constexpr int64_t kBatchItems = 3;
constexpr std::array<int32_t, kAxes> kCells = {12, 9, 7};

std::string numbers(const std::vector<int>& values) {
  std::string text;
  for (const int value : values) text += (text.empty() ? "[" : ", ") + std::to_string(value);
  return text + "]";
}

class AxesTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    Random random(6);
    std::set<std::array<int32_t, 4>> cells;
    while (cells.size() < (machine().is_software() ? 30u : 200u)) {
      std::array<int32_t, 4> cell{static_cast<int32_t>(random.below(kBatchItems - 1))};
      for (size_t a = 0; a < kAxes; ++a)
        cell[a + 1] = static_cast<int32_t>(random.below(static_cast<uint64_t>(kCells[a])));
      cells.insert(cell);
    }
    for (const auto& cell : cells) scene_.insert(scene_.end(), cell.begin(), cell.end());
    features_ = encode(dtype(), oracle::draw_features(static_cast<int64_t>(scene_.size()), 9));
  }

  Plan plan_of(const std::string& description, const std::string& weights = "") {
    NetworkSpec spec;
    spec.description = description, spec.dtype = dtype(), spec.weights = weights;
    return make_network(machine(), spec);
  }
  Execution execution_of(minuet_plan* plan, minuet_map_method method = MINUET_MAPS_INDEXED) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.batch_size = kBatchItems;
    options.map_method = method;
    return make_execution(machine(), plan, &options);
  }
  static std::string description(const std::vector<int>& shape, const std::string& layers,
                                 const std::string& outputs) {
    return R"({"name": "n", "ndim": )" + std::to_string(shape.size()) + R"(, "in_channels": 4, "shape": )" +
           numbers(shape) + R"(, "outputs": [)" + outputs + R"(], "layers": [)" + layers + "]}";
  }

  std::vector<int32_t> scene_;
  std::vector<char> features_;
};

/// Two axes of the network, behind the collapse of the third one, are those of a network of two axes. It gets
/// the collapsed voxels, and its layers have the same text.
TEST_P(AxesTest, LayersBehindACollapseAreThoseOfANetworkOfFewerAxes) {
  const std::string layers =
      R"({"op": "block", "name": "a", "out_channels": 6, "kernel_size": 3, "norm": "none", "output": "a"},
         {"op": "block", "name": "b", "out_channels": 5, "kernel_size": [3, 2], "stride": [2, 1], "norm": "none",
          "output": "b"},
         {"op": "residual", "name": "c", "out_channels": 5, "norm": "none", "dilation": [1, 2], "output": "c"},
         {"op": "up", "name": "d", "out_channels": 4, "kernel_size": [2, 1], "stride": [2, 1], "onto": "a",
          "norm": "none", "output": "d"},
         {"op": "max_pool", "name": "e", "input": "a", "rule": "reached", "kernel_size": [3, 1], "stride": 2,
          "padding": [1, 0], "output": "e"})";
  const std::string outputs = R"("a", "b", "c", "d", "e")";
  oracle::Parameters parameters(3);
  parameters.weight("a.conv.weight", 9, 4, 6, 3), parameters.weight("b.conv.weight", 6, 6, 5, 3);
  for (const char* name : {"c.conv1.weight", "c.conv2.weight"}) parameters.weight(name, 9, 5, 5, 3);
  parameters.weight("d.conv.weight", 2, 5, 4, 1);
  const TemporaryPath weights("axes.safetensors");
  write_safetensors(weights.path(), parameters.all());
  for (int axis = 0; axis < kAxes; ++axis) {
    SCOPED_TRACE(axis);
    std::vector<int> cells(kCells.begin(), kCells.end());
    const Plan whole = plan_of(description(cells,
                                           R"({"op": "collapse", "name": "f", "output": "flat", "axis": )" +
                                               std::to_string(axis) + "}, " + layers,
                                           "\"flat\", " + outputs),
                               weights.path());
    cells.erase(cells.begin() + axis);
    const Plan flat = plan_of(description(cells, layers, outputs), weights.path());
    for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
      const Execution execution = execution_of(whole.get(), method), fewer = execution_of(flat.get(), method);
      const std::vector<NetworkRun> runs =
          run_graph(machine(), whole.get(), execution.get(), scene_, {features_}, dtype());
      const std::vector<NetworkRun> expected =
          run_graph(machine(), flat.get(), fewer.get(), runs[0].coordinates, {runs[0].bytes}, dtype(), 2);
      for (size_t i = 0; i < expected.size(); ++i) {
        SCOPED_TRACE(i);
        const NetworkRun run = ascending(runs[i + 1], 2), wanted = ascending(expected[i], 2);
        EXPECT_EQ(run.coordinates, wanted.coordinates);
        const std::vector<float> values = decode(dtype(), wanted.bytes);
        EXPECT_TRUE(is_close(decode(dtype(), run.bytes), {values.begin(), values.end()}, run.channels,
                             error_bound(dtype(), true)));
        const minuet_tensor_info info = output_of(whole.get(), static_cast<int32_t>(i + 1)),
                                 other = output_of(flat.get(), static_cast<int32_t>(i));
        EXPECT_EQ(info.ndim, 2);
        EXPECT_EQ(info.axes, 7 & ~(1 << axis));
        EXPECT_EQ(other.axes, 3);
        EXPECT_EQ(std::vector(info.tensor_stride, info.tensor_stride + MINUET_MAX_DIM),
                  std::vector(other.tensor_stride, other.tensor_stride + MINUET_MAX_DIM));
        minuet_level_info level{};
        level.struct_size = sizeof(level);
        check(minuet_execution_query_level(execution.get(), info.level, &level));
        EXPECT_EQ(level.ndim, 2);
        EXPECT_EQ(level.tensor_stride[0], info.tensor_stride[0]);
        EXPECT_EQ(level.tensor_stride[1], info.tensor_stride[1]);
      }
      minuet_level_info level{};
      level.struct_size = sizeof(level);
      check(minuet_execution_query_level(execution.get(), 0, &level));
      EXPECT_EQ(level.ndim, kAxes);
    }
  }
}

/// A dense tensor of a level has the axes of the level.
TEST_P(AxesTest, DenseTensorsHaveTheAxesOfTheirLevel) {
  for (const bool channels_last : {false, true}) {
    const std::string dense = std::string(R"({"op": "to_dense", "output": "dense", "format": ")") +
                              (channels_last ? "channels_last" : "channels_first") + "\"}";
    const Plan plan = plan_of(description(
        {kCells.begin(), kCells.end()},
        R"({"op": "collapse", "name": "f", "axis": 1, "output": "flat"}, )" + dense, R"("flat", "dense")"));
    const minuet_tensor_info info = output_of(plan.get(), 1);
    ASSERT_EQ(info.rank, 4);
    const std::vector<int64_t> dims = channels_last
                                          ? std::vector<int64_t>{kBatchItems, kCells[0], kCells[2], 4}
                                          : std::vector<int64_t>{kBatchItems, 4, kCells[0], kCells[2]};
    EXPECT_EQ(std::vector(info.shape + 1, info.shape + 4), std::vector(dims.begin() + 1, dims.end()));
    const Execution execution = execution_of(plan.get());
    check(prepare(machine(), execution.get(), scene_));
    int64_t rows = 0;
    int32_t channels = 0;
    check(minuet_execution_output_shape_of(execution.get(), 0, &rows, &channels));
    const int64_t element = dtype_bytes(dtype()), elements = kBatchItems * 4 * kCells[0] * kCells[2];
    const auto type =
        dtype() == DType::TF32 ? MINUET_ELEMENT_F32 : static_cast<minuet_element>(abi_dtype(dtype()));
    const Buffer input(machine(), features_), flat(machine(), rows * 4 * element),
        where(machine(), rows * 12);
    Buffer output(machine(), elements * element);
    output.poison();
    check(run_arrays(execution.get(),
                     {array_of(input.data(), {static_cast<int64_t>(scene_.size()) / 4, 4}, type)},
                     {array_of(flat.data(), {rows, 4}, type), array_of(output.data(), dims, type)}));
    check(minuet_execution_output_coordinates_of(execution.get(), 0, static_cast<int32_t*>(where.data()),
                                                 nullptr));
    const std::vector<int32_t> cells = where.read<int32_t>();
    const std::vector<float> values = decode(dtype(), flat.read<char>());
    std::vector<float> expected(static_cast<size_t>(elements));
    for (int64_t row = 0; row < rows; ++row) {
      const auto* const cell = &cells[static_cast<size_t>(3 * row)];
      for (int64_t c = 0; c < 4; ++c) {
        const int64_t at = channels_last
                               ? ((cell[0] * kCells[0] + cell[1]) * kCells[2] + cell[2]) * 4 + c
                               : ((int64_t{cell[0]} * 4 + c) * kCells[0] + cell[1]) * kCells[2] + cell[2];
        expected[static_cast<size_t>(at)] = values[static_cast<size_t>(4 * row + c)];
      }
    }
    EXPECT_EQ(decode(dtype(), output.read<char>()), expected);
  }
}

/// A collapse of every axis leaves the batch items that have voxels; a global pooling has a row for each
/// item.
TEST_P(AxesTest, CollapseOfAllAxes) {
  const Plan plan = plan_of(description(
      {kCells.begin(), kCells.end()},
      R"({"op": "collapse", "name": "a", "axis": 1}, {"op": "collapse", "name": "b", "axis": 0, "output": "line"},
         {"op": "collapse", "name": "c", "axis": 2, "output": "items"},
         {"op": "global_pool", "name": "d", "input": "line", "reduction": "sum", "output": "all"})",
      R"("line", "items", "all")"));
  for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
    const Execution execution = execution_of(plan.get(), method);
    const std::vector<NetworkRun> runs =
        run_graph(machine(), plan.get(), execution.get(), scene_, {features_}, dtype());
    std::set<std::vector<int32_t>> cells;
    for (size_t i = 0; i < scene_.size(); i += 4) cells.insert({scene_[i], scene_[i + 3]});
    std::set<std::vector<int32_t>> found;
    for (size_t i = 0; i < runs[0].coordinates.size(); i += 2) {
      found.insert({runs[0].coordinates[i], runs[0].coordinates[i + 1]});
    }
    EXPECT_EQ(found, cells);
    EXPECT_EQ(runs[0].rows, static_cast<int64_t>(cells.size()));
    const NetworkRun items = ascending(runs[1], 0);
    EXPECT_EQ(items.coordinates, (std::vector<int32_t>{0, 1}));
    EXPECT_EQ(runs[2].coordinates, (std::vector<int32_t>{0, 1, 2}));
    const std::vector<float> sums = decode(dtype(), items.bytes), all = decode(dtype(), runs[2].bytes);
    EXPECT_TRUE(
        is_close({all.begin(), all.begin() + 8}, {sums.begin(), sums.end()}, 4, error_bound(dtype(), true)));
    EXPECT_EQ(std::vector(all.begin() + 8, all.end()), std::vector<float>(4));
  }
}

/// Coordinates behind the last row are zeros in capacity mode, and none of the caller's memory past them is
/// written.
TEST_P(AxesTest, CoordinatesWithinCapacities) {
  const Plan plan =
      plan_of(description({kCells.begin(), kCells.end()},
                          R"({"op": "collapse", "name": "a", "axis": 0, "output": "flat"})", "\"flat\""));
  const std::vector<int64_t> capacities{300, 250};
  for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.batch_size = kBatchItems;
    options.map_method = method;
    options.level_capacity = capacities.data(), options.level_count = 2;
    const Execution within = make_execution(machine(), plan.get(), &options),
                    exact = execution_of(plan.get(), method);
    check(prepare(machine(), within.get(), scene_));
    check(prepare(machine(), exact.get(), scene_));
    int64_t rows = 0;
    int32_t channels = 0;
    check(minuet_execution_output_shape(exact.get(), &rows, &channels));
    Buffer where(machine(), capacities[1] * 12), wanted(machine(), capacities[1] * 12);
    where.poison(), wanted.poison();
    const std::vector<int32_t> poison = wanted.read<int32_t>();
    check(minuet_execution_output_coordinates(within.get(), static_cast<int32_t*>(where.data()), nullptr));
    check(minuet_execution_output_coordinates(exact.get(), static_cast<int32_t*>(wanted.data()), nullptr));
    std::vector<int32_t> expected = wanted.read<int32_t>();
    EXPECT_TRUE(std::equal(expected.begin() + rows * 3, expected.end(), poison.begin() + rows * 3));
    std::fill(expected.begin() + rows * 3, expected.end(), 0);
    EXPECT_EQ(where.read<int32_t>(), expected);
  }
}

/// One number for all axes and as many equal ones are the same description.
TEST_P(AxesTest, DescriptionsArePrintedAlike) {
  const auto printed = [&](const std::string& size, const std::string& flat_size) {
    return description_of(plan_of(description({kCells.begin(), kCells.end()},
                                              R"({"op": "max_pool", "name": "a", "kernel_size": )" + size +
                                                  R"(}, {"op": "collapse", "name": "b", "axis": 0},
                                   {"op": "max_pool", "name": "c", "output": "c", "kernel_size": )" +
                                                  flat_size + R"(, "stride": [2, 1]})",
                                              "\"c\""))
                              .get());
  };
  const std::string text = printed("3", "2");
  EXPECT_EQ(printed("[3, 3, 3]", "[2, 2]"), text);
  EXPECT_EQ(description_of(plan_of(text).get()), text);
  EXPECT_NE(printed("[3, 3, 3]", "[2, 3]"), text);
}

MINUET_INSTANTIATE_DEVICE_TEST(AxesTest);

}  // namespace
}  // namespace minuet::abi
