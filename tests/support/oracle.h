// The fp64 oracle: sparse convolution by plain loops over a table of points. Shares no code with the
// library; semantics as in the design page on convolution.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace minuet::oracle {

using Axes = std::array<int32_t, 4>;

/// out[q] takes in[q + offset_k] (forward), or in[p - offset_k] gives to out[p] (transposed).
struct Geometry {
  int ndim = 3;
  Axes kernel_size{1, 1, 1, 1};
  Axes dilation{1, 1, 1, 1};
  Axes fine_tensor_stride{1, 1, 1, 1};  // of the input, or of a transposed convolution's output
  bool transposed = false;
  bool is_dense = false;  // offsets are those of a dense convolution with this padding
  Axes padding{0, 0, 0, 0};
  std::vector<Axes> offsets{};  // in steps of fine_tensor_stride; where there are any, in place of the box's
};

struct Pair {
  int32_t k = 0, in = 0, out = 0;
  auto operator<=>(const Pair&) const = default;
};

/// Coordinates are int32 [n, 1 + ndim], batch first, in any order.
/// Unique floor(p / s) * s with s the coarser tensor stride, in ascending order.
std::vector<int32_t> downsample(int ndim, const std::vector<int32_t>& coordinates, const Axes& tensor_stride);

/// Every output that a dense convolution with this kernel and this stride reaches from an input, in ascending
/// order. An output's coordinates divided by its tensor stride are below `shape`, and not negative, unless
/// `shape` is 0.
std::vector<int32_t> reach(const Geometry& geometry, const Axes& stride, const Axes& shape,
                           const std::vector<int32_t>& in);

/// Every pair of the map whose output row is in `out_rows` (all rows where it is null), sorted. Of inputs
/// that lie in one place the first counts.
std::vector<Pair> find_pairs(const Geometry& geometry, const std::vector<int32_t>& in,
                             const std::vector<int32_t>& out, const std::vector<int32_t>* out_rows = nullptr);

/// In the order of find_pairs. Here, where it is optimized: of an instance of std::sort in each file that
/// sorts pairs, the linker would keep any.
void sort(std::vector<Pair>& pairs);

/// One layer on given pairs: double [out_rows, out_channels]. weight is [volume, in_channels / groups,
/// out_channels], and output channel c reads the inputs of group c / (out_channels / groups). Rows that no
/// pair names stay 0 before the epilogue.
struct Layer {
  int64_t out_rows = 0;
  int in_channels = 0, out_channels = 0;
  const std::vector<float>* features = nullptr;
  const std::vector<float>* weight = nullptr;
  const std::vector<float>* scale = nullptr;     // optional
  const std::vector<float>* shift = nullptr;     // optional
  const std::vector<float>* residual = nullptr;  // optional
  std::string activation = "none";               // a step of pointwise_oracle.h that maps one number to one
  float negative_slope = 0;                      // of a leaky ReLU
  int groups = 1;
};
/// `magnitudes`, optional: what the rounding errors of each output are measured by, |scale| times the sum of
/// |in| |w| over its pairs and channels, + |shift| + |residual|.
std::vector<double> convolve(const Layer& layer, const std::vector<Pair>& pairs,
                             std::vector<double>* magnitudes = nullptr);

/// What one input channel adds to a row of outputs: sums[o] += x * weights[o], and magnitudes[o] the size of
/// that.
void add_channel(double x, const float* weights, std::int64_t outputs, double* sums, double* magnitudes);

}  // namespace minuet::oracle
