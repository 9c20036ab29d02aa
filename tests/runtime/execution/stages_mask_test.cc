// Networks that keep rows by masks of the caller, on every device, exact and within capacities; and runs
// whose outputs are too small for the levels that they make.
#include <gmock/gmock.h>

#include <set>

#include "tests/runtime/execution/stages_fixture.h"
#include "tests/support/network_oracle.h"

namespace minuet::abi {
namespace {

using testing::HasSubstr;

constexpr int64_t kRoom = 2500;

std::vector<int32_t> draw_unique_cells(int64_t rows, uint64_t seed) {
  Random random(seed);
  std::set<std::array<int32_t, 4>> seen;
  std::vector<int32_t> coordinates;
  while (static_cast<int64_t>(seen.size()) < rows) {
    std::array<int32_t, 4> cell{static_cast<int32_t>(random.below(2))};
    for (size_t a = 1; a < 4; ++a) cell[a] = static_cast<int32_t>(random.between(-9, 9));
    if (seen.insert(cell).second) coordinates.insert(coordinates.end(), cell.begin(), cell.end());
  }
  return coordinates;
}

class StagesMask : public StagesTest {
 protected:
  std::vector<char> features_of(const std::vector<int32_t>& coordinates) const {
    return encode(dtype(), oracle::draw_features(static_cast<int64_t>(coordinates.size()), 5));
  }
  /// Every value of a byte but 0 keeps a row. A bool is 0 or 1.
  static std::vector<uint8_t> draw_mask(int64_t count, bool is_bool, uint64_t seed) {
    Random random(seed);
    std::vector<uint8_t> mask;
    for (int64_t i = 0; i < count; ++i) {
      const auto byte = static_cast<uint8_t>(is_bool ? 1 : 1 + random.below(255));
      mask.push_back(random.below(3) == 0 ? 0 : byte);
    }
    return mask;
  }
  /// Prepares and runs the network, in exact mode or, with capacities, with the number of rows on the device.
  StagedRun run(const Plan& plan, const std::vector<int32_t>& coordinates,
                const std::vector<std::vector<uint8_t>>& masks, bool is_bool, bool is_within) {
    const int32_t levels = info_of(plan.get()).levels;
    const auto rows = static_cast<int64_t>(coordinates.size() / 4);
    const Execution execution =
        execution_of(plan, MINUET_EXECUTION_OPTIONS_INIT,
                     std::vector<int64_t>(static_cast<size_t>(is_within ? levels : 0), kRoom));
    const std::vector<int32_t> count{static_cast<int32_t>(rows)};
    check(is_within
              ? minuet_execution_prepare_on_device(execution.get(), put(coordinates, 4 * kRoom).integers(),
                                                   put(count, 1).integers(), nullptr)
              : prepare(machine(), execution.get(), coordinates));
    Arrays arrays;
    const int64_t given = is_within ? kRoom : rows;
    arrays.inputs.push_back(array_of(put(features_of(coordinates), given * 4 * dtype_bytes(dtype())).data(),
                                     {given, 4}, element()));
    for (size_t i = 0; i < masks.size(); ++i) {
      const int64_t channels = input_of(plan.get(), static_cast<int32_t>(1 + i)).channels;
      const int64_t of_mask = is_within ? kRoom : static_cast<int64_t>(masks[i].size()) / channels;
      arrays.inputs.push_back(array_of(put(masks[i], of_mask * channels).data(), {of_mask, channels},
                                       is_bool ? MINUET_ELEMENT_BOOL : MINUET_ELEMENT_U8));
    }
    add_outputs(plan, kRoom, arrays);
    if (!is_within) shape_outputs(execution, arrays);
    check(run_arrays(execution.get(), arrays.inputs, arrays.outputs));
    StagedRun done = read(plan, execution, arrays);
    if (!is_within) return done;
    uint32_t status = ~0u;
    const std::vector<int32_t> counts = counts_of(execution, levels, status);
    EXPECT_EQ(status, 0u);
    cut(plan, counts, done);
    return done;
  }
  /// The rows of an output that a mask [rows, children] keeps, or the children of these rows.
  NetworkRun kept_of(const NetworkRun& from, const std::vector<uint8_t>& mask, size_t children, int32_t step,
                     bool divides) const {
    NetworkRun kept;
    const auto channels = static_cast<size_t>(from.channels) / (divides ? children : 1);
    const size_t bytes = channels * static_cast<size_t>(dtype_bytes(dtype()));
    kept.channels = static_cast<int32_t>(channels);
    for (size_t i = 0; i < mask.size(); ++i) {
      if (mask[i] == 0) continue;
      ++kept.rows;
      const size_t row = i / children, child = i % children;
      kept.coordinates.push_back(from.coordinates[4 * row]);
      for (size_t a = 0; a < 3; ++a) {
        const auto part = children == 1 ? 0 : static_cast<int32_t>(child >> (2 - a) & 1);
        kept.coordinates.push_back(from.coordinates[4 * row + 1 + a] + step * part);
      }
      const size_t at = divides ? i * bytes : row * bytes;
      kept.bytes.insert(kept.bytes.end(), from.bytes.begin() + static_cast<std::ptrdiff_t>(at),
                        from.bytes.begin() + static_cast<std::ptrdiff_t>(at + bytes));
    }
    return kept;
  }
};

const char* const kRowsByMask = R"({"name": "mask", "ndim": 3,
  "inputs": [{"name": "in", "channels": 4}, {"name": "keep", "channels": 1, "level": "in", "type": "mask"},
             {"name": "again", "channels": 1, "level": "half", "type": "mask"}],
  "outputs": ["x", "kept", "both", "half", "last"],
  "layers": [{"op": "block", "name": "a", "input": "in", "out_channels": 8, "kernel_size": 3, "output": "x"},
    {"op": "max_pool", "name": "p", "kernel_size": 2, "stride": 2, "output": "half"},
    {"op": "prune", "input": "half", "by": "again", "output": "last"},
    {"op": "prune", "input": "x", "by": "keep", "output": "kept"},
    {"op": "prune", "input": "in", "by": "keep", "output": "own"},
    {"op": "concat", "input": "kept", "with": "own", "output": "both"}]})";

