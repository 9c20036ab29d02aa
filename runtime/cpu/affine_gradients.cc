// Computes the gradients of the parameters of affine steps (gradients.h).
#include <algorithm>

#include "runtime/cpu/gradients.h"
#include "runtime/cpu/normalize_row.h"
#include "runtime/engine/arena.h"

namespace minuet {
namespace {

/// Counts the channels for which one task adds the sums of all pieces.
constexpr i64 kChannelsPerTask = 64;

/// Divides the workspace: one row of the input and of the gradient for each thread, and the sums of all
/// pieces, which are in double.
struct AffinePlaces {
  float* rows = nullptr;
  double *products = nullptr, *sums = nullptr;
  i64 bytes = 0;

  AffinePlaces(const AffineGradientProblem& problem, i64 threads, i64 most_rows, char* base) {
    Placement parts(base, /*idle=*/false);
    const i64 numbers = row_pieces(most_rows) * problem.channels;
    rows = parts.take<float>(2 * threads * problem.channels);
    products = parts.take<double>(numbers);
    sums = parts.take<double>(numbers);
    bytes = parts.bytes();
  }
};

}  // namespace

i64 CpuGradients::workspace_bytes(const AffineGradientChoice& choice, i64 most_rows) const {
  return AffinePlaces(choice.problem, pool_.threads(), most_rows, nullptr).bytes;
}

llvm::Error CpuGradients::compute(const AffineGradientRequest& request) {
  const AffineGradientProblem& problem = request.choice->problem;
  const AffinePlaces places(problem, pool_.threads(), request.rows, static_cast<char*>(request.workspace));
  const i32 channels = problem.channels;
  const DType io = storage_type(problem.dtype);
  const i64 rows = count_within(request.row_count, request.rows);
  const auto read = [&](const void* matrix, i64 ld, i64 row, float* values) {
    kernels_.widen(io, static_cast<const char*>(matrix) + row * ld * dtype_bytes(io), values, channels);
  };
  pool_.run(row_pieces(rows), [&](i64 piece, i32 slot) {
    float *const gradient = places.rows + 2 * i64{slot} * channels, *const input = gradient + channels;
    double* const products = places.products + piece * channels;
    double* const sums = places.sums + piece * channels;
    std::fill_n(products, channels, 0.0);
    std::fill_n(sums, channels, 0.0);
    const i64 end = std::min(rows, (piece + 1) * kRowsPerPiece);
    for (i64 row = piece * kRowsPerPiece; row < end; ++row) {
      read(request.gradient, request.gradient_ld, row, gradient);
      for (i32 c = 0; c < channels; ++c) sums[c] += static_cast<double>(gradient[c]);
      if (!problem.scale) continue;
      read(request.input, request.input_ld, row, input);
      if (problem.normalizes()) normalize_row(problem.epsilon, input, channels);
      for (i32 c = 0; c < channels; ++c) {
        products[c] += static_cast<double>(gradient[c]) * static_cast<double>(input[c]);
      }
    }
  });
  const auto add_pieces = [&](const double* sums, float* gradient) {
    pool_.run((channels + kChannelsPerTask - 1) / kChannelsPerTask, [&](i64 task, i32 /*slot*/) {
      const i64 end = std::min(i64{channels}, (task + 1) * kChannelsPerTask);
      for (i64 c = task * kChannelsPerTask; c < end; ++c) {
        double sum = request.adds ? static_cast<double>(gradient[c]) : 0;
        for (i64 piece = 0; piece < row_pieces(rows); ++piece) sum += sums[piece * channels + c];
        gradient[c] = static_cast<float>(sum);
      }
    });
  };
  if (problem.scale) add_pieces(places.products, request.scale_gradient);
  if (problem.shift) add_pieces(places.sums, request.shift_gradient);
  return llvm::Error::success();
}

}  // namespace minuet
