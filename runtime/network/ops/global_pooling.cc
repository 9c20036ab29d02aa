#include "runtime/network/ops/global_pooling.h"

#include "codegen/choose/ops/global_pooling.h"
#include "runtime/network/description_fields.h"
#include "runtime/network/graph_builder.h"

namespace minuet {
namespace {

using llvm::json::Object;

llvm::Error read_global_pool(const Object& object, const NetworkDescription& /*network*/,
                             LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the op global_pool", {"op", "name", "reduction", "save"}, {}, layer));
  MINUET_ASSIGN(layer.name, read_text(object, "name"));
  return read_reduction(object, layer);
}

void print_global_pool(const LayerDescription& layer, i32 /*ndim*/, Object& object) {
  object["name"] = layer.name;
  object["reduction"] = reduction_name(layer.reduction);
}

llvm::Error build_global_pool(GraphBuilder& graph, const LayerDescription& layer) {
  Program& program = graph.program();
  const i32 level = graph.level_of(graph.current());
  if (program.levels[level].holds_items) {
    return at("input",
              make_error(StatusCode::InvalidArgument,
                         "the layer's input has one row for each batch item already: leave the layer "
                         "out"));
  }
  if (program.levels[level].holds_points) {
    return at("input",
              make_error(StatusCode::InvalidArgument,
                         "the layer's input has a row for each point, and a global_pool takes levels "
                         "of voxels: pool the features before devoxelize"));
  }
  GlobalPoolingProblem problem;
  problem.ndim = program.ndim;
  problem.dtype = program.dtype;
  problem.channels = graph.tensor(graph.current()).channels;
  problem.reduction = layer.reduction;
  MINUET_ASSIGN(const i32 items, graph.level_of_items(level));
  MINUET_ASSIGN(const i32 output,
                graph.add_mapless(layer.name, graph.current(), items, problem.channels, problem));
  program.layers.back().coordinates_level = level;
  program.levels[level].keeps_coordinates = true;
  graph.set_result(output);
  return llvm::Error::success();
}

}  // namespace

OpEntry global_pool_entry() {
  return {"global_pool", read_global_pool, print_global_pool, build_global_pool};
}

}  // namespace minuet
