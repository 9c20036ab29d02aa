#include "runtime/maps/reached_levels.h"

#include <algorithm>

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

}  // namespace

ReachedLevels::ReachedLevels(const Program& program, i64 most_rows)
    : ndim_(program.ndim),
      most_rows_(most_rows),
      sets_(sets_of(program)),
      first_(static_cast<std::size_t>(levels_of_points(sets_))) {
  for (std::size_t i = first_; i < sets_.size(); ++i) sources_.push_back(source_of(ndim_, sets_, i));
  for (const SetSpec& set : sets_) {
    const double of_parent = set.parent < 0 ? 1 : growth_[set.parent];
    growth_.push_back(set.reach ? std::max(of_parent, kUsualGrowth) : of_parent);
  }
}

const LevelSource* ReachedLevels::source_if_reached(std::size_t level) const {
  return sets_[level].reach ? &source(level) : nullptr;
}

i64 ReachedLevels::estimated_rows(std::size_t level, i64 coordinates) const {
  const SetSpec& set = sets_[level];
  if (set.parent < 0) return coordinates;
  const i64 of_parent = estimated_rows(static_cast<std::size_t>(set.parent), coordinates);
  if (!set.reach) return of_parent;
  const i64 most = std::min(most_rows_, of_parent * source(level).cells);
  return std::min(most, static_cast<i64>(growth_[level] * static_cast<double>(coordinates)) + kFewRows);
}

bool ReachedLevels::raise(const i32* reported, i64 coordinates) {
  const i64 count = std::max<i64>(coordinates, 1);
  bool is_raised = false;
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    if (!sets_[i].reach) continue;
    const i64 expected = estimated_rows(i, count);
    if (reported[i] == 0 || reported[i] >= expected) growth_[i] *= kRaise;
    growth_[i] = std::max(growth_[i], growth_[sets_[i].parent]);
    is_raised = is_raised || estimated_rows(i, count) > expected;
  }
  return is_raised;
}

i64 ReachedLevels::most_keys(llvm::function_ref<i64(std::size_t)> capacity) const {
  i64 most = 0;
  for (std::size_t i = first_; i < sets_.size(); ++i) {
    const i64 rows = std::max<i64>(capacity(static_cast<std::size_t>(sets_[i].parent)), 1);
    if (sets_[i].reach) most = std::max(most, rows * source(i).cells);
  }
  return most;
}

}  // namespace minuet
