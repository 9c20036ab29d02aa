// The work of convolution families in an execution.
#pragma once

#include "runtime/execution/op_work.h"

namespace minuet {

/// Returns the work of gather-GEMM-scatter: the groups and tables of the maps that its layers read, the
/// slices of their GEMMs, and the buffers.
std::unique_ptr<OpWork> make_gmas_work(const OpWorkContext& context);

}  // namespace minuet
