// The source of the baseline's kernels, in the form that NVRTC compiles.
#pragma once

#include <string>

#include "codegen/source/emit.h"

namespace minuet::tool {

/// Returns the source that instantiates `name`: insert_keys<256>, query_keys<true> (by hash) or
/// query_keys<false> (in sorted keys).
KernelSource baseline_kernel(const std::string& name);

}  // namespace minuet::tool
