#include "codegen/offset_order.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace minuet {

OffsetOrder order_offsets(const KernelGeometry& geometry) {
  std::vector<std::pair<i32, i64>> distances;  // axes, then the sum of squares in steps
  for (i32 k = 0; k < geometry.volume; ++k) {
    std::pair<i32, i64> distance{0, 0};
    i32 rest = k;
    for (i32 a = geometry.ndim - 1; a >= 0; --a) {
      const i64 offset = axis_offset(geometry.kernel_size[a], 1, rest % geometry.kernel_size[a]);
      rest /= geometry.kernel_size[a];
      distance.first += offset != 0;
      distance.second += offset * offset;
    }
    distances.push_back(distance);
  }
  std::vector<i32> order(distances.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](i32 a, i32 b) { return distances[a] > distances[b]; });
  OffsetOrder result;
  result.ranked = std::min(geometry.volume, kMostRankedOffsets);
  std::transform(order.begin(), order.begin() + result.ranked, result.offsets,
                 [](i32 k) { return static_cast<u16>(k); });
  return result;
}

}  // namespace minuet
