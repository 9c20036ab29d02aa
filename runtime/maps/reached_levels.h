// Says how the levels of a network follow from each other, and estimates how many rows the levels have that
// are reached like the outputs of a dense convolution (SetSpec::reach).
#pragma once

#include <vector>

#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/program/program.h"

namespace minuet {

class ReachedLevels {
 public:
  /// No level may have more than `most_rows` rows.
  ReachedLevels(const Program& program, i64 most_rows);

  const std::vector<SetSpec>& sets() const { return sets_; }
  /// Returns how each level that an index makes of the rows of its parent follows from them. These are the
  /// levels from number levels_of_points() on.
  const std::vector<LevelSource>& sources() const { return sources_; }
  /// Returns how the level is reached from its parent, or null if it is made by rounding down.
  const LevelSource* source_if_reached(std::size_t level) const;

  /// Returns the number of rows that a level is expected to have at most for this many coordinates. It is a
  /// true limit unless the level, or one that it is made of, is reached.
  i64 estimated_rows(std::size_t level, i64 coordinates) const;
  /// Raises the estimates after a cloud of `coordinates` coordinates that did not fit. Element i of
  /// `reported` is the number of rows of level i: its estimate if it has more, and 0 if it was not made.
  /// Returns false if no estimate can be higher.
  bool raise(const i32* reported, i64 coordinates);
  /// Returns the largest number of keys that are sorted to make a reached level by the sorted method, if
  /// level i has at most capacity(i) rows.
  i64 most_keys(llvm::function_ref<i64(std::size_t)> capacity) const;

 private:
  const LevelSource& source(std::size_t level) const { return sources_[level - first_]; }

  const i32 ndim_;
  const i64 most_rows_;
  const std::vector<SetSpec> sets_;
  const std::size_t first_;  // Holds the number of the first level that is made of the rows of its parent.
  std::vector<LevelSource> sources_;
  // Holds, for each level, the expected number of rows divided by the number of coordinates.
  std::vector<double> growth_;
};

}  // namespace minuet
