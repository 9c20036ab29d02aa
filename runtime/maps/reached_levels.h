// Says how coordinate sets follow from each other, and how many rows those have that are reached like the
// outputs of a dense convolution (SetSpec::reach), or that are made of two others.
#pragma once

#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/engine/set_spec.h"

namespace minuet {

/// Returns ResourceExhausted, for a level that would have more rows than any level may have.
llvm::Error too_many_reached();

/// Estimates numbers of rows. In exact mode, memory must be reserved before the device knows them.
class ReachedLevels {
 public:
  /// `sets` are levels, each after its parents. No level may have more than `most_rows` rows. `batch_size` is
  /// the number of batch items, or 0 if it is unknown.
  ReachedLevels(i32 ndim, std::vector<SetSpec> sets, i64 most_rows, i32 batch_size);

  const std::vector<SetSpec>& sets() const { return sets_; }
  /// Returns how each level that an index makes of the rows of its parents follows from them. These are the
  /// levels from number levels_of_points() on.
  const std::vector<LevelSources>& sources() const { return sources_; }
  /// Returns how the level follows from its parents, or nothing if it is made by rounding down.
  llvm::ArrayRef<LevelSource> sources_unless_rounded(std::size_t level) const;

  /// Returns the largest number of rows that a level may have if there are this many coordinates.
  i64 most_rows(std::size_t level, i64 coordinates) const;
  /// Returns how many rows memory should be reserved for: most_rows(), or a smaller estimate for a level that
  /// is reached or made of two others, or made of one that is. An estimate is raised by raise() if a cloud
  /// has more rows.
  i64 estimated_rows(std::size_t level, i64 coordinates) const;
  /// Makes all estimates equal to most_rows(), so that no cloud can have more rows.
  void expect_most() { expects_most_ = true; }
  /// Raises an estimate after a cloud of `coordinates` coordinates that did not fit. Element i of `reported`
  /// is the number of rows of level i, which is its estimate if the level has more, and 0 if the level was
  /// not made. Returns false if no estimate can be higher.
  bool raise(const i32* reported, i64 coordinates);
  /// Returns the largest number of keys that are sorted to make a level that is reached or made of two others
  /// by the sorted method, if level i has at most capacity(i) rows.
  i64 most_keys(llvm::function_ref<i64(std::size_t)> capacity) const;

 private:
  /// Returns the number of cells, with repetitions, that the sources of a level give if level i has rows(i)
  /// rows.
  i64 count_found(std::size_t level, llvm::function_ref<i64(std::size_t)> rows) const;
  /// Returns the largest growth_ of the level's parents, or 1 for a set of the caller's coordinates.
  double growth_of_parents(const SetSpec& set) const;

  const std::vector<SetSpec> sets_;
  const i64 most_rows_;
  const std::size_t first_;  // Holds the number of the first level that is made of the rows of its parents.
  std::vector<LevelSources> sources_;
  // Holds, for each level, the number of cells that its shape and the batch size allow.
  std::vector<i64> cells_;
  // Holds, for each level, the expected number of rows divided by the number of coordinates.
  std::vector<double> growth_;
  bool expects_most_ = false;
};

}  // namespace minuet
