// Random problems for the fused kernel, and what they must come to in fp64. Without the shim, so that tests
// on a GPU have them too.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "codegen/choose/problem.h"
#include "kernels_templates/shared/fused_image.h"
#include "tests/support/compare.h"
#include "tests/support/oracle.h"
#include "tests/support/pointwise_oracle.h"
#include "tests/support/random.h"
#include "tests/support/rounding.h"

namespace minuet {

constexpr float kSlope = -0.375f;       // of leaky ReLUs; other activations do not read it
constexpr float kSecondSlope = 0.625f;  // of a second output

/// Rows of `channels` elements of `type`, `ld` apart; what lies between rows is NaN.
struct StoredRows {
  DType type;
  i64 channels, ld;
  std::vector<char> bytes;

  StoredRows(DType type, i64 rows, i64 channels, i64 ld)
      : type(type),
        channels(channels),
        ld(ld),
        bytes(static_cast<size_t>(rows * ld * dtype_bytes(type)), '\xff') {}
  char* at(i64 row, i64 channel) { return bytes.data() + (row * ld + channel) * dtype_bytes(type); }
  /// Rounded to what memory holds; returned so.
  float set(i64 row, i64 channel, double value) {
    const float rounded = round_to(storage_type(type), value);
    const std::vector<char> element = encode(type, {rounded});
    std::memcpy(at(row, channel), element.data(), element.size());
    return rounded;
  }
  std::vector<float> row(i64 row) { return decode(type, std::vector<char>(at(row, 0), at(row, channels))); }
  bool is_untouched(i64 row, i64 channel) {
    return std::all_of(at(row, channel), at(row, channel + 1), [](char byte) { return byte == '\xff'; });
  }
};

/// How a problem's map is made, beside the Spec.
struct FusedShapeOfMap {
  i64 queries = 100, sources = 120;
  double density = 0.3;       // of the offsets that are not empty
  i32 empty_every = 4;        // every so many offsets have no pair; 0: none
  bool ordered = true;        // positions are queries by their masks; else they are the same
  bool ordered_views = true;  // rows and masks by position
  i64 stride_padding = 3;
};

/// The widest access to rows of so many channels.
constexpr i32 access_of(DType io, i32 channels) {
  i32 bytes = 16;
  while (channels * dtype_bytes(io) % bytes != 0) bytes /= 2;
  return bytes;
}

/// Of the layer that a shortcut is: its offset is the one in the middle of the kernel.
constexpr FusedSpec shortcut_of(FusedSpec spec) {
  spec.volume = 1;
  spec.activation = Activation::None;
  return spec;
}

/// Calls visit() for every element of an image, in their order, with the place of its weight as
/// fused_weight_of() has it. Without optimization that function takes long, because it looks for the stage
/// and the vector of each element.
template <class Visit>
void for_each_weight_of(const FusedImage& layout, const Visit& visit) {
  const FusedImageShape shape = fused_image_shape(layout);
  const i32 per_word = 4 / dtype_bytes(layout.io);
  for (i32 number = 0; number < shape.stages; ++number) {
    const FusedStage stage = fused_stage(layout, shape, static_cast<u32>(number));
    for (i32 vector = 0; vector < shape.stage_vectors; ++vector) {
      const FusedPlacesOfVector places = fused_places_of_vector(layout, vector);
      for (i32 word = 0; word < 4; ++word) {
        for (i32 element = 0; element < per_word; ++element) {
          visit(fused_weight_at(layout, shape, stage, places, word, element));
        }
      }
    }
  }
}

/// The image of operands [volume][in_channels][out_channels].
inline std::vector<char> fused_image(const FusedSpec& spec, const std::vector<float>& operands) {
  const std::vector<char> stored = encode(spec.io, operands);
  const FusedImage layout = image_of(spec);
  const i64 element = dtype_bytes(spec.io);
  std::vector<char> image(static_cast<size_t>(fused_image_bytes(layout)));
  char* target = image.data();
  for_each_weight_of(layout, [&](i64 source) {
    if (source >= 0) std::memcpy(target, stored.data() + source * element, static_cast<size_t>(element));
    target += element;
  });
  return image;
}

/// What a layer has for all its clouds.
struct FusedParameters {
  FusedSpec spec;
  std::vector<float> weights;  // [volume][in_channels][out_channels]
  std::vector<float> scale, shift;
  std::vector<float> shortcut_weights, shortcut_scale, shortcut_shift;  // where the Spec has a shortcut
  std::vector<float> second_scale, second_shift;                        // where it has a second output
  std::vector<float> operands, shortcut_operands;                       // weights as products have them
  std::vector<char> image, shortcut_image;                              // as the kernel has them

