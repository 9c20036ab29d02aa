// Declares a pure function that computes the padding and the number of GEMMs that result if the offsets of a
// kernel map are grouped in a given order.
#pragma once

#include <cstdint>
#include <vector>

#include "codegen/choose/choice.h"

namespace minuet::tool {

struct GroupedGemms {
  /// These count the GEMM rows that belong to pairs of the kernel map, and those that only pad.
  int64_t useful = 0, padding = 0;
  int64_t gemms = 0;
  bool operator==(const GroupedGemms&) const = default;
};

/// Groups neighbouring offsets while a group's padding stays within the threshold (section 5.2.2 of the
/// paper), in the given order or sorted by their numbers of pairs. `pairs` has the number of pairs of each
/// offset. An offset without pairs needs no GEMM.
GroupedGemms group_offsets(std::vector<int64_t> pairs, bool by_size, const GroupingChoice& choice);

}  // namespace minuet::tool
