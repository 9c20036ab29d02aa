// How an output is compared with the fp64 reference: per tensor, per row, and never past a NaN.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "kernels_templates/shared/types.h"

namespace minuet {

/// Relative error that one layer may have, or a whole network.
double error_bound(DType type, bool network = false);

struct Errors {
  bool finite = true;
  double tensor = 0;     // ||out - ref|| / ||ref||
  double worst_row = 0;  // ||out_r - ref_r|| / max(||ref_r||, rms row norm)
  int64_t row = -1;      // the worst
};

Errors measure(const std::vector<float>& out, const std::vector<double>& ref, int64_t channels);

/// tensor < bound, worst_row <= 10 * bound; exactly 0 where the reference is 0 everywhere; no NaN.
testing::AssertionResult is_close(const std::vector<float>& out, const std::vector<double>& ref,
                                  int64_t channels, double bound);

/// How far one output of one layer may be from the reference, in units of its magnitude (oracle::convolve).
double element_factor(DType type);

/// As above for one layer, and each value within element_factor(type) of its magnitude: a norm over rows or
/// tensors does not see one wrong channel of 256.
testing::AssertionResult is_close(const std::vector<float>& out, const std::vector<double>& ref,
                                  const std::vector<double>& magnitudes, int64_t channels, DType type);

/// The rows that were asked for, out of [rows, channels].
template <class T>
std::vector<T> select_rows(const std::vector<T>& values, int64_t channels, const std::vector<int32_t>& rows) {
  std::vector<T> selected;
  selected.reserve(rows.size() * channels);
  for (int32_t row : rows) {
    selected.insert(selected.end(), values.begin() + row * channels, values.begin() + (row + 1) * channels);
  }
  return selected;
}

}  // namespace minuet
