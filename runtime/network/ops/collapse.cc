#include "runtime/network/ops/collapse.h"

#include <bit>

#include "runtime/network/description_fields.h"
#include "runtime/network/graph_builder.h"
#include "runtime/network/ops/pooling.h"

namespace minuet {
namespace {

using llvm::json::Object;

/// Limits the offsets of the kernel map, whose memory and time grow with them.
constexpr i32 kMostCollapsedCells = 4096;

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

/// Adds the sum over all cells of a level on one axis. A stride of at least as many cells leaves one cell,
/// whose coordinate is 0. It is a power of two, so that the strides of several collapsed levels have a small
/// common multiple. The offsets of the kernel map are the cells, from the first one on.
llvm::Error build_collapse(GraphBuilder& graph, const LayerDescription& layer) {
  const i32 fine = graph.level_of(graph.current());
  const LevelSpec& level = graph.program().levels[fine];
  if ((level.dropped_axes >> layer.axis & 1) != 0) {
    return at("axis", make_error(StatusCode::InvalidArgument,
                                 "the level of the layer's input has no axis {0} any more: name an axis that "
                                 "it has, by its number in the network's input",
                                 layer.axis));
  }
  const i32 cells = level.shape[layer.axis];
  if (cells == 0) {
    return at("axis",
              make_error(StatusCode::InvalidArgument,
                         "the level of the layer's input has no shape, so its number of cells on axis {0} is "
                         "not known: give the network a \"shape\"",
                         layer.axis));
  }
  const auto stride = static_cast<i32>(std::bit_ceil(static_cast<u32>(cells)));
  if (cells > kMostCollapsedCells || i64{level.tensor_stride[layer.axis]} * stride > kMostCells) {
    return at(
        "axis",
        make_error(StatusCode::InvalidArgument,
                   "the level of the layer's input has {0} cells of tensor stride {1} on axis {2}; a "
                   "collapse takes at most {3} cells and a product of at most {4}",
                   cells, level.tensor_stride[layer.axis], layer.axis, kMostCollapsedCells, kMostCells));
  }
  WindowRecord window;
  window.stride[layer.axis] = stride;
  window.map.fine = fine;
  window.map.kernel_size[layer.axis] = cells;
  begin_at_zero(window.map);
  Window below{window.map.kernel_size, window.stride};
  below.dropped_axes = 1u << layer.axis;
  MINUET_ASSIGN(window.map.coarse, graph.level_below(fine, below));
  MINUET_ASSIGN(const i32 output, add_pooling_over(graph, layer.name, graph.current(), window,
                                                   /*is_backward=*/false, Reduction::Sum));
  graph.set_result(output);
  return llvm::Error::success();
}

}  // namespace

OpEntry collapse_entry() { return {"collapse", read_collapse, print_collapse, build_collapse}; }

}  // namespace minuet
