// This file declares the Spec (compile time) and Params (run time) of the kernels of a batch norm in
// training. All pointers are device pointers.
//
// Moments are the mean of numbers and the sum of their squared differences from the mean, which is called the
// second moment. The kernels add differences from one of the numbers, because sums of the squares of the
// numbers themselves would lose the second moment where the mean is large beside the deviation. If that one
// number is d standard deviations away from the mean of n numbers, the sum of the squared differences is
// 1 + d^2 times the second moment, and d^2 is less than n. Rounding errors of the second moment are larger by
// this factor at most.
//
// sum_moments computes the moments of pieces of kNormRows rows. finish_moments merges those of the pieces, or
// those of all ranks, and makes of them what normalize reads. sum_norm_gradients adds the gradients of
// pieces, finish_norm_gradients adds the sums of the pieces, and normalize_gradients computes the gradient of
// the input. Pieces do not depend on the GPU or on the capacity, and all sums have a fixed order, so that
// results repeat bit by bit.
//
// The means of pieces are stored as differences from the first row, so that their rounding is relative to the
// deviation and not to the mean.
//
// `moments` and `saved` have one row of 2 * channels + 1 numbers: the means, the second moments or the
// inverses of the standard deviation, and the count.
#pragma once

#include "kernels_templates/shared/activation_functions.h"
#include "kernels_templates/shared/counts.h"
#include "kernels_templates/shared/types.h"

