// Ways between levels without weights (unpool, upsample, collapse), and linear layers: on every device and in
// every dtype.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "tests/support/compare.h"
#include "tests/support/network_abi.h"
#include "tests/support/network_oracle.h"
#include "tests/support/oracle.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet::abi {
namespace {

using oracle::Axes;
using Cell = std::array<int32_t, 4>;

std::string network_text(const std::string& layers, const std::string& outputs) {
  return R"({"name": "n", "ndim": 3, "in_channels": 4, "outputs": [)" + outputs + R"(], "layers": [)" +
         layers + "]}";
}

class UnpoolingTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    scene_ = make_scene(machine().is_software() ? 20 : 200, 9);
    features_ = encode(dtype(), oracle::draw_features(static_cast<int64_t>(scene_.size()), 9));
  }

  std::vector<NetworkRun> run(const std::string& description, const std::string& weights = "",
                              minuet_map_method method = MINUET_MAPS_INDEXED) {
    NetworkSpec spec;
    spec.description = description, spec.dtype = dtype(), spec.weights = weights;
    const Plan plan = make_network(machine(), spec);
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.map_method = method;
    const Execution execution = make_execution(machine(), plan.get(), &options);
    return run_graph(machine(), plan.get(), execution.get(), scene_, {features_}, dtype());
  }

  std::vector<double> values_of(const NetworkRun& run) const {
    const std::vector<float> values = decode(dtype(), run.bytes);
    return {values.begin(), values.end()};
  }

  /// The cell of level `stride` that has voxel `row` of a level.
  static Cell cell_of(const std::vector<int32_t>& coordinates, size_t row, const Axes& stride) {
    Cell cell{coordinates[4 * row]};
    for (size_t a = 0; a < 3; ++a) {
      const int32_t at = coordinates[4 * row + 1 + a], s = stride[a];
      cell[a + 1] = (at >= 0 ? at / s : -((s - 1 - at) / s)) * s;
    }
    return cell;
  }

  /// Coordinates of three axes, with 0 on the axis that a collapse has dropped.
  static std::vector<int32_t> with_axis(const NetworkRun& collapsed, size_t axis) {
    std::vector<int32_t> coordinates;
    EXPECT_EQ(collapsed.coordinates.size(), static_cast<size_t>(collapsed.rows) * 3);
    for (size_t row = 0; 3 * row < collapsed.coordinates.size(); ++row) {
      const auto first = collapsed.coordinates.begin() + static_cast<std::ptrdiff_t>(3 * row);
      std::vector<int32_t> cell(first, first + 3);
      cell.insert(cell.begin() + 1 + static_cast<std::ptrdiff_t>(axis), 0);
      coordinates.insert(coordinates.end(), cell.begin(), cell.end());
    }
    return coordinates;
  }

  /// Each voxel of `fine` has the bits of its cell in `coarse`, or zeros where the cell is not there.
  void check_upsampled(const NetworkRun& coarse, const NetworkRun& fine, const Axes& stride) {
    const size_t width = static_cast<size_t>(coarse.channels * dtype_bytes(dtype()));
    std::map<Cell, size_t> rows;
    for (size_t row = 0; row < static_cast<size_t>(coarse.rows); ++row)
      rows[cell_of(coarse.coordinates, row, {1, 1, 1, 1})] = row;
    ASSERT_EQ(fine.channels, coarse.channels);
    size_t found = 0;
    for (size_t row = 0; row < static_cast<size_t>(fine.rows); ++row) {
      const auto cell = rows.find(cell_of(fine.coordinates, row, stride));
      std::string expected(width, '\0');
      if (cell != rows.end()) expected.assign(coarse.bytes.data() + cell->second * width, width), ++found;
      ASSERT_EQ(std::string(fine.bytes.data() + row * width, width), expected) << "row " << row;
    }
    EXPECT_GT(found, 0u);
  }

  void check_sums(const std::vector<int32_t>& coordinates, const std::vector<double>& values, size_t axis,
                  const NetworkRun& collapsed) {
    const size_t channels = 4;
    std::map<Cell, std::array<double, 4>> sums;
    for (size_t row = 0; row < coordinates.size() / 4; ++row) {
      Cell cell = cell_of(coordinates, row, {1, 1, 1, 1});
      cell[axis + 1] = 0;
      std::array<double, 4>& sum = sums.emplace(cell, std::array<double, 4>{}).first->second;
      for (size_t c = 0; c < channels; ++c) sum[c] += values[row * channels + c];
    }
    ASSERT_EQ(static_cast<size_t>(collapsed.rows), sums.size());
    const std::vector<int32_t> cells = with_axis(collapsed, axis);
    std::vector<double> expected;
    for (size_t row = 0; row < sums.size(); ++row) {
      const auto sum = sums.find(cell_of(cells, row, {1, 1, 1, 1}));
      ASSERT_NE(sum, sums.end()) << "row " << row;
      expected.insert(expected.end(), sum->second.begin(), sum->second.end());
    }
    EXPECT_TRUE(is_close(decode(dtype(), collapsed.bytes), expected, channels, error_bound(dtype(), true)));
  }

  std::vector<int32_t> scene_;
  std::vector<char> features_;
};

