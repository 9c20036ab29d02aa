#include "runtime/cpu/batch_norm.h"

#include <algorithm>

namespace minuet {
namespace {

/// A task works on one piece of rows and this many channels. Sums are in double, and are rounded once for
/// each piece.
constexpr i64 kTaskChannels = 64;

using Values = float[kTaskChannels];

/// Describes the channels [first, first + count) of the rows of a piece.
struct NormTask {
  const VectorKernels& kernels;
  DType dtype;  // Is a storage type.
  NormPieces pieces;
  i64 piece, first, count;

  i64 begin() const { return pieces.begin(piece); }
  i64 end(i64 rows) const { return std::min(rows, pieces.begin(piece + 1)); }
  char* at(const NormRows& rows, i64 row) const {
    return static_cast<char*>(rows.data) + (row * rows.ld + first) * dtype_bytes(dtype);
  }
  void load(const NormRows& rows, i64 row, float* values) const {
    kernels.widen(dtype, at(rows, row), values, count);
  }
  void store(const NormRows& rows, i64 row, const float* values) const {
    kernels.narrow(dtype, values, at(rows, row), count);
  }
  void load_channels(const float* saved, i64 channels, const float* weight, const float* bias,
                     NormChannel* result) const {
    for (i64 c = 0; c < count; ++c) {
      const i64 channel = first + c;
      const float scale = weight ? weight[channel] : 1;
      result[c] = {saved[channel], saved[channels + channel] * scale, bias ? bias[channel] : 0};
    }
  }
  /// Sets the gradients to 0 that the ReLU does not pass on. `values` are inputs or outputs, and are
  /// replaced.
  void mask_gradients(ReluMask mask, const NormChannel* channels, float* values, float* gradients) const {
    if (mask == ReluMask::Input) {
      for (i64 c = 0; c < count; ++c) values[c] = normalized(channels[c], values[c]);
      // A result that is too small for the type is stored as 0.
      kernels.round(dtype, values, values, count);
    }
    for (i64 c = 0; c < count; ++c) {
      if (!relu_passes_gradient(values[c])) gradients[c] = 0;
    }
  }
};

/// Calls work(task) for all pieces of the rows in front of `end`, and all channels.
template <class Work>
void for_tasks(ThreadPool& pool, const VectorKernels& kernels, DType dtype, const NormPieces& pieces, i64 end,
               i64 channels, const Work& work) {
  const i64 chunks = (channels + kTaskChannels - 1) / kTaskChannels;
  pool.run(pieces.count_up_to(end) * chunks, [&](i64 number, i32 /*slot*/) {
    const i64 first = number % chunks * kTaskChannels;
    work(NormTask{kernels, storage_type(dtype), pieces, number / chunks, first,
                  std::min(kTaskChannels, channels - first)});
  });
}

/// Adds moments in double. All sums are of differences from the first mean.
struct WideMomentsSum {
  double shift = 0, count = 0, sum = 0, squares = 0;

