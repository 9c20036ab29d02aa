#include "tests/cases/random_cases.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <random>

#include "kernels_templates/shared/voxel_index.h"
#include "tests/support/random.h"

namespace minuet {
namespace {

using oracle::Axes;

constexpr int64_t kMostWeights = 300000;
constexpr int64_t kMostProducts = 20000000;  // multiply-adds where every offset finds an input
constexpr int64_t kMostReached = 20000;      // outputs where every offset reaches another one
constexpr int64_t kFewOutputs = 4000;
constexpr int64_t kLeastPeriod = 64;

template <class T>
T one_of(Random& random, std::initializer_list<T> values) {
  return values.begin()[random.below(values.size())];
}

bool one_in(Random& random, int count) { return random.below(count) == 0; }

/// All axes alike, or each by itself.
template <class Draw>
Axes draw_axes(Random& random, int ndim, Draw draw) {
  Axes axes = ConvolutionCase{}.stride;
  const bool alike = one_in(random, 2);
  const int32_t first = draw();
  for (int a = 0; a < ndim; ++a) axes[a] = alike || a == 0 ? first : draw();
  return axes;
}

int draw_channels(Random& random) {
  switch (random.below(8)) {
    case 0:
    case 1:
    case 2:
      return static_cast<int>(random.between(1, 9));
    case 3:
      return one_of(random, {16, 24, 32, 48, 64, 96, 128, 256, 257});
    default:
      return static_cast<int>(random.between(1, 70));
  }
}

int64_t draw_points(Random& random) {
  switch (random.below(10)) {
    case 0:
      return random.between(0, 3);
    case 1:
      return random.between(300, 2500);
    default:
      return random.between(4, 300);
  }
}

void draw_geometry(Random& random, ConvolutionCase& test) {
  test.kernel_size = draw_axes(random, test.ndim, [&] {
    return one_of(random, {1, 2, 2, 3, 3, 3, 4, 5, 7});
  });
  test.stride = draw_axes(random, test.ndim, [&] { return one_of(random, {1, 2, 2, 2, 3, 4, 5, 64, 100}); });
  const bool far = one_in(random, 8);  // farther than a superblock of the index on every axis
  test.dilation = draw_axes(random, test.ndim, [&] {
    return far ? static_cast<int32_t>(random.between(40, 300)) : one_of(random, {1, 1, 1, 2, 3});
  });
  test.tensor_stride = draw_axes(random, test.ndim, [&] { return one_of(random, {1, 1, 1, 2, 3, 4, 8}); });
}

/// Places along one axis: around zero, off it, far away, and at the ends of 32 bits.
int32_t draw_origin(Random& random, int64_t extent, int32_t tensor_stride) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const int64_t end = kMost / tensor_stride - extent;
  switch (random.below(8)) {
    case 0:
      return static_cast<int32_t>(random.between(-1000, 1000));
    case 1:
      return static_cast<int32_t>(random.between(-1, 1) * (end / 2));
    case 2:
      return static_cast<int32_t>(end);
    case 3:
      return static_cast<int32_t>(-end + 2 * (kLeastPeriod + 1000));
    default:
      return 0;
  }
}

void draw_cloud(Random& random, ConvolutionCase& test) {
  test.points = draw_points(random);
  if (one_in(random, 2)) test.batches = static_cast<int>(random.between(2, one_in(random, 4) ? 60 : 4));
  if (test.batches > 1 && one_in(random, 2)) test.empty_batch = static_cast<int>(random.below(test.batches));
  if (one_in(random, 5)) test.first_batch = one_of(random, {1, 3, 100, 1000000});
  if (one_in(random, 2)) test.filled = one_of(random, {1.0, 1.0, 0.5, 0.1, 0.01, 1e-3, 1e-4});
  if (one_in(random, 6)) test.duplicates = random.between(1, test.points / 3 + 1);
  if (one_in(random, 4)) test.bounds_slack = one_of(random, {0, 0, 1, 7, 200});
  if (one_in(random, 4)) test.earlier_points = random.between(0, 400);
  if (one_in(random, 3)) test.other_points = one_of(random, {int64_t{0}, draw_points(random)});
  if (one_in(random, 20)) test.points = 0;
  test.coarse_side = one_of(random, {CoarseSide::Copied, CoarseSide::Derived, CoarseSide::Apart});
  if (one_in(random, 2)) return;
  for (int a = 0; a < test.ndim; ++a) {
    test.origin[a] = draw_origin(random, test.extent(), test.tensor_stride[a]);
  }
}

void draw_reach(Random& random, ConvolutionCase& test) {
  if (!one_in(random, 3)) return;
  test.is_reached = true;
  test.padding = draw_axes(random, test.ndim, [&] { return one_of(random, {0, 0, 1, 1, 2, 3}); });
  for (int a = test.ndim; a < kMaxDim; ++a) test.padding[a] = 0;
  if (one_in(random, 2)) return;
  test.shape = draw_axes(random, test.ndim, [&] { return static_cast<int32_t>(random.between(1, 40)); });
}

/// Draws a list of offsets in place of a box: a cross, a part of a box in any order, or offsets anywhere.
void draw_offsets(Random& random, ConvolutionCase& test) {
  if (!one_in(random, 3)) return;
  const bool is_cross = one_in(random, 3);
  const int32_t reach = one_of(random, {1, 2, 2, 5, 40, 700});
  const int64_t wanted = is_cross ? 1 : random.between(1, one_in(random, 6) ? 150 : 20);
  for (int a = 0; a < test.ndim && is_cross; ++a) {
    for (const int32_t sign : {-1, 1}) {
      Axes offset{0, 0, 0, 0};
      offset[a] = sign * reach;
      test.offsets.push_back(offset);
    }
  }
  for (int64_t i = 0; i < wanted; ++i) {
    Axes offset{0, 0, 0, 0};
    for (int a = 0; a < test.ndim && !is_cross; ++a)
      offset[a] = static_cast<int32_t>(random.between(-reach, reach));
    const auto there = std::find(test.offsets.begin(), test.offsets.end(), offset);
    if (there == test.offsets.end()) test.offsets.push_back(offset);
  }
}

/// Puts right what one field says of another.
ConvolutionCase settled(ConvolutionCase test) {
  const bool may_be_reached =
      (test.kind == ConvolutionKind::Strided || test.kind == ConvolutionKind::Transposed) &&
      test.coarse_side != CoarseSide::Apart && test.origin == Axes{0, 0, 0, 0};
  if (!may_be_reached || !test.offsets.empty()) test.is_reached = false;
  if (!test.offsets.empty()) test.kernel_size = test.dilation = {1, 1, 1, 1};
  if (!test.is_reached) test.padding = test.shape = {0, 0, 0, 0};
  if (std::find(test.shape.begin(), test.shape.begin() + test.ndim, 0) != test.shape.begin() + test.ndim) {
    test.shape = {0, 0, 0, 0};
  }
  if (test.kind == ConvolutionKind::Submanifold) test.stride = {1, 1, 1, 1};
  if (test.kind != ConvolutionKind::Transposed) test.coarse_side = CoarseSide::Copied;
  if (test.batches == 1 || test.empty_batch >= test.batches) test.empty_batch = -1;
  if (!test.names_coarse_side()) test.other_points = -1;
  if (test.points == 0) test.duplicates = 0;
  if (test.activation != Activation::LeakyReLU) test.negative_slope = 0;
  for (int a = test.ndim; a < kMaxDim; ++a) {
    test.kernel_size[a] = test.stride[a] = test.dilation[a] = test.tensor_stride[a] = 1;
    test.origin[a] = test.padding[a] = test.shape[a] = 0;
  }
  // A relative bound means little where few terms cancel.
  if (test.points * test.out_channels < kFewOutputs) test.one_sign = true;
  return test;
}

/// Returns the most bits that one axis takes in the keys of an index, or 64 if its coordinates leave 32 bits.
int axis_bits(const ConvolutionCase& test, int axis) {
  const int64_t stride = test.tensor_stride[axis], cells = test.extent();
  const int64_t period = std::max<int64_t>(kLeastPeriod, test.coarse_stride()[axis]);
  const int64_t slack = std::max(test.bounds_slack, 0);
  const int64_t least = (test.origin[axis] - cells / 2) * stride - slack;
  const int64_t greatest = (test.origin[axis] + cells - cells / 2 - 1) * stride;
  if (least - 2 * period < std::numeric_limits<int32_t>::min()) return 64;
  if (greatest > std::numeric_limits<int32_t>::max()) return 64;
  // A key has the superblock's number on the axis, counted from 1. The bounds may begin and end inside of
  // superblocks.
  const int64_t superblocks = ((greatest + slack - least) >> 2 * block_bits(test.ndim, axis)) + 2;
  return std::bit_width(static_cast<uint64_t>(superblocks));
}

/// Draws groups of channels: some that divide the channels, or one for each input channel.
void draw_groups(Random& random, ConvolutionCase& test) {
  const int common = std::gcd(test.in_channels, test.out_channels);
  const int wanted = static_cast<int>(1 + random.below(static_cast<uint64_t>(common)));
  test.groups = std::gcd(common, wanted);
  if (!one_in(random, 2)) return;
  test.groups = test.in_channels;
  test.out_channels = test.in_channels * one_of(random, {1, 1, 2, 3, 4, 16});
}

}  // namespace

