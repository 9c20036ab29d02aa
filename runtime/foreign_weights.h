// Weights in the formats of others: recognized by their first bytes, and refused with what to do.
#pragma once

#include "codegen/error.h"

namespace minuet {

/// Success for what may be a safetensors file.
llvm::Error refuse_foreign_weights(llvm::StringRef bytes);

}  // namespace minuet
