// What tests of networks with dense tensors share: descriptions, clouds, and what plain loops compute.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "tests/runtime/execution/pyramid_fixture.h"

namespace minuet::abi {

inline constexpr int64_t kBatch = 4;  // the last two items are empty

/// A network of dense tensors, behind a max pooling of 2 cells where `stride` is 2.
struct Case {
  int ndim = 3;
  int channels = 5;
  std::vector<int> shape{9, 6, 4};
  int stride = 1;
  bool channels_last = false;
  std::vector<int> image_axes = {};

  bool is_birds_eye() const { return !image_axes.empty(); }
  /// Cells of the level of the dense tensor.
  std::vector<int> cells() const {
    std::vector<int> cells;
    for (const int cell : shape) cells.push_back((cell + stride - 1) / stride);
    return cells;
  }
  std::vector<int64_t> dims() const {
    const std::vector<int> cells = this->cells();
    if (is_birds_eye()) {
      const int z = 3 - image_axes[0] - image_axes[1];
      return {kBatch, int64_t{channels} * cells[z], cells[image_axes[0]], cells[image_axes[1]]};
    }
    std::vector<int64_t> dims{kBatch};
    dims.insert(dims.end(), cells.begin(), cells.end());
    dims.insert(channels_last ? dims.end() : dims.begin() + 1, channels);
    return dims;
  }
  int64_t elements() const {
    const std::vector<int64_t> dims = this->dims();
    return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  }
  /// Where an element lies. `cell` has the batch index, then one number an axis.
  int64_t element(const std::vector<int>& cell, int c) const {
    const std::vector<int> cells = this->cells();
    std::vector<int64_t> at{cell[0]};
    if (is_birds_eye()) {
      const int z = 3 - image_axes[0] - image_axes[1];
      at.insert(at.end(),
                {int64_t{c} * cells[z] + cell[z + 1], cell[image_axes[0] + 1], cell[image_axes[1] + 1]});
    } else {
      at.insert(at.end(), cell.begin() + 1, cell.end());
      at.insert(channels_last ? at.end() : at.begin() + 1, c);
    }
    const std::vector<int64_t> dims = this->dims();
    int64_t element = 0;
    for (size_t axis = 0; axis < dims.size(); ++axis) element = element * dims[axis] + at[axis];
    return element;
  }
};

inline std::string list(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "[" : ", ") + std::to_string(number);
  return text + "]";
}

inline std::string dense_layer(const Case& test) {
  if (test.is_birds_eye()) {
    return R"({"op": "birds_eye", "image_axes": )" + list(test.image_axes) + R"(, "output": "dense"})";
  }
  return std::string(R"({"op": "to_dense", "format": ")") +
         (test.channels_last ? "channels_last" : "channels_first") + R"(", "output": "dense"})";
}

inline std::string pooling_layer(const Case& test) {
  const std::string size = std::to_string(test.stride);
  return R"({"op": "max_pool", "name": "pool", "kernel_size": )" + size + R"(, "stride": )" + size +
         R"(, "save": "level"})";
}

/// The description of a network with these layers.
inline std::string describe(const Case& test, const std::string& layers, bool has_shape = true) {
  return R"({"name": "dense", "ndim": )" + std::to_string(test.ndim) + R"(, "in_channels": )" +
         std::to_string(test.channels) + R"(, "channels": [1], )" +
         (has_shape ? R"("shape": )" + list(test.shape) + ", " : "") + R"("layers": [)" + layers + "]}";
}

struct Points {
  std::vector<int32_t> coordinates;
  std::vector<float> features;
};

inline Points draw_points(const Case& test, int count, uint64_t seed) {
  Random random(seed);
  Points points;
  std::set<std::vector<int32_t>> taken;
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> coordinate{static_cast<int32_t>(random.below(2))};
    for (const int cells : test.shape) coordinate.push_back(static_cast<int32_t>(random.below(cells)));
    if (!taken.insert(coordinate).second) continue;
    points.coordinates.insert(points.coordinates.end(), coordinate.begin(), coordinate.end());
    for (int c = 0; c < test.channels; ++c) {
      points.features.push_back(static_cast<float>(random.between(-127, 127)) / 64);
    }
  }
  return points;
}