bool is_feasible(const ConvolutionCase& test) {
  if (test.earlier_points >= 0 && !is_feasible(test.earlier())) return false;
  if (test.other_points >= 0 && !is_feasible(test.other())) return false;
  if (test.in_channels % test.groups != 0 || test.out_channels % test.groups != 0) return false;
  const int64_t weights = test.volume() * test.in_channels * test.out_channels;
  if (weights > kMostWeights) return false;
  const int64_t pairs =
      test.points * (test.filled >= 0.1 ? test.volume() : std::min<int64_t>(test.volume(), 8));
  if (pairs * test.in_channels * test.out_channels > kMostProducts) return false;
  if (test.volume() * test.points > kMostProducts / 100) return false;  // look-ups are dearer
  if (test.is_reached && test.volume() * test.points > kMostReached) return false;
  int bits =
      std::bit_width(static_cast<uint64_t>(test.first_batch) + test.batches + std::max(test.bounds_slack, 0));
  for (int a = 0; a < test.ndim; ++a) bits += axis_bits(test, a);
  return bits <= 64;
}

ConvolutionCase draw_case(DType dtype, uint64_t seed) {
  Random random(seed);
  while (true) {
    ConvolutionCase test;
    test.dtype = dtype;
    test.kind = all_kinds()[random.below(all_kinds().size())];
    test.ndim = one_of(random, {1, 2, 2, 3, 3, 3, 3, 4});
    draw_geometry(random, test);
    test.in_channels = draw_channels(random), test.out_channels = draw_channels(random);
    draw_cloud(random, test);
    draw_reach(random, test);
    draw_offsets(random, test);
    const uint64_t affine = random.below(4);
    test.scale_shift = affine == 1, test.scale_alone = affine == 2, test.shift_alone = affine == 3;
    test.residual = one_in(random, 2);
    test.activation = one_in(random, 2) ? Activation::ReLU : Activation::None;
    test.one_sign = one_in(random, 2);
    test.raw_weights = one_in(random, 3);
    if (test.activation == Activation::ReLU && one_in(random, 3)) {
      test.activation = Activation::LeakyReLU;
      test.negative_slope = one_in(random, 2) ? 0.125f : -0.75f;
    }
    if (one_in(random, 4)) draw_groups(random, test);
    test.seed = random.below(1000000);
    test = settled(test);
    if (is_feasible(test)) return test;
  }
}

