#include "codegen/choose/ops/batch_norm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "codegen/base/number_text.h"

namespace minuet {
namespace {

constexpr i32 kMostLanes = 8;
constexpr i32 kLeastSumThreads = 64;

/// Returns how many vectors of a row a block works on. It is a power of two. If the row has more vectors than
/// half of kMostLanes, it is kMostLanes or half of that, because fewer neighbouring vectors would not fill a
/// cache line: kMostLanes, unless the last block would then have half of its lanes or more past the row.
/// Otherwise one block has all vectors.
i32 choose_lanes(i32 vectors) {
  if (vectors <= kMostLanes / 2) return static_cast<i32>(std::bit_ceil(static_cast<u32>(vectors)));
  const i32 rest = vectors % kMostLanes;
  return rest == 0 || rest > kMostLanes / 2 ? kMostLanes : kMostLanes / 2;
}

/// Returns the threads of a block that sums pieces. If a row has few vectors, small blocks keep as many loads
/// of a piece in flight for each thread as large ones do.
i32 choose_sum_threads(i32 lanes) { return std::max(kLeastNormRows / kNormBatch * lanes, kLeastSumThreads); }

llvm::Error check_momentum(const BatchNormProblem& problem) {
  if (problem.is_cumulative && !problem.has_running_mean) {
    return make_error(StatusCode::InvalidArgument,
                      "is_cumulative is 1, but without has_running_mean there are no running statistics");
  }
  const std::string momentum = general_text(problem.momentum, 9);
  if (problem.is_cumulative || !problem.has_running_mean) {
    if (problem.momentum == 0) return llvm::Error::success();
    return make_error(StatusCode::InvalidArgument, "momentum is {0}, but {1}: leave it 0", momentum,
                      problem.is_cumulative ? "with is_cumulative all batches have the same share"
                                            : "without has_running_mean there are no running statistics");
  }
  if (problem.momentum > 0 && problem.momentum <= 1) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument,
                    "momentum is {0}; it must be above 0 and at most 1, because running statistics would "
                    "never change, or not converge, otherwise",
                    momentum);
}

}  // namespace

llvm::Error validate(const BatchNormProblem& problem) {
  if (problem.channels < 1 || problem.channels > kMostChannels) {
    return make_error(StatusCode::InvalidArgument, "the channels are {0}; they must be 1 to {1}",
                      problem.channels, kMostChannels);
  }
  if (!std::isfinite(problem.eps) || problem.eps <= 0) {
    return make_error(StatusCode::InvalidArgument,
                      "eps is {0}; it must be positive and finite, because the variance may be 0",
                      general_text(problem.eps, 9));
  }
  return check_momentum(problem);
}

[[gnu::cold]] BatchNormChoice choose_batch_norm(const BatchNormProblem& problem) {
  const DType io = storage_type(problem.dtype);
  const i32 row_bytes = problem.channels * dtype_bytes(io);
  const i32 vector_bytes = std::gcd(row_bytes, kWidestAccess);
  const i32 lanes = choose_lanes(row_bytes / vector_bytes);
  BatchNormChoice choice;
  choice.problem = problem;
  const i32 sum_threads = choose_sum_threads(lanes);
  choice.sum = {.io = io, .vector_bytes = vector_bytes, .lanes = lanes, .threads = sum_threads};
  choice.normalize = {.io = io,
                      .vector_bytes = vector_bytes,
                      .lanes = lanes,
                      .has_residual = problem.has_residual,
                      .has_relu = problem.has_relu};
  choice.sum_gradients = {
      .io = io, .vector_bytes = vector_bytes, .lanes = lanes, .mask = problem.mask(), .threads = sum_threads};
  // If there is a residual, the second kernel reads the residual's gradient, to which the mask is already
  // applied.
  const ReluMask mask = problem.mask() == ReluMask::Input ? ReluMask::Input : ReluMask::None;
  choice.normalize_gradients = {.io = io, .vector_bytes = vector_bytes, .lanes = lanes, .mask = mask};
  return choice;
}

[[gnu::cold]] void add_sources(SourceList& list, const BatchNormChoice& choice) {
  list.add(choice.sum);
  list.add(choice.finish);
  list.add(choice.normalize);
  list.add(choice.sum_gradients);
  list.add(choice.finish_gradients);
  list.add(choice.normalize_gradients);
}

}  // namespace minuet