/// What the network gives, as plain loops compute it.
inline std::vector<float> expected_of(const Case& test, const Points& points) {
  std::map<std::vector<int>, std::vector<float>> cells;
  const size_t fields = static_cast<size_t>(1 + test.ndim), channels = static_cast<size_t>(test.channels);
  for (size_t row = 0; row * fields < points.coordinates.size(); ++row) {
    std::vector<int> cell(points.coordinates.begin() + static_cast<std::ptrdiff_t>(row * fields),
                          points.coordinates.begin() + static_cast<std::ptrdiff_t>((row + 1) * fields));
    for (size_t f = 1; f < fields; ++f) cell[f] /= test.stride;
    const auto [found, is_new] = cells.try_emplace(cell, channels, -1e30f);
    for (size_t c = 0; c < channels; ++c) {
      found->second[c] = std::max(found->second[c], points.features[row * channels + c]);
    }
  }
  std::vector<float> dense(static_cast<size_t>(test.elements()));
  for (const auto& [cell, values] : cells) {
    for (int c = 0; c < test.channels; ++c) {
      dense[static_cast<size_t>(test.element(cell, c))] = values[static_cast<size_t>(c)];
    }
  }
  return dense;
}

class DenseTest : public DeviceTest {
 protected:
  Plan plan_of(const std::string& description) {
    NetworkSpec spec;
    spec.description = description;
    spec.dtype = dtype();
    spec.dataflow = MINUET_DATAFLOW_FUSED;
    return make_network(machine(), spec);
  }
  Plan plan_of(const Case& test) {
    return plan_of(describe(test, (test.stride > 1 ? pooling_layer(test) + ", " : "") + dense_layer(test)));
  }
  minuet_element element() const {
    return dtype() == DType::TF32 ? MINUET_ELEMENT_F32 : static_cast<minuet_element>(abi_dtype(dtype()));
  }
  int64_t bytes_of(const Case& test) const { return test.elements() * dtype_bytes(dtype()); }
  minuet_array features_of(const Buffer& buffer, const Case& test, int64_t rows) const {
    return array_of(buffer.data(), {rows, test.channels}, element());
  }
  minuet_array dense_of(void* data, const Case& test) const { return array_of(data, test.dims(), element()); }
  static minuet_execution_options options_of(minuet_map_method method = MINUET_MAPS_AUTO) {
    minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
    options.batch_size = kBatch;
    options.map_method = method;
    return options;
  }
  int64_t rows_of(const Case& test, const Points& points) const {
    return static_cast<int64_t>(points.coordinates.size()) / (1 + test.ndim);
  }
  /// Prepares the points and runs; the output is poisoned first. It begins `shift` elements past a multiple
  /// of 256 bytes.
  std::vector<float> run(minuet_execution* execution, const Case& test, const Points& points, int shift = 0) {
    check(prepare(machine(), execution, points.coordinates, test.ndim));
    const Buffer input(machine(), encode(dtype(), points.features));
    const int64_t skipped = shift * dtype_bytes(dtype());
    const Buffer output(machine(), bytes_of(test) + skipped + 64);
    check(run_arrays(execution, {features_of(input, test, rows_of(test, points))},
                     {dense_of(static_cast<char*>(output.data()) + skipped, test)}));
    std::vector<float> values = decode(dtype(), output.read<char>());
    for (int64_t i = shift + test.elements(); i < static_cast<int64_t>(values.size()); ++i) {
      EXPECT_TRUE(std::isnan(values[static_cast<size_t>(i)])) << "past the end";
    }
    values.erase(values.begin(), values.begin() + shift);
    values.resize(static_cast<size_t>(test.elements()));
    return values;
  }
  minuet_status create(minuet_plan* plan, const minuet_execution_options& options) {
    minuet_execution* made = nullptr;
    const minuet_status status = minuet_execution_create(plan, machine().device(), &options, &made);
    Execution(made, {minuet_execution_destroy}).reset();
    return status;
  }
  /// The software device takes long for each kernel.
  std::vector<Case> cases() {
    std::vector<Case> cases{{}, {.channels = 16, .shape = {8, 6, 4}, .stride = 2}};
    cases.push_back({.channels = 16, .stride = 2, .channels_last = true});
    cases.push_back({.channels = 8, .shape = {8, 10, 4}, .stride = 2, .image_axes = {1, 0}});
    if (machine().is_software()) return cases;
    for (const bool channels_last : {false, true}) {
      cases.push_back({.ndim = 1, .channels = 3, .shape = {50}, .channels_last = channels_last});
      cases.push_back({.ndim = 2, .channels = 4, .shape = {7, 11}, .channels_last = channels_last});
      cases.push_back(
          {.ndim = 4, .channels = 2, .shape = {5, 3, 4, 2}, .stride = 2, .channels_last = channels_last});
      cases.push_back({.channels = 1, .channels_last = channels_last});
    }
    for (const auto& axes : {std::vector{0, 1}, {0, 2}, {2, 0}, {1, 2}, {2, 1}}) {
      cases.push_back({.channels = 3, .image_axes = axes});
    }
    return cases;
  }
};

}  // namespace minuet::abi
