#include "tests/runtime/abi/abi_index_structs.h"

#include "tests/runtime/abi/abi_checks.h"

namespace minuet::abi {

void set_index_levels(minuet_index_options& options) {
  static constexpr int64_t kCapacities[] = {3000, 200};
  options.level_capacity = kCapacities;
  options.level_count = 2;
}

std::vector<int64_t> index_numbers_with(Machine&, const minuet_index_options* options) {
  minuet_index_sizes sizes = MINUET_INDEX_SIZES_INIT;
  check(minuet_index_bytes(options, &sizes));
  return {sizes.slots, sizes.table, sizes.rows, sizes.points};
}

void check_index_options(Machine&) {
  static constexpr int64_t kSlots[] = {-1, -1};  // refused
  minuet_index_options given = MINUET_INDEX_OPTIONS_INIT;
  set_index_levels(given);
  given.level_slots = kSlots;
  given.reserved = 1;
  check_options<minuet_index_options>(given, MINUET_INDEX_OPTIONS_INIT, [](const auto* options) {
    minuet_index_sizes sizes = MINUET_INDEX_SIZES_INIT;
    return minuet_index_bytes(options, &sizes);
  });
}

void check_index_sizes(Machine&) {
  minuet_index_options options = MINUET_INDEX_OPTIONS_INIT;
  set_index_levels(options);
  check_info<minuet_index_sizes>([&](auto* sizes) { return minuet_index_bytes(&options, sizes); });
}

}  // namespace minuet::abi
