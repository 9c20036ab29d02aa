#include "runtime/network/ops/unpooling.h"

#include "runtime/network/description_fields.h"
#include "runtime/network/graph_builder.h"
#include "runtime/network/ops/pooling.h"

namespace minuet {
namespace {

using llvm::json::Object;

llvm::Error read_unpool(const Object& object, const NetworkDescription& /*network*/,
                        LayerDescription& layer) {
  MINUET_TRY(
      read_layer_fields(object, "the op unpool", {"op", "name", "of", "reduction", "save"}, {}, layer));
  MINUET_ASSIGN(layer.name, read_text(object, "name"));
  MINUET_ASSIGN(layer.skip, read_text(object, "of"));
  return object.get("reduction") ? read_reduction(object, layer) : llvm::Error::success();
}

void print_unpool(const LayerDescription& layer, i32 /*ndim*/, Object& object) {
  object["name"] = layer.name;
  object["of"] = layer.skip;
  object["reduction"] = reduction_name(layer.reduction);
}

llvm::Error build_unpool(GraphBuilder& graph, const LayerDescription& layer) {
  MINUET_ASSIGN(const WindowRecord window, at("of", graph.find_way_back(layer.skip, "unpool")));
  MINUET_ASSIGN(const i32 output, add_pooling_over(graph, layer.name, graph.current(), window,
                                                   /*is_backward=*/true, layer.reduction));
  graph.set_result(output);
  return llvm::Error::success();
}

llvm::Error read_upsample(const Object& object, const NetworkDescription& /*network*/,
                          LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the op upsample", {"op", "name", "onto", "save"}, {}, layer));
  MINUET_ASSIGN(layer.name, read_text(object, "name"));
  MINUET_ASSIGN(layer.skip, read_text(object, "onto"));
  return llvm::Error::success();
}

void print_upsample(const LayerDescription& layer, i32 /*ndim*/, Object& object) {
  object["name"] = layer.name;
  object["onto"] = layer.skip;
}

/// Returns the map of find_cells_map(). The levels have axes in common.
llvm::Expected<WindowRecord> cells_map(GraphBuilder& graph, const std::string& onto, i32 fine, i32 coarse) {
  const Program& program = graph.program();
  WindowRecord window;
  window.map.fine = fine;
  window.map.coarse = coarse;
  for (i32 a = 0; a < program.ndim; ++a) {
    const i32 wanted = program.levels[fine].tensor_stride[a], given = program.levels[coarse].tensor_stride[a];
    if (given % wanted != 0) {
      return make_error(
          StatusCode::InvalidArgument,
          "axis {0}: the tensor stride of the layer's input is {1}, which is no multiple of {2}, "
          "that of \"{3}\"",
          a, given, wanted, onto);
    }
    window.stride[a] = given / wanted;
    window.map.kernel_size[a] = window.stride[a];
  }
  begin_at_zero(window.map);
  return window;
}

llvm::Error build_upsample(GraphBuilder& graph, const LayerDescription& layer) {
  MINUET_ASSIGN(const i32 onto, graph.find_result(layer.skip, "onto"));
  const i32 coarse = graph.level_of(graph.current()), fine = graph.level_of(onto);
  // On the same level, each voxel is its own cell.
  if (coarse == fine) return llvm::Error::success();
  MINUET_ASSIGN(const WindowRecord window, find_cells_map(graph, layer.skip, fine));
  // Each voxel has at most one partner, so every reduction is a copy. The maximum needs no division.
  MINUET_ASSIGN(const i32 output, add_pooling_over(graph, layer.name, graph.current(), window,
                                                   /*is_backward=*/true, Reduction::Max));
  graph.set_result(output);
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<WindowRecord> find_cells_map(GraphBuilder& graph, const std::string& onto, i32 fine) {
  const i32 coarse = graph.level_of(graph.current());
  const std::vector<LevelSpec>& levels = graph.program().levels;
  if (levels[coarse].holds_items || levels[fine].holds_items ||
      (levels[fine].dropped_axes & ~levels[coarse].dropped_axes) != 0) {
    return at("onto", make_error(StatusCode::InvalidArgument,
                                 "\"{0}\" lacks an axis that the layer's input has, or one of both has a row "
                                 "for each batch item: there is no way from one to the other",
                                 onto));
  }
  return at("onto", cells_map(graph, onto, fine, coarse));
}

OpEntry unpool_entry() { return {"unpool", read_unpool, print_unpool, build_unpool}; }
OpEntry upsample_entry() { return {"upsample", read_upsample, print_upsample, build_upsample}; }

}  // namespace minuet
