#include "runtime/network/ops/unpooling.h"

#include "runtime/network/description_fields.h"
#include "runtime/network/graph_builder.h"
#include "runtime/network/ops/pooling.h"
#include "runtime/network/stride_between.h"

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

llvm::Error build_upsample(GraphBuilder& graph, const LayerDescription& layer) {
  MINUET_ASSIGN(const i32 onto, graph.find_result(layer.skip, "onto"));
  const i32 coarse = graph.level_of(graph.current()), fine = graph.level_of(onto);
  // On the same level, each voxel is its own cell.
  if (coarse == fine) return llvm::Error::success();
  WindowRecord window;
  window.map.fine = fine;
  window.map.coarse = coarse;
  MINUET_ASSIGN(window.stride, at("onto", stride_between(graph.program(), layer.skip, fine, coarse)));
  window.map.kernel_size = window.stride;
  begin_at_zero(window.map);
  // Each voxel has at most one partner, so every reduction is a copy. The maximum needs no division.
  MINUET_ASSIGN(const i32 output, add_pooling_over(graph, layer.name, graph.current(), window,
                                                   /*is_backward=*/true, Reduction::Max));
  graph.set_result(output);
  return llvm::Error::success();
}

}  // namespace

OpEntry unpool_entry() { return {"unpool", read_unpool, print_unpool, build_unpool}; }
OpEntry upsample_entry() { return {"upsample", read_upsample, print_upsample, build_upsample}; }

}  // namespace minuet
