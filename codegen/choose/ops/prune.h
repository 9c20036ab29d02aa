// Describes the ops of a network that keep rows of a level, or some of their children, as a new level. All
// functions are pure.
//
// Such a layer leads from one stage of a program to another one (runtime/program/stages.h). It lists the rows
// of the new level by scores, or by the numbers of a dense tensor, and brings its input onto them. Further
// layers may bring other tensors onto the same level.
#pragma once

#include <optional>

#include "codegen/choose/candidates.h"
#include "codegen/choose/choice.h"
#include "codegen/choose/ops/select.h"

namespace minuet {

struct PruneProblem {
  static const OpKind kKind;

  SelectProblem select;
  i32 in_channels = 0;
  /// Says whether the channels of a row are divided among its children, child 0 first, so that each child
  /// gets in_channels / (number of children) channels. Otherwise each child gets all channels of its parent.
  bool divides_channels = false;
  /// Says whether the layer makes the level. Otherwise another layer makes it from the same scores.
  bool makes_level = true;

  i32 out_channels() const;
  /// Returns true if the rows of both problems' levels are the same for the same scores.
  bool is_same_level(const PruneProblem& other) const;
};

struct PruneChoice {
  static const OpFamily kKind;

  PruneProblem problem;
  SelectChoice select;
  /// Copies features onto the level. It is empty if the selection writes them.
  std::optional<PermuteRowsSpec> gather;
};

llvm::Error validate(const PruneProblem& problem);
PruneChoice choose_prune(const PruneProblem& problem);
void add_sources(SourceList& list, const PruneChoice& choice);

}  // namespace minuet
