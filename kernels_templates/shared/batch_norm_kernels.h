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
// sum_moments computes the moments of pieces of rows. finish_moments merges those of the pieces, or those of
// all ranks, and makes of them what normalize reads. sum_norm_gradients adds the gradients of pieces,
// finish_norm_gradients adds the sums of the pieces, and normalize_gradients computes the gradient of the
// input. Pieces depend on the number of rows in use only, not on the GPU or on the capacity, and all sums
// have a fixed order, so that results repeat bit by bit.
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

/// Counts the rows of the smallest pieces. They are short, so that few rows still have a piece for every
/// multiprocessor.
constexpr i32 kLeastNormRowBits = 7, kLeastNormRows = 1 << kLeastNormRowBits;
/// Limits the pieces, because one block reads the sums of all pieces of a channel.
constexpr i32 kMostNormPieces = 1024;

/// Divides rows into pieces of equal lengths, of which the last may be shorter. The length is a power of two,
/// so that kernels do not divide.
class NormPieces {
 public:
  MINUET_HD constexpr explicit NormPieces(i64 rows) : rows_(rows) {
    while (count() > kMostNormPieces) ++length_bits_;
  }
  MINUET_HD constexpr i64 rows() const { return rows_; }
  MINUET_HD constexpr i64 count() const { return count_up_to(rows_); }
  /// Counts the pieces that begin before row `end`. Those behind count() have rows of padding only.
  MINUET_HD constexpr i64 count_up_to(i64 end) const { return (end + length() - 1) >> length_bits_; }
  MINUET_HD constexpr i64 begin(i64 piece) const { return piece << length_bits_; }
  MINUET_HD constexpr i32 rows_of(i64 piece) const { return rows_within(piece, rows_); }
  /// Returns the number of rows of a piece in front of row `end`.
  MINUET_HD constexpr i32 rows_within(i64 piece, i64 end) const {
    const i64 left = end - begin(piece);
    return static_cast<i32>(left < 0 ? 0 : left < length() ? left : length());
  }

 private:
  MINUET_HD constexpr i64 length() const { return i64{1} << length_bits_; }

  i64 rows_;
  i32 length_bits_ = kLeastNormRowBits;
};
/// Returns the largest number of pieces that up to `rows` rows have.
MINUET_HD constexpr i64 most_norm_pieces(i64 rows) {
  const i64 pieces = (rows + kLeastNormRows - 1) / kLeastNormRows;
  return pieces < kMostNormPieces ? pieces : kMostNormPieces;
}

/// Holds what a forward or a backward call knows of a channel in a piece, or in the rows of a thread: its
/// mean and second moment, or the sums of gradient and of gradient * (input - mean).
struct alignas(8) PieceSums {
  float first, second;
};

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
  PieceSums* pieces;     // Receives [pieces, channels]. Means are relative to `shift`.
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
  PieceSums* pieces;  // Receives [pieces, channels].
  float* sums;        // Receives [2, channels].
  float *weight_gradient, *bias_gradient;
  i32 adds;  // 1: the gradients of weight and bias are added to what is there.
  // 1: normalize_gradients is the first launch of the call, so that the launch before it may be the one that
  // has written what it reads.
  i32 is_first;
};

/// A block of these kernels works on `lanes` vectors of each row, with threads / lanes rows at a time: those
/// of a piece where it sums, and norm_block_rows() rows where it normalizes.
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
constexpr i32 kFinishedChannels = 4;
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

/// Counts the vectors that a thread of the kernels above loads at once.
constexpr i32 kNormBatch = 4;
/// Returns the number of rows that a block normalizes at once.
template <class Spec>
MINUET_HD constexpr i32 norm_block_rows(const Spec& spec) {
  return kNormBatch * (spec.threads / spec.lanes);
}
/// Returns how many of the rows of such a block, which begin with row `begin`, lie in front of row `end`.
template <class Spec>
MINUET_HD constexpr i32 norm_rows_from(const Spec& spec, i64 begin, i64 end) {
  const i64 left = end - begin;
  return static_cast<i32>(left < 0 ? 0 : left < norm_block_rows(spec) ? left : norm_block_rows(spec));
}
/// Returns the number of blocks that normalize all rows of a group of channels.
template <class Spec>
MINUET_HD constexpr i64 norm_blocks(const Spec& spec, i64 rows) {
  return (rows + norm_block_rows(spec) - 1) / norm_block_rows(spec);
}

/// Holds the moments of `count` numbers. The mean of no numbers is 0.
struct Moments {
  float count, mean, squares;
};

/// Merges moments. Differences are taken from the first mean, and squares are those of differences from the
/// merged mean, so that no rounding error grows with the size of the means.
template <i32 Parts>
MINUET_HD Moments merged(const Moments* parts) {
  float shift = 0, count = 0, sum = 0, squares = 0;
  float differences[Parts];
  MINUET_UNROLL
  for (i32 i = 0; i < Parts; ++i) {
    if (count == 0) shift = parts[i].mean;
    count += parts[i].count;
  }
  if (count == 0) return {0, 0, 0};
  MINUET_UNROLL
  for (i32 i = 0; i < Parts; ++i) {
    differences[i] = parts[i].count == 0 ? 0 : parts[i].mean - shift;
    sum = multiply_add(parts[i].count, differences[i], sum);
  }
  const float mean = sum / count;
  MINUET_UNROLL
  for (i32 i = 0; i < Parts; ++i) {
    if (parts[i].count == 0) continue;
    const float difference = differences[i] - mean;
    squares += multiply_add(parts[i].count * difference, difference, parts[i].squares);
  }
  return {count, shift + mean, squares};
}

