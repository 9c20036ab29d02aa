#include "runtime/network/graph_builder.h"

#include <algorithm>
#include <climits>
#include <numeric>

#include "llvm/ADT/STLExtras.h"
#include "runtime/program/stages.h"

namespace minuet {
namespace {

/// Returns the number of cells of the outputs of an op over an input of `cells` cells on an axis.
i64 cells_below(i64 cells, const Window& window, i32 axis) {
  const i64 stride = window.stride[axis];
  if (!window.padding) return (cells + stride - 1) / stride;
  const i64 covered = i64{window.dilation[axis]} * (window.kernel_size[axis] - 1) + 1;
  const i64 steps = cells + 2 * i64{(*window.padding)[axis]} - covered;
  return steps < 0 ? 0 : steps / stride + 1;
}

/// Returns the shape of the level below one with a shape. `field` gets the field that is at fault if an axis
/// has no cells.
llvm::Expected<AxisArray> shape_below(const AxisArray& shape, const Window& window, i32 ndim) {
  AxisArray below{};
  if (shape == below) return below;
  for (i32 a = 0; a < ndim; ++a) {
    const i64 cells = cells_below(shape[a], window, a);
    if (cells < 1 || cells > kMostCells) {
      return at(
          "kernel_size",
          make_error(
              StatusCode::InvalidArgument,
              "axis {0}: an input of {1} cells leaves {2} cells of the output, which must have 1 "
              "to {3}: use a smaller kernel or dilation, another padding, or a larger shape of the input",
              a, shape[a], cells, kMostCells));
    }
    below[a] = static_cast<i32>(cells);
  }
  return below;
}

/// Returns the shape of the level that a generative op with padding makes of a level with a shape.
llvm::Expected<AxisArray> shape_above(const AxisArray& shape, const Window& window,
                                      const AxisArray& output_padding, i32 ndim) {
  AxisArray above{};
  if (shape == above) return above;
  for (i32 a = 0; a < ndim; ++a) {
    const i64 covered = i64{window.dilation[a]} * (window.kernel_size[a] - 1) + 1;
    const i64 cells =
        i64{shape[a] - 1} * window.stride[a] - 2 * i64{(*window.padding)[a]} + covered + output_padding[a];
    if (cells < 1 || cells > kMostCells) {
      return at("padding",
                make_error(StatusCode::InvalidArgument,
                           "axis {0}: an input of {1} cells gives {2} cells of the output, which must have 1 "
                           "to {3}: use another padding, output padding or stride, or another shape of the "
                           "input",
                           a, shape[a], cells, kMostCells));
    }
    above[a] = static_cast<i32>(cells);
  }
  return above;
}

/// Returns numbers for all axes of a program from those that a layer's field gives for `axes`, which are the
/// axes of the level of the layer's input. The other axes get `unused`. `count` is the number of numbers that
/// the field has, or 0 if it is one number for all axes.
llvm::Expected<AxisArray> on_axes(llvm::ArrayRef<i32> axes, llvm::StringRef field, const AxisArray& numbers,
                                  i32 count, i32 unused) {
  if (count != 0 && count != static_cast<i32>(axes.size())) {
    return at(field, make_error(StatusCode::InvalidArgument,
                                "\"{0}\" has {1} numbers, but the level of the layer's input has {2} axes: "
                                "give one number per axis",
                                field, count, axes.size()));
  }
  if (axes.empty() && numbers[0] != unused) {
    return at(field, make_error(StatusCode::InvalidArgument,
                                "\"{0}\" is {1}, but the level of the layer's input has no axes: set it to "
                                "{2}, or use the op linear",
                                field, numbers[0], unused));
  }
  AxisArray all;
  all.fill(unused);
  for (std::size_t i = 0; i < axes.size(); ++i) all[axes[i]] = numbers[i];
  return all;
}

}  // namespace

Window window_of(const LayerDescription& layer) {
  Window window{layer.kernel_size, layer.stride, layer.dilation};
  if (layer.is_reached) window.padding = layer.padding;
  window.offsets = layer.offsets;
  return window;
}

i32 GraphBuilder::add_tensor(i32 level, i32 channels) {
  program_.storages.push_back({level, channels, 0, 0, {}});
  program_.tensors.push_back({level, channels, static_cast<i32>(program_.storages.size()) - 1, 0});
  return static_cast<i32>(program_.tensors.size()) - 1;
}

i32 GraphBuilder::add_map(const MapSpec& map) {
  const auto found = std::find(program_.maps.begin(), program_.maps.end(), map);
  if (found != program_.maps.end()) return static_cast<i32>(found - program_.maps.begin());
  program_.maps.push_back(map);
  return static_cast<i32>(program_.maps.size()) - 1;
}

/// Returns the layer with numbers for all axes of the network. Axes that the level of the layer's input lacks
/// have one cell, so kernels and strides have one cell there too.
llvm::Expected<LayerDescription> GraphBuilder::on_axes_of_input(const LayerDescription& layer) const {
  LayerDescription all = layer;
  const LevelSpec& level = program_.levels[level_of(current_)];
  if ((level.holds_items || level.holds_points) && layer.is_reached) {
    return at("rule",
              make_error(StatusCode::InvalidArgument,
                         "the layer's input has one row for each batch item or each point, from which "
                         "no other rows are reached: leave \"rule\" out"));
  }
  const std::vector<i32> axes = axes_of(program_, level_of(current_));
  const AxisCounts& counts = layer.counts;
  MINUET_ASSIGN(all.kernel_size, on_axes(axes, "kernel_size", layer.kernel_size, counts.kernel_size, 1));
  MINUET_ASSIGN(all.stride, on_axes(axes, "stride", layer.stride, counts.stride, 1));
  MINUET_ASSIGN(all.dilation, on_axes(axes, "dilation", layer.dilation, counts.dilation, 1));
  MINUET_ASSIGN(all.padding, on_axes(axes, "padding", layer.padding, counts.padding, 0));
  MINUET_ASSIGN(all.output_padding,
                on_axes(axes, "output_padding", layer.output_padding, counts.output_padding, 0));
  for (AxisArray& offset : all.offsets) {
    MINUET_ASSIGN(offset, on_axes(axes, "offsets", offset, counts.offsets, 0));
  }
  MINUET_TRY(at(layer.kernel_shape == KernelShape::Custom ? "offsets" : "kernel_size",
                list_offsets(layer.kernel_shape, program_.ndim, all.kernel_size, all.dilation, all.offsets)));
  return all;
}

llvm::Expected<i32> GraphBuilder::level_below(i32 level, const Window& window) {
  if (!window.padding && window.stride == kUnitStride && window.dropped_axes == 0) return level;
  LevelSpec below;
  below.tensor_stride = program_.levels[level].tensor_stride;
  below.parent = level;
  below.dropped_axes = program_.levels[level].dropped_axes | window.dropped_axes;
  if (window.padding) below.reach = ReachSpec{window.kernel_size, window.dilation, *window.padding};
  for (i32 a = 0; a < program_.ndim; ++a) {
    const i64 product = static_cast<i64>(below.tensor_stride[a]) * window.stride[a];
    if (product > kMostCells) {
      return at("stride", make_error(StatusCode::InvalidArgument,
                                     "the tensor stride of axis {0} would be {1}; it must be at most 2^24", a,
                                     product));
    }
    below.tensor_stride[a] = static_cast<i32>(product);
  }
  MINUET_ASSIGN(below.shape, shape_below(program_.levels[level].shape, window, program_.ndim));
  MINUET_TRY(at("stride", widen_period(below.tensor_stride)));
  return find_or_add_level(below);
}

llvm::Expected<i32> GraphBuilder::level_above(i32 level, const Window& window,
                                              const AxisArray& output_padding) {
  const LevelSpec& below = program_.levels[level];
  if (below.holds_items || below.holds_points) {
    return at("op",
              make_error(StatusCode::InvalidArgument,
                         "the layer's input has one row for each batch item or each point, from which no "
                         "coordinates can be generated: use the op linear"));
  }
  LevelSpec above;
  above.parent = level;
  above.dropped_axes = below.dropped_axes;
  above.reach = ReachSpec{window.kernel_size, window.dilation,
                          window.padding.value_or(centred_padding(window.kernel_size, window.dilation)),
                          /*is_generative=*/true};
  for (i32 a = 0; a < program_.ndim; ++a) {
    const i32 tensor_stride = below.tensor_stride[a], stride = window.stride[a];
    if (tensor_stride % stride != 0) {
      return at("stride",
                make_error(StatusCode::InvalidArgument,
                           "axis {0}: the tensor stride of the layer's input is {1}, which cannot be "
                           "divided by the stride {2}: use a stride that divides it",
                           a, tensor_stride, stride));
    }
    above.tensor_stride[a] = tensor_stride / stride;
  }
  if (window.padding) {
    MINUET_ASSIGN(above.shape, shape_above(below.shape, window, output_padding, program_.ndim));
  }
  return find_or_add_level(above);
}

/// Returns the shape of the union or the intersection of two levels, whose tensor stride is `stride`. The
/// last cell of a union is that of the parent that reaches farther, and the last cell of an intersection is
/// not farther than that of either.
static llvm::Expected<AxisArray> combined_shape(const LevelSpec& one, const LevelSpec& other,
                                                const AxisArray& stride, bool is_intersection, i32 ndim) {
  AxisArray shape{};
  const bool has_shape =
      is_intersection ? one.has_shape() || other.has_shape() : one.has_shape() && other.has_shape();
  for (i32 a = 0; a < ndim && has_shape; ++a) {
    const auto last_of = [&](const LevelSpec& parent) {
      return parent.has_shape() ? i64{parent.shape[a] - 1} * parent.tensor_stride[a]
                                : i64{INT_MAX} * kMostCells;
    };
    const i64 last =
        is_intersection ? std::min(last_of(one), last_of(other)) : std::max(last_of(one), last_of(other));
    const i64 cells = last / stride[a] + 1;
    if (cells > kMostCells) {
      return make_error(StatusCode::InvalidArgument,
                        "axis {0}: the union of both levels would have a shape of {1} cells; it must be at "
                        "most {2}",
                        a, cells, kMostCells);
    }
    shape[a] = static_cast<i32>(cells);
  }
  return shape;
}

llvm::Expected<i32> GraphBuilder::combination_of(i32 first, i32 second, bool is_intersection) {
  if (first == second) return first;
  const LevelSpec &one = program_.levels[first], &other = program_.levels[second];
  LevelSpec both;
  // A fixed order of the parents lets the unions of a pair of levels share one level, whichever comes first.
  both.parent = std::min(first, second);
  both.other_parent = std::max(first, second);
  both.is_intersection = is_intersection;
  both.dropped_axes = one.dropped_axes;
  both.tensor_stride = common_stride(one.tensor_stride, other.tensor_stride);
  const std::array<i64, kMaxDim> multiple = common_multiple(one.tensor_stride, other.tensor_stride);
  for (i32 a = 0; a < program_.ndim && is_intersection; ++a) {
    if (multiple[a] > kMostCells) {
      return make_error(StatusCode::InvalidArgument,
                        "axis {0}: the intersection of both levels would have the tensor stride {1}; it must "
                        "be at most {2}",
                        a, multiple[a], kMostCells);
    }
    both.tensor_stride[a] = static_cast<i32>(multiple[a]);
  }
  MINUET_TRY(widen_period(both.tensor_stride));
  MINUET_ASSIGN(both.shape, combined_shape(one, other, both.tensor_stride, is_intersection, program_.ndim));
  return find_or_add_level(both);
}

/// Returns the number of the level that follows from the same levels in the same way, and adds it to the
/// program if it is missing.
i32 GraphBuilder::find_or_add_level(const LevelSpec& level) {
  const auto found = llvm::find_if(program_.levels, [&](const LevelSpec& other) {
    return !other.is_made_in_run() && other.parent == level.parent &&
           other.other_parent == level.other_parent && other.is_intersection == level.is_intersection &&
           other.tensor_stride == level.tensor_stride && other.reach == level.reach &&
           other.shape == level.shape && other.dropped_axes == level.dropped_axes;
  });
  if (found == program_.levels.end()) {
    program_.levels.push_back(level);
    return static_cast<i32>(program_.levels.size()) - 1;
  }
  return static_cast<i32>(found - program_.levels.begin());
}

/// Makes Program::period a common multiple of the strides of all coordinate sets and `tensor_stride`.
llvm::Error GraphBuilder::widen_period(const AxisArray& tensor_stride) {
  for (i32 a = 0; a < program_.ndim; ++a) {
    program_.period[a] = std::lcm(program_.period[a], static_cast<i64>(tensor_stride[a]));
    if (program_.period[a] > kFarthestOffset) {
      return make_error(StatusCode::InvalidArgument,
                        "axis {0}: the strides need a common multiple of at most {1}", a, kFarthestOffset);
    }
  }
  return llvm::Error::success();
}

llvm::Expected<i32> GraphBuilder::add_convolution(const std::string& name, i32 input, i32 level,
                                                  const MapSpec& map, ConvolutionProblem problem) {
  problem.ndim = program_.ndim;
  problem.dtype = program_.dtype;
  problem.in_channels = program_.tensors[input].channels;
  problem.kernel_size = map.kernel_size;
  problem.dilation = map.dilation;
  problem.padding = map.padding;
  problem.offsets = map.offsets;
  MINUET_TRY(at("groups", check_groups(problem)));
  return add_layer(name, input, level, problem.out_channels, map, problem);
}

/// Returns InvalidArgument if the kernel's offsets are too large for the keys of coordinates.
llvm::Error GraphBuilder::check_reach(const MapSpec& map) const {
  for (i32 a = 0; a < program_.ndim; ++a) {
    const i64 tensor_stride = program_.levels[map.fine].tensor_stride[a];
    const i64 cells =
        map.offsets.empty() ? i64{map.dilation[a]} * map.kernel_size[a] : farthest_offset(map.offsets, a);
    const i64 reach = std::max(cells, map.padding ? i64{(*map.padding)[a]} : 0) * tensor_stride;
    if (reach > kFarthestOffset) {
      return make_error(StatusCode::InvalidArgument,
                        "the kernel's offsets on axis {0} reach {1} cells; at most {2} are allowed", a, reach,
                        kFarthestOffset);
    }
  }
  return llvm::Error::success();
}

llvm::Error GraphBuilder::take_name(const std::string& name) {
  if (names_.insert(name).second) return llvm::Error::success();
  return at("name",
            make_error(StatusCode::InvalidArgument,
                       "two layers are called \"{0}\", but a name stands for one layer: rename one", name));
}

llvm::Expected<i32> GraphBuilder::add_mapless(const std::string& name, i32 input, i32 level, i32 channels,
                                              const OpProblem& problem) {
  MINUET_TRY(take_name(name));
  ProgramLayer layer(problem);
  layer.name = name;
  layer.map = -1;
  layer.input = input;
  MINUET_TRY(validate(problem));
  layer.output = add_tensor(level, channels);
  program_.layers.push_back(std::move(layer));
  return program_.layers.back().output;
}

llvm::Expected<i32> GraphBuilder::add_layer(const std::string& name, i32 input, i32 level, i32 channels,
                                            const MapSpec& map, const OpProblem& problem) {
  MINUET_ASSIGN(const i32 output, add_mapless(name, input, level, channels, problem));
  MINUET_TRY(at(map.offsets.empty() ? "kernel_size" : "offsets", check_reach(map)));
  program_.layers.back().map = add_map(map);
  return output;
}

/// Returns InvalidArgument if the tensor `name` lies on a level of another stage than the layer's input. No
/// coordinates of both are known at the same time, so no op combines them.
llvm::Error GraphBuilder::check_is_of_stage(i32 tensor, const std::string& name,
                                            llvm::StringRef field) const {
  if (root_of(program_, level_of(tensor)) == root_of(program_, level_of(current_))) {
    return llvm::Error::success();
  }
  return at(field,
            make_error(StatusCode::InvalidArgument,
                       "\"{0}\" and the layer's input are on different sides of an op that makes its "
                       "coordinates in each run, so the layer cannot combine them: name a result on the "
                       "same side",
                       name));
}

/// Returns InvalidArgument if the tensor holds integers or points, which no op reads, or a mask in another
/// field than "by".
llvm::Error GraphBuilder::check_is_features(i32 tensor, llvm::StringRef field) const {
  if (program_.storages[program_.tensors[tensor].storage].holds_mask && field != "by") {
    return at(field,
              make_error(StatusCode::InvalidArgument,
                         "a mask has bytes and no features: name it in \"by\" of prune or subdivide, or "
                         "name a result or another input here"));
  }
  if (program_.storages[program_.tensors[tensor].storage].holds_points) {
    return at(field,
              make_error(StatusCode::InvalidArgument,
                         "only voxelize reads the points, which are float32 numbers whatever the plan's "
                         "dtype is: name a result, or another input"));
  }
  if (!program_.storages[program_.tensors[tensor].storage].holds_integers) return llvm::Error::success();
  return at(field, make_error(StatusCode::InvalidArgument,
                              "the result of argmax holds integers, which no layer can read: give it as an "
                              "output, or name another result"));
}

bool GraphBuilder::is_named(i32 tensor) const {
  return llvm::any_of(results_, [&](const auto& result) { return result.second == tensor; });
}

llvm::Expected<i32> GraphBuilder::find_result(const std::string& name, llvm::StringRef field) {
  const auto found = results_.find(name);
  if (found != results_.end() && field != "input" && tensor(found->second).is_dense()) {
    return at(field, make_error(StatusCode::InvalidArgument,
                                "\"{0}\" is a dense tensor, which is not on a level: name the features of "
                                "which it was made",
                                name));
  }
  if (found != results_.end()) {
    // Other fields than "input", "with" and "by" need the level of the result only.
    if (field == "input" || field == "with" || field == "by")
      MINUET_TRY(check_is_features(found->second, field));
    if (field != "input") MINUET_TRY(check_is_of_stage(found->second, name, field));
    read_.insert(found->second);
    return found->second;
  }
  const auto input =
      llvm::find_if(description_.inputs, [&](const InputDescription& each) { return each.name == name; });
  if (input != description_.inputs.end()) {
    return at(field,
              make_error(StatusCode::InvalidArgument,
                         "the input \"{0}\" is on the level of \"{1}\", which is not the name of an "
                         "input or of features that an earlier layer saves: correct the input's \"level\" "
                         "(a dense tensor has none)",
                         name, input->level));
  }
  return at(field, make_error(StatusCode::InvalidArgument,
                              "no earlier layer saves its output as \"{0}\", and no input that is known here "
                              "has this name: correct the name, or the layer's \"output\"",
                              name));
}

ConvolutionProblem GraphBuilder::problem_of(const ConvolutionFields& fields, i32 out_channels) const {
  ConvolutionProblem problem;
  problem.dataflow = dataflow_;
  problem.out_channels = out_channels;
  problem.groups = fields.groups;
  problem.scale_shift = fields.bias || fields.batch_norm;
  problem.set_activation(fields.activation, fields.slope);
  return problem;
}

llvm::Error GraphBuilder::claim(const std::string& part) {
  if (parts_.insert(part).second) return llvm::Error::success();
  return at("name", make_error(StatusCode::InvalidArgument,
                               "two layers have parameters called \"{0}\": rename one", part + ".*"));
}

llvm::Error GraphBuilder::name_parameters(const std::string& convolution, const std::string& batch_norm,
                                          const ConvolutionFields& fields, LayerOrigin origin) {
  MINUET_TRY(claim(convolution));
  if (!batch_norm.empty()) MINUET_TRY(claim(batch_norm));
  ProgramLayer& layer = program_.layers.back();
  layer.weight = convolution + ".weight";
  layer.is_int8 = fields.is_int8;
  layer.output_range = static_cast<float>(fields.output_range);
  if (fields.bias) layer.bias = convolution + ".bias";
  if (fields.batch_norm) layer.batch_norm = batch_norm;
  layer.batch_norm_epsilon = fields.epsilon;
  layer.is_affine = fields.affine;
  layer.origin = std::move(origin);
  layer.origin.batch_norm = batch_norm;
  return llvm::Error::success();
}

llvm::Error GraphBuilder::name_parameters(const LayerDescription& layer) {
  return name_parameters(layer.name + ".conv", layer.name + ".bn", layer.fields, {layer.name, "", ""});
}

llvm::Expected<i32> GraphBuilder::add_downward(const std::string& name, i32 input, const Window& window,
                                               ConvolutionProblem problem) {
  const i32 fine = level_of(input);
  MINUET_ASSIGN(const i32 coarse, level_below(fine, window));
  problem.kind = coarse != fine ? ConvolutionKind::Strided : ConvolutionKind::Submanifold;
  problem.stride = window.stride;
  return add_convolution(name, input, coarse, map_of(fine, coarse, window), problem);
}

llvm::Expected<i32> GraphBuilder::head_channels(const LayerDescription& layer) const {
  if (layer.classes != 0) return layer.classes;
  return head_channels_(layer.name, program_.tensors[current_].channels);
}

llvm::Expected<i32> GraphBuilder::find_partner(const std::string& name) {
  MINUET_ASSIGN(const i32 partner, find_result(name, "with"));
  if (level_of(partner) == level_of(current_)) return partner;
  return at("with", make_error(StatusCode::InvalidArgument,
                               "\"{0}\" and the layer's input must be on the same coordinate set", name));
}

void GraphBuilder::record_window(const std::string& layer) {
  const ProgramLayer& last = program_.layers.back();
  windows_[layer] = {program_.maps[last.map], last.window()->stride};
}

const WindowRecord* GraphBuilder::find_window(const std::string& layer, bool& is_layer) const {
  is_layer = layers_.count(layer) != 0;
  const auto found = windows_.find(layer);
  return found == windows_.end() ? nullptr : &found->second;
}

llvm::Expected<WindowRecord> GraphBuilder::find_way_back(const std::string& layer, llvm::StringRef op) const {
  bool is_layer = false;
  const WindowRecord* const window = find_window(layer, is_layer);
  if (!window) {
    return is_layer
               ? make_error(StatusCode::InvalidArgument,
                            "\"{0}\" is neither a block nor a pooling: the op {1} leads back from one of "
                            "these",
                            layer, op)
               : make_error(StatusCode::InvalidArgument,
                            "no earlier layer is called \"{0}\": give the \"name\" of a block or a "
                            "pooling",
                            layer);
  }
  if (window->map.fine == window->map.coarse) {
    return make_error(
        StatusCode::InvalidArgument,
        "\"{0}\" does not change the coordinates, so there is no way back: replace the op {1} by a "
        "block or a pooling with stride 1",
        layer, op);
  }
  if (level_of(current()) != window->map.coarse) {
    return make_error(StatusCode::InvalidArgument,
                      "the input of the op {0} must have the coordinates of the result of \"{1}\"", op,
                      layer);
  }
  return *window;
}

}  // namespace minuet
