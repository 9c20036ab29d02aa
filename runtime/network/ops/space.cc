#include "runtime/network/ops/space.h"

#include "codegen/choose/ops/space.h"
#include "runtime/network/description_fields.h"
#include "runtime/network/graph_builder.h"
#include "runtime/network/stride_between.h"

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
  const auto channels = static_cast<i32>(problem.channels * kernel_volume(problem));
  MINUET_ASSIGN(const i32 output,
                graph.add_layer(layer.name, input, coarse, channels, map_of(fine, coarse, problem), problem));
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

/// Returns the number of channels of level `fine`, or InvalidArgument if the layer's input, on level
/// `coarse`, does not have the features of `children` cells of it side by side. `onto` names a result on
/// level `fine`.
llvm::Expected<i32> channels_of_child(GraphBuilder& graph, const std::string& onto, i32 fine, i32 coarse,
                                      i64 children) {
  const std::vector<LevelSpec>& levels = graph.program().levels;
  const i32 channels = graph.tensor(graph.current()).channels;
  if (levels[fine].dropped_axes != levels[coarse].dropped_axes) {
    return make_error(StatusCode::InvalidArgument,
                      "\"{0}\" has an axis that the layer's input lacks, so its cells are no children of a "
                      "cell of the input: name an input or a result of the same axes",
                      onto);
  }
  if (children == 1) {
    return make_error(StatusCode::InvalidArgument,
                      "\"{0}\" has the tensor stride of the layer's input, so each cell would be its own "
                      "only child: name an input or a result of a finer level",
                      onto);
  }
  if (channels % children != 0) {
    return make_error(StatusCode::InvalidArgument,
                      "the layer's input has {0} channels, which are not a multiple of {1}, the number of "
                      "cells of \"{2}\" in a cell of the input",
                      channels, children_text(children), onto);
  }
  return static_cast<i32>(channels / children);
}

llvm::Error build_channel_to_space(GraphBuilder& graph, const LayerDescription& layer) {
  MINUET_ASSIGN(const i32 onto, graph.find_result(layer.skip, "onto"));
  const i32 input = graph.current(), fine = graph.level_of(onto), coarse = graph.level_of(input);
  MINUET_ASSIGN(const AxisArray stride,
                at("onto", stride_between(graph.program(), layer.skip, fine, coarse)));
  auto problem = make_space_problem<ChannelToSpaceProblem>(graph.program().ndim, graph.program().dtype,
                                                           /*channels=*/1, stride);
  MINUET_ASSIGN(problem.channels,
                at("onto", channels_of_child(graph, layer.skip, fine, coarse, kernel_volume(problem))));
  MINUET_ASSIGN(const i32 output, graph.add_layer(layer.name, input, fine, problem.channels,
                                                  map_of(fine, coarse, problem), problem));
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
