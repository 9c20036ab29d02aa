// The structs of training.h, from callers of every age.
#pragma once

#include "include/minuet/training.h"
#include "tests/support/abi.h"

namespace minuet::abi {

void check_training_options(Machine& machine);
void check_training_forward_arguments(Machine& machine);
void check_training_backward_arguments(Machine& machine);
void check_kept_info(Machine& machine);
void check_training_sizes(Machine& machine);
/// The outputs and the new running statistics of a step of a small network, with all gradients.
std::vector<float> step_with(Machine& machine, const minuet_training_options* options);

}  // namespace minuet::abi
