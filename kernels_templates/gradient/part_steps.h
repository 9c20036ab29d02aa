// This file walks through the steps of the parts that a block sums.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/gradient_kernels.h"

namespace minuet {

/// Says which pairs a step multiplies. Steps must be visited in ascending order.
class StepPlace {
 public:
  MINUET_HD explicit StepPlace(const WeightGradientParams& p) : p_(p) {}

  /// Moves to a step, which must be less than the number of steps.
  MINUET_HD void visit(i64 step) {
    while (step >= end_) {
      ++offset_;
      begin_ = end_;
      end_ = fresh(p_.first_step + offset_ + 1);
    }
    first_ = fresh(p_.first_pair + offset_) + (step - begin_) * kStepPairs;
    const i64 left = fresh(p_.first_pair + offset_ + 1) - first_;
    count_ = static_cast<i32>(left < kStepPairs ? left : kStepPairs);
  }
  MINUET_HD i32 offset() const { return offset_; }
  /// Returns the first step of the next offset.
  MINUET_HD i64 offset_end() const { return end_; }
  MINUET_HD i64 first_pair() const { return first_; }
  MINUET_HD i32 pairs() const { return count_; }

 private:
  const WeightGradientParams& p_;
  i32 offset_ = -1, count_ = 0;
  i64 begin_ = 0, end_ = 0, first_ = 0;
};

/// Returns the row of pair `pair` in one operand, the input (0) or the output's gradient (1), or -1 if the
/// operand has no such row.
MINUET_HD i32 row_of_pair(const WeightGradientParams& p, i64 pair, i32 operand) {
  const i32 row = fresh(p.pairs + 3 * pair + (operand == 0 ? p.input_column : 3 - p.input_column));
  return row >= 0 && row < (operand == 0 ? p.input_rows : p.gradient_rows) ? row : -1;
}

/// Returns where the sums of a part and an offset are stored.
MINUET_HD float* slot_of(const WeightGradientParams& p, i64 part, i32 offset) {
  return p.sums + (part + offset) * p.layout.elements;
}

}  // namespace minuet
