#include "tests/cases/convolution_cases.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "tests/support/clouds.h"
#include "tests/support/compare.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet {
namespace {

const char* kind_name(ConvolutionKind kind) {
  switch (kind) {
    case ConvolutionKind::Submanifold:
      return "submanifold";
    case ConvolutionKind::Strided:
      return "strided";
    case ConvolutionKind::GivenOutputs:
      return "given-outputs";
    case ConvolutionKind::Transposed:
      return "transposed";
  }
  return "?";
}

std::string axes_text(int ndim, const oracle::Axes& axes) {
  std::string text;
  for (int a = 0; a < ndim; ++a) text += (a > 0 ? "," : "") + std::to_string(axes[a]);
  return text;
}

oracle::Axes filled(int ndim, int32_t value) {
  oracle::Axes axes{1, 1, 1, 1};
  std::fill(axes.begin(), axes.begin() + ndim, value);
  return axes;
}

/// Kernel, stride and epilogue as networks have them, by kind.
void set_usual_shape(ConvolutionCase& test) {
  const bool strided = test.kind == ConvolutionKind::Strided || test.kind == ConvolutionKind::Transposed;
  test.kernel_size = filled(test.ndim, test.kind == ConvolutionKind::Strided ? 2 : 3);
  test.stride = filled(test.ndim, strided ? 2 : 1);
  test.scale_shift = test.kind != ConvolutionKind::GivenOutputs;
  test.residual = test.kind == ConvolutionKind::Submanifold;
  test.activation = test.kind != ConvolutionKind::Transposed ? Activation::ReLU : Activation::None;
}

// ---- pairwise selection: rows of factor values that cover every pair of values of two factors ------

enum Factor {
  kIn,
  kOut,
  kType,
  kKind,
  kDim,
  kKernel,
  kStride,
  kDilation,
  kTensorStride,
  kBatch,
  kEpilogue,
  kFactors
};

std::vector<std::vector<int>> cover_pairs(const std::vector<int>& sizes, uint64_t seed) {
  using Cell = std::array<int, 4>;  // factor, value, factor, value
  std::set<Cell> open;
  for (int f = 0; f < static_cast<int>(sizes.size()); ++f) {
    for (int g = f + 1; g < static_cast<int>(sizes.size()); ++g) {
      for (int i = 0; i < sizes[f]; ++i) {
        for (int j = 0; j < sizes[g]; ++j) open.insert({f, i, g, j});
      }
    }
  }
  Random random(seed);
  std::vector<std::vector<int>> rows;
  while (!open.empty()) {
    std::vector<int> best;
    size_t most = 0;
    for (int attempt = 0; attempt < 40; ++attempt) {
      std::vector<int> row;
      for (int size : sizes) row.push_back(static_cast<int>(random.below(size)));
      const Cell& first = *open.begin();
      row[first[0]] = first[1], row[first[2]] = first[3];
      size_t covered = 0;
      for (size_t f = 0; f < sizes.size(); ++f) {
        for (size_t g = f + 1; g < sizes.size(); ++g) {
          covered += open.count({static_cast<int>(f), row[f], static_cast<int>(g), row[g]});
        }
      }
      if (covered > most) most = covered, best = row;
    }
    for (size_t f = 0; f < sizes.size(); ++f) {
      for (size_t g = f + 1; g < sizes.size(); ++g) {
        open.erase({static_cast<int>(f), best[f], static_cast<int>(g), best[g]});
      }
    }
    rows.push_back(best);
  }
  return rows;
}

ConvolutionCase case_of_row(const std::vector<int>& row, uint64_t seed) {
  // Kernels of at most 81 offsets, whatever the dimension.
  static const oracle::Axes kKernels[] = {
      {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}, {5, 1, 2, 3}, {4, 3, 1, 2}};
  static const oracle::Axes kStrides[] = {{2, 2, 2, 2}, {3, 3, 3, 3}, {1, 2, 3, 1}, {1, 1, 1, 1}};
  static const oracle::Axes kDilations[] = {{1, 1, 1, 1}, {2, 2, 2, 2}, {1, 3, 2, 1}};
  static const oracle::Axes kTensorStrides[] = {{1, 1, 1, 1}, {4, 4, 4, 4}, {2, 1, 3, 2}};
  ConvolutionCase test;
  test.in_channels = channel_sizes()[row[kIn]];
  test.out_channels = channel_sizes()[row[kOut]];
  test.dtype = all_dtypes()[row[kType]];
  test.kind = all_kinds()[row[kKind]];
  test.ndim = row[kDim] + 1;
  test.points = 1000;
  auto set = [&](oracle::Axes& axes, const oracle::Axes& values) {
    std::copy(values.begin(), values.begin() + test.ndim, axes.begin());
  };
  set(test.kernel_size, kKernels[row[kKernel]]);
  set(test.dilation, kDilations[row[kDilation]]);
  set(test.tensor_stride, kTensorStrides[row[kTensorStride]]);
  if (test.kind == ConvolutionKind::Strided || test.kind == ConvolutionKind::Transposed) {
    set(test.stride, kStrides[row[kStride]]);
  }
  test.batches = row[kBatch] == 0 ? 1 : 3;
  test.empty_batch = row[kBatch] == 2 ? 1 : -1;
  test.scale_shift = (row[kEpilogue] & 1) != 0;
  test.residual = (row[kEpilogue] & 2) != 0;
  test.activation = row[kEpilogue] >= 8   ? Activation::LeakyReLU
                    : row[kEpilogue] >= 4 ? Activation::ReLU
                                          : Activation::None;
  test.negative_slope = row[kEpilogue] >= 8 ? 0.125f : 0.0f;
  test.seed = seed;
  return test;
}

/// The finer side: about five neighbours for a 3^ndim kernel, negative coordinates among them.
std::vector<int32_t> fine_voxels(const ConvolutionCase& test, uint64_t seed) {
  VoxelOptions options;
  options.ndim = test.ndim;
  options.count = test.points;
  options.batches = test.batches;
  options.empty_batch = test.empty_batch;
  options.seed = seed;
  options.extent = static_cast<int32_t>(test.extent());
  options.least = -options.extent / 2;
  std::vector<int32_t> voxels = make_voxels(options);
  for (size_t i = 0; i < voxels.size(); ++i) {
    const size_t field = i % (1 + test.ndim);
    int32_t& value = voxels[i];
    value = field == 0 ? value + test.first_batch
                       : (value + test.origin[field - 1]) * test.tensor_stride[field - 1];
  }
  return voxels;
}

/// Puts test.duplicates rows that others have too in any places.
void add_duplicates(const ConvolutionCase& test, std::vector<int32_t>& voxels) {
  const size_t fields = 1 + test.ndim;
  Random random(test.seed + 4000);
  for (int64_t i = 0; i < test.duplicates && !voxels.empty(); ++i) {
    const size_t rows = voxels.size() / fields;
    const auto row = voxels.begin() + static_cast<int64_t>(random.below(rows) * fields);
    const std::vector<int32_t> repeated(row, row + static_cast<int64_t>(fields));
    const auto place = voxels.begin() + static_cast<int64_t>(random.below(rows + 1) * fields);
    voxels.insert(place, repeated.begin(), repeated.end());
  }
}

std::vector<int32_t> first_rows(const std::vector<int32_t>& voxels, size_t fields) {
  std::map<std::vector<int32_t>, int32_t> seen;
  std::vector<int32_t> first;
  for (size_t i = 0; i + fields <= voxels.size(); i += fields) {
    const std::vector<int32_t> voxel(voxels.begin() + i, voxels.begin() + i + fields);
    first.push_back(seen.emplace(voxel, static_cast<int32_t>(i / fields)).first->second);
  }
  return first;
}

/// A coarser side that the caller names: of half of the finer one, and as many other places.
std::vector<int32_t> given_outputs(const ConvolutionCase& test, const std::vector<int32_t>& in) {
  const size_t fields = 1 + test.ndim;
  std::set<std::vector<int32_t>> seen;
  std::vector<int32_t> out;
  auto append = [&](const std::vector<int32_t>& voxels) {
    for (size_t i = 0; i + fields <= voxels.size(); i += 2 * fields) {
      const std::vector<int32_t> fine(voxels.begin() + i, voxels.begin() + i + fields);
      const std::vector<int32_t> coarse = oracle::downsample(test.ndim, fine, test.coarse_stride());
      if (seen.insert(coarse).second) out.insert(out.end(), coarse.begin(), coarse.end());
    }
  };
  append(fine_voxels(test.other(), test.seed + 1000));
  append(in);
  return out;
}

std::vector<float> random_values(Random& random, int64_t count, double mean, double spread, bool integers) {
  std::vector<float> values(count);
  for (float& value : values) {
    value = integers ? static_cast<float>(random.between(-1, 1))
                     : static_cast<float>(mean + spread * random.uniform(-1.7320508, 1.7320508));
  }
  return values;
}

/// Even columns positive, odd ones negative; what a ReLU clips is then a whole column.
void give_columns_one_sign(std::vector<float>& values, int64_t columns) {
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::abs(values[i]) * (static_cast<int64_t>(i) % columns % 2 == 0 ? 1.0f : -1.0f);
  }
}

}  // namespace