TEST_P(StagesMask, RowsOfTheCallersLevelAndOfAPooledOne) {
  const Plan plan = plan_of(kRowsByMask);
  EXPECT_EQ(input_of(plan.get(), 1).element, MINUET_ELEMENT_U8);
  for (const int64_t rows : {400, 1, 0}) {
    SCOPED_TRACE(rows);
    const std::vector<int32_t> coordinates = draw_unique_cells(rows, 3 + static_cast<uint64_t>(rows));
    std::set<std::array<int32_t, 4>> halves;
    for (size_t i = 0; i < coordinates.size(); i += 4) {
      std::array<int32_t, 4> cell{coordinates[i]};
      for (size_t a = 1; a < 4; ++a) cell[a] = coordinates[i + a] >> 1;
      halves.insert(cell);
    }
    for (const bool is_bool : {false, true}) {
      const std::vector<uint8_t> keep = draw_mask(rows, is_bool, 7),
                                 again = draw_mask(static_cast<int64_t>(halves.size()), is_bool, 8);
      for (const bool is_within : {false, true}) {
        SCOPED_TRACE(is_within);
        const StagedRun done = run(plan, coordinates, {keep, again}, is_bool, is_within);
        ASSERT_EQ(done.outputs[3].rows, static_cast<int64_t>(halves.size()));
        EXPECT_EQ(done.outputs[0].coordinates, coordinates);
        EXPECT_EQ(done.outputs[1], kept_of(done.outputs[0], keep, 1, 1, false));
        EXPECT_EQ(done.outputs[4], kept_of(done.outputs[3], again, 1, 2, false));
        // The second half of the channels are the caller's own features.
        const auto size = static_cast<size_t>(dtype_bytes(dtype()));
        NetworkRun own;
        own.channels = 4, own.coordinates = coordinates, own.bytes = features_of(coordinates);
        const NetworkRun wanted = kept_of(own, keep, 1, 1, false);
        ASSERT_EQ(done.outputs[2].rows, wanted.rows);
        for (size_t i = 0; i < static_cast<size_t>(wanted.rows); ++i) {
          const char* const row = done.outputs[2].bytes.data() + 12 * size * i;
          ASSERT_TRUE(std::equal(row + 8 * size, row + 12 * size, wanted.bytes.data() + 4 * size * i)) << i;
        }
      }
    }
  }
}

TEST_P(StagesMask, ChildrenOfAPooledLevel) {
  const std::vector<int32_t> coordinates = draw_unique_cells(300, 11);
  for (const bool divides : {false, true}) {
    SCOPED_TRACE(divides);
    const Plan plan =
        plan_of(R"({"name": "mask", "ndim": 3,
      "inputs": [{"name": "in", "channels": 4}, {"name": "keep", "channels": 8, "level": "x", "type": "mask"}],
      "outputs": ["x", "kept"],
      "layers": [{"op": "block", "name": "a", "out_channels": 16, "kernel_size": 2, "stride": 2, "output": "x"},
        {"op": "subdivide", "by": "keep", "features": ")" +
                std::string(divides ? "channel_to_space" : "copy") + R"(", "output": "kept"}]})");
    std::set<std::array<int32_t, 4>> halves;
    for (size_t i = 0; i < coordinates.size(); i += 4)
      halves.insert(
          {coordinates[i], coordinates[i + 1] >> 1, coordinates[i + 2] >> 1, coordinates[i + 3] >> 1});
    const std::vector<uint8_t> keep = draw_mask(8 * static_cast<int64_t>(halves.size()), false, 9);
    for (const bool is_within : {false, true}) {
      const StagedRun done = run(plan, coordinates, {keep}, false, is_within);
      EXPECT_EQ(done.outputs[1], kept_of(done.outputs[0], keep, 8, 1, divides)) << is_within;
    }
  }
}