  void add(const Moments& part) {
    if (part.count == 0) return;
    if (count == 0) shift = part.mean;
    const double difference = part.mean - shift, parts = part.count;
    count += parts;
    sum += parts * difference;
    squares += part.squares + parts * difference * difference;
  }
  Moments moments() const {
    if (count == 0) return {0, 0, 0};
    const double rest = squares - sum * sum / count;
    return {static_cast<float>(count), static_cast<float>(shift + sum / count),
            static_cast<float>(rest < 0 ? 0 : rest)};
  }
};

}  // namespace

void CpuBatchNorms::sum(const BatchNormProblem& problem, const BatchNormParams& params) {
  const i64 rows = used_rows(params.shape), channels = problem.channels;
  for_tasks(pool_, kernels_, problem.dtype, NormPieces(rows), rows, channels, [&](const NormTask& task) {
    Values shift, x;
    double sum[kTaskChannels] = {}, squares[kTaskChannels] = {};
    task.load(params.input, 0, shift);
    if (task.piece == 0) std::copy_n(shift, task.count, params.shift + task.first);
    for (i64 row = task.begin(); row < task.end(rows); ++row) {
      task.load(params.input, row, x);
      for (i64 c = 0; c < task.count; ++c) {
        const double difference = static_cast<double>(x[c]) - static_cast<double>(shift[c]);
        sum[c] += difference;
        squares[c] += difference * difference;
      }
    }
    const auto count = static_cast<double>(task.end(rows) - task.begin());
    PieceSums* const piece = params.pieces + task.piece * channels + task.first;
    for (i64 c = 0; c < task.count; ++c) {
      const Moments moments = WideMomentsSum{0, count, sum[c], squares[c]}.moments();
      piece[c] = {moments.mean, moments.squares};
    }
  });
}

void CpuBatchNorms::finish(const BatchNormParams& params) {
  const NormPieces pieces(used_rows(params.shape));
  pool_.run(params.shape.channels, [&](i64 channel, i32 /*slot*/) {
    WideMomentsSum sum;
    const i64 parts = moment_parts(params, pieces);
    for (i64 part = 0; part < parts; ++part) sum.add(moments_of_part(params, pieces, part, channel));
    store_moments(params, channel, channel_state(params, channel), sum.moments());
  });
}

void CpuBatchNorms::normalize(const BatchNormProblem& problem, const BatchNormParams& params) {
  const i64 rows = used_rows(params.shape), channels = problem.channels;
  count_batch(params.running, params.saved[2 * channels]);
  const i64 all = params.shape.rows;
  for_tasks(pool_, kernels_, problem.dtype, NormPieces(rows), all, channels, [&](const NormTask& task) {
    NormChannel norm[kTaskChannels];
    task.load_channels(params.saved, channels, params.weight, params.bias, norm);
    Values x, residual;
    for (i64 row = task.begin(); row < task.end(all); ++row) {
      if (row < rows) {
        task.load(params.input, row, x);
        for (i64 c = 0; c < task.count; ++c) x[c] = normalized(norm[c], x[c]);
        if (problem.has_residual) {
          task.load(params.residual, row, residual);
          kernels_.add(residual, x, task.count);
        }
        if (problem.has_relu) kernels_.relu(x, task.count);
      } else {
        std::fill_n(x, task.count, 0.0f);
      }
      task.store(params.output, row, x);
    }
  });
}

void CpuBatchNorms::sum_gradients(const BatchNormProblem& problem, const BatchNormGradientParams& params) {
  const i64 rows = used_rows(params.shape), channels = problem.channels;
  const bool stores = params.residual_gradient.data != nullptr;
  const i64 end = stores ? params.shape.rows : rows;
  for_tasks(pool_, kernels_, problem.dtype, NormPieces(rows), end, channels, [&](const NormTask& task) {
    NormChannel norm[kTaskChannels];
    task.load_channels(params.saved, channels, params.weight, params.bias, norm);
    Values x, gradient, masked;
    double sum[kTaskChannels] = {}, product[kTaskChannels] = {};
    for (i64 row = task.begin(); row < task.end(rows); ++row) {
      task.load(params.input, row, x);
      task.load(params.out_gradient, row, gradient);
      if (problem.mask() == ReluMask::Output) task.load(params.output, row, masked);
      if (problem.mask() == ReluMask::Input) std::copy_n(x, task.count, masked);
      if (problem.has_relu) task.mask_gradients(problem.mask(), norm, masked, gradient);
      if (stores) task.store(params.residual_gradient, row, gradient);
      for (i64 c = 0; c < task.count; ++c) {
        sum[c] += static_cast<double>(gradient[c]);
        product[c] += static_cast<double>(gradient[c]) * static_cast<double>(x[c] - norm[c].mean);
      }
    }
    if (stores) {
      std::fill_n(gradient, task.count, 0.0f);
      for (i64 row = std::max(rows, task.begin()); row < task.end(end); ++row)
        task.store(params.residual_gradient, row, gradient);
    }
    if (task.begin() >= rows) return;
    PieceSums* const piece = params.pieces + task.piece * channels + task.first;
    for (i64 c = 0; c < task.count; ++c)
      piece[c] = {static_cast<float>(sum[c]), static_cast<float>(product[c])};
  });
}

void CpuBatchNorms::finish_gradients(const BatchNormGradientParams& params) {
  const i64 pieces = NormPieces(used_rows(params.shape)).count(), channels = params.shape.channels;
  pool_.run(channels, [&](i64 channel, i32 /*slot*/) {
    double sum = 0, product = 0;
    for (i64 piece = 0; piece < pieces; ++piece) {
      const PieceSums& sums = params.pieces[piece * channels + channel];
      sum += static_cast<double>(sums.first);
      product += static_cast<double>(sums.second);
    }
    store_norm_sums(params, channel, gradient_state(params, channel), static_cast<float>(sum),
                    static_cast<float>(product));
  });
}

void CpuBatchNorms::normalize_gradients(const BatchNormProblem& problem,
                                        const BatchNormGradientParams& params) {
  const i64 rows = used_rows(params.shape), channels = problem.channels;
  const float count = params.saved[2 * channels];
  const bool is_masked = problem.mask() == ReluMask::Output;
  const NormRows& gradients = is_masked ? params.residual_gradient : params.out_gradient;
  const i64 all = params.shape.rows;
  for_tasks(pool_, kernels_, problem.dtype, NormPieces(rows), all, channels, [&](const NormTask& task) {
    NormChannel norm[kTaskChannels];
    task.load_channels(params.saved, channels, params.weight, params.bias, norm);
    Values x, gradient, masked, mean, slope;
    for (i64 c = 0; c < task.count; ++c) {
      const i64 channel = task.first + c;
      mean[c] = mean_of_sum(params.sums[channel], count);
      slope[c] = mean_of_sum(params.sums[channels + channel], count) * params.saved[channels + channel];
    }
    for (i64 row = task.begin(); row < task.end(all); ++row) {
      if (row < rows) {
        task.load(params.input, row, x);
        task.load(gradients, row, gradient);
        if (problem.mask() == ReluMask::Input) {
          std::copy_n(x, task.count, masked);
          task.mask_gradients(ReluMask::Input, norm, masked, gradient);
        }
        for (i64 c = 0; c < task.count; ++c)
          gradient[c] = input_gradient_of(norm[c], x[c], gradient[c], mean[c], slope[c]);
      } else {
        std::fill_n(gradient, task.count, 0.0f);
      }
      task.store(params.input_gradient, row, gradient);
    }
  });
}

llvm::Error CpuBatchNorms::forward(const BatchNormChoice& choice, NormSteps steps,
                                   const BatchNormParams& params) {
  if (steps != NormSteps::Apply) sum(choice.problem, params);
  finish(params);
  if (steps != NormSteps::Sum) normalize(choice.problem, params);
  return llvm::Error::success();
}

llvm::Error CpuBatchNorms::backward(const BatchNormChoice& choice, NormSteps steps,
                                    const BatchNormGradientParams& params) {
  if (steps != NormSteps::Apply) {
    sum_gradients(choice.problem, params);
    finish_gradients(params);
  }
  if (steps != NormSteps::Sum) normalize_gradients(choice.problem, params);
  return llvm::Error::success();
}

}  // namespace minuet