std::string activation_text(Activation activation) {
  static const char* const kNames[] = {"None",     "ReLU", "LeakyReLU", "Gelu",
                                       "GeluTanh", "Silu", "Sigmoid",   "Tanh"};
  static_assert(std::size(kNames) == kActivations);
  return std::string("Activation::") + kNames[static_cast<int>(activation)];
}

const char* dtype_name(DType type) {
  switch (type) {
    case DType::F32:
      return "f32";
    case DType::TF32:
      return "tf32";
    case DType::F16:
      return "f16";
    case DType::BF16:
      return "bf16";
    case DType::U8:
      return "u8";
    case DType::S8:
      return "s8";
  }
  return "?";
}

const std::vector<DType>& all_dtypes() {
  static const std::vector<DType> types(std::begin(kDTypes), std::end(kDTypes));
  return types;
}

const std::vector<ConvolutionKind>& all_kinds() {
  static const std::vector<ConvolutionKind> kinds{ConvolutionKind::Submanifold, ConvolutionKind::Strided,
                                                  ConvolutionKind::GivenOutputs, ConvolutionKind::Transposed};
  return kinds;
}

const std::vector<int>& channel_sizes() {
  static const std::vector<int> sizes{1, 3, 4, 16, 24, 32, 48, 64, 96, 128, 256};
  return sizes;
}

