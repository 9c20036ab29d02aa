// Declares the CUDA source of the kernels with which the studies compare the library (baseline_kernels.inc),
// in the form that NVRTC compiles.
#pragma once

#include <string>

#include "codegen/source/emit.h"

namespace minuet::tool {

/// Returns the source that instantiates the kernel `name`: "insert_keys<256>", "query_keys<true>", which
/// looks keys up in the hash table, or "query_keys<false>", which searches the sorted keys.
KernelSource baseline_kernel(const std::string& name);

}  // namespace minuet::tool
