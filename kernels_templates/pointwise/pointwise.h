// The kernel pointwise computes out[row] = step_n(... step_1(in[row])) for a chain of steps, in fp32. Only
// the result is rounded.
//
// S.lanes consecutive threads process a row. Thread `lane` of them owns the vectors lane, lane + S.lanes, ...
// of the row and holds their elements in registers, from the first step to the last. If no step is row-wise,
// each thread owns one vector, so that all threads have work whatever the number of channels is.
#pragma once

#include "kernels_templates/core/grid.h"
#include "kernels_templates/core/vector.h"
#include "kernels_templates/pointwise/row_reduction.h"

namespace minuet {

template <PointwiseSpec S>
struct PointwiseShape {
  static constexpr i32 kElement = dtype_bytes(S.io);
  static constexpr i32 kElements = S.vector_bytes / kElement;  // Gives the number of elements per vector.
  static constexpr i32 kVectors = S.channels / kElements;      // Gives the number of vectors per row.
  static constexpr i32 kHeld = (kVectors + S.lanes - 1) / S.lanes;  // Counts the vectors of a thread.
  static constexpr bool kIsRowWise = is_row_wise(S.steps);
  static constexpr bool kIsArgmax = count_steps(S.steps, PointwiseKind::Argmax) > 0;
  static_assert(S.vector_bytes % kElement == 0, "a vector has whole elements");
  static_assert(S.channels % kElements == 0, "vector_bytes must divide a row");
  static_assert(kIsRowWise || S.lanes == kVectors, "a thread has one vector if no step is row-wise");
  static_assert(!kIsRowWise || (S.lanes & (S.lanes - 1)) == 0, "lanes are combined in pairs");
  static_assert(!kIsRowWise || S.lanes <= 32 || S.lanes == S.threads, "whole warps, or the whole block");
};

/// Holds the elements of one row that one thread processes.
template <PointwiseSpec S>
struct RowPart {
  using Shape = PointwiseShape<S>;
  i64 row;
  i32 lane;
  bool is_present;  // Says whether the row exists. Other rows take part in the reductions as zeros.
  float values[Shape::kHeld][Shape::kElements];

