#include "runtime/network/ops/dense.h"

#include <algorithm>

#include "codegen/choose/ops/dense.h"
#include "runtime/network/description_fields.h"
#include "runtime/network/graph_builder.h"
#include "runtime/network/ops/prune.h"

namespace minuet {
namespace {

using llvm::json::Array;
using llvm::json::Object;

constexpr i32 kImageAxes = 2, kBirdsEyeAxes = 3;

llvm::Error read_to_dense(const Object& object, const NetworkDescription& /*network*/,
                          LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the op to_dense", {"op", "format", "save"}, {}, layer));
  std::string format = "channels_first";
  MINUET_TRY(read_optional_text(object, "format", format));
  layer.dense.channels_last = format == "channels_last";
  if (layer.dense.channels_last || format == "channels_first") return llvm::Error::success();
  return at("format", make_error(StatusCode::InvalidArgument,
                                 "\"format\" must be \"channels_first\" or \"channels_last\""));
}

void print_to_dense(const LayerDescription& layer, i32 /*ndim*/, Object& object) {
  object["format"] = layer.dense.channels_last ? "channels_last" : "channels_first";
}

llvm::Error read_birds_eye(const Object& object, const NetworkDescription& network, LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the op birds_eye", {"op", "image_axes", "save"}, {}, layer));
  if (network.ndim != kBirdsEyeAxes) {
    return make_error(StatusCode::InvalidArgument,
                      "a bird's-eye image needs a network of 3 axes, and this one has {0}: use to_dense",
                      network.ndim);
  }
  std::vector<i32>& axes = layer.dense.image_axes;
  const Array* const given = object.getArray("image_axes");
  for (std::size_t i = 0; given && i < given->size(); ++i) {
    const auto axis = (*given)[i].getAsInteger();
    axes.push_back(axis && *axis >= 0 && *axis < network.ndim ? static_cast<i32>(*axis) : -1);
  }
  if (axes.size() == kImageAxes && axes[0] >= 0 && axes[1] >= 0 && axes[0] != axes[1]) {
    return llvm::Error::success();
  }
  return at("image_axes",
            make_error(StatusCode::InvalidArgument,
                       "\"image_axes\" must be two different axes of 0 to 2, for example [1, 0] "
                       "for an image of shape [Y, X]"));
}

void print_birds_eye(const LayerDescription& layer, i32 /*ndim*/, Object& object) {
  object["image_axes"] = Array(layer.dense.image_axes);
}

llvm::Error read_from_dense(const Object& object, const NetworkDescription& /*network*/,
                            LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the op from_dense", {"op", "onto", "new_level", "save"}, {}, layer));
  if (const llvm::json::Value* const new_level = object.get("new_level")) {
    MINUET_ASSIGN(layer.makes_level, read_flag(*new_level, "new_level"));
  }
  if (layer.makes_level && object.get("onto")) {
    return at("onto", make_error(StatusCode::InvalidArgument,
                                 "\"onto\" names a level, but \"new_level\" asks for a new one: leave one of "
                                 "them out"));
  }
  if (layer.makes_level) return llvm::Error::success();
  MINUET_ASSIGN(layer.skip, read_text(object, "onto"));
  return llvm::Error::success();
}

void print_from_dense(const LayerDescription& layer, i32 /*ndim*/, Object& object) {
  if (layer.makes_level) {
    object["new_level"] = true;
  } else {
    object["onto"] = layer.skip;
  }
}

/// Returns the layout of a dense tensor of a level. Its axes are those of the level, or those of a bird's-eye
/// image behind the axis that the image does not have.
DenseLayout layout_of(const LevelSpec& level, const DenseFields& fields) {
  DenseLayout layout;
  layout.tensor_stride = level.tensor_stride;
  for (i32 a = 0; a < kMaxDim; ++a) layout.shape[a] = std::max(level.shape[a], 1);
  layout.channels_last = fields.channels_last;
  if (fields.image_axes.empty()) return layout;
  layout.order[1] = fields.image_axes[0];
  layout.order[2] = fields.image_axes[1];
  layout.order[0] = kBirdsEyeAxes - layout.order[1] - layout.order[2];
  return layout;
}

/// Returns the extents of the dense tensor's axes behind the batch axis, or OutOfRange if one is too large.
/// `dropped_axes` are those that the level lacks.
llvm::Expected<std::vector<i64>> dims_of(i32 ndim, u32 dropped_axes, i64 channels, const DenseLayout& layout,
                                         bool is_birds_eye) {
  std::vector<i64> dims;
  dims.reserve(static_cast<std::size_t>(ndim) + 1);
  for (i32 i = 0; i < ndim; ++i) {
    if ((dropped_axes >> layout.order[i] & 1) == 0) dims.push_back(layout.shape[layout.order[i]]);
  }
  if (is_birds_eye) {
    dims[0] *= channels;
  } else {
    dims.insert(layout.channels_last ? dims.end() : dims.begin(), channels);
  }
  for (const i64 dim : dims) {
    if (dim <= INT32_MAX) continue;
    return make_error(StatusCode::OutOfRange,
                      "an axis of the dense tensor would have {0} elements; at most 2^31 - 1 are allowed",
                      dim);
  }
  return dims;
}

DenseProblem problem_of(const Program& program, i32 channels, const DenseLayout& layout) {
  DenseProblem problem;
  problem.ndim = program.ndim;
  problem.dtype = program.dtype;
  problem.channels = channels;
  problem.layout = layout;
  return problem;
}

/// Appends an op that reads the coordinates of a level, and makes its output the layer's result.
llvm::Error add_op(GraphBuilder& graph, i32 level, i32 output, const OpProblem& problem) {
  MINUET_TRY(validate(problem));
  Program& program = graph.program();
  ProgramLayer layer(problem);
  // The op has no parameters, so its name need not be one of the description. A space keeps it unique.
  layer.name = std::string(problem.kind().name) + " " + std::to_string(program.layers.size());
  layer.map = -1;
  layer.coordinates_level = level;
  layer.input = graph.current();
  layer.output = output;
  program.levels[level].keeps_coordinates = program.levels[level].is_dense = true;
  program.layers.push_back(std::move(layer));
  graph.set_result(output);
  return llvm::Error::success();
}

llvm::Error build_to_dense(GraphBuilder& graph, const LayerDescription& layer) {
  Program& program = graph.program();
  const i32 level = graph.level_of(graph.current()), channels = graph.tensor(graph.current()).channels;
  const LevelSpec& spec = program.levels[level];
  if (axes_of(program, level).empty()) {
    return at("input",
              make_error(StatusCode::InvalidArgument,
                         "the level of the layer's input has no axes, so no grid of cells: leave the "
                         "layer out, or use global_pool instead"));
  }
  const bool is_birds_eye = layer.op == LayerDescription::Op::BirdsEye;
  if (is_birds_eye && spec.dropped_axes != 0) {
    return at("input",
              make_error(StatusCode::InvalidArgument,
                         "a bird's-eye image needs a level of 3 axes, but the layer's input lacks one: "
                         "use to_dense"));
  }
  if (spec.shape[0] == 0) {
    return make_error(StatusCode::InvalidArgument,
                      "the level of the layer's input has no shape, from which the size of the dense tensor "
                      "follows: give the network \"shape\", the number of cells of its input on each axis");
  }
  const DenseLayout layout = layout_of(spec, layer.dense);
  const ToDenseProblem problem{problem_of(program, channels, layout)};
  MINUET_ASSIGN(std::vector<i64> dims,
                dims_of(program.ndim, spec.dropped_axes, channels, layout, is_birds_eye));
  const i32 output = graph.add_tensor(level, channels);
  program.tensors[output].dims = std::move(dims);
  program.storages[program.tensors[output].storage].item_elements = cells_of(program.ndim, layout) * channels;
  return add_op(graph, level, output, problem);
}

/// Returns the op that made the dense tensor, or null if the tensor is not dense.
const ToDenseProblem* find_maker(const Program& program, i32 tensor) {
  for (const ProgramLayer& layer : program.layers) {
    if (layer.output == tensor) return layer.problem.get_if<ToDenseProblem>();
  }
  return nullptr;
}

/// Makes a level of the cells of a dense tensor that are not 0.
llvm::Error build_new_level(GraphBuilder& graph, const ToDenseProblem& maker) {
  PruneProblem problem;
  problem.select.ndim = graph.program().ndim;
  problem.select.dtype = graph.program().dtype;
  problem.select.source = SelectSource::Cells;
  problem.select.rule = SelectRule::NonZero;
  problem.select.layout = maker.layout;
  problem.select.channels = problem.in_channels = maker.channels;
  const LevelSpec& made = graph.program().levels[graph.level_of(graph.current())];
  if (made.dropped_axes != 0) {
    return at("input", make_error(StatusCode::InvalidArgument,
                                  "a new level needs a dense tensor with all axes of the network"));
  }
  return add_made_level(graph, problem, graph.current(), made);
}

llvm::Error build_from_dense(GraphBuilder& graph, const LayerDescription& layer) {
  Program& program = graph.program();
  const ToDenseProblem* const maker = find_maker(program, graph.current());
  if (maker == nullptr) {
    return at("input", make_error(StatusCode::InvalidArgument,
                                  "the layer's input is no dense tensor: name the result of to_dense or "
                                  "birds_eye"));
  }
  if (layer.makes_level) return build_new_level(graph, *maker);
  MINUET_ASSIGN(const i32 onto, graph.find_result(layer.skip, "onto"));
  const i32 level = graph.level_of(onto);
  const LevelSpec &spec = program.levels[level], &made = program.levels[graph.level_of(graph.current())];
  if (spec.tensor_stride != made.tensor_stride || spec.shape != made.shape ||
      spec.dropped_axes != made.dropped_axes) {
    return at("onto",
              make_error(StatusCode::InvalidArgument,
                         "the level of \"{0}\" has another shape, tensor stride or set of axes than that "
                         "of the dense tensor: they must be the same",
                         layer.skip));
  }
  const FromDenseProblem problem{problem_of(program, maker->channels, maker->layout)};
  return add_op(graph, level, graph.add_tensor(level, problem.channels), problem);
}

}  // namespace

OpEntry to_dense_entry() { return {"to_dense", read_to_dense, print_to_dense, build_to_dense}; }
OpEntry birds_eye_entry() { return {"birds_eye", read_birds_eye, print_birds_eye, build_to_dense}; }
OpEntry from_dense_entry() { return {"from_dense", read_from_dense, print_from_dense, build_from_dense}; }

}  // namespace minuet
