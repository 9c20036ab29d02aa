// Wraps index.h for C++, as minuet.hpp wraps minuet.h.
#ifndef MINUET_INDEX_HPP_
#define MINUET_INDEX_HPP_

#include <cstdint>
#include <vector>

#include "minuet/index.h"
#include "minuet/minuet.hpp"

namespace minuet {

/// Returns the bytes of an index (minuet_index_bytes).
inline minuet_index_sizes index_bytes(const minuet_index_options& options) {
  minuet_index_sizes sizes = MINUET_INDEX_SIZES_INIT;
  check(minuet_index_bytes(&options, &sizes));
  return sizes;
}

/// Returns slots for clouds like the one that is prepared (minuet_execution_suggest_slots). `levels` is
/// minuet_plan_info.levels.
inline std::vector<std::int64_t> suggest_slots(const Execution& execution, double factor, std::int32_t levels,
                                               void* stream = nullptr) {
  std::vector<std::int64_t> slots(levels < 0 ? 0 : static_cast<std::size_t>(levels));
  check(minuet_execution_suggest_slots(execution.get(), factor, slots.data(), levels, stream));
  return slots;
}

}  // namespace minuet

#endif  // MINUET_INDEX_HPP_
