#include "codegen/choose/offset_order.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace minuet {
namespace {

/// Sort keys of 16 bits need two passes, and those of 24 bits need three. For at most kFewQueries queries,
/// the third pass takes as much time as its finer order saves in the convolutions, so 16 bits are preferred.
constexpr i32 kShortKeyBits = 16;
constexpr i64 kFewQueries = 1 << 20;
// A view (ViewJob) of a kernel map with many offsets has more masks of offsets than ranks (sort keys,
// MaskRanks). If keys of 16 bits give such a view fewer ranks than this, the sort uses keys of 24 bits.
constexpr u32 kFewestRanks = 1 << 13;

/// Returns the maximum number of ranks (MaskRanks) of one view (ViewJob) of a kernel map, if keys of
/// `key_bits` bits number the ranks of all views. Views of few offsets get one rank for each mask of offsets,
/// and the other views share the remaining ranks equally.
u32 most_ranks(llvm::ArrayRef<i32> ranked, i32 key_bits) {
  u32 left = 1u << key_bits, large = 0;
  for (const i32 offsets : ranked) {
    const u32 all = 1u << offsets;
    if (all > (1u << key_bits) / kMostViews) {
      ++large;
    } else {
      left -= all;
    }
  }
  return large > 0 ? left / large : 1u << key_bits;
}

}  // namespace

OffsetOrder order_offsets(const KernelGeometry& geometry, const OffsetList& list) {
  // Holds a pair for each offset: the number of axes on which the offset is not zero, and the sum of the
  // squares of its components, in units of the kernel's step, or in cells for a list.
  std::vector<std::pair<i32, i64>> distances;
  for (i32 k = 0; k < geometry.volume; ++k) {
    std::pair<i32, i64> distance{0, 0};
    i32 rest = k;
    for (i32 a = geometry.ndim - 1; a >= 0; --a) {
      // The middle of the kernel counts as its centre, whatever the padding is.
      const i32 offset = list.empty()
                             ? centred_origin(geometry.kernel_size[a]) + rest % geometry.kernel_size[a]
                             : list[k][a];
      rest /= geometry.kernel_size[a];
      distance.first += offset != 0;
      distance.second += i64{offset} * offset;
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

std::vector<MaskRanks> share_ranks(llvm::ArrayRef<i32> ranked, i64 queries) {
  u32 most = most_ranks(ranked, kShortKeyBits);
  if (queries > kFewQueries || most < kFewestRanks) most = most_ranks(ranked, kMostRankKeyBits);
  std::vector<MaskRanks> ranks;
  for (const i32 offsets : ranked) ranks.push_back(mask_ranks(offsets, most));
  return ranks;
}

}  // namespace minuet