namespace {

/// Collects the feasible cases that differ from one case.
class Simpler {
 public:
  explicit Simpler(const ConvolutionCase& test) : test_(test) {}

  /// The field with another value, if it is not `value` yet.
  template <class T>
  void set(T ConvolutionCase::*field, const T& value) {
    ConvolutionCase changed = test_;
    changed.*field = value;
    add(changed);
  }

  /// Down to `least`: at once, by half, a quarter, a sixteenth, by one.
  template <class T>
  void lower(T ConvolutionCase::*field, T least) {
    const T value = test_.*field;
    for (const T cut : {value, value / 2, value / 4, value / 16, T{1}}) {
      const T less = std::max<T>(value - cut, least);
      if (less < value) set(field, less);
    }
  }

  /// The same for all axes at once, then for each.
  void lower_axes(Axes ConvolutionCase::*field, int32_t least) {
    Axes all = test_.*field;
    std::fill(all.begin(), all.begin() + test_.ndim, least);
    set(field, all);
    for (int a = 0; a < test_.ndim; ++a) {
      const int32_t value = (test_.*field)[a];
      const int32_t one = value > least ? 1 : -1;
      for (const int32_t nearer : {least, value / 2, value - value / 4, value - value / 16, value - one}) {
        Axes changed = test_.*field;
        changed[a] = nearer;
        if (std::abs(nearer - least) < std::abs(value - least)) set(field, changed);
      }
    }
  }

