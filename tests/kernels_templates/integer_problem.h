// This file draws random problems for the fused kernel with 8-bit tensors, and computes the bytes that the
// kernel must write: it adds exact integers, and then does the fixed steps in fp32. It does not use the shim,
// so that tests on a GPU can use it too.
#pragma once

#include <cstdint>
#include <numeric>

#include "kernels_templates/shared/activation_functions.h"
#include "tests/kernels_templates/fused_problem.h"

namespace minuet {

/// Sets the widest accesses that suit the channels and the types of all tensors of a Spec.
constexpr FusedSpec with_accesses(FusedSpec spec) {
  spec.input_bytes = access_of(spec.io, spec.in_channels);
  i32 elements = 16;
  for (const DType type : {fused_output_type(spec), fused_residual_type(spec), fused_second_type(spec),
                           fused_shortcut_type(spec)}) {
    const i32 most = access_of(type, spec.out_channels) / dtype_bytes(type);
    elements = most < elements ? most : elements;
  }
  spec.output_bytes = elements * dtype_bytes(fused_output_type(spec));
  return spec;
}

inline float activated(Activation activation, float x, float slope) {
  switch (activation) {
    case Activation::None:
      return x;
    case Activation::ReLU:
      return x < 0 ? 0.0f : x;
    case Activation::LeakyReLU:
      return x < 0 ? x * slope : x;
    case Activation::Gelu:
      return activate<Activation::Gelu>(x, slope);
    case Activation::GeluTanh:
      return activate<Activation::GeluTanh>(x, slope);
    case Activation::Silu:
      return activate<Activation::Silu>(x, slope);
    case Activation::Sigmoid:
      return activate<Activation::Sigmoid>(x, slope);
    case Activation::Tanh:
      return activate<Activation::Tanh>(x, slope);
  }
  return x;
}

/// Stores a number that the type holds.
inline void put_number(StoredRows& rows, i64 row, i64 channel, float value) {
  if (is_integer(rows.type)) {
    *rows.at(row, channel) = static_cast<char>(static_cast<int>(value));
  } else {
    rows.set(row, channel, value);
  }
}
inline float number_at(StoredRows& rows, i64 row, i64 channel) {
  if (rows.type == DType::U8) return static_cast<float>(static_cast<unsigned char>(*rows.at(row, channel)));
  if (rows.type == DType::S8) return static_cast<float>(static_cast<signed char>(*rows.at(row, channel)));
  return rows.row(row)[static_cast<size_t>(channel)];
}
inline std::vector<float> numbers_of(StoredRows& rows, i64 row) {
  if (!is_integer(rows.type)) return rows.row(row);
  std::vector<float> numbers;
  for (i64 c = 0; c < rows.channels; ++c) numbers.push_back(number_at(rows, row, c));
  return numbers;
}
/// Returns the number that memory of the type holds after this one is stored.
inline float as_stored(DType type, float value) {
  if (!is_integer(type)) return round_to(storage_type(type), value);
  const double least = type == DType::U8 ? 0 : -127, most = type == DType::U8 ? 255 : 127;
  return static_cast<float>(std::clamp(std::nearbyint(static_cast<double>(value)), least, most));
}

/// Says how large the numbers of a problem are.
enum class Magnitudes : i32 { Usual, Extreme };

struct IntegerProblem {
  FusedSpec spec;
  FusedProblem map;
  StoredRows input, residual, expected, second, shortcut;
  std::vector<float> weights;  // These are integers of the shape [volume][in_channels][out_channels].
  std::vector<float> scale, shift, residual_factor, second_scale, second_shift;
  float output_factor = 1, second_factor = 1;
  std::vector<char> image, shortcut_image;
  // The following members are used if the Spec has a shortcut.
  std::vector<float> shortcut_weights, shortcut_scale, shortcut_shift;
  std::vector<i64> features;  // The shape is [sources][in_channels], and row 0 is zero.

  IntegerProblem(const FusedSpec& spec, const FusedShapeOfMap& shape, u64 seed,
                 Magnitudes magnitudes = Magnitudes::Usual);