/// Strides of 1, 2 and more, from one level to the next and over several.
TEST_P(UnpoolingTest, UpsamplingCopiesTheCell) {
  const std::vector<NetworkRun> runs = run(network_text(
      R"({"op": "sum_pool", "name": "a", "kernel_size": 3, "stride": [2, 3, 1], "output": "half"},
         {"op": "upsample", "name": "b", "onto": "input", "output": "whole"},
         {"op": "average_pool", "name": "c", "input": "half", "stride": [2, 1, 5], "output": "quarter"},
         {"op": "upsample", "name": "d", "onto": "half", "output": "to_half"},
         {"op": "upsample", "name": "e", "input": "quarter", "onto": "input", "output": "to_whole"})",
      R"("half", "whole", "quarter", "to_half", "to_whole")"));
  EXPECT_EQ(runs[1].coordinates, scene_);
  check_upsampled(runs[0], runs[1], {2, 3, 1, 1});
  check_upsampled(runs[2], runs[3], {4, 3, 5, 1});
  check_upsampled(runs[2], runs[4], {4, 3, 5, 1});
}

/// A level by the reached rule need not have the cell of every voxel.
TEST_P(UnpoolingTest, UpsamplingOfAReachedLevel) {
  const std::vector<NetworkRun> runs = run(network_text(
      R"({"op": "max_pool", "name": "a", "rule": "reached", "kernel_size": 1, "stride": 2, "output": "half"},
         {"op": "upsample", "name": "b", "onto": "input", "output": "whole"})",
      R"("half", "whole")"));
  check_upsampled(runs[0], runs[1], {2, 2, 2, 1});
}

/// Unpooling reads the pairs of the pooling backwards.
TEST_P(UnpoolingTest, UnpoolingCombinesThePartners) {
  for (const bool is_reached : {false, true}) {
    SCOPED_TRACE(is_reached);
    const std::string rule = is_reached ? R"(, "rule": "reached", "padding": 1)" : "";
    const std::vector<NetworkRun> runs = run(network_text(
        R"({"op": "block", "name": "a", "out_channels": 5, "kernel_size": 3, "stride": 2, "activation": "none",
            "output": "half")" +
            rule + R"(},
           {"op": "unpool", "name": "b", "of": "a", "output": "average"},
           {"op": "unpool", "name": "c", "input": "half", "of": "a", "reduction": "max", "output": "max"},
           {"op": "unpool", "name": "d", "input": "half", "of": "a", "reduction": "sum", "output": "sum"})",
        R"("half", "average", "max", "sum")"));
    const NetworkRun& half = runs[0];
    const std::vector<double> values = values_of(half);
    const std::vector<oracle::Pair> pairs =
        oracle::find_pairs({3, {3, 3, 3, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, true, is_reached, {1, 1, 1, 0}},
                           half.coordinates, scene_);
    const size_t rows = scene_.size() / 4, channels = 5;
    std::vector<double> sums(rows * channels, 0), most(rows * channels, 0), average(rows * channels, 0);
    std::vector<int> counts(rows, 0);
    for (const oracle::Pair& pair : pairs) {
      const auto out = static_cast<size_t>(pair.out);
      for (size_t c = 0; c < channels; ++c) {
        const double value = values[static_cast<size_t>(pair.in) * channels + c];
        double& greatest = most[out * channels + c];
        greatest = counts[out] == 0 ? value : std::max(greatest, value);
        sums[out * channels + c] += value;
      }
      ++counts[out];
    }
    for (size_t i = 0; i < average.size(); ++i)
      average[i] = counts[i / channels] == 0 ? 0 : sums[i] / counts[i / channels];
    const std::vector<double>* const expected[] = {&average, &most, &sums};
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(runs[i + 1].coordinates, scene_);
      EXPECT_TRUE(
          is_close(decode(dtype(), runs[i + 1].bytes), *expected[i], channels, error_bound(dtype(), true)))
          << i;
    }
  }
}

/// A linear layer is a convolution of one offset, also where it has as many inputs as outputs.
TEST_P(UnpoolingTest, LinearLayersMultiplyEachRow) {
  for (const int out : {4, 7}) {
    const std::string outs = std::to_string(out);
    oracle::Parameters parameters(3);
    const std::vector<float> weight = parameters.weight("l.weight", 1, 4, out, 1);
    const std::vector<float> bias = parameters.vector("l.bias", out, 0, 0.5);
    const TemporaryPath linear("linear.safetensors"), block("block.safetensors");
    write_safetensors(linear.path(), parameters.all());
    write_safetensors(block.path(), {{"l.conv.weight", parameters.all().at("l.weight")},
                                     {"l.conv.bias", parameters.all().at("l.bias")}});
    const NetworkRun given =
        run(network_text(R"({"op": "linear", "name": "l", "output": "l", "out_channels": )" + outs + "}",
                         "\"l\""),
            linear.path())
            .front();
    std::vector<double> expected;
    const std::vector<float> in = decode(dtype(), features_);
    for (size_t row = 0; row < scene_.size() / 4; ++row) {
      for (size_t o = 0; o < static_cast<size_t>(out); ++o) {
        double sum = bias[o];
        for (size_t c = 0; c < 4; ++c)
          sum += static_cast<double>(in[row * 4 + c]) * weight[c * static_cast<size_t>(out) + o];
        expected.push_back(sum);
      }
    }
    EXPECT_TRUE(is_close(decode(dtype(), given.bytes), expected, out, error_bound(dtype(), true)));
    EXPECT_EQ(given,
              run(network_text(R"({"op": "block", "name": "l", "output": "l", "bias": true, "norm": "none",
                                      "activation": "none", "out_channels": )" +
                                   outs + "}",
                               "\"l\""),
                  block.path())
                  .front());
  }
}

