#include "runtime/network/ops/union.h"

#include "codegen/choose/ops/pooling.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/network/description_fields.h"
#include "runtime/network/graph_builder.h"
#include "runtime/network/ops/concat.h"
#include "runtime/network/ops/pointwise.h"

namespace minuet {
namespace {

using llvm::json::Object;

constexpr const char* kCombineNames[] = {"add", "concat"};

llvm::Error read_union(const Object& object, const NetworkDescription& /*network*/, LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, std::string("the op ") + op_name(layer.op),
                               {"op", "name", "with", "combine", "save"}, {}, layer));
  MINUET_ASSIGN(layer.name, read_text(object, "name"));
  MINUET_ASSIGN(layer.skip, read_text(object, "with"));
  if (!object.get("combine")) return llvm::Error::success();
  const auto combine = object.getString("combine");
  if (!combine || !llvm::is_contained(kCombineNames, *combine)) {
    return at("combine",
              make_error(StatusCode::InvalidArgument, "\"combine\" must be \"add\" or \"concat\""));
  }
  layer.concatenates = *combine == kCombineNames[1];
  return llvm::Error::success();
}

void print_union(const LayerDescription& layer, i32 /*ndim*/, Object& object) {
  object["name"] = layer.name;
  object["with"] = layer.skip;
  object["combine"] = kCombineNames[layer.concatenates ? 1 : 0];
}

/// Adds the copy of a tensor onto a union or an intersection of its level. The kernel map has one offset, so
/// each row there has at most one partner, and every reduction is a copy. Rows without a partner become 0.
[[gnu::cold]] llvm::Expected<i32> add_copy(GraphBuilder& graph, const std::string& name, i32 input,
                                           i32 level) {
  PoolingProblem problem;
  problem.ndim = graph.program().ndim;
  problem.dtype = graph.program().dtype;
  problem.kind = ConvolutionKind::GivenOutputs;
  problem.channels = graph.tensor(input).channels;
  problem.reduction = Reduction::Max;
  MapSpec map;
  map.fine = graph.level_of(input);
  map.coarse = level;
  return graph.add_layer(name, input, level, problem.channels, map, problem);
}

[[gnu::cold]] llvm::Error build_union(GraphBuilder& graph, const LayerDescription& layer) {
  const bool is_intersection = layer.op == LayerDescription::Op::Intersection;
  const i32 first = graph.current();
  MINUET_ASSIGN(const i32 second, graph.find_result(layer.skip, "with"));
  MINUET_TRY(layer.concatenates ? check_concat(graph, layer.skip, second)
                                : check_same_channels(graph, layer.skip, second));
  MINUET_TRY(graph.take_name(layer.name));
  const auto combine = [&](i32 with) {
    return layer.concatenates ? add_concat(graph, with) : add_sum(graph, with);
  };
  if (graph.level_of(first) == graph.level_of(second)) return combine(second);
  const LevelSpec &one = graph.program().levels[graph.level_of(first)],
                  &other = graph.program().levels[graph.level_of(second)];
  if (one.dropped_axes != other.dropped_axes || one.holds_items || other.holds_items) {
    return at("with",
              make_error(StatusCode::InvalidArgument,
                         "\"{0}\" and the layer's input must have the same axes: {1} is of voxels, and a "
                         "collapse of one input needs one of the other",
                         layer.skip, is_intersection ? "an intersection" : "a union"));
  }
  MINUET_ASSIGN(const i32 level, at("with", graph.combination_of(graph.level_of(first),
                                                                 graph.level_of(second), is_intersection)));
  MINUET_ASSIGN(const i32 augend, add_copy(graph, layer.name + ".input", first, level));
  MINUET_ASSIGN(const i32 addend, add_copy(graph, layer.name + ".with", second, level));
  graph.set_result(augend);
  return combine(addend);
}

}  // namespace

OpEntry union_entry() { return {"union", read_union, print_union, build_union}; }
OpEntry intersection_entry() { return {"intersection", read_union, print_union, build_union}; }

}  // namespace minuet