  /// Without one of the axes, whichever it is.
  void drop_axes() {
    for (int dropped = 0; dropped < test_.ndim && test_.ndim > 1; ++dropped) {
      ConvolutionCase changed = test_;
      --changed.ndim;
      for (Axes* axes : {&changed.kernel_size, &changed.stride, &changed.dilation, &changed.tensor_stride,
                         &changed.origin, &changed.padding, &changed.shape}) {
        std::rotate(axes->begin() + dropped, axes->begin() + dropped + 1, axes->end());
      }
      for (Axes& offset : changed.offsets)
        std::rotate(offset.begin() + dropped, offset.begin() + dropped + 1, offset.end());
      // Offsets may be equal without an axis.
      std::sort(changed.offsets.begin(), changed.offsets.end());
      changed.offsets.erase(std::unique(changed.offsets.begin(), changed.offsets.end()),
                            changed.offsets.end());
      add(changed);
    }
  }

  /// No list, half of it, or without one offset.
  void shorten_offsets() {
    set(&ConvolutionCase::offsets, std::vector<Axes>());
    for (size_t count = test_.offsets.size() / 2; count > 0; count /= 2) {
      for (size_t first = 0; first + count <= test_.offsets.size(); first += count) {
        std::vector<Axes> fewer = test_.offsets;
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(first),
                    fewer.begin() + static_cast<std::ptrdiff_t>(first + count));
        if (!fewer.empty()) set(&ConvolutionCase::offsets, fewer);
      }
    }
  }

  void add(const ConvolutionCase& changed) {
    const ConvolutionCase candidate = settled(changed);
    if (!(candidate == test_) && is_feasible(candidate)) cases_.push_back(candidate);
  }

  std::vector<ConvolutionCase> take() { return std::move(cases_); }

 private:
  const ConvolutionCase& test_;
  std::vector<ConvolutionCase> cases_;
};

void simplify_cloud(Simpler& simpler) {
  simpler.set(&ConvolutionCase::earlier_points, int64_t{-1});
  simpler.lower(&ConvolutionCase::points, int64_t{0});
  simpler.set(&ConvolutionCase::other_points, int64_t{-1});
  simpler.lower(&ConvolutionCase::other_points, int64_t{0});
  simpler.lower(&ConvolutionCase::batches, 1);
  simpler.set(&ConvolutionCase::empty_batch, -1);
  simpler.lower(&ConvolutionCase::first_batch, 0);
  simpler.lower(&ConvolutionCase::duplicates, int64_t{0});
  simpler.set(&ConvolutionCase::bounds_slack, -1);
  simpler.lower(&ConvolutionCase::bounds_slack, 0);
  simpler.set(&ConvolutionCase::filled, 0.0);
  simpler.set(&ConvolutionCase::coarse_side, CoarseSide::Copied);
  simpler.lower(&ConvolutionCase::earlier_points, int64_t{0});
}

}  // namespace

std::vector<ConvolutionCase> simpler_cases(const ConvolutionCase& test) {
  Simpler simpler(test);
  simplify_cloud(simpler);
  simpler.set(&ConvolutionCase::groups, 1);
  simpler.lower(&ConvolutionCase::groups, 1);
  simpler.lower(&ConvolutionCase::in_channels, 1);
  simpler.lower(&ConvolutionCase::out_channels, 1);
  simpler.drop_axes();
  simpler.shorten_offsets();
  simpler.lower_axes(&ConvolutionCase::kernel_size, 1);
  simpler.lower_axes(&ConvolutionCase::stride, 1);
  simpler.lower_axes(&ConvolutionCase::dilation, 1);
  simpler.lower_axes(&ConvolutionCase::tensor_stride, 1);
  simpler.lower_axes(&ConvolutionCase::origin, 0);
  simpler.set(&ConvolutionCase::is_reached, false);
  simpler.set(&ConvolutionCase::shape, Axes{0, 0, 0, 0});
  simpler.lower_axes(&ConvolutionCase::padding, 0);
  for (bool ConvolutionCase::*field :
       {&ConvolutionCase::residual, &ConvolutionCase::scale_shift, &ConvolutionCase::scale_alone,
        &ConvolutionCase::shift_alone, &ConvolutionCase::raw_weights}) {
    simpler.set(field, false);
  }
  simpler.set(&ConvolutionCase::activation, Activation::None);
  simpler.set(&ConvolutionCase::negative_slope, 0.0f);
  simpler.set(&ConvolutionCase::kind, ConvolutionKind::Submanifold);
  if (test.kind == ConvolutionKind::Transposed) simpler.set(&ConvolutionCase::kind, ConvolutionKind::Strided);
  if (test.dtype != DType::F32) simpler.set(&ConvolutionCase::dtype, DType::F32);
  return simpler.take();
}

