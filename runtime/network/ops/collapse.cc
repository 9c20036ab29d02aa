#include "runtime/network/ops/collapse.h"

#include "codegen/choose/ops/pooling.h"
#include "runtime/network/description_fields.h"
#include "runtime/network/graph_builder.h"

namespace minuet {
namespace {

using llvm::json::Object;

llvm::Error read_collapse(const Object& object, const NetworkDescription& network, LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the op collapse", {"op", "name", "axis", "save"}, {}, layer));
  MINUET_ASSIGN(layer.name, read_text(object, "name"));
  const llvm::json::Value* const axis = object.get("axis");
  if (!axis) {
    return at("axis", make_error(StatusCode::InvalidArgument,
                                 "\"axis\" is missing: give the number of the axis, from 0 to {0}",
                                 network.ndim - 1));
  }
  MINUET_ASSIGN(layer.axis, read_size(*axis, "axis", {0, network.ndim - 1}));
  return llvm::Error::success();
}

void print_collapse(const LayerDescription& layer, i32 /*ndim*/, Object& object) {
  object["name"] = layer.name;
  object["axis"] = layer.axis;
}

/// Adds the sum over all cells of a level on one axis. A stride of as many cells as the level has leaves one
/// cell, whose coordinate is 0. The offsets of the kernel map are the cells, from the first one on.
llvm::Error build_collapse(GraphBuilder& graph, const LayerDescription& layer) {
  const i32 fine = graph.level_of(graph.current());
  const i32 cells = graph.program().levels[fine].shape[layer.axis];
  if (cells == 0) {
    return at("axis",
              make_error(StatusCode::InvalidArgument,
                         "the level of the layer's input has no shape, so its number of cells on axis {0} is "
                         "not known: give the network a \"shape\"",
                         layer.axis));
  }
  Window window;
  window.kernel_size[layer.axis] = cells;
  window.stride[layer.axis] = cells;
  MINUET_ASSIGN(const i32 coarse, at("axis", graph.level_below(fine, window)));
  PoolingProblem problem;
  problem.ndim = graph.program().ndim;
  problem.dtype = graph.program().dtype;
  problem.kernel_size = window.kernel_size;
  problem.stride = window.stride;
  problem.kind = coarse != fine ? ConvolutionKind::Strided : ConvolutionKind::Submanifold;
  problem.channels = graph.tensor(graph.current()).channels;
  problem.reduction = Reduction::Sum;
  // The offsets must begin at 0. Those of a centred kernel do so up to a kernel size of 2.
  if (cells > 2) problem.padding = AxisArray{};
  MINUET_ASSIGN(
      const i32 output,
      graph.add_layer(layer.name, graph.current(), coarse, problem.channels,
                      {fine, coarse, window.kernel_size, window.dilation, problem.padding}, problem));
  graph.set_result(output);
  graph.record_window(layer.name);
  return llvm::Error::success();
}

}  // namespace

OpEntry collapse_entry() { return {"collapse", read_collapse, print_collapse, build_collapse}; }

}  // namespace minuet
