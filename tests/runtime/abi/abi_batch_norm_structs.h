// The structs of batch_norm.h, from callers of every age.
#pragma once

#include "include/minuet/batch_norm.h"
#include "tests/support/abi.h"

namespace minuet::abi {

void check_batch_norm_options(Machine& machine);
void check_batch_norm_arguments(Machine& machine);
void check_batch_norm_gradient_arguments(Machine& machine);

/// The output and the statistics of two rows of one channel.
std::vector<float> normalized_with(Machine& machine, const minuet_batch_norm_options* options);

}  // namespace minuet::abi
