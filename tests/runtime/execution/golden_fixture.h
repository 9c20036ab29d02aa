// Golden problems of single layers as cases of the C ABI's tests.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "tests/support/abi.h"
#include "tests/support/golden.h"

namespace minuet::abi {

/// The list of a custom kernel.
inline std::vector<oracle::Axes> golden_offsets(const GoldenFile& file, int ndim) {
  const std::vector<int32_t>& values = file.integers.at("offsets");
  std::vector<oracle::Axes> offsets(values.size() / static_cast<size_t>(ndim), oracle::Axes{});
  for (size_t i = 0; i < values.size(); ++i)
    offsets[i / static_cast<size_t>(ndim)][i % static_cast<size_t>(ndim)] = values[i];
  return offsets;
}

/// The problem of a single layer.
inline ConvolutionCase golden_case(const GoldenFile& file, DType dtype) {
  ConvolutionCase test;
  test.dtype = dtype;
  test.ndim = std::stoi(file.metadata.at("ndim"));
  test.groups = std::stoi(file.metadata.at("groups"));
  if (file.metadata.count("kernel")) {
    test.offsets = golden_offsets(file, test.ndim);
  } else {
    test.kernel_size = file.axes("kernel_size");
    test.stride = file.axes("stride");
    test.dilation = file.axes("dilation");
  }
  test.tensor_stride = file.axes("fine_tensor_stride");
  test.in_channels = static_cast<int>(file.shapes.at("in_features")[1]);
  test.out_channels = static_cast<int>(file.shapes.at("out_features")[1]);
  test.points = file.shapes.at("in_coordinates")[0];
  const auto rule = file.metadata.find("output_rule");
  test.is_reached = rule != file.metadata.end() && rule->second == "reached";
  if (test.is_reached) {
    const auto zeros_past = [&](oracle::Axes axes) {
      std::fill(axes.begin() + test.ndim, axes.end(), 0);
      return axes;
    };
    test.padding = zeros_past(file.axes("padding"));
    if (file.metadata.count("out_spatial_shape")) test.shape = zeros_past(file.axes("out_spatial_shape"));
  }
  const bool strided = test.stride != oracle::Axes{1, 1, 1, 1};
  const std::string& kind = file.metadata.at("kind");
  const bool is_inverse = kind == "inverse";
  test.is_generative = kind == "generative_transposed";
  test.kind = is_inverse || kind == "transposed" || test.is_generative      ? ConvolutionKind::Transposed
              : file.flag("submanifold")                                    ? ConvolutionKind::Submanifold
              : (strided || test.is_reached) && !file.flag("given_outputs") ? ConvolutionKind::Strided
                                                                            : ConvolutionKind::GivenOutputs;
  if (is_inverse) test.coarse_side = CoarseSide::Derived;
  return test;
}

/// The inputs of a golden problem.
inline ConvolutionData golden_data(const GoldenFile& file, const ConvolutionCase& test) {
  ConvolutionData data;
  data.geometry = test.geometry();
  data.in_coordinates = file.integers.at("in_coordinates");
  data.out_coordinates = file.integers.at("out_coordinates");
  data.features = file.floats.at("in_features");
  if (file.floats.count("weight")) data.weight = file.floats.at("weight");  // a pooling has none
  data.rows.resize(data.out_rows());
  std::iota(data.rows.begin(), data.rows.end(), 0);
  return data;
}

}  // namespace minuet::abi
