// Finds the dict of tensors in a checkpoint. A checkpoint is that dict itself, or a dict that has it under a
// key, beside the epoch, the state of the optimizer and other things that are of no use here.
#pragma once

#include "runtime/weights/pickle.h"

namespace minuet {

/// Holds the entries of a dict in their order.
struct StateDict {
  std::string path;  // Holds the keys that lead to the dict, or "" for the root.
  std::vector<std::pair<const PickleNode*, const PickleNode*>> entries;
};

/// Returns the dict under `key`, in which "/" separates the keys of nested dicts ("ema/state_dict"). With an
/// empty key, returns the root if all its values are tensors or numbers, else the dict of tensors under the
/// only one of the usual keys (model_state, state_dict, model_state_dict, model, net) that has one, else the
/// root if it has a tensor. Returns InvalidArgument, and lists the keys that there are, if there is no such
/// dict or several.
llvm::Expected<StateDict> find_state_dict(const Pickle& pickle, llvm::StringRef key);

}  // namespace minuet
