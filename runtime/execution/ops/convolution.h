// What a convolution's dataflows have in an execution.
#pragma once

#include "runtime/execution/op_work.h"

namespace minuet {

/// Gather-GEMM-scatter: groups and tables of the maps that its layers read, slices of their GEMMs, and the
/// buffers.
std::unique_ptr<OpWork> make_gmas_work(const OpWorkContext& context);

}  // namespace minuet
