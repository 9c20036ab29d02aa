// Reads safetensors files. Such a file has an 8-byte header length, a JSON header, and then the bytes of the
// tensors.
#pragma once

#include "runtime/weights/stored_tensor.h"

namespace minuet {

/// Finds the tensors in the bytes of a safetensors file. Returns InvalidArgument unless every byte behind the
/// header belongs to exactly one tensor, as the format requires. The result points into `bytes`.
llvm::Expected<StoredTensors> read_safetensors(llvm::StringRef bytes);

}  // namespace minuet
