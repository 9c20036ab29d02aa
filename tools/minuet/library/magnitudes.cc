#include "tools/minuet/library/magnitudes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/minuet/base/error.h"

namespace minuet::tool {
namespace {

constexpr size_t kBins = 4096;
/// The ranges that are tried for the least error are these parts of the largest magnitude.
constexpr int kTriedRanges = 256;

}  // namespace

llvm::Expected<RangeMethod> parse_range_method(llvm::StringRef flag) {
  if (flag == "max") return RangeMethod::Maximum;
  if (flag == "percentile") return RangeMethod::Percentile;
  if (flag == "mse") return RangeMethod::SquaredError;
  return bad_input("--calibration '{0}' is not one of max, percentile, mse", flag);
}

bool Magnitudes::add(llvm::ArrayRef<float> values) {
  double largest = 0;
  bool has_negative = false;
  for (const float value : values) {
    if (!std::isfinite(value)) return false;
    largest = std::max(largest, static_cast<double>(std::abs(value)));
    has_negative |= value < 0;
  }
  has_negative_ |= has_negative;
  largest_ = std::max(largest_, largest);
  count_ += static_cast<int64_t>(values.size());
  if (bins_.empty() && largest > 0) {
    bins_.resize(kBins);
    width_ = largest / kBins;
  }
  while (largest > width_ * kBins) {
    for (size_t i = 0; i < kBins / 2; ++i) bins_[i] = bins_[2 * i] + bins_[2 * i + 1];
    std::fill(bins_.begin() + kBins / 2, bins_.end(), 0);
    width_ *= 2;
  }
  for (const float value : values) {
    if (value == 0) {
      ++zeros_;
    } else {
      const double place = std::abs(static_cast<double>(value)) / width_;
      ++bins_[std::min(static_cast<size_t>(place), kBins - 1)];
    }
  }
  return true;
}

double Magnitudes::range(RangeMethod method, double percentile) const {
  if (largest_ == 0 || method == RangeMethod::Maximum) return largest_;
  return method == RangeMethod::Percentile ? percentile_range(percentile) : least_error_range();
}

/// Returns the upper end of the bin at which the wanted part of the numbers is counted.
double Magnitudes::percentile_range(double percentile) const {
  const double wanted = static_cast<double>(count_) * percentile / 100;
  int64_t counted = zeros_;
  for (size_t i = 0; i < kBins; ++i) {
    counted += bins_[i];
    // A range of 0 would be none, so that the first number above 0 counts in any case.
    if (counted > zeros_ && static_cast<double>(counted) >= wanted)
      return std::min(largest_, width_ * static_cast<double>(i + 1));
  }
  return largest_;
}

double Magnitudes::least_error_range() const {
  double best = largest_, least = squared_error(largest_);
  for (int i = kTriedRanges - 1; i > 0; --i) {
    const double range = largest_ * i / kTriedRanges, error = squared_error(range);
    if (error < least) best = range, least = error;
  }
  return best;
}

/// Returns the sum of the squared errors of numbers that are stored with this range. A number is taken to lie
/// in the middle of its bin, and errors of rounding to be spread evenly.
double Magnitudes::squared_error(double range) const {
  const double step = range / (has_negative_ ? 127 : 255);
  double sum = 0;
  for (size_t i = 0; i < kBins; ++i) {
    if (bins_[i] == 0) continue;
    const double middle = (static_cast<double>(i) + 0.5) * width_, excess = middle - range;
    sum += static_cast<double>(bins_[i]) * (excess > 0 ? excess * excess : step * step / 12);
  }
  return sum;
}

void Difference::add(llvm::ArrayRef<float> reference, llvm::ArrayRef<float> given) {
  if (given.size() != reference.size()) has_same_size = false;
  if (!has_same_size) return;
  for (size_t i = 0; i < reference.size(); ++i) {
    const auto a = static_cast<double>(reference[i]), b = static_cast<double>(given[i]);
    squared_error += (b - a) * (b - a);
    squared_reference += a * a;
    squared_given += b * b;
    product += a * b;
  }
}

double Difference::relative() const {
  if (!has_same_size) return std::numeric_limits<double>::infinity();
  if (squared_error == 0) return 0;
  if (squared_reference == 0) return std::numeric_limits<double>::infinity();
  return std::sqrt(squared_error / squared_reference);
}

double Difference::cosine() const {
  if (!has_same_size) return std::numeric_limits<double>::quiet_NaN();
  if (squared_reference == 0 || squared_given == 0) return 1;
  return product / std::sqrt(squared_reference * squared_given);
}

}  // namespace minuet::tool
