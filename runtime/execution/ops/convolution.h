// Declares the OpWork of convolutions that run as gather-GEMM-scatter.
#pragma once

#include "runtime/execution/op_work.h"

namespace minuet {

/// Returns an OpWork for gather-GEMM-scatter. It keeps the groups and tables of the maps that the layers
/// read, the slices of the GEMMs, and the buffers.
std::unique_ptr<OpWork> make_gmas_work(const OpWorkContext& context);

}  // namespace minuet
