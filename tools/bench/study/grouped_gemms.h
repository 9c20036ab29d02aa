// Computes padding and number of GEMMs for an order in which offsets are grouped. Pure functions.
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

/// Groups neighbouring offsets while a group's padding stays within the threshold (paper, section 5.2.2), in
/// the given order or sorted by size. An offset without pairs needs no GEMM.
GroupedGemms group_offsets(std::vector<int64_t> pairs, bool by_size, const GroupingChoice& choice);

}  // namespace minuet::tool
