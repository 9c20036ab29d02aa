#include "runtime/network/ops/pooling.h"

#include "codegen/choose/ops/pooling.h"
#include "runtime/network/description_fields.h"
#include "runtime/network/graph_builder.h"

namespace minuet {
namespace {

using llvm::json::Object;

llvm::Error read_pooling(const Object& object, const NetworkDescription& network, LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the ops max_pool, average_pool and sum_pool",
                               {"op", "name", "kernel_size", "stride", "dilation", "save"},
                               {"rule", "padding", "kernel_shape", "offsets"}, layer));
  MINUET_ASSIGN(layer.name, read_text(object, "name"));
  MINUET_TRY(read_window(object, network, /*usual_size=*/1, layer));
  MINUET_TRY(read_rule(object, network, layer));
  return layer.is_reached ? check_reaches_by_box(layer) : llvm::Error::success();
}

void print_pooling(const LayerDescription& layer, i32 ndim, Object& object) {
  object["name"] = layer.name;
  print_window(layer, ndim, object);
  print_rule(layer, ndim, object);
}

llvm::Error build_pooling(GraphBuilder& graph, const LayerDescription& layer, Reduction reduction) {
  MINUET_ASSIGN(const i32 output,
                add_pooling(graph, layer.name, graph.current(), window_of(layer), reduction));
  graph.set_result(output);
  graph.record_window(layer.name);
  return llvm::Error::success();
}

OpEntry entry_of(const char* name, llvm::Error (*build)(GraphBuilder&, const LayerDescription&)) {
  return {name, read_pooling, print_pooling, build};
}

}  // namespace

llvm::Expected<i32> add_pooling_over(GraphBuilder& graph, const std::string& name, i32 input,
                                     const WindowRecord& window, bool is_backward, Reduction reduction) {
  const MapSpec& map = window.map;
  PoolingProblem problem;
  problem.ndim = graph.program().ndim;
  problem.dtype = graph.program().dtype;
  problem.kernel_size = map.kernel_size;
  problem.stride = window.stride;
  problem.dilation = map.dilation;
  problem.padding = map.padding;
  problem.offsets = map.offsets;
  problem.kind = is_backward              ? ConvolutionKind::Transposed
                 : map.coarse != map.fine ? ConvolutionKind::Strided
                                          : ConvolutionKind::Submanifold;
  problem.channels = graph.tensor(input).channels;
  problem.reduction = reduction;
  return graph.add_layer(name, input, is_backward ? map.fine : map.coarse, problem.channels, map, problem);
}

llvm::Expected<i32> add_pooling(GraphBuilder& graph, const std::string& name, i32 input, const Window& window,
                                Reduction reduction) {
  const i32 fine = graph.level_of(input);
  MINUET_ASSIGN(const i32 coarse, graph.level_below(fine, window));
  return add_pooling_over(graph, name, input, {map_of(fine, coarse, window), window.stride},
                          /*is_backward=*/false, reduction);
}

OpEntry max_pool_entry() {
  return entry_of("max_pool", [](GraphBuilder& graph, const LayerDescription& layer) {
    return build_pooling(graph, layer, Reduction::Max);
  });
}
OpEntry average_pool_entry() {
  return entry_of("average_pool", [](GraphBuilder& graph, const LayerDescription& layer) {
    return build_pooling(graph, layer, Reduction::Average);
  });
}
OpEntry sum_pool_entry() {
  return entry_of("sum_pool", [](GraphBuilder& graph, const LayerDescription& layer) {
    return build_pooling(graph, layer, Reduction::Sum);
  });
}

}  // namespace minuet