const std::vector<int64_t>& small_counts() {
  static const std::vector<int64_t> counts{0, 1, 2, 31};
  return counts;
}

std::string ConvolutionCase::name() const {
  std::string text = std::string(kind_name(kind)) + " " + dtype_name(dtype) + " n" + std::to_string(points);
  text += " c" + std::to_string(in_channels) + "-" + std::to_string(out_channels);
  if (groups > 1) text += " g" + std::to_string(groups);
  text +=
      " k" + axes_text(ndim, kernel_size) + " s" + axes_text(ndim, stride) + " d" + axes_text(ndim, dilation);
  if (!offsets.empty()) text += " list of " + std::to_string(offsets.size());
  if (is_reached) text += " p" + axes_text(ndim, padding) + " shape " + axes_text(ndim, shape);
  text += " t" + axes_text(ndim, tensor_stride) + " b" + std::to_string(batches);
  if (empty_batch >= 0) text += " (item " + std::to_string(empty_batch) + " empty)";
  text += std::string(scale_shift   ? " scale"
                      : scale_alone ? " scale alone"
                      : shift_alone ? " shift alone"
                                    : "") +
          (residual ? " residual" : "");
  if (activation != Activation::None) {
    text += std::string(" ") + kActivationNames[static_cast<int>(activation)];
  }
  return text + " seed " + std::to_string(seed);
}

int64_t ConvolutionCase::volume() const {
  if (!offsets.empty()) return static_cast<int64_t>(offsets.size());
  return std::accumulate(kernel_size.begin(), kernel_size.end(), int64_t{1}, std::multiplies<>());
}

oracle::Geometry ConvolutionCase::geometry() const {
  return {ndim, kernel_size, dilation, tensor_stride, transposed(), is_reached, padding, offsets};
}

std::vector<int32_t> ConvolutionCase::coarse_of(const std::vector<int32_t>& fine) const {
  return is_reached ? oracle::reach(geometry(), stride, shape, fine)
                    : oracle::downsample(ndim, fine, coarse_stride());
}

oracle::Axes ConvolutionCase::coarse_stride() const {
  oracle::Axes coarse = tensor_stride;
  for (int a = 0; a < ndim; ++a) coarse[a] *= stride[a];
  return coarse;
}

int64_t ConvolutionCase::extent() const {
  const int used = batches - (empty_batch >= 0 ? 1 : 0);
  if (filled == 0) return extent_for_neighbours(ndim, points / used + 1, ndim == 1 ? 2.0 : 5.0);
  const double cells = std::max<double>(static_cast<double>(points) / used / filled, 1);
  return static_cast<int64_t>(std::ceil(std::pow(cells, 1.0 / ndim)));
}

