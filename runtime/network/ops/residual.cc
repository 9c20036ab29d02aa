#include "runtime/network/ops/residual.h"

#include "runtime/network/description_fields.h"
#include "runtime/network/graph_builder.h"

namespace minuet {

llvm::ArrayRef<const char*> part_names(LayerDescription::Op op) {
  static constexpr const char* kResidual[] = {"conv1", "conv2", "shortcut"};
  static constexpr const char* kBottleneck[] = {"conv1", "conv2", "conv3", "shortcut"};
  if (op == LayerDescription::Op::Residual) return kResidual;
  if (op == LayerDescription::Op::Bottleneck) return kBottleneck;
  return {};
}

namespace {

using llvm::json::Object;
using llvm::json::Value;

/// Returns where the fields of a convolution are. The block adds the results of its last convolution and of
/// its shortcut, which are the last two parts.
FieldPlace place_of(const LayerDescription& layer, std::size_t part) {
  return part + 2 >= part_names(layer.op).size() ? FieldPlace::PartBeforeAddition : FieldPlace::Part;
}

llvm::Error read_part(const Value& value, llvm::StringRef name, FieldPlace place, ConvolutionFields& fields) {
  const Object* const part = value.getAsObject();
  if (!part) return make_error(StatusCode::InvalidArgument, "\"{0}\" must be an object of fields", name);
  const std::string of = "\"" + name.str() + "\"";
  MINUET_TRY(check_fields(*part, of, convolution_field_names(place)));
  return about(of, read_convolution_fields(*part, place, fields));
}

/// Reads the fields of each convolution of a residual or bottleneck block. A field that a convolution does
/// not have gets the value of the layer's field.
llvm::Error read_parts(const Object& object, LayerDescription& layer) {
  const llvm::ArrayRef<const char*> names = part_names(layer.op);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const FieldPlace place = place_of(layer, i);
    ConvolutionFields& fields = layer.parts.emplace_back(layer.fields);
    if (place == FieldPlace::PartBeforeAddition) fields.activation = Activation::None, fields.slope = 0;
    fields.output_range = 0;  // The layer's range is that of its result.
    const Value* const value = object.get(names[i]);
    if (!value) continue;
    layer.has_shortcut_fields |= i + 1 == names.size();
    MINUET_TRY(at(names[i], read_part(*value, names[i], place, fields)));
    if (i + 2 != names.size() || fields.output_range == 0) continue;
    return at(names[i], at("output_range",
                           make_error(StatusCode::InvalidArgument,
                                      "the result of \"{0}\" is the layer's result, to which the shortcut is "
                                      "added: set \"output_range\" in the layer",
                                      names[i])));
  }
  // The last convolution gives the layer's result.
  layer.parts[names.size() - 2].output_range = layer.fields.output_range;
  return llvm::Error::success();
}

/// Returns an error if the rule is "reached", unless it changes nothing.
llvm::Error check_rule(const Object& object, LayerDescription& layer) {
  if (!layer.is_reached) return llvm::Error::success();
  if (layer.stride != kUnitStride) {
    return at("rule",
              make_error(StatusCode::Unimplemented,
                         "the rule \"reached\" is not supported for a {0} with a stride; with stride 1 "
                         "it keeps its input's coordinates by either rule: put a block with the "
                         "stride before it",
                         op_name(layer.op)));
  }
  if (!object.get("padding")) return llvm::Error::success();
  return at("padding",
            make_error(StatusCode::InvalidArgument,
                       "a {0} with stride 1 keeps its input's coordinates by either rule: leave \"padding\" "
                       "out",
                       op_name(layer.op)));
}

/// Reads the fields that both ops have, except the names of fields.
llvm::Error read_either(const Object& object, const NetworkDescription& network, LayerDescription& layer) {
  MINUET_ASSIGN(layer.name, read_text(object, "name"));
  MINUET_TRY(read_width(object, network, layer));
  if (layer.op == LayerDescription::Op::Bottleneck) MINUET_TRY(read_inner_width(object, network, layer));
  MINUET_TRY(read_window(object, network, /*usual_size=*/3, layer));
  MINUET_TRY(read_rule(object, network, layer));
  MINUET_TRY(check_rule(object, layer));
  layer.fields.epsilon = network.batch_norm_epsilon;
  if (object.get("groups")) {
    return at("groups", make_error(StatusCode::InvalidArgument,
                                   "\"groups\" belongs to one convolution of a {0}: set it in \"conv1\", "
                                   "\"conv2\" or another of its objects",
                                   op_name(layer.op)));
  }
  MINUET_TRY(read_convolution_fields(object, FieldPlace::Layer, layer.fields));
  return read_parts(object, layer);
}

llvm::Error read_residual(const Object& object, const NetworkDescription& network, LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(
      object, "the op residual",
      {"op", "name", "width", "kernel_size", "stride", "dilation", "save", "conv1", "conv2", "shortcut"},
      layer_convolution_fields({"out_channels", "rule", "padding", "kernel_shape", "offsets"}), layer));
  return read_either(object, network, layer);
}

llvm::Error read_bottleneck(const Object& object, const NetworkDescription& network,
                            LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the op bottleneck",
                               {"op", "name", "width", "inner_width", "kernel_size", "stride", "dilation",
                                "save", "conv1", "conv2", "conv3", "shortcut"},
                               layer_convolution_fields({"out_channels", "inner_channels", "rule", "padding",
                                                         "kernel_shape", "offsets"}),
                               layer));
  return read_either(object, network, layer);
}

