#include "runtime/maps/reached_levels.h"

#include <algorithm>

#include "llvm/ADT/SmallVector.h"
#include "runtime/engine/set_index.h"

namespace minuet {
namespace {

// A level that is reached from the coordinates of point clouds usually has at most 2.3 times as many rows as
// the cloud.
constexpr double kUsualGrowth = 2.5;
// Clouds with few coordinates may grow more, which costs little memory.
constexpr i64 kFewRows = 4096;
// An estimate that was too low is multiplied by this number.
constexpr double kRaise = 2.5;

/// Returns the number of cells that the set may have, or `most` if there are more or if it is unknown.
i64 count_cells(i32 ndim, const SetSpec& set, i32 batch_size, i64 most) {
  if (!set.has_shape() || batch_size == 0) return most;
  i64 cells = batch_size;
  for (i32 a = 0; a < ndim && cells < most; ++a) cells *= set.shape[a];
  return std::min(cells, most);
}

}  // namespace

llvm::Error too_many_reached() {
  return make_error(StatusCode::ResourceExhausted,
                    "the coordinates reach too many outputs for one set: split the batch, or use a smaller "
                    "kernel");
}

ReachedLevels::ReachedLevels(i32 ndim, std::vector<SetSpec> sets, i64 most_rows, i32 batch_size)
    : sets_(std::move(sets)),
      most_rows_(most_rows),
      first_(static_cast<std::size_t>(levels_of_points(sets_))) {
  for (std::size_t i = first_; i < sets_.size(); ++i) sources_.push_back(sources_of(ndim, sets_, i));
  for (const SetSpec& set : sets_) {
    cells_.push_back(count_cells(ndim, set, batch_size, most_rows));
    const double of_parents = growth_of_parents(set);
    growth_.push_back(set.reach || set.is_union() ? std::max(of_parents, kUsualGrowth) : of_parents);
  }
}

double ReachedLevels::growth_of_parents(const SetSpec& set) const {
  if (set.parent < 0) return 1;
  if (!set.has_two_parents()) return growth_[set.parent];
  const double one = growth_[set.parent], other = growth_[set.other_parent];
  return set.is_union() ? std::max(one, other) : std::min(one, other);
}

llvm::ArrayRef<LevelSource> ReachedLevels::sources_unless_rounded(std::size_t level) const {
  if (!sets_[level].is_reached_or_combined()) return {};
  return sources_[level - first_];
}

i64 ReachedLevels::count_found(std::size_t level, llvm::function_ref<i64(std::size_t)> rows) const {
  i64 found = 0;
  for (const LevelSource& source : sources_unless_rounded(level)) {
    found += rows(static_cast<std::size_t>(source.parent)) * source.cells;
  }
  return found;
}

i64 ReachedLevels::most_rows(std::size_t level, i64 coordinates) const {
  // A recursion over both parents of unions would visit levels again and again.
  llvm::SmallVector<i64, kMostIndexedLevels> most;
  for (std::size_t i = 0; i <= level; ++i) {
    const SetSpec& set = sets_[i];
    if (set.parent < 0) {
      most.push_back(coordinates);
    } else if (!set.is_reached_or_combined()) {
      most.push_back(most[set.parent]);
    } else {
      i64 found = count_found(i, [&](std::size_t parent) { return most[parent]; });
      if (set.is_intersection) found = std::min(found, most[set.other_parent]);
      most.push_back(std::min({most_rows_, cells_[i], found}));
    }
  }
  return most[level];
}

i64 ReachedLevels::estimated_rows(std::size_t level, i64 coordinates) const {
  const i64 most = most_rows(level, coordinates);
  if (expects_most_) return most;
  const SetSpec& set = sets_[level];
  if (set.parent >= 0 && !set.is_reached_or_combined()) {
    return estimated_rows(static_cast<std::size_t>(set.parent), coordinates);
  }
  return std::min(most, static_cast<i64>(growth_[level] * static_cast<double>(coordinates)) + kFewRows);
}

bool ReachedLevels::raise(const i32* reported, i64 coordinates) {
  const i64 count = std::max<i64>(coordinates, 1);
  if (reported[0] == 0) return false;
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    const i64 expected = estimated_rows(i, count);
    // The level that did not fit is the first one that is full or was not made. A level that is empty because
    // of its shape was not made either.
    if (!sets_[i].is_reached_or_combined() || (reported[i] > 0 && reported[i] < expected)) continue;
    growth_[i] *= kRaise;
    for (std::size_t later = i + 1; later < sets_.size(); ++later) {
      if (!sets_[later].is_reached_or_combined()) continue;
      growth_[later] = std::max(growth_[later], growth_of_parents(sets_[later]));
    }
    if (estimated_rows(i, count) > expected) return true;
  }
  return false;
}

i64 ReachedLevels::most_keys(llvm::function_ref<i64(std::size_t)> capacity) const {
  i64 most = 0;
  for (std::size_t i = first_; i < sets_.size(); ++i) {
    most = std::max(most,
                    count_found(i, [&](std::size_t parent) { return std::max<i64>(capacity(parent), 1); }));
  }
  return most;
}

}  // namespace minuet