ConvolutionCase ConvolutionCase::other() const {
  ConvolutionCase test = *this;
  if (other_points >= 0) test.points = other_points;
  test.other_points = -1;
  return test;
}

ConvolutionCase ConvolutionCase::earlier() const {
  ConvolutionCase test = *this;
  test.points = earlier_points;
  test.duplicates = 0, test.earlier_points = -1;
  ++test.seed;
  return test;
}

ConvolutionCase small_case(DType dtype, ConvolutionKind kind, int in_channels, int out_channels,
                           int64_t points) {
  ConvolutionCase test;
  test.kind = kind, test.dtype = dtype, test.points = points;
  test.in_channels = in_channels, test.out_channels = out_channels;
  test.batches = points > 2 ? 3 : 1;
  test.empty_batch = points > 2 ? 1 : -1;
  test.seed = static_cast<uint64_t>(17 + points + 1000 * in_channels + 7 * out_channels);
  test.one_sign = points <= 31;
  set_usual_shape(test);
  return test;
}

std::vector<ConvolutionCase> pairwise_cases() {
  std::vector<int> sizes(kFactors);
  sizes[kIn] = sizes[kOut] = static_cast<int>(channel_sizes().size());
  sizes[kType] = sizes[kKind] = sizes[kDim] = sizes[kStride] = 4;
  sizes[kKernel] = 5;
  sizes[kDilation] = sizes[kTensorStride] = sizes[kBatch] = 3;
  sizes[kEpilogue] = 12;
  std::vector<ConvolutionCase> cases;
  for (const std::vector<int>& row : cover_pairs(sizes, 4))
    cases.push_back(case_of_row(row, 100 + cases.size()));
  return cases;
}

std::vector<ConvolutionCase> large_cases(DType dtype) {
  static const int kChannels[][2] = {{4, 16}, {3, 24}, {32, 64}, {96, 128}, {128, 48}, {256, 256}};
  std::vector<ConvolutionCase> cases;
  for (const auto& [in, out] : kChannels) {
    // Each dtype meets the kinds in another order.
    const size_t kind = (cases.size() + static_cast<size_t>(dtype)) % all_kinds().size();
    cases.push_back(small_case(dtype, all_kinds()[kind], in, out, 100000));
    cases.back().sampled_rows = 2000;
  }
  return cases;
}

std::vector<ConvolutionCase> long_cases(DType dtype) {
  std::vector<ConvolutionCase> cases;
  for (ConvolutionKind kind : all_kinds()) {
    for (int in : channel_sizes()) {
      for (int out : channel_sizes()) cases.push_back(small_case(dtype, kind, in, out, 1000));
    }
    for (const auto& [in, out] : {std::pair{4, 32}, {16, 16}, {64, 64}, {24, 256}, {256, 3}}) {
      cases.push_back(small_case(dtype, kind, in, out, 100000));
      cases.back().sampled_rows = 2000;
    }
  }
  return cases;
}

ConvolutionData make_coordinates(const ConvolutionCase& test) {
  ConvolutionData data;
  data.geometry = test.geometry();
  const std::vector<int32_t> distinct = fine_voxels(test, test.seed);
  std::vector<int32_t> fine = distinct;
  add_duplicates(test, fine);
  data.in_coordinates = data.out_coordinates = fine;
  if (test.kind == ConvolutionKind::Strided) {
    data.out_coordinates = test.coarse_of(fine);
  } else if (test.kind == ConvolutionKind::Transposed) {
    data.in_coordinates =
        test.coarse_side == CoarseSide::Apart ? given_outputs(test, distinct) : test.coarse_of(fine);
  } else if (test.kind == ConvolutionKind::GivenOutputs) {
    data.out_coordinates = given_outputs(test, distinct);
  }
  if (test.duplicates > 0) data.first_row = first_rows(data.out_coordinates, 1 + test.ndim);
  data.rows.resize(data.out_rows());
  std::iota(data.rows.begin(), data.rows.end(), 0);
  if (test.sampled_rows > 0 && test.sampled_rows < data.out_rows()) {
    Random random(test.seed + 2000);
    for (int32_t& row : data.rows) row = static_cast<int32_t>(random.below(data.out_rows()));
    data.rows.resize(test.sampled_rows);
    std::sort(data.rows.begin(), data.rows.end());
    data.rows.erase(std::unique(data.rows.begin(), data.rows.end()), data.rows.end());
  }
  return data;
}

