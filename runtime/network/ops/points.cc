#include "runtime/network/ops/points.h"

#include <cmath>

#include "codegen/choose/ops/points.h"
#include "runtime/network/description_fields.h"
#include "runtime/network/graph_builder.h"

namespace minuet {
namespace {

using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;

// The names are in the order of PointReduction and of PointBlend.
constexpr const char* kFeatureNames[] = {"mean", "max", "sum", "first"};
constexpr const char* kBlendNames[] = {"nearest", "centres", "corners"};

/// Reads an array of one number for each axis.
llvm::Error read_floats(const Value& value, llvm::StringRef field, i32 ndim, float* numbers) {
  const Array* const array = value.getAsArray();
  bool is_valid = array && array->size() == static_cast<std::size_t>(ndim);
  for (i32 a = 0; a < ndim && is_valid; ++a) {
    const auto number = (*array)[static_cast<std::size_t>(a)].getAsNumber();
    is_valid = number && std::isfinite(static_cast<float>(*number));
    if (is_valid) numbers[a] = static_cast<float>(*number);
  }
  if (is_valid) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument,
                    "\"{0}\" must be a list of {1} numbers, one for each axis of the network", field, ndim);
}

Array floats_json(const float* numbers, i32 ndim) {
  Array array;
  for (i32 a = 0; a < ndim; ++a) array.push_back(static_cast<double>(numbers[a]));
  return array;
}

/// Reads a field whose value is one of `names` into the number of the name.
template <class Enumeration, std::size_t N>
llvm::Error read_name(const Object& object, llvm::StringRef field, const char* const (&names)[N],
                      Enumeration& value) {
  std::string text = names[static_cast<std::size_t>(value)], all;
  MINUET_TRY(read_optional_text(object, field, text));
  for (std::size_t i = 0; i < N; ++i) {
    if (text == names[i]) {
      value = static_cast<Enumeration>(i);
      return llvm::Error::success();
    }
    all += (i == 0 ? "\"" : ", \"") + std::string(names[i]) + "\"";
  }
  return at(field, make_error(StatusCode::InvalidArgument, "\"{0}\" must be one of {1}", field, all));
}

llvm::Error read_range(const Object& object, i32 ndim, PointGrid& grid) {
  const Value *const range = object.get("range"), *const low = object.get("low");
  if (range && low) {
    return at("low", make_error(StatusCode::InvalidArgument,
                                "\"low\" and \"range\" are both given, but the range begins at its own low "
                                "end: leave \"low\" out"));
  }
  if (low) return at("low", read_floats(*low, "low", ndim, grid.low));
  if (!range) return llvm::Error::success();
  const Array* const ends = range->getAsArray();
  if (!ends || ends->size() != 2) {
    return at("range", make_error(StatusCode::InvalidArgument,
                                  "\"range\" must be a list of two lists: the low and the high ends of the "
                                  "range on each axis"));
  }
  grid.has_range = 1;
  MINUET_TRY(at("range", at(element("", 0), read_floats((*ends)[0], "range", ndim, grid.low))));
  return at("range", at(element("", 1), read_floats((*ends)[1], "range", ndim, grid.high)));
}

llvm::Error read_limit(const Object& object, llvm::StringRef field, i64& limit) {
  const Value* const value = object.get(field);
  if (!value) return llvm::Error::success();
  const auto number = value->getAsInteger();
  if (!number || *number < 0) {
    return at(field,
              make_error(StatusCode::InvalidArgument,
                         "\"{0}\" must be a whole number of at least 0, where 0 means no limit", field));
  }
  limit = *number;
  return llvm::Error::success();
}

llvm::Error read_voxelize(const Object& object, const NetworkDescription& network, LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the op voxelize",
                               {"op", "voxel_size", "range", "low", "feature", "first_column", "channels"},
                               {"most_points_per_voxel", "most_voxels", "save"}, layer));
  PointFields& fields = layer.points;
  const Value* const size = object.get("voxel_size");
  if (!size) {
    return at("voxel_size", make_error(StatusCode::InvalidArgument, "\"voxel_size\" is missing"));
  }
  MINUET_TRY(at("voxel_size", read_floats(*size, "voxel_size", network.ndim, fields.grid.size)));
  MINUET_TRY(read_range(object, network.ndim, fields.grid));
  MINUET_TRY(
      at(fields.grid.has_range != 0 ? "range" : "voxel_size", complete_grid(network.ndim, fields.grid)));
  MINUET_TRY(read_name(object, "feature", kFeatureNames, fields.reduction));
  if (const Value* const column = object.get("first_column")) {
    MINUET_ASSIGN(fields.first_column, read_size(*column, "first_column", {0, kMostChannels}));
  }
  if (const Value* const channels = object.get("channels")) {
    MINUET_ASSIGN(fields.channels, read_size(*channels, "channels"));
  }
  MINUET_TRY(read_limit(object, "most_points_per_voxel", fields.most_points_per_voxel));
  return read_limit(object, "most_voxels", fields.most_voxels);
}

