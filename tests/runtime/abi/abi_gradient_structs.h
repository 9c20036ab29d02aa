// The structs of gradient.h, from callers of every age.
#pragma once

#include "tests/support/abi.h"

namespace minuet::abi {

void check_gradient_arguments(Machine& machine);
void check_affine_gradient_options(Machine& machine);

}  // namespace minuet::abi
