#include "runtime/network/ops/convolution.h"

#include "runtime/network/description_fields.h"
#include "runtime/network/graph_builder.h"

namespace minuet {
namespace {

using llvm::json::Object;
using llvm::json::Value;

// The following functions are of the ops block, up and generative_up, whose fields are the same but for the
// rule and the skip.

llvm::Error read_convolution(const Object& object, const NetworkDescription& network,
                             LayerDescription& layer) {
  MINUET_ASSIGN(layer.name, read_text(object, "name"));
  MINUET_TRY(read_width(object, network, layer));
  layer.fields.epsilon = network.batch_norm_epsilon;
  return read_convolution_fields(object, FieldPlace::Layer, layer.fields);
}

void print_convolution(const LayerDescription& layer, Object& object) {
  object["name"] = layer.name;
  print_width(layer, object);
  print_convolution_fields(layer.fields, FieldPlace::Layer, object);
}

llvm::Error read_block(const Object& object, const NetworkDescription& network, LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(
      object, "the op block", {"op", "name", "width", "kernel_size", "stride", "dilation", "save"},
      layer_convolution_fields({"out_channels", "rule", "padding", "kernel_shape", "offsets"}), layer));
  MINUET_TRY(read_convolution(object, network, layer));
  MINUET_TRY(read_window(object, network, /*usual_size=*/1, layer));
  MINUET_TRY(read_rule(object, network, layer));
  return layer.is_reached ? check_reaches_by_box(layer) : llvm::Error::success();
}

void print_block(const LayerDescription& layer, i32 ndim, Object& object) {
  print_convolution(layer, object);
  print_window(layer, ndim, object);
  print_rule(layer, ndim, object);
}

llvm::Error build_block(GraphBuilder& graph, const LayerDescription& layer) {
  const ConvolutionProblem problem = graph.problem_of(layer.fields, graph.description().width_of(layer));
  MINUET_ASSIGN(const i32 output, graph.add_downward(layer.name, graph.current(), window_of(layer), problem));
  graph.set_result(output);
  graph.record_window(layer.name);
  return graph.name_parameters(layer);
}

llvm::Error read_up(const Object& object, const NetworkDescription& network, LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the op up",
                               {"op", "name", "width", "kernel_size", "stride", "dilation", "onto", "save"},
                               layer_convolution_fields({"out_channels", "kernel_shape", "offsets"}), layer));
  MINUET_TRY(read_convolution(object, network, layer));
  MINUET_TRY(read_window(object, network, /*usual_size=*/1, layer));
  MINUET_ASSIGN(layer.skip, read_text(object, "onto"));
  return llvm::Error::success();
}

void print_up(const LayerDescription& layer, i32 ndim, Object& object) {
  print_convolution(layer, object);
  print_window(layer, ndim, object);
  object["onto"] = layer.skip;
}

llvm::Error check_up(GraphBuilder& graph, const LayerDescription& layer, i32 coarse, i32 fine) {
  if (coarse == fine) {
    return at("onto",
              make_error(StatusCode::InvalidArgument,
                         "\"{0}\" is on the same coordinate set as the layer's input: use the op block",
                         layer.skip));
  }
  const std::vector<LevelSpec>& levels = graph.program().levels;
  if (levels[coarse].holds_items || levels[fine].holds_items) {
    return at("onto", make_error(StatusCode::InvalidArgument,
                                 "\"{0}\" or the layer's input has a row for each batch item, and no "
                                 "coordinates between which a kernel could lead",
                                 layer.skip));
  }
  if (levels[coarse].dropped_axes != levels[fine].dropped_axes) {
    return at("onto", make_error(StatusCode::InvalidArgument,
                                 "\"{0}\" has other axes than the layer's input: use the op upsample, which "
                                 "leads back from a collapse",
                                 layer.skip));
  }
  for (i32 a = 0; a < graph.program().ndim; ++a) {
    const i32 wanted = levels[coarse].tensor_stride[a], given = levels[fine].tensor_stride[a];
    if (static_cast<i64>(given) * layer.stride[a] == wanted) continue;
    return at("stride",
              make_error(StatusCode::InvalidArgument,
                         "axis {0}: tensor stride {1} divided by stride {2} is not {3}, the tensor stride of "
                         "\"{4}\"",
                         a, wanted, layer.stride[a], given, layer.skip));
  }
  return llvm::Error::success();
}

llvm::Error build_up(GraphBuilder& graph, const LayerDescription& layer) {
  MINUET_ASSIGN(const i32 skip, graph.find_result(layer.skip, "onto"));
  const i32 coarse = graph.level_of(graph.current()), fine = graph.level_of(skip);
  MINUET_TRY(check_up(graph, layer, coarse, fine));
  ConvolutionProblem problem = graph.problem_of(layer.fields, graph.description().width_of(layer));
  problem.kind = ConvolutionKind::Transposed;
  problem.stride = layer.stride;
  MINUET_ASSIGN(const i32 output, graph.add_convolution(layer.name, graph.current(), fine,
                                                        map_of(fine, coarse, window_of(layer)), problem));
  graph.set_result(output);
  return graph.name_parameters(layer);
}

llvm::Error read_inverse(const Object& object, const NetworkDescription& network, LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the op inverse", {"op", "name", "of", "width"},
                               layer_convolution_fields({"out_channels", "save"}), layer));
  MINUET_TRY(read_convolution(object, network, layer));
  MINUET_ASSIGN(layer.skip, read_text(object, "of"));
  return llvm::Error::success();
}

void print_inverse(const LayerDescription& layer, i32 /*ndim*/, Object& object) {
  print_convolution(layer, object);
  object["of"] = layer.skip;
}

