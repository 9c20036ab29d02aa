// Random problems for the fused kernel with 8-bit tensors, and the bytes that they must come to: exact
// integers, and the fixed steps in fp32 behind them. Without the shim, so that tests on a GPU have them too.
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
  for (const DType type : {fused_output_type(spec), fused_residual_type(spec), fused_second_type(spec)}) {
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
/// The number that memory of the type holds of this one.
inline float as_stored(DType type, float value) {
  if (!is_integer(type)) return round_to(storage_type(type), value);
  const double least = type == DType::U8 ? 0 : -127, most = type == DType::U8 ? 255 : 127;
  return static_cast<float>(std::clamp(std::nearbyint(static_cast<double>(value)), least, most));
}

/// How large the numbers of a problem are.
enum class Magnitudes : i32 { Usual, Extreme };

struct IntegerProblem {
  FusedSpec spec;
  FusedProblem map;
  StoredRows input, residual, expected, second;
  std::vector<float> weights;  // [volume][in_channels][out_channels] integers
  std::vector<float> scale, shift, residual_factor, second_scale, second_shift;
  float output_factor = 1, second_factor = 1;
  std::vector<char> image;

  IntegerProblem(const FusedSpec& spec, const FusedShapeOfMap& shape, u64 seed,
                 Magnitudes magnitudes = Magnitudes::Usual);

 private:
  /// Of which only the map is used.
  static FusedSpec map_spec(const FusedSpec& spec) {
    return {.in_channels = 1, .out_channels = 16, .volume = spec.volume, .step = 64, .columns = 16};
  }
  i64 sum_of(i64 query, i64 position, i64 channel);
  float finished(i64 sum, float residual, i64 channel) const;
  void draw(Random& random, Magnitudes magnitudes);
  void make_image();
  void expect();
};

inline IntegerProblem::IntegerProblem(const FusedSpec& spec, const FusedShapeOfMap& shape, u64 seed,
                                      Magnitudes magnitudes)
    : spec(spec),
      map(map_spec(spec), shape, seed),
      // As many elements longer as keep rows aligned to the Spec's accesses, and to no more.
      input(spec.io, shape.sources, spec.in_channels,
            spec.in_channels + spec.input_bytes / dtype_bytes(spec.io)),
      residual(fused_residual_type(spec), shape.queries, spec.out_channels,
               spec.out_channels + 3 * fused_access(spec)),
      expected(fused_output_type(spec), shape.queries, spec.out_channels, spec.out_channels),
      second(fused_second_type(spec), shape.queries, spec.out_channels, spec.out_channels) {
  Random random(seed + 7);
  draw(random, magnitudes);
  make_image();
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
        i % out % 2 == 0 ? 1.0f : -1.0f;  // of a whole channel, so that sums are as large as can be
    weights.push_back(extreme ? 127 * sign : integers ? integer_of(DType::S8) : integer_of(DType::F16));
  }
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
    second_scale.push_back(static_cast<float>(random.uniform(-1, 1) * (is_integer(spec.io) ? 1 : 9)));
    second_shift.push_back(static_cast<float>(random.uniform(-4, 4)));
  }
}

inline void IntegerProblem::make_image() {
  const FusedImage layout = image_of(spec);
  const i64 element = dtype_bytes(layout.io), count = fused_image_bytes(layout) / element;
  if (!is_integer(layout.io)) {
    image = fused_image(spec, round_to(spec.io, weights));
    return;
  }
  image.assign(static_cast<size_t>(count), 0);
  for (i64 i = 0; i < count; ++i) {
    const i64 source = fused_weight_of(layout, i);
    if (source >= 0)
      image[static_cast<size_t>(i)] =
          static_cast<char>(static_cast<int>(weights[static_cast<size_t>(source)]));
  }
}

/// Of a query at a position of the map.
inline i64 IntegerProblem::sum_of(i64, i64 position, i64 channel) {
  i64 sum = 0;
  for (i32 k = 0; k < spec.volume; ++k) {
    const u32 mask = map.masks[static_cast<size_t>(k / 32 * map.row_stride + position)];
    if ((mask >> k % 32 & 1u) == 0) continue;
    const i32 source = map.rows[static_cast<size_t>(k * map.row_stride + position)];
    for (i64 c = 0; c < spec.in_channels; ++c) {
      const auto x = static_cast<i64>(number_at(input, source, c));
      const float w =
          weights[static_cast<size_t>((k * i64{spec.in_channels} + c) * spec.out_channels + channel)];
      sum += x * static_cast<i64>(w);
    }
  }
  return sum;
}

/// The output in front of its rounding.
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
  for (i64 i = 0; i < map.shape.queries; ++i) {
    const i64 query = map.shape.ordered && map.shape.ordered_views ? map.order[static_cast<size_t>(i)] : i;
    for (i64 c = 0; c < spec.out_channels; ++c) {
      const i64 sum = sum_of(query, i, c);
      const float value = finished(sum, number_at(residual, query, c), c);
      const float stored = as_stored(expected.type, value);
      put_number(expected, query, c, stored);
      const float of_stored =
          std::fma(stored, second_scale[static_cast<size_t>(c)], second_shift[static_cast<size_t>(c)]);
      float next = activated(spec.second_activation, of_stored, kSecondSlope);
      if (scales_second(spec)) next *= second_factor;
      put_number(second, query, c, as_stored(second.type, next));
    }
  }
}

/// What one of the outputs is where it differs from what it must be, or nothing.
inline std::string difference_of(StoredRows& output, StoredRows& expected, i64 count, i64 padded) {
  for (i64 row = 0; row < count + padded + 2; ++row) {
    for (i64 c = 0; c < output.ld; ++c) {
      const std::string at = "row " + std::to_string(row) + ", channel " + std::to_string(c) + ": ";
      const bool is_written = row < count + padded && c < output.channels;
      if (!is_written) {
        if (!output.is_untouched(row, c)) return at + "written, and it must not be";
        continue;
      }
      const std::vector<char> zeros(static_cast<size_t>(dtype_bytes(output.type)), 0);
      const char* const wanted = row < count ? expected.at(row, c) : zeros.data();
      if (std::memcmp(output.at(row, c), wanted, zeros.size()) == 0) continue;
      return at + std::to_string(number_at(output, row, c)) + " where " +
             (row < count ? std::to_string(number_at(expected, row, c)) : "zero") + " is expected";
    }
  }
  return "";
}

}  // namespace minuet
