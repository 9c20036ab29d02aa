// Reads the tensors of PyTorch checkpoints, the files that torch.save writes. Nothing in a file is executed:
// the pickle in it becomes nodes (pickle.h), of which the chosen dict may have tensors only.
#pragma once

#include "runtime/weights/stored_tensor.h"

namespace minuet {

/// Returns true if the bytes begin like a file of torch.save, or like another pickle, of which
/// read_checkpoint() says why it cannot be read.
bool is_checkpoint_file(llvm::StringRef bytes);

/// Returns the tensors of the dict that find_state_dict() chooses. Numbers named num_batches_tracked in it
/// are left out. Returns InvalidArgument if the file is damaged, if another value is not a tensor, if two
/// values have the same name, or if a tensor does not lie in its storage. The result points into `bytes`.
llvm::Expected<StoredTensors> read_checkpoint(llvm::StringRef bytes, llvm::StringRef key);

}  // namespace minuet
