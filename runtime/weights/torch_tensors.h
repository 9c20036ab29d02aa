// Understands the calls by which a pickle of torch.save makes tensors and parameters. It knows these few
// functions by name and calls none.
#pragma once

#include "runtime/weights/stored_tensor.h"
#include "runtime/weights/torch_archive.h"

namespace minuet {

/// Returns true if the node makes a tensor or a parameter.
bool is_torch_tensor(const Pickle& pickle, const PickleNode& node);

/// Finds the elements of a tensor. Returns InvalidArgument if they do not lie within its storage, if two of
/// them are the same element of the storage, or if the node is not as PyTorch writes it.
llvm::Expected<StoredTensor> read_torch_tensor(TorchArchive& archive, const PickleNode& node);

}  // namespace minuet
