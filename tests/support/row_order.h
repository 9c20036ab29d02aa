// Rows of sets whose order the library chooses. Their order depends on the set alone, but is not ascending,
// so tests bring such rows into ascending order of their coordinates before they compare them with expected
// ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace minuet {

/// Returns the numbers of the rows of `coordinates`, [n, 1 + ndim], in ascending order of the coordinates.
std::vector<int32_t> ascending_rows(const std::vector<int32_t>& coordinates, int ndim);

/// Returns the inverse of a permutation.
std::vector<int32_t> inverse(const std::vector<int32_t>& rows);

/// Returns `values` with its rows in the order of `rows`: row i of the result is row rows[i]. All rows have
/// the same length. An empty `rows` changes nothing.
template <class T>
std::vector<T> take_rows(const std::vector<T>& values, const std::vector<int32_t>& rows) {
  if (rows.empty()) return values;
  const size_t length = values.size() / rows.size();
  std::vector<T> taken;
  for (const int32_t row : rows) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(row) * length);
    taken.insert(taken.end(), first, first + static_cast<std::ptrdiff_t>(length));
  }
  return taken;
}

/// Returns coordinates in ascending order.
std::vector<int32_t> ascending(const std::vector<int32_t>& coordinates, int ndim);

}  // namespace minuet