TEST_P(StagesMask, ADescriptionIsPrintedWithItsMasks) {
  const Plan plan = plan_of(kRowsByMask);
  std::string text(minuet_plan_description(plan.get(), nullptr, 0), '\0');
  minuet_plan_description(plan.get(), text.data(), text.size());
  text.resize(text.find('\0'));
  EXPECT_THAT(text, HasSubstr(R"("mask")"));
  const Plan again = plan_of(text);
  std::string other(minuet_plan_description(again.get(), nullptr, 0), '\0');
  minuet_plan_description(again.get(), other.data(), other.size());
  other.resize(other.find('\0'));
  EXPECT_EQ(other, text);
}

TEST_P(StagesMask, ArraysThatAreNoMasksAreRefused) {
  const Plan plan = plan_of(R"({"name": "mask", "ndim": 3,
    "inputs": [{"name": "in", "channels": 4}, {"name": "keep", "channels": 1, "level": "in", "type": "mask"}],
    "layers": [{"op": "prune", "input": "in", "by": "keep"}]})");
  const std::vector<int32_t> coordinates = draw_unique_cells(20, 13);
  const Execution execution = execution_of(plan);
  check(prepare(machine(), execution.get(), coordinates));
  void* const features = put(features_of(coordinates), 20 * 4 * 4).data();
  void* const bytes = put(std::vector<uint8_t>(200, 1), 200).data();
  const auto refuse = [&](const minuet_array& mask, const char* words) {
    Arrays arrays;
    arrays.inputs = {array_of(features, {20, 4}, element()), mask};
    add_outputs(plan, 20, arrays);
    EXPECT_EQ(run_arrays(execution.get(), arrays.inputs, arrays.outputs), MINUET_INVALID_ARGUMENT) << words;
    EXPECT_THAT(last_error(), HasSubstr(words));
  };
  refuse(array_of(bytes, {19, 1}, MINUET_ELEMENT_U8), "input 1 has 19 rows; it must have 20");
  refuse(array_of(bytes, {20, 2}, MINUET_ELEMENT_U8), "input 1 has shape [20, 2] and elements of u8");
  refuse(array_of(bytes, {20}, MINUET_ELEMENT_U8), "input 1 has shape [20]");
  refuse(array_of(bytes, {20, 1}, MINUET_ELEMENT_I32), "elements of i32; as a mask it must be");
  refuse(array_of(bytes, {20, 1}, MINUET_ELEMENT_F32), "elements of f32; as a mask it must be");
  refuse(array_of(nullptr, {20, 1}, MINUET_ELEMENT_U8), "null");
  refuse(array_of(bytes, {20, 1}, MINUET_ELEMENT_I8), "its element is 5");
  Arrays arrays;
  arrays.inputs = {array_of(bytes, {20, 4}, MINUET_ELEMENT_BOOL),
                   array_of(bytes, {20, 1}, MINUET_ELEMENT_BOOL)};
  add_outputs(plan, 20, arrays);
  EXPECT_EQ(run_arrays(execution.get(), arrays.inputs, arrays.outputs), MINUET_INVALID_ARGUMENT);
  EXPECT_THAT(last_error(), HasSubstr("input 0 has elements of bool"));
  minuet_tensor matrices[2] = {};
  EXPECT_EQ(minuet_execution_run(execution.get(), matrices, 2, matrices, 1, nullptr),
            MINUET_FAILED_PRECONDITION);
  EXPECT_THAT(last_error(), HasSubstr("use minuet_execution_run_arrays"));
}

