// The structs of pyramid.h, and the steps of pointwise.h, as callers of every age hand them over.
#pragma once

#include "tests/support/network_abi.h"

namespace minuet::abi {

void check_pyramid_options(Machine& machine);
/// `network` is loaded on the machine. It has one level, and leads from 4 channels to 8.
void check_pyramid_arguments(Machine& machine, minuet_plan* network);
/// The elements of `levels` (`array` 0) or of `maps` (1) may be those of any version.
void check_pyramid_elements(Machine& machine, int array);
/// Steps of older and newer callers of pointwise.h are found by the size that the caller declares.
void check_pointwise_steps(Machine& machine);
void check_run_arguments(Machine& machine, minuet_plan* network);

}  // namespace minuet::abi
