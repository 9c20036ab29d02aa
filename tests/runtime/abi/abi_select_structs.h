// The structs of select.h, from callers of every age.
#pragma once

#include "include/minuet/select.h"
#include "tests/support/abi.h"

namespace minuet::abi {

void check_select_options(Machine& machine);
void check_select_arguments(Machine& machine);

/// The bytes of the workspace, the coordinates and the count of three rows.
std::vector<int32_t> selected_with(Machine& machine, const minuet_select_options* options);

}  // namespace minuet::abi
