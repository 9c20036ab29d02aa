#include "runtime/network/ops/concat.h"

#include "runtime/network/description_fields.h"
#include "runtime/network/graph_builder.h"
#include "runtime/network/ops/pooling.h"

namespace minuet {
namespace {

using llvm::json::Object;

llvm::Error read_concat(const Object& object, const NetworkDescription& /*network*/,
                        LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the op concat", {"op", "with", "save"}, {}, layer));
  MINUET_ASSIGN(layer.skip, read_text(object, "with"));
  return llvm::Error::success();
}

void print_concat(const LayerDescription& layer, i32 /*ndim*/, Object& object) {
  object["with"] = layer.skip;
}

/// Returns true if a concatenation has the tensor already, so that its place in memory is settled.
bool is_part(GraphBuilder& graph, i32 tensor) {
  const TensorSpec& spec = graph.tensor(tensor);
  return graph.program().storages[spec.storage].ld != spec.channels;
}

/// Returns a copy of a tensor. A maximum over one element is the element itself.
llvm::Expected<i32> copy_of(GraphBuilder& graph, i32 tensor) {
  const std::string name = "copy " + std::to_string(graph.program().layers.size()) + " for a concat";
  return add_pooling(graph, name, tensor, {}, Reduction::Max);
}

llvm::Error build_concat(GraphBuilder& graph, const LayerDescription& layer) {
  MINUET_ASSIGN(const i32 right, graph.find_partner(layer.skip));
  MINUET_TRY(check_concat(graph, layer.skip, right));
  return add_concat(graph, right);
}

}  // namespace

llvm::Error check_concat(GraphBuilder& graph, const std::string& name, i32 right) {
  // The sum cannot overflow, because each term is at most kMostChannels.
  const i32 channels = graph.tensor(graph.current()).channels + graph.tensor(right).channels;
  if (channels <= kMostChannels) return llvm::Error::success();
  return at("with", make_error(StatusCode::InvalidArgument,
                               "the concat with \"{0}\" has {1} channels; at most {2} are allowed", name,
                               channels, kMostChannels));
}

llvm::Error add_concat(GraphBuilder& graph, i32 right) {
  i32 left = graph.current();
  const i32 channels = graph.tensor(left).channels + graph.tensor(right).channels;
  if (is_part(graph, left)) {
    MINUET_ASSIGN(left, copy_of(graph, left));
  }
  if (is_part(graph, right) || graph.tensor(left).storage == graph.tensor(right).storage) {
    MINUET_ASSIGN(right, copy_of(graph, right));
  }
  Program& program = graph.program();
  const TensorSpec first = graph.tensor(left), second = graph.tensor(right);
  program.storages[first.storage].ld = channels;
  // This storage becomes empty, because the loop below moves all its tensors to the storage of `first`.
  program.storages[second.storage].ld = 0;
  for (TensorSpec& tensor : program.tensors) {
    // If the saved tensor is a concatenation itself, its parts are moved too.
    if (tensor.storage != second.storage) continue;
    tensor.storage = first.storage;
    tensor.column += first.channels;
  }
  program.tensors.push_back({first.level, channels, first.storage, 0});
  graph.set_result(static_cast<i32>(program.tensors.size()) - 1);
  return llvm::Error::success();
}

OpEntry concat_entry() { return {"concat", read_concat, print_concat, build_concat}; }

}  // namespace minuet