/// Sum pooling is a convolution whose weight is the identity at every offset.
TEST_P(UnpoolingTest, SumPoolingIsAConvolution) {
  FileTensor identity{{27, 4, 4}, std::vector<float>(27 * 16, 0.0f)};
  for (size_t k = 0; k < 27; ++k)
    for (size_t c = 0; c < 16; ++c) identity.values[k * 16 + c] = c % 5 == 0 ? 1.0f : 0.0f;
  const TemporaryPath weights("identity.safetensors");
  write_safetensors(weights.path(), {{"a.conv.weight", identity}});
  for (const std::string window : {R"("kernel_size": 3)", R"("kernel_size": 3, "stride": 2)"}) {
    const std::vector<NetworkRun> runs =
        run(network_text(
                R"({"op": "block", "name": "a", "norm": "none", "activation": "none", "out_channels": 4,
                      "output": "convolved", )" +
                    window + R"(}, {"op": "sum_pool", "name": "b", "input": "input", "output": "pooled", )" +
                    window + "}",
                R"("convolved", "pooled")"),
            weights.path());
    EXPECT_EQ(runs[0].coordinates, runs[1].coordinates);
    EXPECT_TRUE(is_close(decode(dtype(), runs[0].bytes), values_of(runs[1]), 4, error_bound(dtype(), true)));
  }
}

/// A collapse has one voxel for each column of its input, with the column's sum; also of a level by the
/// reached rule.
TEST_P(UnpoolingTest, CollapsingSumsTheColumns) {
  for (std::array<int32_t, 3> shape : {std::array<int32_t, 3>{40, 40, 13}, {40, 40, 2}, {40, 40, 1}}) {
    SCOPED_TRACE(shape[2]);
    Random random(12);
    std::set<Cell> cells;
    while (cells.size() < scene_.size() / 4) {
      Cell cell{static_cast<int32_t>(random.below(3))};
      for (size_t a = 0; a < 3; ++a)
        cell[a + 1] = static_cast<int32_t>(random.below(static_cast<uint64_t>(shape[a])));
      cells.insert(cell);
    }
    scene_.clear();
    for (const Cell& cell : cells) scene_.insert(scene_.end(), cell.begin(), cell.end());
    std::string text = network_text(
        R"({"op": "collapse", "name": "a", "axis": 2, "output": "columns"},
           {"op": "max_pool", "name": "b", "input": "input", "rule": "reached", "kernel_size": 3, "stride": 2, "padding": 1,
            "output": "half"},
           {"op": "collapse", "name": "c", "axis": 0, "output": "sides"},
           {"op": "upsample", "name": "d", "input": "columns", "onto": "input", "output": "whole"})",
        R"("columns", "half", "sides", "whole")");
    text.insert(1, "\"shape\": [40, 40, " + std::to_string(shape[2]) + "], ");
    const std::vector<float> features = decode(dtype(), features_);
    for (const minuet_map_method method : {MINUET_MAPS_INDEXED, MINUET_MAPS_SORTED}) {
      std::vector<NetworkRun> runs = run(text, "", method);
      check_sums(scene_, {features.begin(), features.end()}, 2, runs[0]);
      check_sums(runs[1].coordinates, values_of(runs[1]), 0, runs[2]);
      runs[0].coordinates = with_axis(runs[0], 2);
      check_upsampled(runs[0], runs[3], {1, 1, 64, 1});
    }
  }
}

/// A network of more levels than an index can have is sorted, also where its shape bounds the coordinates.
TEST_P(UnpoolingTest, MoreLevelsThanAnIndexWithAShape) {
  std::string layers;
  for (int i = 0; i < 20; ++i)
    layers += (i > 0 ? ", " : "") + (R"({"op": "max_pool", "name": "p)" + std::to_string(i)) +
              R"(", "stride": [1, 1, 2]})";
  std::string text =
      network_text(layers + R"(, {"op": "collapse", "name": "c", "axis": 1, "output": "last"})", "\"last\"");
  text.insert(1, "\"shape\": [9, 1, 9], ");
  scene_ = {0, 1, 0, 0, 0, 8, 0, 8};
  features_ = encode(dtype(), oracle::draw_features(8, 2));
  const NetworkRun last = run(text).front();
  EXPECT_EQ(last.rows, 2);
}

MINUET_INSTANTIATE_DEVICE_TEST(UnpoolingTest);

}  // namespace
}  // namespace minuet::abi