TEST_P(StagesMask, DescriptionsThatMisuseAMaskAreRefused) {
  const auto refuse = [&](const std::string& inputs, const std::string& layers, const char* words) {
    NetworkSpec spec;
    spec.description =
        R"({"name": "mask", "ndim": 3, "inputs": [)" + inputs + R"(], "layers": [)" + layers + "]}";
    spec.dtype = dtype();
    Plan plan{nullptr, {minuet_plan_destroy}};
    EXPECT_EQ(create_network(machine(), spec, plan), MINUET_INVALID_ARGUMENT) << words;
    EXPECT_THAT(last_error(), HasSubstr(words));
  };
  const std::string in = R"({"name": "in", "channels": 4})",
                    both = in + R"(, {"name": "keep", "channels": 1, "level": "in", "type": "mask"})",
                    prune = R"({"op": "prune", "input": "in", "by": "keep")";
  refuse(both, prune + R"(, "threshold": 0})", "leave \"threshold\" and \"top_k\" out");
  refuse(both, prune + R"(, "top_k": 3})", "leave \"threshold\" and \"top_k\" out");
  refuse(both, R"({"op": "relu", "input": "keep"})", "a mask has bytes and no features");
  refuse(both, R"({"op": "concat", "input": "in", "with": "keep"})", "a mask has bytes and no features");
  refuse(both, R"({"op": "relu", "input": "in"})", "keep");
  refuse(R"({"name": "in", "channels": 4, "type": "mask"})", R"({"op": "relu"})", "cannot be a mask");
  refuse(R"({"name": "in", "channels": 4, "type": "bytes"})", R"({"op": "relu"})",
         R"("type" must be "features" or "mask")");
  refuse(in + R"(, {"name": "keep", "channels": 2, "level": "in", "type": "mask"})", prune + "}",
         "2 channels, but the layer needs 1 byte for each row");
}

/// The number of rows of a made level is known after a run that failed because an output has fewer.
TEST_P(StagesMask, ARunWithTooFewRowsTellsThem) {
  const Plan plan = plan_of(R"({"name": "few", "ndim": 3,
    "inputs": [{"name": "in", "channels": 4}, {"name": "keep", "channels": 1, "level": "in", "type": "mask"}],
    "outputs": ["x", "kept", "last"],
    "layers": [{"op": "block", "name": "a", "input": "in", "out_channels": 8, "kernel_size": 3, "output": "x"},
      {"op": "prune", "input": "x", "by": "keep", "output": "kept"},
      {"op": "linear", "name": "s", "out_channels": 1, "output": "score"},
      {"op": "prune", "input": "kept", "by": "score", "top_k": 5, "output": "last"}]})");
  const std::vector<int32_t> coordinates = draw_unique_cells(120, 17);
  const std::vector<uint8_t> keep = draw_mask(120, false, 3);
  const StagedRun wanted = run(plan, coordinates, {keep}, false, /*is_within=*/false);
  const Execution execution = execution_of(plan);
  const auto rows_of = [&](int32_t output) {
    int64_t rows = -1;
    int32_t channels = 0;
    const minuet_status status = minuet_execution_output_shape_of(execution.get(), output, &rows, &channels);
    return status == MINUET_OK ? rows : -static_cast<int64_t>(status);
  };
  check(prepare(machine(), execution.get(), coordinates));
  EXPECT_EQ(rows_of(0), 120);
  EXPECT_EQ(rows_of(1), -MINUET_FAILED_PRECONDITION);
  const auto arrays_with = [&](int64_t second, int64_t third) {
    Arrays arrays;
    arrays.inputs = {array_of(put(features_of(coordinates), 120 * 16).data(), {120, 4}, element()),
                     array_of(put(keep, 120).data(), {120, 1}, MINUET_ELEMENT_U8)};
    add_outputs(plan, 120, arrays);
    arrays.outputs[1].shape[0] = second, arrays.outputs[2].shape[0] = third;
    return arrays;
  };
  const Arrays few = arrays_with(3, 3);
  EXPECT_EQ(run_arrays(execution.get(), few.inputs, few.outputs), MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(rows_of(1), wanted.outputs[1].rows);
  EXPECT_EQ(rows_of(2), -MINUET_FAILED_PRECONDITION);
  const Arrays more = arrays_with(wanted.outputs[1].rows, 3);
  EXPECT_EQ(run_arrays(execution.get(), more.inputs, more.outputs), MINUET_INVALID_ARGUMENT);
  EXPECT_EQ(rows_of(2), wanted.outputs[2].rows);
  const Arrays all = arrays_with(wanted.outputs[1].rows, wanted.outputs[2].rows);
  check(run_arrays(execution.get(), all.inputs, all.outputs));
  const StagedRun done = read(plan, execution, all);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(done.outputs[i], wanted.outputs[i]) << i;
  // A prepare makes the numbers unknown again.
  check(prepare(machine(), execution.get(), coordinates));
  EXPECT_EQ(rows_of(1), -MINUET_FAILED_PRECONDITION);
}

MINUET_INSTANTIATE_DEVICE_TEST(StagesMask);

}  // namespace
}  // namespace minuet::abi