namespace minuet {

/// Counts the rows of a piece.
constexpr i32 kNormRows = 512;
MINUET_HD constexpr i64 norm_pieces(i64 rows) { return (rows + kNormRows - 1) / kNormRows; }
/// Returns the rows of a piece that are in use.
MINUET_HD constexpr i64 rows_of_piece(i64 piece, i64 rows) {
  const i64 left = rows - piece * kNormRows;
  return left < kNormRows ? left : kNormRows;
}

/// Describes rows of features. Rows are `ld` elements apart.
struct NormRows {
  void* data;
  i64 ld;
};

/// Describes the rows of a batch norm.
struct NormShape {
  i64 rows;          // Counts the rows, including the padding.
  const i32* count;  // Points to the number of rows in use. If the pointer is null, all are.
  i32 channels;
};
/// Returns the number of rows in use.
MINUET_HD i64 used_rows(const NormShape& shape) { return count_within(shape.count, shape.rows); }

/// Holds the running statistics. All pointers may be null.
struct RunningStatistics {
  const float *mean, *variance;
  const i64* batches;
  float *new_mean, *new_variance;
  i64* new_batches;
  float momentum;
  i32 is_cumulative;  // 1: the share of this batch is 1 / (*batches + 1).
};

/// Holds the parameters of a forward call.
struct BatchNormParams {
  NormShape shape;
  NormRows input, residual, output;
  float* pieces;         // Receives [pieces, 2, channels]. Means are relative to `shift`.
  float* shift;          // Receives [channels], the first row. It has no value if there are no rows.
  const float* moments;  // Points to the moments of all ranks. If it is null, those of the pieces are read.
  i64 ranks;
  float* merged;               // Receives the merged moments if it is not null.
  float* saved;                // Receives the statistics if it is not null.
  const float *weight, *bias;  // Stand for 1 and 0 where they are null.
  RunningStatistics running;
  float eps;
};

/// Holds the parameters of a backward call.
struct BatchNormGradientParams {
  NormShape shape;
  NormRows input, output, out_gradient, residual_gradient, input_gradient;
  const float *weight, *bias;
  const float* saved;
  float* pieces;  // Receives [pieces, 2, channels].
  float* sums;    // Receives [2, channels].
  float *weight_gradient, *bias_gradient;
  i32 adds;  // 1: the gradients of weight and bias are added to what is there.
};

/// A block of these kernels works on one piece of `lanes` vectors of each row, with threads / lanes rows at a
/// time.
struct SumMomentsSpec {
  DType io = DType::F16;
  i32 vector_bytes = 16;
  i32 lanes = 8;
  i32 threads = 256;
  bool operator==(const SumMomentsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("vector_bytes", vector_bytes), visitor("lanes", lanes);
    visitor("threads", threads);
  }
};
struct NormalizeSpec {
  DType io = DType::F16;
  i32 vector_bytes = 16;
  i32 lanes = 8;
  bool has_residual = false, has_relu = false;
  i32 threads = 256;
  bool operator==(const NormalizeSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("vector_bytes", vector_bytes), visitor("lanes", lanes);
    visitor("has_residual", has_residual), visitor("has_relu", has_relu), visitor("threads", threads);
  }
};
/// Says how the kernel of a gradient finds the elements that a ReLU has passed on.
enum class ReluMask : i32 {
  None,    // There is no ReLU, or its mask is already applied.
  Input,   // Normalizes the input again. This saves reading the output.
  Output,  // Reads the output.
};
struct SumNormGradientsSpec {
  DType io = DType::F16;
  i32 vector_bytes = 16;
  i32 lanes = 8;
  ReluMask mask = ReluMask::None;
  i32 threads = 256;
  bool operator==(const SumNormGradientsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("vector_bytes", vector_bytes), visitor("lanes", lanes), visitor("mask", mask);
    visitor("threads", threads);
  }
};
struct NormalizeGradientsSpec {
  DType io = DType::F16;
  i32 vector_bytes = 16;
  i32 lanes = 8;
  ReluMask mask = ReluMask::None;  // Is not Output.
  i32 threads = 256;
  bool operator==(const NormalizeGradientsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("vector_bytes", vector_bytes), visitor("lanes", lanes), visitor("mask", mask);
    visitor("threads", threads);
  }
};

/// A block of the kernels that finish sums has this many channels, with threads / kFinishedChannels threads
/// each.
constexpr i32 kFinishedChannels = 8;
struct FinishMomentsSpec {
  i32 threads = 512;
  bool operator==(const FinishMomentsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};
struct FinishNormGradientsSpec {
  i32 threads = 512;
  bool operator==(const FinishNormGradientsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};

/// Returns the number of blocks that work side by side on the vectors of a row.
template <class Spec>
MINUET_HD constexpr i64 norm_groups(const Spec& spec, i32 channels) {
  const i32 elements = spec.vector_bytes / dtype_bytes(spec.io);
  return (channels + elements * spec.lanes - 1) / (elements * spec.lanes);
}

/// Holds the moments of `count` numbers. The mean of no numbers is 0.
struct Moments {
  float count, mean, squares;
};

/// Adds moments to each other. All sums are of differences from the first mean.
struct MomentsSum {
  float shift = 0, count = 0, sum = 0, squares = 0;