 private:
  /// Returns a small Spec from which FusedProblem makes the map. Its other members are not used.
  static FusedSpec map_spec(const FusedSpec& spec) {
    return {.in_channels = 1,
            .out_channels = 16,
            .volume = spec.volume,
            .step = 64,
            .columns = 16,
            .shortcut = spec.shortcut};
  }
  std::vector<i64> sums_of(i64 position, i32 offset, i32 end, const float* numbers) const;
  float finished(i64 sum, float residual, i64 channel) const;
  void draw(Random& random, Magnitudes magnitudes);
  static std::vector<char> image_of_weights(const FusedSpec& spec, const std::vector<float>& weights);
  void expect();
};

inline IntegerProblem::IntegerProblem(const FusedSpec& spec, const FusedShapeOfMap& shape, u64 seed,
                                      Magnitudes magnitudes)
    : spec(spec),
      map(map_spec(spec), shape, seed),
      // The rows are longer by the elements of one access, so that they are aligned to the Spec's accesses
      // and to no more.
      input(spec.io, shape.sources, spec.in_channels,
            spec.in_channels + spec.input_bytes / dtype_bytes(spec.io)),
      residual(fused_residual_type(spec), shape.queries, spec.out_channels,
               spec.out_channels + 3 * fused_access(spec)),
      expected(fused_output_type(spec), shape.queries, spec.out_channels, spec.out_channels),
      second(fused_second_type(spec), shape.queries, spec.out_channels, spec.out_channels),
      shortcut(fused_shortcut_type(spec), shape.queries, spec.out_channels, spec.out_channels) {
  Random random(seed + 7);
  draw(random, magnitudes);
  image = image_of_weights(spec, weights);
  if (spec.shortcut) shortcut_image = image_of_weights(shortcut_of(spec), shortcut_weights);
  expect();
}

inline void IntegerProblem::draw(Random& random, Magnitudes magnitudes) {
  const bool integers = is_integer(spec.io), extreme = magnitudes == Magnitudes::Extreme;
  const i64 in = spec.in_channels, out = spec.out_channels;
  const auto integer_of = [&](DType type) {
    if (extreme && is_integer(type))
      return static_cast<float>(type == DType::U8 ? 255 : random.below(2) ? 127 : -127);
    // Sums of small integers are exact in every type.
    const i64 most = type == DType::U8   ? 255
                     : type == DType::S8 ? 127
                                         : 4,
              least = type == DType::U8 ? 0 : -most;
    return static_cast<float>(random.between(least, most));
  };
  for (i64 row = 1; row < map.shape.sources; ++row) {
    for (i64 c = 0; c < in; ++c) put_number(input, row, c, integer_of(spec.io));
  }
  for (i64 row = 0; row < map.shape.queries; ++row) {
    for (i64 c = 0; c < out; ++c) put_number(residual, row, c, integer_of(residual.type));
  }
  for (i64 i = 0; i < spec.volume * in * out; ++i) {
    const float sign =
        i % out % 2 == 0 ? 1.0f : -1.0f;  // All weights of a channel have the same, for the largest sums.
    weights.push_back(extreme ? 127 * sign : integers ? integer_of(DType::S8) : integer_of(DType::F16));
  }
  for (i64 i = 0; i < in * out && spec.shortcut; ++i) shortcut_weights.push_back(integer_of(DType::S8));
  // Most outputs are within the range of 8 bits.
  const double spread = (integers ? 147.0 * 73 : 2.6 * 2.6) * std::sqrt(spec.volume * in * 0.4);
  const bool commutes = commutes_with_factors(spec.activation);
  const double size = is_integer(fused_output_type(spec)) && commutes && integers ? 100 : 2;
  output_factor = commutes && integers ? 1.0f : 61.25f;
  second_factor = 43.75f;
  for (i64 c = 0; c < out; ++c) {
    const double of_sum = random.uniform(0.4, 1.6) * size / spread;
    scale.push_back(static_cast<float>(of_sum));
    shift.push_back(static_cast<float>(random.uniform(-0.3, 0.7) * (integers ? spread : size)));
    residual_factor.push_back(static_cast<float>(random.uniform(-1, 1) * spread / 100));
    shortcut_scale.push_back(
        static_cast<float>(random.uniform(0.4, 1.6) * 100 / (147.0 * 73 * std::sqrt(in))));
    shortcut_shift.push_back(static_cast<float>(random.uniform(-5000, 5000)));
    second_scale.push_back(static_cast<float>(random.uniform(-1, 1) * (is_integer(spec.io) ? 1 : 9)));
    second_shift.push_back(static_cast<float>(random.uniform(-4, 4)));
  }
}

inline std::vector<char> IntegerProblem::image_of_weights(const FusedSpec& spec,
                                                          const std::vector<float>& weights) {
  const FusedImage layout = image_of(spec);
  if (!is_integer(layout.io)) return fused_image(spec, round_to(spec.io, weights));
  std::vector<char> image(static_cast<size_t>(fused_image_bytes(layout)), 0);
  char* target = image.data();
  for_each_weight_of(layout, [&](i64 source) {
    if (source >= 0) *target = static_cast<char>(static_cast<int>(weights[static_cast<size_t>(source)]));
    ++target;
  });
  return image;
}

/// Returns the sums of all output channels at a position of the map, over the offsets [offset, end). The
/// weights of these offsets are `numbers`.
inline std::vector<i64> IntegerProblem::sums_of(i64 position, i32 offset, i32 end,
                                                const float* numbers) const {
  const i64 in = spec.in_channels, out = spec.out_channels;
  std::vector<i64> sums(static_cast<size_t>(out), 0);
  for (i32 k = offset; k < end; ++k) {
    const u32 mask = map.masks[static_cast<size_t>(k / 32 * map.row_stride + position)];
    if ((mask >> k % 32 & 1u) == 0) continue;
    const i64 source = map.rows[static_cast<size_t>(k * map.row_stride + position)];
    // The innermost loop has pointers, because an access to a vector takes long without optimization.
    i64* const sum = sums.data();
    for (i64 c = 0; c < in; ++c) {
      const i64 x = features[static_cast<size_t>(source * in + c)];
      const float* const factors = numbers + ((k - offset) * in + c) * out;
      for (i64 o = 0; o < out; ++o) sum[o] += x * static_cast<i64>(factors[o]);
    }
  }
  return sums;
}

/// Returns an output before it is rounded.
inline float IntegerProblem::finished(i64 sum, float added, i64 channel) const {
  const auto c = static_cast<size_t>(channel);
  float value = 0;
  if (is_integer(spec.io)) {
    const float start = spec.residual ? std::fma(added, residual_factor[c], shift[c]) : shift[c];
    const i64 total = sum + static_cast<i64>(std::nearbyint(static_cast<double>(start)));
    value = static_cast<float>(static_cast<std::int32_t>(total)) * scale[c];
  } else {
    value = static_cast<float>(sum);
    if (spec.scale_shift) value = value * scale[c], value = value + shift[c];
    if (spec.residual) value = value + added;
  }
  value = activated(spec.activation, value, kSlope);
  return scales_output(spec) ? value * output_factor : value;
}

inline void IntegerProblem::expect() {
  for (i64 row = 0; row < map.shape.sources; ++row) {
    for (const float x : numbers_of(input, row)) features.push_back(row == 0 ? 0 : static_cast<i64>(x));
  }
  for (i64 i = 0; i < map.shape.queries; ++i) {
    const i64 query = map.shape.ordered && map.shape.ordered_views ? map.order[static_cast<size_t>(i)] : i;
    const std::vector<i64> sums = sums_of(i, 0, spec.volume, weights.data());
    std::vector<i64> of_shortcut;
    const i32 middle = spec.volume / 2;
    if (spec.shortcut) of_shortcut = sums_of(i, middle, middle + 1, shortcut_weights.data());
    const std::vector<float> added = numbers_of(residual, query);
    for (i64 c = 0; c < spec.out_channels; ++c) {
      const float value = finished(sums[static_cast<size_t>(c)], added[static_cast<size_t>(c)], c);
      const float stored = as_stored(expected.type, value);
      put_number(expected, query, c, stored);
      const float of_stored =
          std::fma(stored, second_scale[static_cast<size_t>(c)], second_shift[static_cast<size_t>(c)]);
      float next = activated(spec.second_activation, of_stored, kSecondSlope);
      if (scales_second(spec)) next *= second_factor;
      put_number(second, query, c, as_stored(second.type, next));
      if (!spec.shortcut) continue;
      const auto at = static_cast<size_t>(c);
      const double start = std::nearbyint(static_cast<double>(shortcut_shift[at]));
      const auto total = static_cast<std::int32_t>(of_shortcut[at] + static_cast<i64>(start));
      put_number(shortcut, query, c,
                 as_stored(shortcut.type, static_cast<float>(total) * shortcut_scale[at]));
    }
  }
}

/// Returns a text about the first number of an output that differs from the expected one, or an empty text.
/// Integers may differ by `steps`.
inline std::string difference_of(StoredRows& output, StoredRows& expected, i64 count, i64 padded,
                                 float steps = 0) {
  constexpr char zeros[4] = {};
  const auto bytes = static_cast<size_t>(dtype_bytes(output.type));
  for (i64 row = 0; row < count + padded + 2; ++row) {
    for (i64 c = 0; c < output.ld; ++c) {
      const bool is_written = row < count + padded && c < output.channels;
      const auto text = [&](const std::string& what) {
        return "row " + std::to_string(row) + ", channel " + std::to_string(c) + ": " + what;
      };
      if (!is_written) {
        if (!output.is_untouched(row, c)) return text("written, and it must not be");
        continue;
      }
      const char* const wanted = row < count ? expected.at(row, c) : zeros;
      if (std::memcmp(output.at(row, c), wanted, bytes) == 0) continue;
      const bool may_differ = steps > 0 && is_integer(output.type) && row < count;
      if (may_differ && std::abs(number_at(output, row, c) - number_at(expected, row, c)) <= steps) continue;
      return text(std::to_string(number_at(output, row, c)) + " where " +
                  (row < count ? std::to_string(number_at(expected, row, c)) : "zero") + " is expected");
    }
  }
  return "";
}

}  // namespace minuet