/// Returns 1 / the standard deviation.
MINUET_HD float inverse_std_of(const Moments& moments, float eps) {
  const float variance = moments.count > 0 ? moments.squares / moments.count : 0;
  return 1.0f / square_root(variance + eps);
}

/// Holds what the statistics of a channel are made of, besides the moments of the parts. A kernel loads it
/// while it waits for these.
struct NormChannelState {
  float shift;  // Is added to the mean.
  float running_mean, running_variance;
  float share;  // Is that of the batch in the running statistics.
};
MINUET_HD NormChannelState channel_state(const BatchNormParams& params, i64 channel) {
  const RunningStatistics& running = params.running;
  NormChannelState state = {};
  if (params.moments == nullptr) state.shift = params.shift[channel];
  if (params.saved == nullptr || running.mean == nullptr) return state;
  state.running_mean = running.mean[channel];
  state.running_variance = running.variance[channel];
  state.share =
      running.is_cumulative != 0 ? 1.0f / static_cast<float>(*running.batches + 1) : running.momentum;
  return state;
}

/// Takes the moments of a channel into the running statistics.
MINUET_HD void update_running(const RunningStatistics& running, i64 channel, const NormChannelState& state,
                              const Moments& moments) {
  if (running.mean == nullptr) return;
  float new_mean = state.running_mean, new_variance = state.running_variance;
  if (moments.count > 0) {
    const float share = state.share;
    const float unbiased = moments.count > 1 ? moments.squares / (moments.count - 1) : 0;
    // With the share 1 the old values do not count, and a product of 0 and NaN would keep NaN.
    const bool replaces = share == 1;
    new_mean = replaces ? moments.mean : (1 - share) * new_mean + share * moments.mean;
    new_variance = replaces ? unbiased : (1 - share) * new_variance + share * unbiased;
  }
  running.new_mean[channel] = new_mean;
  running.new_variance[channel] = new_variance;
}
/// Counts the batch, unless it has no rows. No thread may read the count of batches afterwards.
MINUET_HD void count_batch(const RunningStatistics& running, float count) {
  if (running.new_batches != nullptr) *running.new_batches = *running.batches + (count > 0 ? 1 : 0);
}

/// Returns the number of parts whose moments are merged.
MINUET_HD i64 moment_parts(const BatchNormParams& params, const NormPieces& pieces) {
  return params.moments != nullptr ? params.ranks : pieces.count();
}
/// Returns how many rows a rank has.
MINUET_HD float count_of_rank(const BatchNormParams& params, i64 rank) {
  const i64 channels = params.shape.channels;
  return params.moments[rank * (2 * channels + 1) + 2 * channels];
}
/// Returns the moments that part number `part` has of a channel.
MINUET_HD Moments moments_of_part(const BatchNormParams& params, const NormPieces& pieces, i64 part,
                                  i64 channel) {
  const i64 channels = params.shape.channels;
  if (params.moments != nullptr) {
    const float* const rank = params.moments + part * (2 * channels + 1);
    return {count_of_rank(params, part), rank[channel], rank[channels + channel]};
  }
  const PieceSums piece = params.pieces[part * channels + channel];
  return {static_cast<float>(pieces.rows_of(part)), piece.first, piece.second};
}
/// Stores the merged moments of a channel, and what follows from them.
MINUET_HD void store_moments(const BatchNormParams& params, i64 channel, const NormChannelState& state,
                             Moments moments) {
  const i64 channels = params.shape.channels;
  if (params.moments == nullptr && moments.count > 0) moments.mean += state.shift;
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
  update_running(params.running, channel, state, moments);
}

/// Holds what normalizes a channel.
struct NormChannel {
  float mean, scale, bias;
};
MINUET_HD float normalized(const NormChannel& channel, float x) {
  return (x - channel.mean) * channel.scale + channel.bias;
}

/// Holds what the gradients of a channel's weight and bias are made of, besides the sums of the pieces. A
/// kernel loads it while it waits for these.
struct NormGradientState {
  float inverse_std;
  float weight_gradient, bias_gradient;  // Are 0 if nothing is added to them.
};
MINUET_HD NormGradientState gradient_state(const BatchNormGradientParams& params, i64 channel) {
  NormGradientState state = {params.saved[params.shape.channels + channel], 0, 0};
  if (params.adds != 0 && params.weight_gradient != nullptr)
    state.weight_gradient = params.weight_gradient[channel];
  if (params.adds != 0 && params.bias_gradient != nullptr)
    state.bias_gradient = params.bias_gradient[channel];
  return state;
}

/// Stores the sums of gradient and gradient * (input - mean) of a channel.
MINUET_HD void store_norm_sums(const BatchNormGradientParams& params, i64 channel,
                               const NormGradientState& state, float sum, float product) {
  product *= state.inverse_std;
  params.sums[channel] = sum;
  params.sums[params.shape.channels + channel] = product;
  if (float* const bias = params.bias_gradient) bias[channel] = state.bias_gradient + sum;
  if (float* const weight = params.weight_gradient) weight[channel] = state.weight_gradient + product;
}
MINUET_HD float mean_of_sum(float sum, float count) { return count > 0 ? sum / count : 0; }
/// Returns the gradient of an input. `mean` is the mean of the gradients, and `slope` that of gradient *
/// normalized, multiplied by the inverse of the standard deviation.
MINUET_HD float input_gradient_of(const NormChannel& channel, float input, float gradient, float mean,
                                  float slope) {
  return channel.scale * (gradient - mean - (input - channel.mean) * slope);
}

}  // namespace minuet