  MINUET_HD i32 vector(i32 i) const { return lane + i * S.lanes; }
  /// Returns true if vector i of the thread is in the row.
  MINUET_HD bool has(i32 i) const { return Shape::kVectors % S.lanes == 0 || vector(i) < Shape::kVectors; }
  MINUET_HD i32 channel(i32 i, i32 e) const { return vector(i) * Shape::kElements + e; }
  MINUET_HD i64 byte(i64 ld, i32 i) const {
    return row * ld * Shape::kElement + static_cast<i64>(vector(i)) * S.vector_bytes;
  }
};

/// Replaces each value x of the part by body(x, i, e), with the number of the vector and of the element in
/// it.
template <PointwiseSpec S, class Body>
MINUET_HD void for_each_value(RowPart<S>& part, const Body& body) {
  MINUET_UNROLL
  for (i32 i = 0; i < PointwiseShape<S>::kHeld; ++i) {
    MINUET_UNROLL
    for (i32 e = 0; e < PointwiseShape<S>::kElements; ++e) part.values[i][e] = body(part.values[i][e], i, e);
  }
}

/// Combines body(x, i, e) of all elements of the row.
template <class Operation, PointwiseSpec S, class Body>
MINUET_DEVICE auto combine_row(const RowPart<S>& part, const Body& body) {
  auto combined = Operation::neutral();
  MINUET_UNROLL
  for (i32 i = 0; i < PointwiseShape<S>::kHeld; ++i) {
    if (!part.has(i)) continue;
    MINUET_UNROLL
    for (i32 e = 0; e < PointwiseShape<S>::kElements; ++e) {
      combined = Operation::combine(combined, body(part.values[i][e], i, e));
    }
  }
  return combine_lanes<Operation, S.lanes>(combined);
}

/// Loads the elements of a matrix at the place of the part. Elements that do not exist are zeros.
template <PointwiseSpec S>
MINUET_HD void load_part(const void* matrix, i64 ld, RowPart<S>& part) {
  MINUET_UNROLL
  for (i32 i = 0; i < PointwiseShape<S>::kHeld; ++i) {
    const bool present = part.is_present && part.has(i);
    to_floats<S.io>(load_vector_if<S.vector_bytes>(present, matrix, part.byte(ld, i)), part.values[i]);
  }
}

/// Loads the numbers of the channels of vector i.
template <PointwiseSpec S>
MINUET_HD void load_numbers(const float* of_channels, const RowPart<S>& part, i32 i, float* numbers) {
  constexpr i32 kElements = PointwiseShape<S>::kElements, kWord = static_cast<i32>(sizeof(float));
  constexpr i32 kBytes = kElements * kWord < 16 ? kElements * kWord : 16;
  MINUET_UNROLL
  for (i32 e = 0; e < kElements; e += kBytes / kWord) {
    const i64 byte = static_cast<i64>(part.channel(i, e)) * kWord;
    to_floats<DType::F32>(load_vector_if<kBytes>(part.has(i), of_channels, byte), numbers + e);
  }
}

template <PointwiseSpec S>
MINUET_HD void apply_affine(const float* scale, const float* shift, RowPart<S>& part) {
  MINUET_UNROLL
  for (i32 i = 0; i < PointwiseShape<S>::kHeld; ++i) {
    float scales[PointwiseShape<S>::kElements], shifts[PointwiseShape<S>::kElements];
    load_numbers(scale, part, i, scales);
    load_numbers(shift, part, i, shifts);
    MINUET_UNROLL
    for (i32 e = 0; e < PointwiseShape<S>::kElements; ++e) {
      part.values[i][e] = part.values[i][e] * scales[e] + shifts[e];
    }
  }
}

/// Normalizes the row and returns 1 / sqrt(variance + epsilon). Computes the mean before the variance,
/// because the difference of two sums of squares would lose digits.
template <PointwiseSpec S>
MINUET_DEVICE float apply_layer_norm(float epsilon, RowPart<S>& part) {
  constexpr float kChannels = static_cast<float>(S.channels);
  const float mean = combine_row<SumOf>(part, [](float x, i32, i32) { return x; }) / kChannels;
  for_each_value(part, [&](float x, i32, i32) { return x - mean; });
  const float variance = combine_row<SumOf>(part, [](float x, i32, i32) { return x * x; }) / kChannels;
  const float factor = 1.0f / square_root(variance + epsilon);
  for_each_value(part, [&](float x, i32, i32) { return x * factor; });
  return factor;
}

/// Computes factor * (g - mean(g) - n * mean(g * n)), where n is the normalized row and g the gradient.
/// `input` is the row before it is normalized, and holds n afterwards.
template <PointwiseSpec S>
MINUET_DEVICE void apply_layer_norm_gradient(float epsilon, RowPart<S>& input, RowPart<S>& part) {
  constexpr float kChannels = static_cast<float>(S.channels);
  const float factor = apply_layer_norm(epsilon, input);
  const float mean = combine_row<SumOf>(part, [](float x, i32, i32) { return x; }) / kChannels;
  const float product =
      combine_row<SumOf>(part, [&](float x, i32 i, i32 e) { return x * input.values[i][e]; }) / kChannels;
  for_each_value(part,
                 [&](float x, i32 i, i32 e) { return factor * (x - mean - input.values[i][e] * product); });
}

template <PointwiseSpec S>
MINUET_DEVICE void apply_softmax(RowPart<S>& part) {
  const float largest = combine_row<MaximumOf>(part, [](float x, i32, i32) { return x; });
  for_each_value(part, [&](float x, i32, i32) { return exponential(x - largest); });
  const float factor = 1.0f / combine_row<SumOf>(part, [](float x, i32, i32) { return x; });
  for_each_value(part, [&](float x, i32, i32) { return x * factor; });
}

template <PointwiseSpec S>
MINUET_DEVICE void apply_softmax_gradient(const RowPart<S>& result, RowPart<S>& part) {
  const float sum = combine_row<SumOf>(part, [&](float x, i32 i, i32 e) { return x * result.values[i][e]; });
  for_each_value(part, [&](float x, i32 i, i32 e) { return result.values[i][e] * (x - sum); });
}

/// Applies a step that reads an operand.
template <PointwiseSpec S, PointwiseKind K>
MINUET_DEVICE void apply_with_operand(float number, RowPart<S>& operand, RowPart<S>& part) {
  if constexpr (K == PointwiseKind::LayerNormGradient) {
    apply_layer_norm_gradient(number, operand, part);
  } else if constexpr (K == PointwiseKind::SoftmaxGradient) {
    apply_softmax_gradient(operand, part);
  } else {
    for_each_value(part, [&](float x, i32 i, i32 e) {
      const float other = operand.values[i][e];
      if constexpr (is_activation_gradient(K)) {
        return activation_gradient<differentiated_by(K)>(x, other, number);
      } else {
        return K == PointwiseKind::Add ? x + other : x * other;
      }
    });
  }
}

/// Applies step I and all steps behind it, except an argmax.
template <PointwiseSpec S, i32 I>
MINUET_DEVICE void apply_steps(const PointwiseParams& p, RowPart<S>& part) {
  if constexpr (I < kMostPointwiseSteps) {
    constexpr PointwiseKind kKind = S.steps.kinds[I];
    if constexpr (kKind == PointwiseKind::None || kKind == PointwiseKind::Argmax) return;
    if constexpr (reads_operand(kKind)) {
      RowPart<S> operand = part;
      load_part(p.operands[I], p.operand_lds[I], operand);
      apply_with_operand<S, kKind>(p.numbers[I], operand, part);
    } else if constexpr (kKind == PointwiseKind::Affine) {
      constexpr i32 kFirst = count_steps(S.steps, PointwiseKind::Affine, I) * S.channels;
      apply_affine(p.scale + kFirst, p.shift + kFirst, part);
    } else if constexpr (kKind == PointwiseKind::LayerNorm) {
      apply_layer_norm(p.numbers[I], part);
    } else if constexpr (kKind == PointwiseKind::Softmax) {
      apply_softmax(part);
    } else if constexpr (kKind != PointwiseKind::None && kKind != PointwiseKind::Argmax) {
      const float number = p.numbers[I];
      for_each_value(part, [&](float x, i32, i32) { return activate<activation_of(kKind)>(x, number); });
    }
    apply_steps<S, I + 1>(p, part);
  }
}

template <PointwiseSpec S>
MINUET_HD void store_part(const PointwiseParams& p, const RowPart<S>& part) {
  bool finite = true;
  MINUET_UNROLL
  for (i32 i = 0; i < PointwiseShape<S>::kHeld; ++i) {
    if (!part.has(i)) continue;
    MINUET_UNROLL
    for (i32 e = 0; e < PointwiseShape<S>::kElements; ++e) {
      finite = finite && !overflows(S.io, bits_of(part.values[i][e]));
    }
    store_vector(p.output, part.byte(p.output_ld, i), from_floats<S.io, S.vector_bytes>(part.values[i]));
  }
  if (!finite) *p.overflow = p.overflow_mark;
}

/// Returns true if all elements of the part are finite in fp32.
template <PointwiseSpec S>
MINUET_HD bool is_finite(const RowPart<S>& part) {
  bool finite = true;
  MINUET_UNROLL
  for (i32 i = 0; i < PointwiseShape<S>::kHeld; ++i) {
    if (!part.has(i)) continue;
    MINUET_UNROLL
    for (i32 e = 0; e < PointwiseShape<S>::kElements; ++e) {
      finite = finite && !overflows(DType::F32, bits_of(part.values[i][e]));
    }
  }
  return finite;
}

template <PointwiseSpec S>
MINUET_DEVICE void store_argmax(const PointwiseParams& p, const RowPart<S>& part, bool is_stored) {
  const Ranked largest = combine_row<LargestOf>(part, [&](float x, i32 i, i32 e) {
    return Ranked{x, part.channel(i, e)};
  });
  if (!is_stored) return;
  if (part.is_present && !is_finite(part)) *p.overflow = p.overflow_mark;
  if (part.lane != 0) return;
  static_cast<i32*>(p.output)[part.row * p.output_ld] = part.is_present ? largest.channel : -1;
}

template <PointwiseSpec S>
MINUET_KERNEL MINUET_LAUNCH_BOUNDS(S.threads) void pointwise(MINUET_PARAMS(PointwiseParams) p) {
  using Shape = PointwiseShape<S>;
  const i64 count = *p.count, rows = p.pads_output != 0 ? p.rows : count;
  // All threads of a block take part in the reductions, also those behind the last row.
  const i64 items = rows * S.lanes,
            rounded = Shape::kIsRowWise ? quotient(items + S.threads - 1, S.threads) * S.threads : items;
  for (i64 item = grid_thread(S.threads); item < rounded; item += grid_threads(S.threads)) {
    RowPart<S> part;
    part.row = quotient(item, S.lanes);
    part.lane = static_cast<i32>(item - part.row * S.lanes);
    part.is_present = part.row < count;
    load_part(p.input, p.input_ld, part);
    apply_steps<S, 0>(p, part);
    if constexpr (Shape::kIsArgmax) {
      store_argmax(p, part, part.row < rows);
    } else {
      if (!part.is_present) for_each_value(part, [](float, i32, i32) { return 0.0f; });
      if (part.row < rows) store_part(p, part);
    }
  }
}

}  // namespace minuet
