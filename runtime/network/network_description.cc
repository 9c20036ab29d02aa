#include "runtime/network/network_description.h"

#include <algorithm>

#include "codegen/base/file_kind.h"
#include "codegen/base/json_text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "runtime/shipped_networks.h"

namespace minuet {
namespace {

using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;

constexpr const char* kOpNames[] = {"block",    "residual",     "up",        "concat",        "head",
                                    "max_pool", "average_pool", "sum_pool",  "generative_up", "bottleneck",
                                    "to_dense", "birds_eye",    "from_dense"};

// Limits each width, kernel size, stride and dilation, so that 64-bit products of two of them cannot
// overflow.
constexpr i64 kLargestSize = 1 << 16;

llvm::Expected<i32> read_size(const Value& value, llvm::StringRef field) {
  const auto number = value.getAsInteger();
  if (!number || *number < 1 || *number > kLargestSize) {
    return make_error(StatusCode::InvalidArgument, "\"{0}\" must be a whole number from 1 to {1}", field,
                      kLargestSize);
  }
  return static_cast<i32>(*number);
}

/// Reads a field that is one number for all axes, or an array of one number per axis. If there is no such
/// field, each axis gets `where_absent`.
llvm::Expected<AxisArray> read_axes(const Object& object, llvm::StringRef field, i32 ndim,
                                    i32 where_absent = 1) {
  AxisArray axes{1, 1, 1, 1};
  const Value* value = object.get(field);
  if (!value) {
    std::fill(axes.begin(), axes.begin() + ndim, where_absent);
    return axes;
  }
  if (const Array* array = value->getAsArray()) {
    if (static_cast<i32>(array->size()) != ndim) {
      return make_error(StatusCode::InvalidArgument,
                        "\"{0}\" has {1} numbers, but the network has {2} axes: give one number per axis",
                        field, array->size(), ndim);
    }
    for (i32 a = 0; a < ndim; ++a) {
      MINUET_ASSIGN(axes[a], read_size((*array)[a], field));
    }
    return axes;
  }
  MINUET_ASSIGN(const i32 size, read_size(*value, field));
  std::fill(axes.begin(), axes.begin() + ndim, size);
  return axes;
}

llvm::Expected<std::string> read_text(const Object& object, llvm::StringRef field) {
  const auto text = object.getString(field);
  if (!text || text->empty()) return make_error(StatusCode::InvalidArgument, "\"{0}\" must be a name", field);
  return text->str();
}

/// Returns false if a description may name the op although no kernel computes it yet.
bool is_built(LayerDescription::Op op) {
  using Op = LayerDescription::Op;
  return op != Op::GenerativeUp;
}

/// Lists the ops for which is_built() returns `are_built`, for example "block, residual, up".
std::string ops_text(bool are_built) {
  std::string text;
  for (std::size_t i = 0; i < std::size(kOpNames); ++i) {
    if (is_built(static_cast<LayerDescription::Op>(i)) == are_built)
      text += (text.empty() ? "" : ", ") + std::string(kOpNames[i]);
  }
  return text;
}

llvm::Expected<LayerDescription::Op> read_op(const Object& object) {
  MINUET_ASSIGN(const std::string op, read_text(object, "op"));
  for (std::size_t i = 0; i < std::size(kOpNames); ++i) {
    if (op == kOpNames[i]) return static_cast<LayerDescription::Op>(i);
  }
  return make_error(StatusCode::InvalidArgument,
                    "op \"{0}\" is unknown: use {1} (known but not supported: {2})", op,
                    ops_text(/*are_built=*/true), ops_text(/*are_built=*/false));
}

/// Returns InvalidArgument if the object has a field that is neither in `known` nor in `more`, because
/// ignoring the field would hide a mistake.
llvm::Error check_fields(const Object& object, llvm::StringRef of, llvm::ArrayRef<llvm::StringRef> known,
                         llvm::ArrayRef<llvm::StringRef> more = {}) {
  for (const auto& field : object) {
    const llvm::StringRef key = field.first;
    if (llvm::is_contained(known, key) || llvm::is_contained(more, key)) continue;
    std::vector<llvm::StringRef> fields = known.vec();
    fields.insert(fields.end(), more.begin(), more.end());
    return make_error(StatusCode::InvalidArgument, "\"{0}\" is not a field of {1}: possible fields are {2}",
                      key, of, llvm::join(fields, ", "));
  }
  return llvm::Error::success();
}

llvm::Error check_layer_fields(const Object& object, LayerDescription::Op op) {
  using Op = LayerDescription::Op;
  const auto of_convolutions = convolution_field_names(FieldPlace::Layer);
  switch (op) {
    case Op::Block:
      return check_fields(object, "the op block",
                          {"op", "name", "width", "kernel_size", "stride", "dilation", "save"},
                          of_convolutions);
    case Op::Residual:
      return check_fields(
          object, "the op residual",
          {"op", "name", "width", "kernel_size", "stride", "dilation", "save", "conv1", "conv2", "shortcut"},
          of_convolutions);
    case Op::Bottleneck:
      return check_fields(object, "the op bottleneck",
                          {"op", "name", "width", "inner_width", "kernel_size", "stride", "dilation", "save",
                           "conv1", "conv2", "conv3", "shortcut"},
                          of_convolutions);
    case Op::Up:
      return check_fields(object, "the op up",
                          {"op", "name", "width", "kernel_size", "stride", "dilation", "onto", "save"},
                          of_convolutions);
    case Op::Concat:
      return check_fields(object, "the op concat", {"op", "with", "save"});
    case Op::Head:
      return check_fields(object, "the op head", {"op", "name", "classes", "save"},
                          convolution_field_names(FieldPlace::Head));
    case Op::MaxPool:
    case Op::AveragePool:
    case Op::SumPool:
      return check_fields(object, "the ops max_pool, average_pool and sum_pool",
                          {"op", "name", "kernel_size", "stride", "dilation", "save"});
    case Op::GenerativeUp:
      return check_fields(object, "the op generative_up",
                          {"op", "name", "width", "kernel_size", "stride", "dilation", "save"},
                          of_convolutions);
    case Op::ToDense:
      return check_fields(object, "the op to_dense", {"op", "format", "output"});
    case Op::BirdsEye:
      return check_fields(object, "the op birds_eye", {"op", "image_axes", "output"});
    case Op::FromDense:
      return check_fields(object, "the op from_dense", {"op", "input", "onto", "output"});
  }
  return llvm::Error::success();
}

llvm::Expected<i32> read_width(const Object& object, llvm::StringRef field,
                               const NetworkDescription& network) {
  const auto width = object.getInteger(field);
  if (!width || *width < 0 || *width >= static_cast<i64>(network.channels.size())) {
    return make_error(StatusCode::InvalidArgument, "\"{0}\" must be an index into the {1} channels", field,
                      network.channels.size());
  }
  return static_cast<i32>(*width);
}

llvm::Error read_head(const Object& object, LayerDescription& layer) {
  if (const Value* classes = object.get("classes")) {
    MINUET_ASSIGN(layer.classes, read_size(*classes, "classes"));
  }
  layer.fields = {.bias = true, .batch_norm = false, .activation = Activation::None};
  return read_convolution_fields(object, FieldPlace::Head, layer.fields);
}

/// Reads the fields of each convolution of a residual or bottleneck block. A field that a convolution does
/// not have gets the value of the layer's field.
llvm::Error read_parts(const Object& object, LayerDescription& layer) {
  const llvm::ArrayRef<const char*> names = part_names(layer.op);
  for (std::size_t i = 0; i < names.size(); ++i) {
    // The block adds the results of its last convolution and of its shortcut, which are the last two
    // elements.
    const bool precedes_addition = i + 2 >= names.size();
    const FieldPlace place = precedes_addition ? FieldPlace::PartBeforeAddition : FieldPlace::Part;
    ConvolutionFields& fields = layer.parts.emplace_back(layer.fields);
    if (precedes_addition) fields.activation = Activation::None, fields.slope = 0;
    const Value* const value = object.get(names[i]);
    if (!value) continue;
    layer.has_shortcut_fields |= i + 1 == names.size();
    const Object* const part = value->getAsObject();
    if (!part)
      return make_error(StatusCode::InvalidArgument, "\"{0}\" must be an object of fields", names[i]);
    const std::string of = std::string("\"") + names[i] + "\"";
    MINUET_TRY(check_fields(*part, of, convolution_field_names(place)));
    if (llvm::Error error = read_convolution_fields(*part, place, fields))
      return annotate(std::move(error), of);
  }
  return llvm::Error::success();
}

/// Reads the kernel size, stride and dilation of a layer and, unless it is a pooling, its widths and the
/// fields of its convolutions.
llvm::Error read_window(const Object& object, const NetworkDescription& network, LayerDescription& layer) {
  using Op = LayerDescription::Op;
  const bool is_pooling = layer.op >= Op::MaxPool && layer.op <= Op::SumPool;
  if (!is_pooling) {
    MINUET_ASSIGN(layer.width, read_width(object, "width", network));
  }
  if (layer.op == Op::Bottleneck) {
    MINUET_ASSIGN(layer.inner_width, read_width(object, "inner_width", network));
  }
  const i32 usual_size = layer.op == Op::Residual || layer.op == Op::Bottleneck ? 3 : 1;
  MINUET_ASSIGN(layer.kernel_size, read_axes(object, "kernel_size", network.ndim, usual_size));
  MINUET_ASSIGN(layer.stride, read_axes(object, "stride", network.ndim));
  MINUET_ASSIGN(layer.dilation, read_axes(object, "dilation", network.ndim));
  if (is_pooling) return llvm::Error::success();
  layer.fields.epsilon = network.batch_norm_epsilon;
  MINUET_TRY(read_convolution_fields(object, FieldPlace::Layer, layer.fields));
  return read_parts(object, layer);
}

/// Reads the fields of the ops to_dense, birds_eye and from_dense.
llvm::Error read_dense(const Object& object, i32 ndim, LayerDescription& layer) {
  if (object.get("output")) {
    MINUET_ASSIGN(layer.save, read_text(object, "output"));
  }
  if (layer.op == LayerDescription::Op::FromDense) {
    if (object.get("input")) {
      MINUET_ASSIGN(layer.input, read_text(object, "input"));
    }
    MINUET_ASSIGN(layer.skip, read_text(object, "onto"));
    return llvm::Error::success();
  }
  const bool is_birds_eye = layer.op == LayerDescription::Op::BirdsEye;
  MINUET_ASSIGN(layer.dense, is_birds_eye ? read_birds_eye(object, ndim) : read_to_dense(object));
  return llvm::Error::success();
}

llvm::Expected<LayerDescription> read_layer(const Object& object, const NetworkDescription& network) {
  using Op = LayerDescription::Op;
  LayerDescription layer;
  MINUET_ASSIGN(layer.op, read_op(object));
  MINUET_TRY(check_layer_fields(object, layer.op));
  if (object.get("save")) {
    MINUET_ASSIGN(layer.save, read_text(object, "save"));
  }
  if (layer.op == Op::Concat) {
    MINUET_ASSIGN(layer.skip, read_text(object, "with"));
    return layer;
  }
  if (layer.op >= Op::ToDense) {
    MINUET_TRY(read_dense(object, network.ndim, layer));
    return layer;
  }
  MINUET_ASSIGN(layer.name, read_text(object, "name"));
  if (layer.op == Op::Head) {
    MINUET_TRY(read_head(object, layer));
    return layer;
  }
  MINUET_TRY(read_window(object, network, layer));
  if (layer.op == Op::Up) {
    MINUET_ASSIGN(layer.skip, read_text(object, "onto"));
  }
  return layer;
}

llvm::Error read_layers(const Object& root, NetworkDescription& network) {
  const Array* layers = root.getArray("layers");
  if (!layers || layers->empty()) {
    return make_error(StatusCode::InvalidArgument, "\"layers\" must be a list of at least one layer");
  }
  for (std::size_t i = 0; i < layers->size(); ++i) {
    const Object* object = (*layers)[i].getAsObject();
    if (!object) return make_error(StatusCode::InvalidArgument, "layer {0} must be an object of fields", i);
    llvm::Expected<LayerDescription> layer = read_layer(*object, network);
    if (!layer) return annotate(layer.takeError(), llvm::formatv("layer {0}", i).str());
    network.layers.push_back(std::move(*layer));
  }
  return llvm::Error::success();
}

llvm::Expected<NetworkDescription> read_network(const Object& root) {
  NetworkDescription network;
  MINUET_TRY(check_fields(
      root, "a network",
      {"name", "ndim", "in_channels", "shape", "channels", "batch_norm_epsilon", "weights_order", "layers"}));
  MINUET_ASSIGN(network.name, read_text(root, "name"));
  const auto ndim = root.getInteger("ndim");
  if (!ndim || *ndim < 1 || *ndim > kMaxDim) {
    return make_error(StatusCode::InvalidArgument, "\"ndim\" must be 1 to {0}", kMaxDim);
  }
  network.ndim = static_cast<i32>(*ndim);
  const Value* in_channels = root.get("in_channels");
  if (!in_channels) return make_error(StatusCode::InvalidArgument, "\"in_channels\" is missing");
  MINUET_ASSIGN(network.in_channels, read_size(*in_channels, "in_channels"));
  const Array* channels = root.getArray("channels");
  if (!channels || channels->empty()) {
    return make_error(StatusCode::InvalidArgument, "\"channels\" must be a list of widths");
  }
  for (const Value& channel : *channels) {
    MINUET_ASSIGN(const i32 width, read_size(channel, "channels"));
    network.channels.push_back(width);
  }
  if (root.get("shape")) {
    MINUET_ASSIGN(network.shape, read_axes(root, "shape", network.ndim));
    std::fill(network.shape.begin() + network.ndim, network.shape.end(), 0);
  }
  if (const Value* epsilon = root.get("batch_norm_epsilon")) {
    MINUET_ASSIGN(network.batch_norm_epsilon, read_epsilon(*epsilon, "batch_norm_epsilon"));
  }
  if (root.get("weights_order")) {
    MINUET_ASSIGN(const std::string order, read_text(root, "weights_order"));
    MINUET_ASSIGN(network.weights_order, parse_weights_order(order));
  }
  MINUET_TRY(read_layers(root, network));
  return network;
}

}  // namespace

const char* op_name(LayerDescription::Op op) { return kOpNames[static_cast<int>(op)]; }

llvm::ArrayRef<const char*> part_names(LayerDescription::Op op) {
  static constexpr const char* kResidual[] = {"conv1", "conv2", "shortcut"};
  static constexpr const char* kBottleneck[] = {"conv1", "conv2", "conv3", "shortcut"};
  if (op == LayerDescription::Op::Residual) return kResidual;
  if (op == LayerDescription::Op::Bottleneck) return kBottleneck;
  return {};
}

llvm::Expected<NetworkDescription> parse_network(llvm::StringRef json) {
  if (llvm::Error error = refuse_other_than_json(json, "a network description")) {
    return annotate(std::move(error), "network description");
  }
  llvm::Expected<Value> value = parse_json(json);
  if (!value) {
    return make_error(StatusCode::InvalidArgument, "the network description is not JSON: {0}",
                      llvm::toString(value.takeError()));
  }
  const Object* root = value->getAsObject();
  if (!root) return make_error(StatusCode::InvalidArgument, "the network description is not a JSON object");
  llvm::Expected<NetworkDescription> network = read_network(*root);
  if (!network) return annotate(network.takeError(), "network description");
  network->json = json.str();
  return network;
}

llvm::Expected<llvm::StringRef> shipped_network(llvm::StringRef name) {
  std::string names;
  for (const ShippedNetwork& network : kShippedNetworks) {
    if (name == network.name) return llvm::StringRef(network.json);
    names += (names.empty() ? "" : ", ") + std::string(network.name);
  }
  return make_error(StatusCode::NotFound, "there is no network named \"{0}\"; the shipped networks are {1}",
                    name, names);
}

}  // namespace minuet
