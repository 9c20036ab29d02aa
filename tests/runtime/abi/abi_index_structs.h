// The structs of index.h, from callers of every age.
#pragma once

#include "include/minuet/index.h"
#include "tests/support/abi.h"

namespace minuet::abi {

void check_index_options(Machine& machine);
void check_index_sizes(Machine& machine);
/// Gives the options two levels.
void set_index_levels(minuet_index_options& options);
/// The slots and the bytes of an index with these options.
std::vector<int64_t> index_numbers_with(Machine& machine, const minuet_index_options* options);

}  // namespace minuet::abi
