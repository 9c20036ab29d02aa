// Rejects weights in other formats, and files that are not weights, with a hint at what to do instead.
#pragma once

#include "codegen/base/error.h"

namespace minuet {

/// Returns success if `bytes` may be a safetensors file, and InvalidArgument if they are a file of another
/// kind (codegen/base/file_kind.h). PyTorch checkpoints must have been recognized before (checkpoint.h).
llvm::Error refuse_foreign_weights(llvm::StringRef bytes);

}  // namespace minuet