llvm::Error build_inverse(GraphBuilder& graph, const LayerDescription& layer) {
  MINUET_ASSIGN(const WindowRecord window, at("of", graph.find_way_back(layer.skip, "inverse")));
  ConvolutionProblem problem = graph.problem_of(layer.fields, graph.description().width_of(layer));
  problem.kind = ConvolutionKind::Transposed;
  problem.stride = window.stride;
  MINUET_ASSIGN(const i32 output,
                graph.add_convolution(layer.name, graph.current(), window.map.fine, window.map, problem));
  graph.set_result(output);
  return graph.name_parameters(layer);
}

/// Holds the defaults of the ops head and linear.
constexpr ConvolutionFields kHeadFields{.bias = true, .batch_norm = false, .activation = Activation::None};

/// Adds a convolution of kernel size 1, whose parameters are named after the layer.
llvm::Error build_matrix(GraphBuilder& graph, const LayerDescription& layer, i32 out_channels) {
  const ConvolutionProblem problem = graph.problem_of(layer.fields, out_channels);
  MINUET_ASSIGN(const i32 output, graph.add_downward(layer.name, graph.current(), {}, problem));
  graph.set_result(output);
  return graph.name_parameters(layer.name, "", layer.fields, {layer.name, "", ""});
}

llvm::Error read_head(const Object& object, const NetworkDescription& /*network*/, LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the op head", {"op", "name", "classes", "save"},
                               convolution_field_names(FieldPlace::Head), layer));
  MINUET_ASSIGN(layer.name, read_text(object, "name"));
  if (const Value* const classes = object.get("classes")) {
    MINUET_ASSIGN(layer.classes, read_size(*classes, "classes"));
  }
  layer.fields = kHeadFields;
  return read_convolution_fields(object, FieldPlace::Head, layer.fields);
}

void print_head(const LayerDescription& layer, i32 /*ndim*/, Object& object) {
  object["name"] = layer.name;
  if (layer.classes != 0) object["classes"] = layer.classes;
  print_convolution_fields(layer.fields, FieldPlace::Head, object);
}

llvm::Error build_head(GraphBuilder& graph, const LayerDescription& layer) {
  MINUET_ASSIGN(const i32 classes, graph.head_channels(layer));
  if (classes == 0) {
    graph.program().is_head_missing = true;
    return llvm::Error::success();
  }
  return build_matrix(graph, layer, classes);
}

llvm::Error read_linear(const Object& object, const NetworkDescription& network, LayerDescription& layer) {
  const llvm::ArrayRef<llvm::StringRef> fields = convolution_field_names(FieldPlace::Head);
  std::vector<llvm::StringRef> more(fields.begin(), fields.end());
  more.push_back("out_channels");
  MINUET_TRY(read_layer_fields(object, "the op linear", {"op", "name", "width", "save"}, more, layer));
  MINUET_ASSIGN(layer.name, read_text(object, "name"));
  MINUET_TRY(read_width(object, network, layer));
  layer.fields = kHeadFields;
  return read_convolution_fields(object, FieldPlace::Head, layer.fields);
}

void print_linear(const LayerDescription& layer, i32 /*ndim*/, Object& object) {
  object["name"] = layer.name;
  print_width(layer, object);
  print_convolution_fields(layer.fields, FieldPlace::Head, object);
}

llvm::Error build_linear(GraphBuilder& graph, const LayerDescription& layer) {
  return build_matrix(graph, layer, graph.description().width_of(layer));
}

llvm::Error read_generative_up(const Object& object, const NetworkDescription& network,
                               LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the op generative_up",
                               {"op", "name", "width", "kernel_size", "stride", "dilation", "save"},
                               layer_convolution_fields({"out_channels", "rule", "padding", "output_padding",
                                                         "kernel_shape", "offsets"}),
                               layer));
  MINUET_TRY(read_convolution(object, network, layer));
  MINUET_TRY(read_window(object, network, /*usual_size=*/1, layer));
  MINUET_TRY(check_reaches_by_box(layer));
  MINUET_TRY(read_rule(object, network, layer));
  return read_output_padding(object, network, layer);
}

void print_generative_up(const LayerDescription& layer, i32 ndim, Object& object) {
  print_convolution(layer, object);
  print_window(layer, ndim, object);
  print_rule(layer, ndim, object);
  print_output_padding(layer, ndim, object);
}

llvm::Error build_generative_up(GraphBuilder& graph, const LayerDescription& layer) {
  const Window window = window_of(layer);
  const i32 coarse = graph.level_of(graph.current());
  MINUET_ASSIGN(const i32 fine, graph.level_above(coarse, window, layer.output_padding));
  ConvolutionProblem problem = graph.problem_of(layer.fields, graph.description().width_of(layer));
  problem.kind = ConvolutionKind::Transposed;
  problem.stride = window.stride;
  MINUET_ASSIGN(const i32 output, graph.add_convolution(layer.name, graph.current(), fine,
                                                        map_of(fine, coarse, window), problem));
  graph.set_result(output);
  return graph.name_parameters(layer);
}

}  // namespace

OpEntry block_entry() { return {"block", read_block, print_block, build_block}; }
OpEntry up_entry() { return {"up", read_up, print_up, build_up}; }
OpEntry inverse_entry() { return {"inverse", read_inverse, print_inverse, build_inverse}; }
OpEntry linear_entry() { return {"linear", read_linear, print_linear, build_linear}; }
OpEntry head_entry() { return {"head", read_head, print_head, build_head}; }
OpEntry generative_up_entry() {
  return {"generative_up", read_generative_up, print_generative_up, build_generative_up};
}

}  // namespace minuet
