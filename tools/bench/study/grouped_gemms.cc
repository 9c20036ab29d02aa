#include "tools/bench/study/grouped_gemms.h"

#include <algorithm>

namespace minuet::tool {

GroupedGemms group_offsets(std::vector<int64_t> pairs, bool by_size, const GroupingChoice& choice) {
  pairs.erase(std::remove(pairs.begin(), pairs.end(), 0), pairs.end());
  if (by_size) std::sort(pairs.begin(), pairs.end());
  GroupedGemms all;
  for (size_t first = 0, end = 0; first < pairs.size(); first = end) {
    int64_t useful = 0, highest = 0;
    for (end = first; end < pairs.size(); ++end) {
      const int64_t sum = useful + pairs[end], height = std::max(highest, pairs[end]);
      const int64_t padded = height * static_cast<int64_t>(end + 1 - first);
      if (end > first &&
          static_cast<double>(padded - sum) > choice.padding_threshold * static_cast<double>(sum))
        break;
      useful = sum;
      highest = height;
    }
    const int64_t step = choice.height_step, height = (highest + step - 1) / step * step;
    all.useful += useful;
    all.padding += height * static_cast<int64_t>(end - first) - useful;
    ++all.gemms;
  }
  return all;
}

}  // namespace minuet::tool