void make_parameters(const ConvolutionCase& test, bool integers, ConvolutionData& data) {
  Random random(static_cast<uint64_t>(test.in_channels) << 40 ^
                static_cast<uint64_t>(test.out_channels) << 20 ^ static_cast<uint64_t>(test.volume()));
  const int64_t inputs = test.in_channels / test.groups;
  const int64_t weights = test.volume() * inputs * test.out_channels;
  // Sums of about five inputs' worth of terms come out near 1.
  const double spread = std::sqrt(1.0 / static_cast<double>(5 * inputs));
  data.weight = random_values(random, weights, 0, spread, integers);
  if (!test.raw_weights) data.weight = round_to(test.dtype, data.weight);
  if (test.has_scale()) data.scale = random_values(random, test.out_channels, 1, 0.2, integers);
  if (test.has_shift()) data.shift = random_values(random, test.out_channels, 0, 0.2, integers);
  if (!test.one_sign) return;
  give_columns_one_sign(data.weight, test.out_channels);
  give_columns_one_sign(data.shift, test.out_channels);
}

void make_features(const ConvolutionCase& test, bool integers, ConvolutionData& data) {
  Random random(test.seed + 3000);
  // tf32 is a rounding of GEMM operands: features and residuals are stored in full.
  const DType storage = storage_type(test.dtype);
  data.features = round_to(storage, random_values(random, data.in_rows() * test.in_channels, 0, 1, integers));
  if (test.residual) {
    data.residual =
        round_to(storage, random_values(random, data.out_rows() * test.out_channels, 0, 1, integers));
  }
  if (!test.one_sign) return;
  give_columns_one_sign(data.features, 1);
  give_columns_one_sign(data.residual, test.out_channels);
}

ConvolutionData make_data(const ConvolutionCase& test, bool integers) {
  ConvolutionData data = make_coordinates(test);
  make_parameters(test, integers, data);
  make_features(test, integers, data);
  return data;
}

std::vector<oracle::Pair> expected_pairs(const ConvolutionData& data) {
  std::vector<int32_t> rows;
  for (int32_t row = 0; row < data.out_rows(); ++row) {
    if (data.first_row.empty() || data.first_row[row] == row) rows.push_back(row);
  }
  return oracle::find_pairs(data.geometry, data.in_coordinates, data.out_coordinates, &rows);
}

std::vector<double> expected_output(const ConvolutionCase& test, const ConvolutionData& data,
                                    std::vector<double>* magnitudes) {
  // The sampled rows alone, renumbered, so that the oracle stays quick on large clouds.
  std::vector<int32_t> rows, place(data.out_rows(), -1), place_of_row;
  for (int32_t row : data.rows) {
    const int32_t first = data.first_row.empty() ? row : data.first_row[row];
    if (place[first] < 0) place[first] = static_cast<int32_t>(rows.size()), rows.push_back(first);
    place_of_row.push_back(place[first]);
  }
  std::vector<oracle::Pair> pairs =
      oracle::find_pairs(data.geometry, data.in_coordinates, data.out_coordinates, &rows);
  for (oracle::Pair& pair : pairs) pair.out = place[pair.out];
  const std::vector<float> residual =
      test.residual ? select_rows(data.residual, test.out_channels, rows) : std::vector<float>();
  const std::vector<float> weight = test.raw_weights ? round_to(test.dtype, data.weight) : data.weight;
  oracle::Layer layer;
  layer.out_rows = static_cast<int64_t>(rows.size());
  layer.in_channels = test.in_channels, layer.out_channels = test.out_channels;
  layer.groups = test.groups;
  const std::vector<float> features = round_to(test.dtype, data.features);
  layer.features = &features, layer.weight = &weight;
  if (!data.scale.empty()) layer.scale = &data.scale;
  if (!data.shift.empty()) layer.shift = &data.shift;
  if (test.residual) layer.residual = &residual;
  layer.activation = kActivationNames[static_cast<int>(test.activation)];
  layer.negative_slope = test.negative_slope;
  const std::vector<double> output = oracle::convolve(layer, pairs, magnitudes);
  if (magnitudes) *magnitudes = select_rows(*magnitudes, test.out_channels, place_of_row);
  return select_rows(output, test.out_channels, place_of_row);
}

}  // namespace minuet
