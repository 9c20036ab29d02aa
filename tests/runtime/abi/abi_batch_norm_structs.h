// The structs of batch_norm.h, from callers of every age.
#pragma once

#include "tests/support/abi.h"

namespace minuet::abi {

void check_batch_norm_options(Machine& machine);
void check_batch_norm_arguments(Machine& machine);
void check_batch_norm_gradient_arguments(Machine& machine);

}  // namespace minuet::abi
