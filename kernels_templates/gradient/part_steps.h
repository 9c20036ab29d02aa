// This file walks through the steps of the parts that a block sums.
#pragma once

#include "kernels_templates/core/programmatic.h"
#include "kernels_templates/shared/gradient_kernels.h"

namespace minuet {

/// Says which pairs a step multiplies. Steps must be visited in ascending order.
class StepPlace {
 public:
  /// Visits a step, which must be less than the number of steps.
  MINUET_HD StepPlace(const WeightGradientParams& p, i64 step) : p_(p) {
    i32 end = p.volume;
    while (end - offset_ > 1) {
      const i32 middle = (offset_ + end) / 2;
      if (fresh(p.first_step + middle) <= step) {
        offset_ = middle;
      } else {
        end = middle;
      }
    }
    begin_ = fresh(p.first_step + offset_);
    enter_offset();
    visit(step);
  }
  MINUET_HD void visit(i64 step) {
    while (step >= end_) {
      ++offset_;
      begin_ = end_;
      enter_offset();
    }
    first_ = first_of_offset_ + (step - begin_) * kStepPairs;
    const i64 left = end_of_offset_ - first_;
    count_ = static_cast<i32>(left < kStepPairs ? left : kStepPairs);
  }
  MINUET_HD i32 offset() const { return offset_; }
  /// Returns the first step of the next offset.
  MINUET_HD i64 offset_end() const { return end_; }
  MINUET_HD i64 first_pair() const { return first_; }
  MINUET_HD i32 pairs() const { return count_; }

 private:
  MINUET_HD void enter_offset() {
    end_ = fresh(p_.first_step + offset_ + 1);
    first_of_offset_ = fresh(p_.first_pair + offset_);
    end_of_offset_ = fresh(p_.first_pair + offset_ + 1);
  }

  const WeightGradientParams& p_;
  i32 offset_ = 0, count_ = 0;
  i64 begin_ = 0, end_ = 0, first_ = 0;
  i32 first_of_offset_ = 0, end_of_offset_ = 0;
};

/// Holds the rows of a pair. Both are -1 if one of the operands does not have its row.
struct PairRows {
  i32 input = -1, gradient = -1;
};
MINUET_HD PairRows rows_of_pair(const WeightGradientParams& p, i64 pair) {
  const i32 input = fresh(p.pairs + 3 * pair + p.input_column);
  const i32 gradient = fresh(p.pairs + 3 * pair + 3 - p.input_column);
  const bool is_there = input >= 0 && input < p.input_rows && gradient >= 0 && gradient < p.gradient_rows;
  return is_there ? PairRows{input, gradient} : PairRows();
}

/// Returns where the sums of a part and an offset are stored.
MINUET_HD float* slot_of(const WeightGradientParams& p, i64 part, i32 offset) {
  return p.sums + (part + offset) * p.layout.elements;
}

}  // namespace minuet
