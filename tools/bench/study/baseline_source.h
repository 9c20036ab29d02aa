// The kernels of the studies' baseline, as NVRTC gets them.
#pragma once

#include <string>

#include "codegen/source/emit.h"

namespace minuet::tool {

/// insert_keys<256>, query_keys<true> (by hash) or query_keys<false> (in sorted keys).
KernelSource baseline_kernel(const std::string& name);

}  // namespace minuet::tool
