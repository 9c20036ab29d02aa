// This file applies the epilogue to the sums of a thread of the fused kernel, and writes the rows of the
// output.
#pragma once

#include "kernels_templates/core/epilogue.h"
#include "kernels_templates/core/integers.h"
#include "kernels_templates/fused/thread_place.h"

namespace minuet {

/// Holds the numbers of the output rows that a lane writes, and the lane's part of the residual of these
/// rows.
template <FusedSpec S>
struct FusedRows {
  using Lane = FusedLane<S>;
  /// Gives the number of 32-bit words of one row's residual that a lane holds.
  static constexpr i32 kWords = (Lane::kTiles * 2 * dtype_bytes(fused_residual_type(S)) + 3) / 4;

  i32 numbers[Lane::kQueries];  // Holds the row numbers, or -1 where the lane writes no row.
  bool is_padding[Lane::kQueries];
  u32 residual[Lane::kQueries][S.residual ? kWords : 1];

  MINUET_DEVICE FusedRows(const FusedParams& p, const ThreadPlace<S>& place) {
    MINUET_UNROLL
    for (i32 q = 0; q < Lane::kQueries; ++q) {
      const i64 position = i64{place.first} + Lane::query(place.lane, q);
      is_padding[q] = position >= place.count;
      numbers[q] =
          static_cast<i32>(is_padding[q] && position >= p.padded_rows ? -1 : place.query(p, position));
    }
  }
  /// Reads the row numbers that a persistent block has staged with those of the input (stage_order()).
  MINUET_DEVICE FusedRows(const FusedParams& p, const ThreadPlace<S>& place, const i32* staged) {
    MINUET_UNROLL
    for (i32 q = 0; q < Lane::kQueries; ++q) {
      const i64 position = i64{place.first} + Lane::query(place.lane, q);
      is_padding[q] = position >= place.count;
      const bool has_number = p.order != nullptr && !is_padding[q];
      numbers[q] = has_number ? staged[Lane::query(place.lane, q)] : static_cast<i32>(position);
      if (is_padding[q] && position >= p.padded_rows) numbers[q] = -1;
    }
  }
};

/// Describes the channels that a lane holds in the group of column tiles (FusedColumnGroup) that begins with
/// tile First, and how the lane reads and writes them.
template <FusedSpec S, i32 First>
struct FusedChannels {
  static constexpr FusedColumnGroup kGroup = fused_column_group(S, First);
  static constexpr i32 kCount = 2 * kGroup.tiles;
  /// Gives the number of channels of one access to a row of the output or the residual.
  static constexpr i32 kEach = fused_access(S) < kCount ? fused_access(S) : kCount;
  static constexpr i32 kNext = First + kGroup.tiles;
  static constexpr bool kIsLast = kNext == FusedLane<S>::kTiles;
  /// Gives the size of an element of the residual, and the group's first word in FusedRows::residual. Only
  /// the last group has a single tile, whose 8-bit elements fill half a word.
  static constexpr i32 kResidual = dtype_bytes(fused_residual_type(S)), kWord = First * 2 * kResidual / 4;

