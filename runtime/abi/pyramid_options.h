// Reads the options of a pyramid, which training plans have too.
#pragma once

#include "runtime/abi/c_api_internal.h"

namespace minuet {

/// Adds the levels, maps and purposes of a network with these capacities, and these slots of an index or
/// none, to a description.
using DescribeNetwork =
    llvm::function_ref<llvm::Error(llvm::ArrayRef<i64>, llvm::ArrayRef<i64>, PyramidDescription&)>;

/// Reads the options of a pyramid with the levels of `program`, which `describe` adds.
llvm::Expected<PyramidDescription> read_pyramid_of_network(const minuet_pyramid_options& given,
                                                           const Program& program, DescribeNetwork describe);

/// Reads the options of a pyramid that has levels and maps of its own, or those of a network.
llvm::Expected<PyramidDescription> read_pyramid_options(const minuet_pyramid_options& given);

/// Notes that executions of `runs` run on the pyramid. minuet_pyramid_destroy() drops them.
void note_runs(minuet_pyramid& pyramid, const std::shared_ptr<RunPool>& runs);

}  // namespace minuet
