#include "runtime/engine/set_index.h"

#include <algorithm>

namespace minuet {

i64 most_index_words(i64 coordinates) {
  constexpr i64 kWordsPerCoordinate = 32, kLeast = 1 << 15, kMost = 1 << 22;
  return std::clamp(kWordsPerCoordinate * coordinates, kLeast, kMost);
}

i64 level_index_words(const KeyLayout& layout, const AxisArray& stride) {
  return make_cell_grid(layout, stride.data()).words;
}

i64 most_level_runs(i64 words, i64 coordinates) { return std::min(words * kWordBits, coordinates); }

CellIndex place_cell_index(Placement& parts, i64 words, i64 runs) {
  return {parts.take<CellGrids>(1), parts.take<BitWord>(words + 1),
          parts.take<BitWord>(runs * kRunWords + 1)};
}

bool fills_cells(i32 ndim, const AxisArray& kernel_size, const AxisArray& dilation,
                 const AxisArray& fine_stride, const AxisArray& coarse_stride) {
  for (i32 a = 0; a < ndim; ++a) {
    const i32 size = kernel_size[a];
    if (size > 2 || dilation[a] != 1 || coarse_stride[a] != size * fine_stride[a]) return false;
  }
  return true;
}

}  // namespace minuet
