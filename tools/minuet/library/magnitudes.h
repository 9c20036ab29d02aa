// Finds the range of a tensor for its storage in 8 bits, and compares the results of two networks. All
// functions are pure.
#pragma once

#include <cstdint>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace minuet::tool {

/// Says how a range follows from the numbers of a tensor. Numbers beyond the range are limited to it.
enum class RangeMethod {
  Maximum,      ///< Takes the largest magnitude.
  Percentile,   ///< Takes a magnitude that this percentage of the numbers does not exceed.
  SquaredError  ///< Takes the range whose 8-bit numbers have the least mean squared error.
};
/// Parses "max", "percentile" or "mse".
llvm::Expected<RangeMethod> parse_range_method(llvm::StringRef flag);

/// Counts the magnitudes of numbers in bins of equal width. The width doubles where a number needs it, so the
/// numbers are read once.
class Magnitudes {
 public:
  /// Adds numbers. Returns false, and adds nothing, if one of them is infinite or NaN.
  bool add(llvm::ArrayRef<float> values);

  /// Returns the range, or 0 if all numbers are 0. `percentile` is above 0 and at most 100, and is used by
  /// RangeMethod::Percentile alone.
  double range(RangeMethod method, double percentile) const;

 private:
  double percentile_range(double percentile) const;
  double least_error_range() const;
  double squared_error(double range) const;

  std::vector<int64_t> bins_;
  double width_ = 0;  ///< Is 0 as long as all numbers are 0.
  double largest_ = 0;
  int64_t count_ = 0, zeros_ = 0;
  bool has_negative_ = false;
};

/// Compares numbers with reference numbers, in float64.
struct Difference {
  double squared_error = 0, squared_reference = 0, squared_given = 0, product = 0;
  /// Is false if there were more numbers on one side. Then no number is compared with its own reference.
  bool has_same_size = true;

  void add(llvm::ArrayRef<float> reference, llvm::ArrayRef<float> given);
  /// Returns the norm of the errors, divided by that of the reference numbers. It is 0 if both are 0, and
  /// infinite if only the latter is, or if the sizes differ.
  double relative() const;
  /// Returns the cosine of the angle between both, or 1 if one of them is 0, or NaN if the sizes differ.
  double cosine() const;
};

}  // namespace minuet::tool
