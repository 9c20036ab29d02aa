// Padding and number of GEMMs, by the order in which offsets are grouped. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/choose/choice.h"

namespace minuet::tool {

struct GroupedGemms {
  int64_t useful = 0, padding = 0;  ///< rows
  int64_t gemms = 0;
  bool operator==(const GroupedGemms&) const = default;
};

/// Neighbours are grouped while padding stays below the threshold (paper 5.2.2): as they are given, or by
/// size. Empty offsets are no GEMM.
GroupedGemms group_offsets(std::vector<int64_t> pairs, bool by_size, const GroupingChoice& choice);

}  // namespace minuet::tool
