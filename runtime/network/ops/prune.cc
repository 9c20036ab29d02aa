#include "runtime/network/ops/prune.h"

#include <algorithm>
#include <cmath>

#include "runtime/network/description_fields.h"

namespace minuet {
namespace {

using llvm::json::Object;
using llvm::json::Value;

constexpr i32 kUsualStride = 2;

/// Reads "by" and the rule by which rows are kept.
llvm::Error read_kept(const Object& object, const NetworkDescription& network, LayerDescription& layer) {
  MINUET_ASSIGN(layer.skip, read_text(object, "by"));
  const Value *const threshold = object.get("threshold"), *const top_k = object.get("top_k");
  layer.kept.by_mask = llvm::any_of(network.inputs, [&](const InputDescription& input) {
    return input.is_mask && input.name == layer.skip;
  });
  if (layer.kept.by_mask && (threshold || top_k)) {
    return at(threshold ? "threshold" : "top_k",
              make_error(StatusCode::InvalidArgument,
                         "\"{0}\" is a mask, which says of each row whether it is kept, and has no scores: "
                         "leave \"threshold\" and \"top_k\" out",
                         layer.skip));
  }
  if (threshold && top_k) {
    return at("top_k", make_error(StatusCode::InvalidArgument,
                                  "\"threshold\" and \"top_k\" are both given: leave one of them out"));
  }
  if (threshold) {
    const auto number = threshold->getAsNumber();
    if (!number || !std::isfinite(static_cast<float>(*number))) {
      return at("threshold",
                make_error(StatusCode::InvalidArgument, "\"threshold\" must be a finite number"));
    }
    layer.kept.threshold = static_cast<float>(*number);
  }
  if (!top_k) return llvm::Error::success();
  MINUET_ASSIGN(layer.kept.best, read_size(*top_k, "top_k", {1, kMostCells}));
  return llvm::Error::success();
}

void print_kept(const LayerDescription& layer, Object& object) {
  object["by"] = layer.skip;
  if (layer.kept.by_mask) return;
  if (layer.kept.best > 0) {
    object["top_k"] = layer.kept.best;
  } else {
    object["threshold"] = static_cast<double>(layer.kept.threshold);
  }
}

llvm::Error read_prune(const Object& object, const NetworkDescription& network, LayerDescription& layer) {
  MINUET_TRY(
      read_layer_fields(object, "the op prune", {"op", "by", "threshold", "top_k", "save"}, {}, layer));
  return read_kept(object, network, layer);
}

void print_prune(const LayerDescription& layer, i32 /*ndim*/, Object& object) { print_kept(layer, object); }

llvm::Error read_subdivide(const Object& object, const NetworkDescription& network, LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the op subdivide",
                               {"op", "by", "threshold", "top_k", "stride", "features", "save"}, {}, layer));
  MINUET_TRY(read_kept(object, network, layer));
  std::fill_n(layer.stride.begin(), network.ndim, kUsualStride);
  if (const Value* const stride = object.get("stride")) {
    MINUET_ASSIGN(layer.stride, read_axes(*stride, "stride", network.ndim));
  }
  std::string features = "copy";
  MINUET_TRY(read_optional_text(object, "features", features));
  layer.kept.divides_channels = features == "channel_to_space";
  if (layer.kept.divides_channels || features == "copy") return llvm::Error::success();
  return at("features",
            make_error(StatusCode::InvalidArgument, "\"features\" must be \"copy\" or \"channel_to_space\""));
}

void print_subdivide(const LayerDescription& layer, i32 ndim, Object& object) {
  print_kept(layer, object);
  object["stride"] = axes_json(layer.stride, ndim);
  object["features"] = layer.kept.divides_channels ? "channel_to_space" : "copy";
}

/// Returns the problem of a layer without its children.
PruneProblem problem_of(GraphBuilder& graph, const LayerDescription& layer) {
  PruneProblem problem;
  problem.select.ndim = graph.program().ndim;
  problem.select.dtype = graph.program().dtype;
  problem.select.rule = layer.kept.by_mask    ? SelectRule::Mask
                        : layer.kept.best > 0 ? SelectRule::Best
                                              : SelectRule::Above;
  problem.select.threshold = layer.kept.threshold;
  problem.select.best = layer.kept.best;
  problem.in_channels = graph.tensor(graph.current()).channels;
  problem.divides_channels = layer.kept.divides_channels;
  return problem;
}

