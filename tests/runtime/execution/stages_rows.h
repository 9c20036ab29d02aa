// What tests of networks share that keep rows of a level by their scores.
#pragma once

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "tests/runtime/execution/stages_fixture.h"
#include "tests/support/network_oracle.h"
#include "tests/support/select_oracle.h"

namespace minuet::abi {

/// The candidates (row * children + child) of scores [rows, children] that are kept, in their order: the
/// `top_k` best ones of each batch item or, if it is 0, those above the threshold.
inline std::vector<size_t> kept_of(const std::vector<float>& scores, const std::vector<int32_t>& coordinates,
                                   const oracle::Axes& children, float threshold, int64_t top_k,
                                   int ndim = 3) {
  oracle::SelectCase rows;
  rows.ndim = ndim, rows.children = children, rows.coordinates = coordinates, rows.scores = scores;
  rows.rule = top_k > 0 ? oracle::Rule::Best : oracle::Rule::Above;
  rows.threshold = static_cast<double>(threshold), rows.best = top_k;
  const std::vector<bool> is_kept = oracle::kept_candidates(rows);
  std::vector<size_t> kept;
  for (size_t i = 0; i < is_kept.size(); ++i) {
    if (is_kept[i]) kept.push_back(i);
  }
  return kept;
}

/// At most `rows` cells [n, 4] of the batch items 0 and 2.
inline std::vector<int32_t> draw_cells(int64_t rows, uint64_t seed) {
  constexpr int64_t kExtent = 12;
  Random random(seed);
  std::set<std::array<int32_t, 4>> seen;
  std::vector<int32_t> coordinates;
  for (int64_t i = 0; i < rows; ++i) {
    std::array<int32_t, 4> cell{random.below(2) == 0 ? 0 : 2};
    for (size_t a = 1; a < 4; ++a) cell[a] = static_cast<int32_t>(random.between(-kExtent, kExtent));
    if (seen.insert(cell).second) coordinates.insert(coordinates.end(), cell.begin(), cell.end());
  }
  return coordinates;
}

// The second network continues where the first one ends. Both are a part of the whole one.
inline constexpr const char* kFirst =
    R"({"op": "block", "name": "a", "out_channels": 8, "kernel_size": 3, "output": "x"},
  {"op": "linear", "name": "s", "out_channels": 1, "output": "score"})";
inline constexpr const char* kSecond =
    R"({"op": "block", "name": "b", "input": "kept", "out_channels": 8, "kernel_size": 3},
  {"op": "add", "with": "kept", "output": "y"},
  {"op": "max_pool", "name": "p", "kernel_size": 2, "stride": 2, "output": "half"},
  {"op": "up", "name": "u", "out_channels": 8, "kernel_size": 2, "stride": 2, "onto": "kept", "output": "z"})";
inline constexpr const char* kOutputs = R"("y", "half", "z")";

inline std::string network_of(const std::string& layers, const std::string& outputs) {
  return R"({"name": "kept", "ndim": 3, "in_channels": 4, "outputs": [)" + outputs + R"(], "layers": [)" +
         layers + "]}";
}

class StagesRowsTest : public StagesTest {
 protected:
  std::vector<char> features_of(const std::vector<int32_t>& coordinates) const {
    return encode(dtype(), oracle::draw_features(static_cast<int64_t>(coordinates.size()), 5));
  }
  template <class T>
  static std::vector<T> rows_of(const std::vector<T>& values, size_t width, const std::vector<size_t>& rows) {
    std::vector<T> result;
    for (const size_t row : rows) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row * width);
      result.insert(result.end(), begin, begin + static_cast<std::ptrdiff_t>(width));
    }
    return result;
  }
  /// Prepares and runs in exact mode.
  StagedRun run_exact(const Plan& plan, const Execution& execution, const std::vector<int32_t>& coordinates,
                      const std::vector<char>& features, int64_t room) {
    check(prepare(machine(), execution.get(), coordinates));
    Arrays arrays = arrays_on(plan, features, static_cast<int64_t>(coordinates.size() / 4), room);
    shape_outputs(execution, arrays);
    check(run_arrays(execution.get(), arrays.inputs, arrays.outputs));
    return read(plan, execution, arrays);
  }
  Arrays arrays_on(const Plan& plan, const std::vector<char>& features, int64_t rows, int64_t room) {
    Arrays arrays;
    const int64_t channels = input_of(plan.get(), 0).channels;
    arrays.inputs.push_back(
        array_of(put(features, rows * channels * dtype_bytes(dtype())).data(), {rows, channels}, element()));
    add_outputs(plan, room, arrays);
    return arrays;
  }
  /// An execution within `room` rows on each level.
  Execution within_of(const Plan& plan, int64_t room) {
    const std::vector<int64_t> capacities(static_cast<size_t>(info_of(plan.get()).levels), room);
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.batch_size = batch_size_;
    return execution_of(plan, options, capacities);
  }
  /// Prepares within capacities, with the number of coordinates on the device.
  void prepare_within(const Execution& execution, const std::vector<int32_t>& coordinates, int64_t room,
                      void* stream = nullptr) {
    const std::vector<int32_t> count{static_cast<int32_t>(coordinates.size() / 4)};
    check(minuet_execution_prepare_on_device(execution.get(), put(coordinates, 4 * room).integers(),
                                             put(count, 1).integers(), stream));
  }
  /// Runs within capacities, and expects the same bits.
  void expect_within(const Plan& plan, const std::vector<int32_t>& coordinates,
                     const std::vector<char>& features, int64_t room, const StagedRun& wanted) {
    const Execution execution = within_of(plan, room);
    prepare_within(execution, coordinates, room);
    const Arrays arrays = arrays_on(plan, features, room, room);
    check(run_arrays(execution.get(), arrays.inputs, arrays.outputs));
    expect_cut(plan, execution, arrays, wanted);
  }
  /// Expects these rows, and zeros behind them.
  void expect_cut(const Plan& plan, const Execution& execution, const Arrays& arrays,
                  const StagedRun& wanted) {
    uint32_t status = ~0u;
    const std::vector<int32_t> counts = counts_of(execution, info_of(plan.get()).levels, status);
    EXPECT_EQ(status, 0u);
    StagedRun run = read(plan, execution, arrays);
    cut(plan, counts, run);
    ASSERT_EQ(run.outputs.size(), wanted.outputs.size());
    for (size_t i = 0; i < run.outputs.size(); ++i) EXPECT_EQ(run.outputs[i], wanted.outputs[i]) << i;
  }
  int64_t batch_size_ = 0;
};

}  // namespace minuet::abi
