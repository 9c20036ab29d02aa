// The structs of row_gradient.h, from callers of every age.
#pragma once

#include "include/minuet/row_gradient.h"
#include "tests/support/abi.h"

namespace minuet::abi {

void check_group_gradient_options(Machine& machine);
void check_group_gradient_arguments(Machine& machine);

/// The gradients of three rows of two channels, one of which has no group.
std::vector<float> group_gradient_with(Machine& machine, const minuet_group_gradient_options* options);

}  // namespace minuet::abi
