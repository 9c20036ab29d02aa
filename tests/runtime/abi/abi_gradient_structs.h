// The structs of gradient.h, from callers of every age.
#pragma once

#include "include/minuet/gradient.h"
#include "tests/support/abi.h"

namespace minuet::abi {

void check_gradient_arguments(Machine& machine);
void check_affine_gradient_options(Machine& machine);
/// The gradient of the scale of two rows of two channels.
std::vector<float> affine_gradient_with(Machine& machine, const minuet_affine_gradient_options* options);

}  // namespace minuet::abi