  MINUET_HD void add(const Moments& part) {
    if (part.count == 0) return;
    if (count == 0) shift = part.mean;
    const float difference = part.mean - shift, weighted = difference * part.count;
    count += part.count;
    sum += weighted;
    squares += multiply_add(weighted, difference, part.squares);
  }
  MINUET_HD Moments moments() const {
    if (count == 0) return {0, 0, 0};
    const float difference = sum / count;
    const float rest = squares - sum * difference;
    // A comparison that is false for NaN keeps NaN.
    return {count, shift + difference, rest < 0 ? 0 : rest};
  }
};
MINUET_HD Moments merged(const Moments& a, const Moments& b) {
  MomentsSum sum;
  sum.add(a);
  sum.add(b);
  return sum.moments();
}

/// Returns 1 / the standard deviation.
MINUET_HD float inverse_std_of(const Moments& moments, float eps) {
  const float variance = moments.count > 0 ? moments.squares / moments.count : 0;
  return 1.0f / square_root(variance + eps);
}

/// Takes the moments of a channel into the running statistics.
MINUET_HD void update_running(const RunningStatistics& running, i64 channel, const Moments& moments) {
  if (running.mean == nullptr) return;
  const float mean = running.mean[channel], variance = running.variance[channel];
  float new_mean = mean, new_variance = variance;
  if (moments.count > 0) {
    const float share =
        running.is_cumulative != 0 ? 1.0f / static_cast<float>(*running.batches + 1) : running.momentum;
    const float unbiased = moments.count > 1 ? moments.squares / (moments.count - 1) : 0;
    // With the share 1 the old values do not count, and a product of 0 and NaN would keep NaN.
    const bool replaces = share == 1;
    new_mean = replaces ? moments.mean : (1 - share) * mean + share * moments.mean;
    new_variance = replaces ? unbiased : (1 - share) * variance + share * unbiased;
  }
  running.new_mean[channel] = new_mean;
  running.new_variance[channel] = new_variance;
}
/// Counts the batch, unless it has no rows. No thread may read the count of batches afterwards.
MINUET_HD void count_batch(const RunningStatistics& running, float count) {
  if (running.new_batches != nullptr) *running.new_batches = *running.batches + (count > 0 ? 1 : 0);
}

/// Returns the number of parts whose moments are merged.
MINUET_HD i64 moment_parts(const BatchNormParams& params, i64 rows) {
  return params.moments != nullptr ? params.ranks : norm_pieces(rows);
}
/// Returns the moments that part number `part` has of a channel.
MINUET_HD Moments moments_of_part(const BatchNormParams& params, i64 rows, i64 part, i64 channel) {
  const i64 channels = params.shape.channels;
  if (params.moments != nullptr) {
    const float* const rank = params.moments + part * (2 * channels + 1);
    return {rank[2 * channels], rank[channel], rank[channels + channel]};
  }
  const float* const piece = params.pieces + part * 2 * channels;
  return {static_cast<float>(rows_of_piece(part, rows)), piece[channel], piece[channels + channel]};
}
/// Stores the merged moments of a channel, and what follows from them.
MINUET_HD void store_moments(const BatchNormParams& params, i64 channel, Moments moments) {
  const i64 channels = params.shape.channels;
  if (params.moments == nullptr && moments.count > 0) moments.mean += params.shift[channel];
  if (float* const merged = params.merged) {
    merged[channel] = moments.mean;
    merged[channels + channel] = moments.squares;
    if (channel == 0) merged[2 * channels] = moments.count;
  }
  float* const saved = params.saved;
  if (saved == nullptr) return;
  saved[channel] = moments.mean;
  saved[channels + channel] = inverse_std_of(moments, params.eps);
  if (channel == 0) saved[2 * channels] = moments.count;
  update_running(params.running, channel, moments);
}

/// Holds what normalizes a channel.
struct NormChannel {
  float mean, scale, bias;
};
MINUET_HD float normalized(const NormChannel& channel, float x) {
  return (x - channel.mean) * channel.scale + channel.bias;
}

/// Stores the sums of gradient and gradient * (input - mean) of a channel.
MINUET_HD void store_norm_sums(const BatchNormGradientParams& params, i64 channel, float sum, float product) {
  const i64 channels = params.shape.channels;
  product *= params.saved[channels + channel];
  params.sums[channel] = sum;
  params.sums[channels + channel] = product;
  const bool adds = params.adds != 0;
  if (float* const bias = params.bias_gradient) bias[channel] = adds ? bias[channel] + sum : sum;
  if (float* const weight = params.weight_gradient) {
    weight[channel] = adds ? weight[channel] + product : product;
  }
}
MINUET_HD float mean_of_sum(float sum, float count) { return count > 0 ? sum / count : 0; }
/// Returns the gradient of an input. `mean` is the mean of the gradients, and `slope` that of gradient *
/// normalized, multiplied by the inverse of the standard deviation.
MINUET_HD float input_gradient_of(const NormChannel& channel, float input, float gradient, float mean,
                                  float slope) {
  return channel.scale * (gradient - mean - (input - channel.mean) * slope);
}

}  // namespace minuet
