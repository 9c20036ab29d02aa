// The structs that the library hands to callbacks, as callbacks meet them.
#pragma once

#include <cstddef>
#include <vector>

namespace minuet::abi {

/// What stood in struct_size, one number for each call of a callback.
using Sizes = std::vector<size_t>;

/// Each makes the library call the callback that takes minuet_<name>, once or more. The test is skipped, and
/// there are no sizes, where a kernel has to be compiled and there is no NVRTC.
void meet_kernel_info(Sizes& sizes);
void meet_kernel_code(Sizes& sizes);
void meet_precompile_step(Sizes& sizes);
void meet_bundle_info(Sizes& sizes);
void meet_tuning_progress(Sizes& sizes);
void meet_tuning_skip(Sizes& sizes);
void meet_tuned_choice(Sizes& sizes);

}  // namespace minuet::abi
