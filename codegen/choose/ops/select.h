// Describes how a level is made of candidates that a rule keeps: rows of a level, children of the rows, or
// cells of a dense tensor. All functions are pure.
#pragma once

#include "codegen/choose/ops/dense.h"
#include "codegen/choose/ops/points.h"
#include "kernels_templates/shared/select_kernels.h"

namespace minuet {

/// Lists the candidates that the rule keeps, in their order: by row and child, or by batch item and cell,
/// with the first axis slowest.
struct SelectProblem {
  i32 ndim = 3;
  DType dtype = DType::F32;  // The scores and the dense tensor have this type.
  SelectSource source = SelectSource::Rows;
  SelectRule rule = SelectRule::Mask;
  float threshold = 0;  // Is for SelectRule::Above.
  i64 best = 0;         // Limits the kept candidates of a batch item with SelectRule::Best. It is at least 1.
  /// Describes the children of a row: how many there are on each axis, and the difference between the
  /// coordinates of neighbouring ones, which is the tensor stride of the new level. One child is the row.
  AxisArray children{1, 1, 1, 1}, child_step{1, 1, 1, 1};
  DenseLayout layout;  // Describes the cells. Its order of axes matters only with SelectRule::NonZero.
  i32 channels = 0;    // Counts the channels of the dense tensor with SelectRule::NonZero.

  /// Returns the number of children of a row. There can be as many as 2^32 if the problem is not valid.
  i64 children_of_row() const;
  /// Returns the number of candidates of `most_rows` rows, or of the cells of `batch_size` batch items.
  i64 candidates(i64 most_rows, i64 batch_size) const;
};
struct SelectChoice {
  SelectProblem problem;
  ClearWordsSpec clear;
  MakeScoreKeysSpec keys;  // This member and the next are for SelectRule::Best.
  MarkBestSpec mark;
  ListSelectedSpec list;
  FinishSelectionSpec finish;
  FromDenseSpec features;  // Is for SelectRule::NonZero.
};
llvm::Error validate(const SelectProblem& problem);
/// Returns OutOfRange unless a call can have these numbers of rows (of SelectSource::Rows) and of batch
/// items. A batch size of 0 says that the batch indices of rows are not limited. Cells need one of 1 or more.
llvm::Error check_candidates(const SelectProblem& problem, i64 most_rows, i64 batch_size);
SelectChoice choose_select(const SelectProblem& problem);
void add_sources(SourceList& list, const SelectChoice& choice);

/// Returns the number of low bits of a key that hold the score.
i32 score_bits(const SelectProblem& problem);
/// Returns the number of bits of a key, which orders the candidates by batch item and then by score.
i32 score_key_bits(const SelectProblem& problem, i64 batch_size);
/// Fills the members that follow from the problem. The candidates' memory is not among them.
SelectParams make_select_params(const SelectProblem& problem, i64 most_rows, i64 batch_size);

}  // namespace minuet
