#include "tests/support/oracle.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>
#include <utility>

#include "tests/support/pointwise_oracle.h"

namespace minuet::oracle {
namespace {

using Point = std::array<int64_t, 5>;

struct HashPoint {
  size_t operator()(const Point& point) const {
    uint64_t hash = 0;
    for (int64_t value : point)
      hash = (hash ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15ull >> 3 ^ hash << 7;
    return hash;
  }
};

Point point_at(const std::vector<int32_t>& coordinates, int ndim, int64_t row) {
  Point point{};
  for (int f = 0; f <= ndim; ++f) point[f] = coordinates[row * (1 + ndim) + f];
  return point;
}

int64_t rows_of(const std::vector<int32_t>& coordinates, int ndim) {
  return static_cast<int64_t>(coordinates.size()) / (1 + ndim);
}

/// All offsets of the list, or of the box, x slowest; the batch's entry is 0.
std::vector<Point> offsets_of(const Geometry& geometry) {
  if (!geometry.offsets.empty()) {
    std::vector<Point> listed;
    for (const Axes& offset : geometry.offsets) {
      Point& point = listed.emplace_back();
      for (int a = 0; a < geometry.ndim; ++a)
        point[a + 1] = static_cast<int64_t>(offset[a]) * geometry.fine_tensor_stride[a];
    }
    return listed;
  }
  std::vector<Point> offsets{Point{}};
  for (int a = 0; a < geometry.ndim; ++a) {
    std::vector<Point> longer;
    const int64_t step = static_cast<int64_t>(geometry.dilation[a]) * geometry.fine_tensor_stride[a];
    const int size = geometry.kernel_size[a];
    for (const Point& offset : offsets) {
      for (int i = 0; i < size; ++i) {
        longer.push_back(offset);
        longer.back()[a + 1] = geometry.is_dense ? i * step - static_cast<int64_t>(geometry.padding[a]) *
                                                                  geometry.fine_tensor_stride[a]
                                                 : (i - (size - 1) / 2) * step;
      }
    }
    offsets = longer;
  }
  return offsets;
}

}  // namespace

std::vector<int32_t> downsample(int ndim, const std::vector<int32_t>& coordinates,
                                const Axes& tensor_stride) {
  std::set<Point> unique;
  for (int64_t row = 0; row < rows_of(coordinates, ndim); ++row) {
    Point point = point_at(coordinates, ndim, row);
    for (int a = 0; a < ndim; ++a) {
      const int64_t step = tensor_stride[a];
      int64_t cell = point[a + 1] / step;
      if (cell * step > point[a + 1]) --cell;
      point[a + 1] = cell * step;
    }
    unique.insert(point);
  }
  std::vector<int32_t> coarse;
  for (const Point& point : unique) {
    for (int f = 0; f <= ndim; ++f) coarse.push_back(static_cast<int32_t>(point[f]));
  }
  return coarse;
}

std::vector<int32_t> reach(const Geometry& geometry, const Axes& stride, const Axes& shape,
                           const std::vector<int32_t>& in) {
  const std::vector<Point> offsets = offsets_of(geometry);
  std::set<Point> unique;
  for (int64_t row = 0; row < rows_of(in, geometry.ndim); ++row) {
    for (const Point& offset : offsets) {
      Point point = point_at(in, geometry.ndim, row);
      bool is_there = true;
      for (int a = 0; a < geometry.ndim; ++a) {
        const int64_t step = static_cast<int64_t>(stride[a]) * geometry.fine_tensor_stride[a];
        point[a + 1] -= offset[a + 1];
        const int64_t cell = point[a + 1] / step;
        is_there =
            is_there && cell * step == point[a + 1] && (shape[a] == 0 || (cell >= 0 && cell < shape[a]));
      }
      if (is_there) unique.insert(point);
    }
  }
  std::vector<int32_t> reached;
  for (const Point& point : unique) {
    for (int f = 0; f <= geometry.ndim; ++f) reached.push_back(static_cast<int32_t>(point[f]));
  }
  return reached;
}

void sort(std::vector<Pair>& pairs) { std::sort(pairs.begin(), pairs.end()); }

std::vector<Pair> find_pairs(const Geometry& geometry, const std::vector<int32_t>& in,
                             const std::vector<int32_t>& out, const std::vector<int32_t>* out_rows) {
  std::unordered_map<Point, int32_t, HashPoint> inputs;
  for (int64_t row = 0; row < rows_of(in, geometry.ndim); ++row) {
    inputs.emplace(point_at(in, geometry.ndim, row), static_cast<int32_t>(row));
  }
  const std::vector<Point> offsets = offsets_of(geometry);
  std::vector<Pair> pairs;
  const int64_t count = out_rows ? static_cast<int64_t>(out_rows->size()) : rows_of(out, geometry.ndim);
  for (int64_t i = 0; i < count; ++i) {
    const int32_t row = out_rows ? (*out_rows)[i] : static_cast<int32_t>(i);
    const Point at = point_at(out, geometry.ndim, row);
    for (size_t k = 0; k < offsets.size(); ++k) {
      Point wanted = at;
      for (int f = 1; f <= geometry.ndim; ++f)
        wanted[f] += geometry.transposed ? -offsets[k][f] : offsets[k][f];
      const auto found = inputs.find(wanted);
      if (found != inputs.end()) pairs.push_back({static_cast<int32_t>(k), found->second, row});
    }
  }
  sort(pairs);
  return pairs;
}

void add_channel(double x, const float* weights, std::int64_t outputs, double* sums, double* magnitudes) {
  for (std::int64_t o = 0; o < outputs; ++o) {
    const double product = x * weights[o];
    sums[o] += product;
    magnitudes[o] += std::abs(product);
  }
}

std::vector<double> convolve(const Layer& layer, const std::vector<Pair>& pairs,
                             std::vector<double>* magnitudes) {
  const int64_t in = layer.in_channels, out = layer.out_channels;
  const int64_t inputs = in / layer.groups, outputs = out / layer.groups;  // of one group
  std::vector<double> result(layer.out_rows * out, 0.0), sizes = result;
  for (const Pair& pair : pairs) {
    for (int64_t c = 0; c < in; ++c) {
      const int64_t group = c / inputs, first = group * outputs, target = pair.out * out + first;
      add_channel((*layer.features)[pair.in * in + c],
                  layer.weight->data() + (pair.k * inputs + c - group * inputs) * out + first, outputs,
                  result.data() + target, sizes.data() + target);
    }
  }
  for (size_t i = 0; i < result.size(); ++i) {
    const size_t channel = i % static_cast<size_t>(layer.out_channels);
    const double scale = layer.scale ? (*layer.scale)[channel] : 1.0;
    const double shift = layer.shift ? (*layer.shift)[channel] : 0.0;
    const double residual = layer.residual ? (*layer.residual)[i] : 0.0;
    result[i] = apply_function(layer.activation, result[i] * scale + shift + residual, layer.negative_slope);
    sizes[i] = sizes[i] * std::abs(scale) + std::abs(shift) + std::abs(residual);
  }
  if (magnitudes) *magnitudes = std::move(sizes);
  return result;
}

}  // namespace minuet::oracle
