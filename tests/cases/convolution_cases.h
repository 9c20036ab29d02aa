// The one list of convolution problems: correctness tests, the engine tests and benchmarks read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/choose/problem.h"
#include "tests/support/oracle.h"

namespace minuet {

/// Where the coarser set of a transposed convolution comes from.
enum class CoarseSide {
  Copied,   // what downsampling the finer side gives, handed over as coordinates
  Derived,  // the library downsamples
  Apart,    // only half of that, and other places, in any order
};

struct ConvolutionCase {
  ConvolutionKind kind = ConvolutionKind::Submanifold;
  DType dtype = DType::F32;
  int ndim = 3;
  int64_t points = 0;  // of the finer side
  int in_channels = 16, out_channels = 16;
  int groups = 1;
  oracle::Axes kernel_size{1, 1, 1, 1}, stride{1, 1, 1, 1}, dilation{1, 1, 1, 1}, tensor_stride{1, 1, 1, 1};
  int batches = 1, empty_batch = -1;
  bool scale_shift = false, residual = false;
  Activation activation = Activation::None;
  float negative_slope = 0;  // of a leaky ReLU
  int64_t sampled_rows = 0;  // rows the oracle computes; 0: all
  // Terms of one output have one sign: an output of a few numbers must not cancel to nearly nothing,
  // where a relative bound means little.
  bool one_sign = false;
  bool scale_alone = false, shift_alone = false;  // in place of scale_shift
  bool raw_weights = false;                       // the library has to round them
  CoarseSide coarse_side = CoarseSide::Copied;
  int64_t other_points = -1;        // of the cloud that half of a named coarser side is from; -1: as many
  oracle::Axes origin{0, 0, 0, 0};  // the cloud's middle, in tensor strides
  double filled = 0;                // share of the cells that have a voxel; 0: few neighbours, as in scenes
  int32_t first_batch = 0;          // batch index of item 0
  int64_t duplicates = 0;           // rows more, which repeat others; the first of them counts
  int32_t bounds_slack = -1;        // bounds are declared, so much wider than the cloud; -1: none
  bool is_reached = false;          // the coarser side has all outputs that a dense convolution reaches
  bool is_generative = false;       // of a transposed op: it makes its outputs' set
  oracle::Axes padding{0, 0, 0, 0},
      shape{0, 0, 0, 0};                // of that convolution, and of its output; 0: unbounded
  std::vector<oracle::Axes> offsets{};  // of a custom kernel, in tensor strides; where there are none: a box
  int64_t earlier_points = -1;          // of another cloud, which goes through the execution before; -1: none
  uint64_t seed = 1;

  /// "submanifold f16 n1000 d3 c16-32 k3,3,3 ... seed 7": enough to find the case again.
  std::string name() const;
  int64_t volume() const;
  bool transposed() const { return kind == ConvolutionKind::Transposed; }
  bool has_scale() const { return scale_shift || scale_alone; }
  bool has_shift() const { return scale_shift || shift_alone; }
  oracle::Axes coarse_stride() const;
  oracle::Geometry geometry() const;
  /// What the coarser side is of these coordinates, unless the caller names it.
  std::vector<int32_t> coarse_of(const std::vector<int32_t>& fine) const;
  /// Cells on an edge of the box that the voxels are drawn from.
  int64_t extent() const;
  /// True where the caller names the coarser side, whatever the finer one is.
  bool names_coarse_side() const {
    return kind == ConvolutionKind::GivenOutputs || coarse_side == CoarseSide::Apart;
  }
  /// The cloud that half of that side is from.
  ConvolutionCase other() const;
  /// The cloud that goes before this one; earlier_points must not be -1.
  ConvolutionCase earlier() const;
  bool operator==(const ConvolutionCase&) const = default;
};

const char* dtype_name(DType type);
/// "Activation::ReLU"
std::string activation_text(Activation activation);
const std::vector<DType>& all_dtypes();
const std::vector<ConvolutionKind>& all_kinds();

/// 1, 3, 4, 16, 24, 32, 48, 64, 96, 128, 256
const std::vector<int>& channel_sizes();
/// 0, 1, 2, 31
const std::vector<int64_t>& small_counts();

/// One small cloud, for the full cross of channels, kinds, dtypes and small_counts(): the kernel and
/// the rest follow from the kind.
ConvolutionCase small_case(DType dtype, ConvolutionKind kind, int in_channels, int out_channels,
                           int64_t points);
/// About 1000 points: every pair of values of any two of channels, kind, dtype, ndim, kernel, stride,
/// dilation, tensor stride, batches and epilogue is in some case.
std::vector<ConvolutionCase> pairwise_cases();
/// 100,000 points, 2,000 sampled rows: six channel pairs a dtype.
std::vector<ConvolutionCase> large_cases(DType dtype);
/// The long list (MINUET_LONG_TESTS=1): all channel pairs at 1000, and more large clouds.
std::vector<ConvolutionCase> long_cases(DType dtype);

/// Inputs of one case: coordinates, and values that the dtype holds exactly.
struct ConvolutionData {
  oracle::Geometry geometry;
  std::vector<int32_t> in_coordinates, out_coordinates;  // [n, 1 + ndim]
  std::vector<float> features, weight, scale, shift, residual;
  std::vector<int32_t> rows;  // output rows to compare; all where the case samples none
  // [out rows] the first row with the same coordinates: its pairs and its residual count for all of them.
  std::vector<int32_t> first_row;

  int64_t in_rows() const { return static_cast<int64_t>(in_coordinates.size()) / (1 + geometry.ndim); }
  int64_t out_rows() const { return static_cast<int64_t>(out_coordinates.size()) / (1 + geometry.ndim); }
};

/// integers: small whole numbers, whose sums every dtype holds exactly (in_channels up to 8).
ConvolutionData make_data(const ConvolutionCase& test, bool integers = false);
/// The same in parts. Parameters depend on channels, kernel and dtype only: one set serves many clouds.
ConvolutionData make_coordinates(const ConvolutionCase& test);
void make_parameters(const ConvolutionCase& test, bool integers, ConvolutionData& data);
void make_features(const ConvolutionCase& test, bool integers, ConvolutionData& data);

/// Pairs of all rows, sorted.
std::vector<oracle::Pair> expected_pairs(const ConvolutionData& data);
/// fp64 result for data.rows: [rows, out_channels], of features as the dtype's GEMMs read them: tf32 rounds
/// them. `magnitudes` as of oracle::convolve.
std::vector<double> expected_output(const ConvolutionCase& test, const ConvolutionData& data,
                                    std::vector<double>* magnitudes = nullptr);

}  // namespace minuet
