#include "runtime/network/ops/space.h"

#include "codegen/choose/ops/space.h"
#include "runtime/network/description_fields.h"
#include "runtime/network/graph_builder.h"
#include "runtime/network/ops/unpooling.h"

namespace minuet {
namespace {

using llvm::json::Object;

llvm::Error read_space_to_channel(const Object& object, const NetworkDescription& network,
                                  LayerDescription& layer) {
  MINUET_TRY(
      read_layer_fields(object, "the op space_to_channel", {"op", "name", "stride", "save"}, {}, layer));
  MINUET_ASSIGN(layer.name, read_text(object, "name"));
  return read_stride(object, network, layer);
}

void print_space_to_channel(const LayerDescription& layer, i32 ndim, Object& object) {
  object["name"] = layer.name;
  print_stride(layer, ndim, object);
}

llvm::Error build_space_to_channel(GraphBuilder& graph, const LayerDescription& layer) {
  const i32 input = graph.current(), fine = graph.level_of(input);
  const auto problem = make_space_problem<SpaceToChannelProblem>(graph.program().ndim, graph.program().dtype,
                                                                 graph.tensor(input).channels, layer.stride);
  MINUET_TRY(at("stride", validate(problem)));
  Window window;
  window.stride = layer.stride;
  MINUET_ASSIGN(const i32 coarse, graph.level_below(fine, window));
  const MapSpec map{fine, coarse, problem.kernel_size, problem.dilation, problem.padding};
  const auto channels = static_cast<i32>(problem.channels * kernel_volume(problem));
  MINUET_ASSIGN(const i32 output, graph.add_layer(layer.name, input, coarse, channels, map, problem));
  graph.set_result(output);
  return llvm::Error::success();
}

llvm::Error read_channel_to_space(const Object& object, const NetworkDescription& /*network*/,
                                  LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the op channel_to_space", {"op", "name", "onto", "save"}, {}, layer));
  MINUET_ASSIGN(layer.name, read_text(object, "name"));
  MINUET_ASSIGN(layer.skip, read_text(object, "onto"));
  return llvm::Error::success();
}

void print_channel_to_space(const LayerDescription& layer, i32 /*ndim*/, Object& object) {
  object["name"] = layer.name;
  object["onto"] = layer.skip;
}

/// Returns InvalidArgument unless the channels of the layer's input are those of all children of a cell.
llvm::Error check_channels(i32 channels, i64 children, const std::string& onto) {
  if (channels % children == 0) return llvm::Error::success();
  return make_error(
      StatusCode::InvalidArgument,
      "the layer's input has {0} channels, which are not a multiple of {1}, the number of cells "
      "of \"{2}\" in a cell of the input",
      channels, children, onto);
}

llvm::Error build_channel_to_space(GraphBuilder& graph, const LayerDescription& layer) {
  MINUET_ASSIGN(const i32 onto, graph.find_result(layer.skip, "onto"));
  const i32 input = graph.current(), fine = graph.level_of(onto), channels = graph.tensor(input).channels;
  MINUET_ASSIGN(const WindowRecord window, find_cells_map(graph, layer.skip, fine));
  // The channels of a child are known only when the number of children is known to be valid.
  auto problem = make_space_problem<ChannelToSpaceProblem>(graph.program().ndim, graph.program().dtype,
                                                           /*channels=*/1, window.stride);
  MINUET_TRY(at("onto", validate(problem)));
  const i64 children = kernel_volume(problem);
  MINUET_TRY(at("onto", check_channels(channels, children, layer.skip)));
  problem.channels = static_cast<i32>(channels / children);
  MINUET_ASSIGN(const i32 output,
                graph.add_layer(layer.name, input, fine, problem.channels, window.map, problem));
  graph.set_result(output);
  return llvm::Error::success();
}

}  // namespace

OpEntry space_to_channel_entry() {
  return {"space_to_channel", read_space_to_channel, print_space_to_channel, build_space_to_channel};
}
OpEntry channel_to_space_entry() {
  return {"channel_to_space", read_channel_to_space, print_channel_to_space, build_channel_to_space};
}

}  // namespace minuet
