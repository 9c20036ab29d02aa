#include "tests/support/row_order.h"

#include <algorithm>
#include <numeric>

namespace minuet {

std::vector<int32_t> ascending_rows(const std::vector<int32_t>& coordinates, int ndim) {
  const size_t fields = 1 + static_cast<size_t>(ndim);
  std::vector<int32_t> rows(coordinates.size() / fields);
  std::iota(rows.begin(), rows.end(), 0);
  const auto begin = [&](int32_t row) { return coordinates.data() + static_cast<size_t>(row) * fields; };
  std::stable_sort(rows.begin(), rows.end(), [&](int32_t a, int32_t b) {
    return std::lexicographical_compare(begin(a), begin(a) + fields, begin(b), begin(b) + fields);
  });
  return rows;
}

std::vector<int32_t> inverse(const std::vector<int32_t>& rows) {
  std::vector<int32_t> places(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) places[static_cast<size_t>(rows[i])] = static_cast<int32_t>(i);
  return places;
}

std::vector<int32_t> ascending(const std::vector<int32_t>& coordinates, int ndim) {
  return take_rows(coordinates, ascending_rows(coordinates, ndim));
}

}  // namespace minuet