  FusedParameters(const FusedSpec& spec, u64 seed);
  /// Operands and images of the weights as they are.
  void settle();
};

struct FusedProblem : FusedParameters {
  FusedShapeOfMap shape;
  StoredRows input, residual;
  std::vector<std::vector<float>> features;  // of the input's rows, as operands
  i64 row_stride = 0;
  std::vector<i32> rows, order;
  std::vector<u32> masks;
  std::vector<double> expected, magnitudes;  // [queries][out_channels]
  std::vector<double> expected_shortcut, shortcut_magnitudes;

  FusedProblem(const FusedParameters& parameters, const FusedShapeOfMap& shape, u64 seed);
  FusedProblem(const FusedSpec& spec, const FusedShapeOfMap& shape, u64 seed)
      : FusedProblem(FusedParameters(spec, seed), shape, seed) {}

  /// Of the map as it is.
  void expect();
  /// Returns the second output for this first output, and appends to `sizes` what bounds its rounding errors.
  std::vector<double> expect_second(const std::vector<float>& first, std::vector<double>& sizes) const;

 private:
  void make_map(Random& random);
  void add_products(i32 offset, const float* of_offset, std::vector<double>& sums,
                    std::vector<double>& sizes) const;
};

inline FusedParameters::FusedParameters(const FusedSpec& spec, u64 seed) : spec(spec) {
  Random random(seed);
  const auto draw = [&](std::vector<float>& values, i64 count, double least, double most) {
    for (i64 i = 0; i < count; ++i) values.push_back(static_cast<float>(random.uniform(least, most)));
  };
  const i64 in = spec.in_channels, out = spec.out_channels;
  draw(weights, spec.volume * in * out, -1, 1);
  draw(scale, out, 0.5, 1.5);
  draw(shift, out, -1, 1);
  if (spec.shortcut) {
    draw(shortcut_weights, in * out, -1, 1);
    draw(shortcut_scale, out, -1.5, 1.5);
    draw(shortcut_shift, out, -1, 1);
  }
  if (spec.second_output) {
    draw(second_scale, out, -1.5, 1.5);
    draw(second_shift, out, -1, 1);
  }
  weights = round_to(storage_type(spec.io), std::move(weights));
  shortcut_weights = round_to(storage_type(spec.io), std::move(shortcut_weights));
  settle();
}

inline void FusedParameters::settle() {
  operands = round_to(spec.io, weights);
  image = fused_image(spec, operands);
  if (!spec.shortcut) return;
  shortcut_operands = round_to(spec.io, shortcut_weights);
  shortcut_image = fused_image(shortcut_of(spec), shortcut_operands);
}

inline FusedProblem::FusedProblem(const FusedParameters& parameters, const FusedShapeOfMap& shape, u64 seed)
    : FusedParameters(parameters),
      shape(shape),
      // As many elements longer as keep rows aligned to the Spec's accesses, and to no more.
      input(spec.io, shape.sources, spec.in_channels,
            spec.in_channels + spec.input_bytes / dtype_bytes(spec.io)),
      residual(spec.io, shape.queries, spec.out_channels,
               spec.out_channels + 3 * spec.output_bytes / dtype_bytes(spec.io)) {
  Random random(seed + 1);
  // Row 0 is NaN, and nobody's neighbour.
  for (i64 row = 1; row < shape.sources; ++row) {
    for (i64 c = 0; c < spec.in_channels; ++c) input.set(row, c, random.uniform(-2, 2));
  }
  for (i64 row = 0; row < shape.queries; ++row) {
    for (i64 c = 0; c < spec.out_channels; ++c) residual.set(row, c, random.uniform(-2, 2));
  }
  make_map(random);
  expect();
}

/// By query first, then in the order of the views.
inline void FusedProblem::make_map(Random& random) {
  const i64 count = shape.queries;
  const i32 words = mask_words(spec.volume);
  row_stride = count + shape.stride_padding;
  std::vector<i32> of_query(static_cast<size_t>(spec.volume * count), -1);
  std::vector<u32> mask_of(static_cast<size_t>(words * count), 0);
  for (i32 k = 0; k < spec.volume; ++k) {
    const bool is_middle = spec.shortcut && k == spec.volume / 2;
    if (shape.empty_every != 0 && k % shape.empty_every == 1 && !is_middle) continue;
    for (i64 q = 0; q < count && shape.sources > 1; ++q) {
      // Some stretches of queries have no neighbour at all, others all.
      const double density = q / 24 % 5 == 4 ? 0 : q / 16 % 7 == 6 ? 1 : shape.density;
      if (random.uniform() >= density) continue;
      of_query[static_cast<size_t>(k * count + q)] = static_cast<i32>(random.between(1, shape.sources - 1));
      mask_of[static_cast<size_t>(k / 32 * count + q)] |= 1u << k % 32;
    }
  }
  for (i64 q = 0; q < count; ++q) order.push_back(static_cast<i32>(q));
  std::sort(order.begin(), order.end(), [&](i32 a, i32 b) {
    for (i32 w = words; w-- > 0;) {
      const u32 mask_a = mask_of[static_cast<size_t>(w * count + a)],
                mask_b = mask_of[static_cast<size_t>(w * count + b)];
      if (mask_a != mask_b) return mask_a > mask_b;
    }
    return a < b;
  });
  rows.assign(static_cast<size_t>(spec.volume * row_stride), 0x7fffffff);
  masks.assign(static_cast<size_t>(words * row_stride), ~0u);
  for (i64 i = 0; i < count; ++i) {
    const i64 query = shape.ordered && shape.ordered_views ? order[static_cast<size_t>(i)] : i;
    for (i32 k = 0; k < spec.volume; ++k)
      rows[static_cast<size_t>(k * row_stride + i)] = of_query[static_cast<size_t>(k * count + query)];
    for (i32 w = 0; w < words; ++w)
      masks[static_cast<size_t>(w * row_stride + i)] = mask_of[static_cast<size_t>(w * count + query)];
  }
  if (!shape.ordered || !shape.ordered_views) return;
  // Of an offset that none of the positions has that read together there is nothing.
  for (i64 first = 0; first < count; first += kPositionGroup) {
    const i64 end = std::min<i64>(first + kPositionGroup, count);
    for (i32 k = 0; k < spec.volume; ++k) {
      i32* const of_offset = rows.data() + k * row_stride;
      if (std::all_of(of_offset + first, of_offset + end, [](i32 row) { return row < 0; }))
        std::fill(of_offset + first, of_offset + end, 0x7fffffff);
    }
  }
}

/// Those of one offset, whose weights are [in_channels][out_channels].
inline void FusedProblem::add_products(i32 offset, const float* of_offset, std::vector<double>& sums,
                                       std::vector<double>& sizes) const {
  const i32 in = spec.in_channels, out = spec.out_channels;
  for (i64 i = 0; i < shape.queries; ++i) {
    const i64 query = shape.ordered && shape.ordered_views ? order[static_cast<size_t>(i)] : i;
    const i32 source = rows[static_cast<size_t>(offset * row_stride + i)];
    if ((masks[static_cast<size_t>(offset / 32 * row_stride + i)] >> offset % 32 & 1u) == 0) continue;
    for (i32 c = 0; c < in; ++c) {
      const double x = features[static_cast<size_t>(source)][static_cast<size_t>(c)];
      oracle::add_channel(x, of_offset + i64{c} * out, out, sums.data() + query * out,
                          sizes.data() + query * out);
    }
  }
}

inline std::vector<double> FusedProblem::expect_second(const std::vector<float>& first,
                                                       std::vector<double>& sizes) const {
  const char* const function = kActivationNames[static_cast<size_t>(spec.second_activation)];
  std::vector<double> second;
  for (size_t i = 0; i < first.size(); ++i) {
    const size_t c = i % static_cast<size_t>(spec.out_channels);
    const double product = static_cast<double>(first[i]) * second_scale[c];
    sizes.push_back(std::abs(product) + std::abs(second_shift[c]));
    second.push_back(oracle::apply_function(function, product + second_shift[c], kSecondSlope));
    sizes.back() += std::abs(second.back());
  }
  return second;
}

inline void FusedProblem::expect() {
  const i64 size = i64{spec.in_channels} * spec.out_channels, count = shape.queries * spec.out_channels;
  expected.assign(static_cast<size_t>(count), 0);
  magnitudes = expected_shortcut = shortcut_magnitudes = expected;
  features.clear();
  for (i64 row = 0; row < shape.sources; ++row) features.push_back(round_to(spec.io, input.row(row)));
  for (i32 k = 0; k < spec.volume; ++k) add_products(k, operands.data() + k * size, expected, magnitudes);
  if (spec.shortcut)
    add_products(spec.volume / 2, shortcut_operands.data(), expected_shortcut, shortcut_magnitudes);
  for (i64 i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i), c = at % static_cast<size_t>(spec.out_channels);
    const auto scale_shift = [&](std::vector<double>& sums, std::vector<double>& sizes, float by,
                                 float more) {
      sums[at] = sums[at] * by + more;
      sizes[at] = sizes[at] * std::abs(by) + std::abs(more);
    };
    if (spec.scale_shift) {
      scale_shift(expected, magnitudes, scale[c], shift[c]);
      if (spec.shortcut)
        scale_shift(expected_shortcut, shortcut_magnitudes, shortcut_scale[c], shortcut_shift[c]);
    }
    if (spec.residual) {
      const float added = residual.row(i / spec.out_channels)[c];
      expected[at] += added, magnitudes[at] += std::abs(added);
    }
    expected[at] =
        oracle::apply_function(kActivationNames[static_cast<size_t>(spec.activation)], expected[at], kSlope);
    // A sigmoid of a small number is not small.
    if (spec.activation > Activation::LeakyReLU) magnitudes[at] += std::abs(expected[at]);
  }
}

}  // namespace minuet