/// Returns the scores or the mask, which have `channels` channels and lie on the level of the layer's input.
llvm::Expected<i32> find_scores(GraphBuilder& graph, const LayerDescription& layer, i64 channels) {
  const LevelSpec& level = graph.program().levels[graph.level_of(graph.current())];
  if (level.holds_items || level.holds_points || level.dropped_axes != 0) {
    return at("input",
              make_error(StatusCode::InvalidArgument,
                         "only rows of voxels with all axes of the network can be kept: name a result on "
                         "such a level"));
  }
  MINUET_ASSIGN(const i32 by, graph.find_result(layer.skip, "by"));
  if (graph.level_of(by) != graph.level_of(graph.current())) {
    return at(
        "by",
        make_error(StatusCode::InvalidArgument,
                   "\"{0}\" has scores for another level than that of the layer's input: name a result on "
                   "the same level",
                   layer.skip));
  }
  if (graph.tensor(by).channels == channels) return by;
  return at("by", make_error(StatusCode::InvalidArgument,
                             "\"{0}\" has {1} channels, but the layer needs {2} {3}{4} for each row",
                             layer.skip, graph.tensor(by).channels, channels,
                             layer.kept.by_mask ? "byte" : "score", channels == 1 ? "" : "s"));
}

llvm::Error build_prune(GraphBuilder& graph, const LayerDescription& layer) {
  MINUET_ASSIGN(const i32 by, find_scores(graph, layer, 1));
  LevelSpec made = graph.program().levels[graph.level_of(graph.current())];
  return add_made_level(graph, problem_of(graph, layer), by, made);
}

llvm::Error build_subdivide(GraphBuilder& graph, const LayerDescription& layer) {
  PruneProblem problem = problem_of(graph, layer);
  problem.select.children = layer.stride;
  LevelSpec made = graph.program().levels[graph.level_of(graph.current())];
  for (i32 a = 0; a < graph.program().ndim; ++a) {
    const i32 tensor_stride = made.tensor_stride[a], stride = layer.stride[a];
    if (tensor_stride % stride != 0) {
      return at("stride",
                make_error(StatusCode::InvalidArgument,
                           "axis {0}: the children would have the tensor stride {1} / {2}, which is no whole "
                           "number: use a stride that divides {1}",
                           a, tensor_stride, stride));
    }
    made.tensor_stride[a] = problem.select.child_step[a] = tensor_stride / stride;
    const i64 cells = i64{made.shape[a]} * stride;
    if (cells > kMostCells) {
      return at("stride",
                make_error(StatusCode::InvalidArgument,
                           "axis {0}: the result would have a shape of {1} cells; it must be at most "
                           "{2}",
                           a, cells, kMostCells));
    }
    made.shape[a] = static_cast<i32>(cells);
  }
  MINUET_ASSIGN(const i32 by, find_scores(graph, layer, problem.select.children_of_row()));
  return add_made_level(graph, problem, by, made);
}

/// Returns the layer that has made a level of the tensor `by` by the same rule, or null.
const ProgramLayer* find_maker(const Program& program, const PruneProblem& problem, i32 by) {
  for (const ProgramLayer& layer : program.layers) {
    const auto* const other = layer.problem.get_if<PruneProblem>();
    if (!other || !other->makes_level || !other->is_same_level(problem)) continue;
    const i32 read = layer.operands.empty() ? layer.input : layer.operands.front();
    if (read == by) return &layer;
  }
  return nullptr;
}

}  // namespace

llvm::Error add_made_level(GraphBuilder& graph, PruneProblem problem, i32 by, LevelSpec made) {
  Program& program = graph.program();
  const ProgramLayer* const maker = find_maker(program, problem, by);
  const bool is_of_cells = problem.select.rule == SelectRule::NonZero;
  if (maker && is_of_cells) {
    // The features are those of the same cells, so the earlier layer has written them already.
    graph.set_result(maker->output);
    return llvm::Error::success();
  }
  problem.makes_level = maker == nullptr;
  i32 level = maker ? program.tensors[maker->output].level : -1;
  const auto number = static_cast<i32>(program.layers.size());
  if (problem.makes_level) {
    made.parent = made.other_parent = -1;
    made.is_intersection = made.keeps_coordinates = made.is_dense = false;
    made.reach.reset();
    made.made_by = number;
    level = static_cast<i32>(program.levels.size());
    program.levels.push_back(made);
  }
  const std::string name = "prune " + std::to_string(number);
  const i32 input = graph.current();
  MINUET_ASSIGN(const i32 output, graph.add_mapless(name, input, level, problem.out_channels(), problem));
  if (problem.makes_level && !is_of_cells) program.layers.back().operands = {by};
  graph.set_result(output);
  return llvm::Error::success();
}

OpEntry prune_entry() { return {"prune", read_prune, print_prune, build_prune}; }
OpEntry subdivide_entry() { return {"subdivide", read_subdivide, print_subdivide, build_subdivide}; }

}  // namespace minuet
