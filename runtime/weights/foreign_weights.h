// Refuses weights in formats of others, and files that are no weights at all, with what to do instead.
#pragma once

#include "codegen/base/error.h"

namespace minuet {

/// Success for what may be a safetensors file. InvalidArgument for another kind of file
/// (codegen/base/file_kind.h).
llvm::Error refuse_foreign_weights(llvm::StringRef bytes);

}  // namespace minuet
