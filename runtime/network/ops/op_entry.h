// Declares what each op has in a network's description: how it is read, printed and built. network_ops.cc has
// the table of all ops.
#pragma once

#include "llvm/Support/JSON.h"
#include "runtime/network/network_description.h"

namespace minuet {

class GraphBuilder;

/// Represents one row of the table of ops.
struct OpEntry {
  // Holds the value of the field "op".
  const char* name;
  /// Reads the fields of a layer. LayerDescription::op is set already.
  llvm::Error (*read)(const llvm::json::Object& object, const NetworkDescription& network,
                      LayerDescription& layer);
  /// Writes the layer's fields, except "op", "input" and "output".
  void (*print)(const LayerDescription& layer, i32 ndim, llvm::json::Object& object);
  /// Adds the layer to a program. It reads the tensor GraphBuilder::current() and sets the result
  /// (GraphBuilder::set_result()).
  llvm::Error (*build)(GraphBuilder& graph, const LayerDescription& layer);
};

/// Returns the entries of all ops, in the order of LayerDescription::Op.
llvm::ArrayRef<OpEntry> op_entries();
/// Returns the entry of an op.
const OpEntry& entry_of(LayerDescription::Op op);

/// Checks the names of a layer's fields, and reads "save", "input" and "output". Messages call the op `of`.
/// `fields` are those of the op without "input" and "output", which every op has.
llvm::Error read_layer_fields(const llvm::json::Object& object, llvm::StringRef of,
                              llvm::ArrayRef<llvm::StringRef> fields, llvm::ArrayRef<llvm::StringRef> more,
                              LayerDescription& layer);

}  // namespace minuet
