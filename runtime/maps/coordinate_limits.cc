#include "runtime/maps/coordinate_limits.h"

#include <algorithm>

#include "runtime/engine/set_index.h"

namespace minuet {
namespace {

constexpr i32 kNoLeast = INT_MIN, kNoGreatest = INT_MAX;

std::string field_text(i32 field) { return field == 0 ? "batch index" : "axis " + std::to_string(field - 1); }

llvm::Error check_batch_size(const Program& program, const NetworkMapOptions& options) {
  const i32 batch_size = options.batch_size;
  for (std::size_t i = 0; i < program.levels.size(); ++i) {
    const LevelSpec& level = program.levels[i];
    if (!level.keeps_coordinates) continue;
    if (batch_size == 0) {
      return make_error(StatusCode::InvalidArgument,
                        "the network has a dense tensor or a global pooling, whose size depends on the "
                        "number of batch items: set batch_size");
    }
    if (!level.is_dense) continue;
    i64 cells = batch_size;
    for (i32 a = 0; a < program.ndim; ++a) cells = std::min(cells * level.shape[a], i64{1} << 32);
    if (cells <= INT_MAX) continue;
    return make_error(StatusCode::OutOfRange,
                      "batch_size is {0}, with which the dense tensor of level {1} has more than 2^31 - 1 "
                      "cells: use a smaller batch",
                      batch_size, options.number_of(i));
  }
  return llvm::Error::success();
}

/// Returns InvalidArgument if the bounds that the caller declares exceed the limits.
llvm::Error check_bounds(i32 ndim, const Bounds& bounds, const Bounds& limits) {
  for (i32 f = 0; f <= ndim; ++f) {
    if (bounds.least[f] >= limits.least[f] && bounds.greatest[f] <= limits.greatest[f]) continue;
    return make_error(StatusCode::InvalidArgument,
                      "least[{0}] and greatest[{0}] are {1} and {2}, but the {3} must be 0 to {4} because of "
                      "the network's shape or batch_size: declare bounds inside, or none",
                      f, bounds.least[f], bounds.greatest[f], field_text(f), limits.greatest[f]);
  }
  return llvm::Error::success();
}

}  // namespace

bool exceeds(i32 ndim, const Bounds& bounds, const Bounds& limits) {
  for (i32 f = 0; f <= ndim; ++f) {
    if (bounds.least[f] < limits.least[f] || bounds.greatest[f] > limits.greatest[f]) return true;
  }
  return false;
}

Bounds intersection(i32 ndim, const Bounds& bounds, const Bounds& limits) {
  Bounds both = bounds;
  for (i32 f = 0; f <= ndim; ++f) {
    both.least[f] = std::max(bounds.least[f], limits.least[f]);
    both.greatest[f] = std::min(bounds.greatest[f], limits.greatest[f]);
  }
  return both;
}

llvm::Error outside_limits(i32 ndim, const Bounds& limits) {
  std::string text;
  for (i32 f = 0; f <= ndim; ++f) {
    if (limits.greatest[f] == kNoGreatest) continue;
    text += (text.empty() ? "" : ", ") + field_text(f) + ": 0 to " + std::to_string(limits.greatest[f]);
  }
  return make_error(StatusCode::OutOfRange,
                    "a coordinate lies outside the network's shape, or its batch index is not below "
                    "batch_size ({0}): drop such points, or correct the shape or batch_size",
                    text);
}

llvm::Error limit_coordinates(const Program& program, NetworkMapOptions& options) {
  if (options.batch_size < 0) {
    return make_error(StatusCode::InvalidArgument, "batch_size is {0}; it must be 0 or more",
                      options.batch_size);
  }
  MINUET_TRY(check_batch_size(program, options));
  Bounds limits;
  std::fill_n(limits.least, kMaxFields, kNoLeast);
  std::fill_n(limits.greatest, kMaxFields, kNoGreatest);
  i32 limited = 0;
  const auto limit = [&](i32 field, i32 count) {
    if (count == 0) return;
    limits.least[field] = 0;
    limits.greatest[field] = count - 1;
    ++limited;
  };
  limit(0, options.batch_size);
  const LevelSpec& level = program.levels[0];
  for (i32 a = 0; a < program.ndim && !program.takes_maps && level.has_shape(); ++a) {
    const i64 greatest = i64{level.shape[a] - 1} * level.tensor_stride[a];
    limit(a + 1, static_cast<i32>(std::min<i64>(greatest, kNoGreatest - 1)) + 1);
  }
  if (limited == 0) return llvm::Error::success();
  if (options.has_bounds) return check_bounds(program.ndim, options.bounds, limits);
  options.limits = limits;
  if (limited < 1 + program.ndim) return llvm::Error::success();
  Bounds bounds;
  std::copy_n(limits.least, 1 + program.ndim, bounds.least);
  std::copy_n(limits.greatest, 1 + program.ndim, bounds.greatest);
  // Keys may be too narrow for the whole shape although the clouds are small.
  i64 guard[kMaxDim], period[kMaxDim] = {1, 1, 1, 1};
  layout_needs(program, guard, period);
  if (llvm::errorToBool(make_cloud_layout(program.ndim, bounds, guard, period).takeError()))
    return llvm::Error::success();
  // A network of more levels than an index can have is sorted.
  const std::vector<SetSpec> sets = sets_of(program);
  if (sets.size() <= kMostIndexedLevels &&
      llvm::errorToBool(describe_index(program.ndim, bounds, sets).takeError())) {
    return llvm::Error::success();
  }
  options.has_bounds = true;
  options.bounds = bounds;
  return llvm::Error::success();
}

}  // namespace minuet