  MINUET_DEVICE static i32 channel(const ThreadPlace<S>& place) {
    return place.column_block * S.columns + First * fused_tile(S) + FusedLane<S>::part(place.lane) * kCount;
  }
  MINUET_DEVICE static bool is_own(const ThreadPlace<S>& place) {
    return S.cluster == 1 || place.rank < 0 || fused_owner(S, kGroup) == place.rank;
  }
};

/// Loads the residual of the lane's channels in tile First and all later tiles. All of it is loaded before
/// anything is written, because a load after a store would wait for memory again.
template <FusedSpec S, i32 First = 0>
MINUET_DEVICE void load_residual(const FusedParams& p, const ThreadPlace<S>& place, FusedRows<S>& rows) {
  using Channels = FusedChannels<S, First>;
  const i32 channel = Channels::channel(place);
  MINUET_UNROLL
  for (i32 q = 0; q < FusedLane<S>::kQueries; ++q) {
    const bool is_there = Channels::is_own(place) && rows.numbers[q] >= 0 && !rows.is_padding[q];
    MINUET_UNROLL
    for (i32 c = 0; c < Channels::kCount; c += Channels::kEach) {
      constexpr i32 kElement = Channels::kResidual, kAccess = Channels::kEach * kElement;
      const Vector<kAccess> v = load_vector_if<kAccess, S.programmatic>(
          is_there && channel + c < S.out_channels, p.residual,
          (i64{rows.numbers[q]} * p.residual_ld + channel + c) * kElement);
      u32* const words = rows.residual[q] + Channels::kWord + c * kElement / 4;
      if constexpr (kAccess < 4) {
        const i32 place = c * kElement % 4 * 8;
        words[0] = place == 0 ? v.words[0] : words[0] | static_cast<u32>(v.words[0]) << place;
      } else {
        MINUET_UNROLL
        for (i32 w = 0; w < kAccess / 4; ++w) words[w] = v.words[w];
      }
    }
  }
  if constexpr (!Channels::kIsLast) load_residual<S, Channels::kNext>(p, place, rows);
}

/// Holds what the lane's channels in the group of tiles that begins with tile First are multiplied by.
template <FusedSpec S, i32 First>
struct FusedFactors {
  static constexpr i32 kCount = FusedChannels<S, First>::kCount;
  float scale[kCount] = {}, shift[kCount] = {}, residual[kCount] = {};
};

/// Computes what a sum becomes in front of the activation.
template <FusedSpec S>
MINUET_DEVICE float finish_sum(float sum, float residual, float scale, float shift, float) {
  return epilogue<S.scale_shift, S.residual, Activation::None>(sum, scale, shift, residual, 0.0f);
}
template <FusedSpec S>
MINUET_DEVICE float finish_sum(i32 sum, float residual, float scale, float shift, float residual_factor) {
  const i32 start =
      nearest_integer(S.residual ? fused_multiply_add(residual, residual_factor, shift) : shift);
  return nearest_float(wrapping_sum(sum, start)) * scale;
}
MINUET_DEVICE bool is_finite_sum(float sum) { return !overflows(DType::F32, bits_of(sum)); }
MINUET_DEVICE bool is_finite_sum(i32) { return true; }

/// Returns the lane's residual of one row in the group of tiles that begins with tile First, in `values`.
template <FusedSpec S, i32 First, i32 Count>
MINUET_DEVICE void residual_of(const FusedRows<S>& rows, i32 q, float (&values)[Count]) {
  constexpr i32 kBytes = Count * FusedChannels<S, First>::kResidual, kMost = kBytes < 16 ? kBytes : 16;
  constexpr i32 kWord = FusedChannels<S, First>::kWord, kEach = kMost / FusedChannels<S, First>::kResidual;
  MINUET_UNROLL
  for (i32 byte = 0; byte < kBytes; byte += kMost) {
    Vector<kMost> words;
    MINUET_UNROLL
    for (i32 w = 0; w < Vector<kMost>::kWords; ++w)
      words.words[w] = static_cast<typename Vector<kMost>::Word>(rows.residual[q][kWord + byte / 4 + w]);
    to_numbers<fused_residual_type(S)>(words, values + byte / kMost * kEach);
  }
}

/// Applies the epilogue to the lane's channels of one row in the group of tiles that begins with tile First,
/// and writes them as elements of the type Output. Returns true if all sums are finite in fp32 and all
/// results are finite in that type. If there is a second output, the results take the place of the sums, as
/// they are stored.
template <FusedSpec S, i32 First, DType Output>
MINUET_DEVICE bool finish_row(const FusedParams& p, const ThreadPlace<S>& place, FusedSums<S>& sums,
                              const FusedRows<S>& rows, i32 q, const FusedFactors<S, First>& factors) {
  using Channels = FusedChannels<S, First>;
  constexpr i32 kCount = Channels::kCount, kEach = Channels::kEach;
  constexpr i32 kElement = dtype_bytes(Output);
  const i32 channel = Channels::channel(place);
  float residual[kCount] = {};
  if constexpr (S.residual) residual_of<S, First>(rows, q, residual);
  bool finite = true;
  MINUET_UNROLL
  for (i32 first = 0; first < kCount; first += kEach) {
    if (channel + first >= S.out_channels) break;
    float values[kEach] = {};
    if (!rows.is_padding[q]) {
      MINUET_UNROLL
      for (i32 e = 0; e < kEach; ++e) {
        const i32 c = first + e;
        const auto sum = FusedLane<S>::value(sums, First + c / 2, q, c % 2);
        const float value =
            finish_sum<S>(sum, residual[c], factors.scale[c], factors.shift[c], factors.residual[c]);
        values[e] = place.one_of(activate<S.activation>(value, p.slope), value);
        // The sum is tested too, because a ReLU would hide a sum of minus infinity.
        finite = finite && is_finite_sum(sum) &&
                 (is_integer(S.io) || !is_integer(Output) ? !overflows(Output, bits_of(values[e]))
                                                          : is_finite_sum(values[e]));
        if constexpr (scales_output(S)) values[e] *= place.one_of(p.output_factor, 1.0f);
      }
    }
    const Vector<kEach* kElement> stored = from_numbers<Output, kEach * kElement>(values);
    store_vector(
        place.one_of(p.output, p.shortcut.output),
        (i64{rows.numbers[q]} * place.one_of(p.output_ld, p.shortcut.output_ld) + channel + first) * kElement,
        stored);
    if constexpr (S.second_output) {
      to_numbers<Output>(stored, values);
      MINUET_UNROLL
      for (i32 e = 0; e < kEach; ++e) {
        FusedLane<S>::set_result(sums, First + (first + e) / 2, q, (first + e) % 2, values[e]);
      }
    }
  }
  return finite;
}

/// Loads the numbers of channels [channel, channel + Count) from an array with one number per output channel.
template <FusedSpec S, i32 Count>
MINUET_DEVICE void load_floats(const float* numbers, i32 channel, float (&values)[Count]) {
  if constexpr (Count % 4 == 0 && S.out_channels % Count == 0) {
    MINUET_UNROLL
    for (i32 c = 0; c < Count; c += 4)
      to_floats<DType::F32>(load_vector_if<16>(channel < S.out_channels, numbers, (channel + c) * 4),
                            values + c);
  } else {
    MINUET_UNROLL
    for (i32 c = 0; c < Count; ++c) {
      if (channel + c < S.out_channels) values[c] = read_only(numbers + channel + c);
    }
  }
}

/// Computes an element of the second output (SecondOutput) of the stored element of the first output.
template <FusedSpec S>
MINUET_DEVICE float second_value(const FusedParams& p, float stored, float scale, float shift) {
  if constexpr (has_integers(S)) {
    const float value =
        activate<S.second_activation>(fused_multiply_add(stored, scale, shift), p.second.slope);
    return scales_second(S) ? value * p.second_factor : value;
  } else {
    return epilogue<true, false, S.second_activation>(stored, scale, shift, 0.0f, p.second.slope);
  }
}

/// Writes the second output (SecondOutput) at the lane's channels in the group of tiles that begins with tile
/// First. finish_row() has replaced the sums in `results` by the first output as it is stored, so this
/// function needs no registers for it.
template <FusedSpec S, i32 First>
MINUET_DEVICE void finish_second(const FusedParams& p, const ThreadPlace<S>& place,
                                 const FusedSums<S>& results, const FusedRows<S>& rows) {
  using Channels = FusedChannels<S, First>;
  constexpr DType kSecond = fused_second_type(S);
  constexpr i32 kEach = Channels::kEach, kElement = dtype_bytes(kSecond);
  const i32 channel = Channels::channel(place);
  float scale[Channels::kCount] = {}, shift[Channels::kCount] = {};
  load_floats<S>(p.second.scale, channel, scale);
  load_floats<S>(p.second.shift, channel, shift);
  bool finite = true;
  MINUET_UNROLL
  for (i32 q = 0; q < FusedLane<S>::kQueries; ++q) {
    if (rows.numbers[q] < 0) continue;
    MINUET_UNROLL
    for (i32 first = 0; first < Channels::kCount; first += kEach) {
      if (channel + first >= S.out_channels) break;
      float values[kEach] = {};
      if (!rows.is_padding[q]) {
        MINUET_UNROLL
        for (i32 e = 0; e < kEach; ++e) {
          const i32 c = first + e;
          const float result = FusedLane<S>::result(results, First + c / 2, q, c % 2);
          values[e] = second_value<S>(p, result, scale[c], shift[c]);
          finite = finite && !overflows(kSecond, bits_of(values[e]));
        }
      }
      store_vector(p.second.output, (rows.numbers[q] * p.second.output_ld + channel + first) * kElement,
                   from_numbers<kSecond, kEach * kElement>(values));
    }
  }
  if (!finite) *p.second.overflow = p.overflow_mark;
}

/// Writes the lane's output in the group of column tiles (FusedColumnGroup) that begins with tile First, and
/// in all groups after it.
template <FusedSpec S, DType Output, i32 First = 0>
MINUET_DEVICE void finish_group(const FusedParams& p, const ThreadPlace<S>& place, FusedSums<S>& sums,
                                const FusedRows<S>& rows) {
  using Channels = FusedChannels<S, First>;
  if (Channels::is_own(place)) {
    const i32 channel = Channels::channel(place);
    FusedFactors<S, First> factors;
    if constexpr (S.scale_shift) {
      load_floats<S>(place.one_of(p.scale, p.shortcut.scale), channel, factors.scale);
      load_floats<S>(place.one_of(p.shift, p.shortcut.shift), channel, factors.shift);
    }
    if constexpr (S.residual && is_integer(S.io))
      load_floats<S>(p.residual_factor, channel, factors.residual);
    bool finite = true;
    MINUET_UNROLL
    for (i32 q = 0; q < FusedLane<S>::kQueries; ++q) {
      if (rows.numbers[q] >= 0 && !finish_row<S, First, Output>(p, place, sums, rows, q, factors))
        finite = false;
    }
    if (!finite) *place.one_of(p.overflow, p.shortcut.overflow) = p.overflow_mark;
    if constexpr (S.second_output) finish_second<S, First>(p, place, sums, rows);
  }
  if constexpr (!Channels::kIsLast) finish_group<S, Output, Channels::kNext>(p, place, sums, rows);
}

template <FusedSpec S>
MINUET_DEVICE void finish(const FusedParams& p, const ThreadPlace<S>& place, FusedRows<S>& rows,
                          FusedSums<S>& sums) {
  if constexpr (S.residual) load_residual<S>(p, place, rows);
  if constexpr (S.shortcut && fused_shortcut_type(S) != fused_output_type(S)) {
    if (place.of_shortcut) return finish_group<S, fused_shortcut_type(S)>(p, place, sums, rows);
  }
  finish_group<S, fused_output_type(S)>(p, place, sums, rows);
}

}  // namespace minuet
