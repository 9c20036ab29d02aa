// The struct of gradient.h, from callers of every age.
#pragma once

#include "tests/support/abi.h"

namespace minuet::abi {

void check_gradient_arguments(Machine& machine);

}  // namespace minuet::abi