void print_either(const LayerDescription& layer, i32 ndim, Object& object) {
  object["name"] = layer.name;
  print_width(layer, object);
  if (layer.inner_channels != 0) {
    object["inner_channels"] = layer.inner_channels;
  } else if (layer.op == LayerDescription::Op::Bottleneck) {
    object["inner_width"] = layer.inner_width;
  }
  print_window(layer, ndim, object);
  print_convolution_fields(layer.fields, FieldPlace::Layer, object);
  const llvm::ArrayRef<const char*> names = part_names(layer.op);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i + 1 == names.size() && !layer.has_shortcut_fields) break;
    Object part;
    ConvolutionFields fields = layer.parts[i];
    if (i + 2 == names.size()) fields.output_range = 0;  // It is the layer's.
    print_convolution_fields(fields, place_of(layer, i), part);
    if (fields.is_int8 != layer.fields.is_int8) part["precision"] = precision_name(fields.is_int8);
    object[names[i]] = std::move(part);
  }
}

/// Adds the convolution of a residual or bottleneck block whose index in part_names() is `part`.
llvm::Expected<i32> add_part(GraphBuilder& graph, const LayerDescription& layer, std::size_t part, i32 input,
                             const Window& window, const ConvolutionProblem& problem) {
  const std::string name = part_names(layer.op)[part];
  const bool is_shortcut = part + 1 == layer.parts.size();
  ConvolutionProblem grouped = problem;
  grouped.in_channels = graph.tensor(input).channels;
  MINUET_TRY(at(name, at("groups", check_groups(grouped))));
  MINUET_ASSIGN(const i32 output, graph.add_downward(layer.name + "." + name, input, window, problem));
  const std::string number = std::to_string(part + 1);
  MINUET_TRY(graph.name_parameters(layer.name + (is_shortcut ? ".shortcut.conv" : ".conv" + number),
                                   layer.name + (is_shortcut ? ".shortcut.bn" : ".bn" + number),
                                   layer.parts[part], {layer.name, name, ""}));
  return output;
}

/// Returns the tensor that a residual or bottleneck block adds to the result of its last convolution. This
/// is the input if the shapes are equal, otherwise the output of a convolution that this function appends
/// to the program. If `may_run_with_last` is true, the program's last layer is the first one of the block
/// and its output has the rows of the input, so its kernel may compute the shortcut too.
llvm::Expected<i32> add_shortcut(GraphBuilder& graph, const LayerDescription& layer, i32 input,
                                 bool may_run_with_last) {
  const i32 width = graph.description().width_of(layer);
  if (graph.tensor(input).channels == width && layer.stride == kUnitStride) {
    if (!layer.has_shortcut_fields) return input;
    return at("shortcut",
              make_error(StatusCode::InvalidArgument,
                         "\"shortcut\" has fields, but the block's input has the shape of its result, so the "
                         "shortcut is the input itself: leave \"shortcut\" out"));
  }
  const std::size_t part = layer.parts.size() - 1;
  ConvolutionProblem problem = graph.problem_of(layer.parts[part], width);
  std::vector<ProgramLayer>& layers = graph.program().layers;
  may_run_with_last = may_run_with_last && problem.groups == 1 && convolution_of(layers.back())->groups == 1;
  if (may_run_with_last) {
    // One kernel may compute both convolutions, and it scales either both or neither. A scale without a
    // parameter is 1.
    ConvolutionProblem first = *convolution_of(layers.back());
    first.scale_shift = problem.scale_shift = first.scale_shift || problem.scale_shift;
    first.shortcut = true;
    layers.back().problem = first;
  }
  MINUET_ASSIGN(const i32 output,
                add_part(graph, layer, part, input, {kUnitStride, layer.stride, kUnitStride}, problem));
  layers.back().may_join_last = may_run_with_last;
  return output;
}

/// Adds the layers of activation(bn2(conv2(activation(bn1(conv1(x))))) + shortcut(x)). A bottleneck has
/// three convolutions instead of two. The last convolution adds the result of the shortcut, whose layer
/// comes right before it.
llvm::Error build_either(GraphBuilder& graph, const LayerDescription& layer) {
  const Window one;
  Window whole{layer.kernel_size, layer.stride, layer.dilation};
  whole.offsets = layer.offsets;
  Window unstrided = whole;
  unstrided.stride = one.stride;
  const bool is_bottleneck = layer.op == LayerDescription::Op::Bottleneck;
  const std::vector<Window> windows =
      is_bottleneck ? std::vector<Window>{one, whole, one} : std::vector<Window>{whole, unstrided};
  const i32 input = graph.current(), width = graph.description().width_of(layer);
  const i32 inner = is_bottleneck ? graph.description().inner_width_of(layer) : width;
  const std::size_t last = windows.size() - 1;
  i32 current = input;
  for (std::size_t part = 0; part < last; ++part) {
    MINUET_ASSIGN(current, add_part(graph, layer, part, current, windows[part],
                                    graph.problem_of(layer.parts[part], inner)));
  }
  MINUET_ASSIGN(const i32 shortcut,
                add_shortcut(graph, layer, input, !is_bottleneck && layer.stride == one.stride));
  ConvolutionProblem problem = graph.problem_of(layer.parts[last], width);
  problem.residual = true;
  // The layer's own activation is applied after the addition.
  problem.set_activation(layer.fields.activation, layer.fields.slope);
  MINUET_ASSIGN(const i32 output, add_part(graph, layer, last, current, windows[last], problem));
  graph.program().layers.back().residual = shortcut;
  graph.set_result(output);
  return llvm::Error::success();
}

}  // namespace

OpEntry residual_entry() { return {"residual", read_residual, print_either, build_either}; }
OpEntry bottleneck_entry() { return {"bottleneck", read_bottleneck, print_either, build_either}; }

}  // namespace minuet
