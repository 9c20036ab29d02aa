#include "tests/support/compare.h"

#include <algorithm>
#include <cmath>

namespace minuet {

double error_bound(DType type, bool network) {
  switch (type) {
    case DType::F32:
      return network ? 1e-5 : 1e-6;
    case DType::TF32:
      return 1e-3;
    case DType::F16:
      return 2e-3;
    case DType::BF16:
      return 1e-2;
    case DType::U8:
    case DType::S8:
      break;
  }
  return 0;
}

Errors measure(const std::vector<float>& out, const std::vector<double>& ref, int64_t channels) {
  Errors errors;
  const int64_t rows = static_cast<int64_t>(ref.size()) / channels;
  std::vector<double> distance(rows, 0.0), norm(rows, 0.0);
  double all_distance = 0, all_norm = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(ref.size()); ++i) {
    if (!std::isfinite(out[i])) {
      errors.finite = false;
      errors.row = i / channels;
      return errors;
    }
    const double difference = out[i] - ref[i];
    distance[i / channels] += difference * difference;
    norm[i / channels] += ref[i] * ref[i];
  }
  for (int64_t r = 0; r < rows; ++r) all_distance += distance[r], all_norm += norm[r];
  if (all_norm == 0) {
    errors.tensor = errors.worst_row = all_distance == 0 ? 0 : HUGE_VAL;
    return errors;
  }
  errors.tensor = std::sqrt(all_distance / all_norm);
  const double typical = all_norm / static_cast<double>(rows);
  for (int64_t r = 0; r < rows; ++r) {
    const double error = std::sqrt(distance[r] / std::max(norm[r], typical));
    if (error > errors.worst_row) errors.worst_row = error, errors.row = r;
  }
  return errors;
}

testing::AssertionResult is_close(const std::vector<float>& out, const std::vector<double>& ref,
                                  int64_t channels, double bound) {
  if (out.size() != ref.size()) {
    return testing::AssertionFailure() << out.size() << " values where " << ref.size() << " are expected";
  }
  const Errors errors = measure(out, ref, channels);
  if (!errors.finite) return testing::AssertionFailure() << "NaN or infinity in row " << errors.row;
  if (errors.tensor < bound && errors.worst_row <= 10 * bound) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "relative error " << errors.tensor << " (bound " << bound
                                     << "), worst row " << errors.row << ": " << errors.worst_row
                                     << " (bound " << 10 * bound << ")";
}

// The output is stored in 16 bits, off by at most u = 2^-11 (fp16) or 2^-8 (bf16) of itself.
//
// Before that sums are fp32, in whatever order: a chain of about 400 roundings at the longest (256 channels,
// 125 offsets, the epilogue) of up to 2^-24 of the sum so far, whose mean square is a third of the last one's
// where sums grow evenly. As good as independent, six of their deviations are 6 sqrt(400 / 12 / 3) = 20 times
// 2^-24: 2^-19 with room.
//
// Tensor cores cut off where others round, a few bits below the largest product of a step: tf32, whose
// operands the oracle rounds too, has 2^-15 for that, and fp16 as much beside its u.
double element_factor(DType type) {
  switch (type) {
    case DType::F32:
      return 0x1p-19;
    case DType::TF32:
      return 0x1p-15;
    case DType::F16:
      return 0x1p-11 + 0x1p-15;
    case DType::BF16:
      return 0x1p-8 + 0x1p-15;
    case DType::U8:
    case DType::S8:
      break;
  }
  return 0;
}

testing::AssertionResult is_close(const std::vector<float>& out, const std::vector<double>& ref,
                                  const std::vector<double>& magnitudes, int64_t channels, DType type) {
  if (testing::AssertionResult whole = is_close(out, ref, channels, error_bound(type)); !whole) return whole;
  if (magnitudes.size() != ref.size())
    return testing::AssertionFailure() << magnitudes.size() << " magnitudes";
  const double least = type == DType::F16 ? 0x1p-25 : 0;  // a subnormal output, however small
  for (size_t i = 0; i < ref.size(); ++i) {
    const double error = std::abs(out[i] - ref[i]), bound = element_factor(type) * magnitudes[i] + least;
    if (error <= bound) continue;
    return testing::AssertionFailure()
           << "row " << i / channels << ", channel " << i % channels << ": " << out[i] << " where " << ref[i]
           << " is expected; off by " << error << ", at most " << bound << " for terms of " << magnitudes[i];
  }
  return testing::AssertionSuccess();
}

}  // namespace minuet