void print_voxelize(const LayerDescription& layer, i32 ndim, Object& object) {
  const PointFields& fields = layer.points;
  object["voxel_size"] = floats_json(fields.grid.size, ndim);
  if (fields.grid.has_range != 0) {
    object["range"] = Array{floats_json(fields.grid.low, ndim), floats_json(fields.grid.high, ndim)};
  } else {
    object["low"] = floats_json(fields.grid.low, ndim);
  }
  object["feature"] = kFeatureNames[static_cast<i32>(fields.reduction)];
  object["first_column"] = fields.first_column;
  if (fields.channels != 0) object["channels"] = fields.channels;
  object["most_points_per_voxel"] = fields.most_points_per_voxel;
  object["most_voxels"] = fields.most_voxels;
}

/// Returns the shape of the voxels' level: that of the network, if its description has one, and otherwise the
/// cells of the range.
llvm::Expected<AxisArray> shape_of(const NetworkDescription& network, const PointGrid& grid) {
  AxisArray shape = network.shape;
  for (i32 a = 0; a < network.ndim && grid.has_range != 0; ++a) {
    if (shape[a] == 0) shape[a] = grid.cells[a];
    if (shape[a] >= grid.cells[a]) continue;
    return at("range",
              make_error(StatusCode::InvalidArgument,
                         "the range has {0} voxels on axis {1}, but the network's shape has only {2} "
                         "cells: use a larger shape, or leave it out",
                         grid.cells[a], a, shape[a]));
  }
  return shape;
}

llvm::Error build_voxelize(GraphBuilder& graph, const LayerDescription& layer) {
  Program& program = graph.program();
  if (!program.layers.empty() || !program.levels.front().holds_points || !layer.input.empty()) {
    return at("op",
              make_error(StatusCode::InvalidArgument,
                         "voxelize takes the points that run is given, so it can only be the first layer "
                         "of a network, without \"input\""));
  }
  const PointFields& fields = layer.points;
  const i32 columns = graph.tensor(graph.current()).channels;
  VoxelizeProblem problem;
  problem.ndim = program.ndim;
  problem.dtype = program.dtype;
  problem.column = fields.first_column;
  problem.channels = fields.channels != 0 ? fields.channels : columns - fields.first_column;
  problem.reduction = fields.reduction;
  problem.grid = fields.grid;
  problem.most_points_per_voxel = fields.most_points_per_voxel;
  problem.most_voxels = fields.most_voxels;
  if (columns < program.ndim || problem.channels < 1 || problem.column + problem.channels > columns) {
    return at(
        "channels",
        make_error(StatusCode::InvalidArgument,
                   "a point has {0} columns, of which the first {1} are its position: columns {2} to {3} "
                   "cannot be its features",
                   columns, program.ndim, problem.column, problem.column + problem.channels - 1));
  }
  LevelSpec voxels;
  voxels.made_by = 0;
  MINUET_ASSIGN(voxels.shape, shape_of(graph.description(), problem.grid));
  program.levels.push_back(voxels);
  MINUET_ASSIGN(const i32 output,
                graph.add_mapless("voxelize 0", graph.current(), /*level=*/1, problem.channels, problem));
  graph.set_result(output);
  return llvm::Error::success();
}

llvm::Error read_devoxelize(const Object& object, const NetworkDescription& /*network*/,
                            LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the op devoxelize", {"op", "blend", "save"}, {}, layer));
  return read_name(object, "blend", kBlendNames, layer.points.blend);
}

void print_devoxelize(const LayerDescription& layer, i32 /*ndim*/, Object& object) {
  object["blend"] = kBlendNames[static_cast<i32>(layer.points.blend)];
}

/// Returns InvalidArgument if features of the level cannot be given to points.
llvm::Error check_voxels(const Program& program, i32 level, PointBlend blend) {
  if (!program.takes_points()) {
    return at("op",
              make_error(StatusCode::InvalidArgument,
                         "devoxelize gives features to the points of which voxelize made the voxels, but "
                         "the network does not begin with voxelize"));
  }
  const LevelSpec& spec = program.levels[level];
  if (spec.holds_points || spec.dropped_axes != 0) {
    return at("input", make_error(StatusCode::InvalidArgument,
                                  "the layer's input must lie on voxels with all axes of the network"));
  }
  if (blend != PointBlend::Nearest || level == 1) return llvm::Error::success();
  return at("blend", make_error(StatusCode::InvalidArgument,
                                "the layer's input is not on the level that voxelize made, whose rows the "
                                "points know: use \"centres\" or \"corners\""));
}

llvm::Error build_devoxelize(GraphBuilder& graph, const LayerDescription& layer) {
  Program& program = graph.program();
  const i32 level = graph.level_of(graph.current());
  MINUET_TRY(check_voxels(program, level, layer.points.blend));
  DevoxelizeProblem problem;
  problem.ndim = program.ndim;
  problem.dtype = program.dtype;
  problem.channels = graph.tensor(graph.current()).channels;
  problem.blend = layer.points.blend;
  if (problem.blends()) {
    problem.grid = program.layers.front().problem.get<VoxelizeProblem>().grid;
    problem.tensor_stride = program.levels[level].tensor_stride;
  }
  const std::string name = "devoxelize " + std::to_string(program.layers.size());
  MINUET_ASSIGN(const i32 output,
                graph.add_mapless(name, graph.current(), /*level=*/0, problem.channels, problem));
  graph.set_result(output);
  return llvm::Error::success();
}

}  // namespace

OpEntry voxelize_entry() { return {"voxelize", read_voxelize, print_voxelize, build_voxelize}; }
OpEntry devoxelize_entry() { return {"devoxelize", read_devoxelize, print_devoxelize, build_devoxelize}; }

}  // namespace minuet