namespace {

std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(int value) { return std::to_string(value); }
std::string text_of(int64_t value) { return std::to_string(value); }
std::string text_of(uint64_t value) { return std::to_string(value) + "u"; }
std::string text_of(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}
std::string text_of(float value) { return text_of(static_cast<double>(value)); }
std::string text_of(ConvolutionKind value) {
  static const char* const kNames[] = {"Submanifold", "Strided", "GivenOutputs", "Transposed"};
  return std::string("ConvolutionKind::") + kNames[static_cast<int>(value)];
}
std::string text_of(DType value) {
  return std::string("DType::") + kDTypeEnumerators[static_cast<int>(value)];
}
std::string text_of(Activation value) { return activation_text(value); }
std::string text_of(CoarseSide value) {
  static const char* const kNames[] = {"Copied", "Derived", "Apart"};
  return std::string("CoarseSide::") + kNames[static_cast<int>(value)];
}
std::string text_of(const Axes& axes) {
  std::string text;
  for (const int32_t value : axes) text += (text.empty() ? "{" : ", ") + std::to_string(value);
  return text + "}";
}
std::string text_of(const std::vector<Axes>& list) {
  std::string text;
  for (const Axes& axes : list) text += (text.empty() ? "{" : ", ") + text_of(axes);
  return text + "}";
}

}  // namespace

std::string as_initializer(const ConvolutionCase& test) {
  static const ConvolutionCase usual;
  std::string text;
  auto field = [&](const char* name, const auto& value, const auto& unless) {
    if (!(value == unless)) text += (text.empty() ? "." : ", .") + (name + (" = " + text_of(value)));
  };
#define MINUET_FIELD(name) field(#name, name, usual.name)
  // Names every field, in order: one that is missing here does not compile.
  const auto& [kind, dtype, ndim, points, in_channels, out_channels, groups, kernel_size, stride, dilation,
               tensor_stride, batches, empty_batch, scale_shift, residual, activation, negative_slope,
               sampled_rows, one_sign, scale_alone, shift_alone, raw_weights, coarse_side, other_points,
               origin, filled, first_batch, duplicates, bounds_slack, is_reached, is_generative, padding,
               shape, offsets, earlier_points, seed] = test;
  MINUET_FIELD(kind), MINUET_FIELD(dtype), MINUET_FIELD(ndim), MINUET_FIELD(points);
  MINUET_FIELD(in_channels), MINUET_FIELD(out_channels), MINUET_FIELD(groups), MINUET_FIELD(kernel_size),
      MINUET_FIELD(stride);
  MINUET_FIELD(dilation), MINUET_FIELD(tensor_stride), MINUET_FIELD(batches), MINUET_FIELD(empty_batch);
  MINUET_FIELD(scale_shift), MINUET_FIELD(residual), MINUET_FIELD(activation), MINUET_FIELD(negative_slope),
      MINUET_FIELD(sampled_rows);
  MINUET_FIELD(one_sign), MINUET_FIELD(scale_alone), MINUET_FIELD(shift_alone), MINUET_FIELD(raw_weights);
  MINUET_FIELD(coarse_side), MINUET_FIELD(other_points), MINUET_FIELD(origin), MINUET_FIELD(filled),
      MINUET_FIELD(first_batch);
  MINUET_FIELD(duplicates), MINUET_FIELD(bounds_slack);
  MINUET_FIELD(is_reached), MINUET_FIELD(is_generative), MINUET_FIELD(padding), MINUET_FIELD(shape);
  MINUET_FIELD(offsets);
  MINUET_FIELD(earlier_points), MINUET_FIELD(seed);
#undef MINUET_FIELD
  return "ConvolutionCase{" + text + "}";
}

uint64_t run_seed() {
  if (const char* given = std::getenv("MINUET_TEST_SEED"); given != nullptr && *given != 0) {
    return std::strtoull(given, nullptr, 10);
  }
  return std::random_device()() % 1000000000u;
}

uint64_t case_seed(uint64_t run, uint64_t stream, uint64_t index) {
  return Random(Random(run).next() + (stream << 32) + index).next();
}

}  // namespace minuet
