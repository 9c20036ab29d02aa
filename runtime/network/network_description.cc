#include "runtime/network/network_description.h"

#include <algorithm>
#include <set>

#include "codegen/base/file_kind.h"
#include "codegen/base/json_text.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/network/description_fields.h"
#include "runtime/network/ops/op_entry.h"

namespace minuet {
namespace {

using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;
using Op = LayerDescription::Op;

/// Lists all ops, for example "block, residual, up".
std::string ops_text() {
  std::string text;
  for (const OpEntry& entry : op_entries()) text += (text.empty() ? "" : ", ") + std::string(entry.name);
  return text;
}

llvm::Expected<Op> read_op(const Object& object) {
  MINUET_ASSIGN(const std::string op, read_text(object, "op"));
  const llvm::ArrayRef<OpEntry> entries = op_entries();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (op == entries[i].name) return static_cast<Op>(i);
  }
  return at("op", make_error(StatusCode::InvalidArgument, "op \"{0}\" is unknown: use {1}", op, ops_text()));
}

/// Returns the op and the name of a layer for a message, for example "block conv1".
std::string subject_of(const Object& object, Op op) {
  const std::string name = text_or_empty(object, "name");
  return op_name(op) + (name.empty() ? "" : " " + name);
}

llvm::Expected<LayerDescription> read_layer(const Value& value, const NetworkDescription& network) {
  const Object* const object = value.getAsObject();
  if (!object) return make_error(StatusCode::InvalidArgument, "a layer must be an object of fields");
  LayerDescription layer;
  MINUET_ASSIGN(layer.op, read_op(*object));
  MINUET_TRY(about(subject_of(*object, layer.op), entry_of(layer.op).read(*object, network, layer)));
  return layer;
}

llvm::Error read_layers(const Object& root, NetworkDescription& network) {
  const Array* layers = root.getArray("layers");
  if (!layers || layers->empty()) {
    return at("layers",
              make_error(StatusCode::InvalidArgument, "\"layers\" must be a list of at least one layer"));
  }
  for (std::size_t i = 0; i < layers->size(); ++i) {
    MINUET_ASSIGN(LayerDescription layer, at(element("layers", i), read_layer((*layers)[i], network)));
    network.layers.push_back(std::move(layer));
  }
  return llvm::Error::success();
}

llvm::Expected<InputDescription> read_input(const Value& value, bool is_first) {
  const Object* const object = value.getAsObject();
  if (!object) return make_error(StatusCode::InvalidArgument, "an input must be an object of fields");
  MINUET_TRY(check_fields(*object, "an input", {"name", "channels", "level", "type"}));
  InputDescription input;
  MINUET_ASSIGN(input.name, read_text(*object, "name"));
  const Value* const channels = object->get("channels");
  if (!channels) {
    return at("channels", make_error(StatusCode::InvalidArgument, "\"channels\" is missing"));
  }
  MINUET_ASSIGN(input.channels, read_size(*channels, "channels"));
  MINUET_TRY(read_optional_text(*object, "level", input.level));
  std::string type = "features";
  MINUET_TRY(read_optional_text(*object, "type", type));
  input.is_mask = type == "mask";
  if (!input.is_mask && type != "features") {
    return at("type", make_error(StatusCode::InvalidArgument, "\"type\" must be \"features\" or \"mask\""));
  }
  if (input.is_mask && is_first) {
    return at("type", make_error(StatusCode::InvalidArgument,
                                 "the first input has the features of the caller's coordinates and cannot be "
                                 "a mask: put it behind them"));
  }
  if (is_first == input.level.empty()) return input;
  return at("level", is_first
                         ? make_error(StatusCode::InvalidArgument,
                                      "the first input has the coordinates that the caller prepares: leave "
                                      "\"level\" out")
                         : make_error(StatusCode::InvalidArgument,
                                      "\"level\" is missing: name the input or the result that has the "
                                      "coordinates of this input"));
}

llvm::Error read_inputs(const Object& root, NetworkDescription& network) {
  const Value* const inputs = root.get("inputs");
  const Value* const in_channels = root.get("in_channels");
  if (!inputs && !in_channels) {
    return at("in_channels", make_error(StatusCode::InvalidArgument, "\"in_channels\" is missing"));
  }
  if (!inputs) {
    InputDescription& input = network.inputs.emplace_back();
    input.name = kUsualInput;
    MINUET_ASSIGN(input.channels, read_size(*in_channels, "in_channels"));
    return llvm::Error::success();
  }
  if (in_channels) {
    return at("in_channels", make_error(StatusCode::InvalidArgument,
                                        "\"in_channels\" and \"inputs\" are both given: leave "
                                        "\"in_channels\" out"));
  }
  network.has_inputs = true;
  const Array* const list = inputs->getAsArray();
  if (!list || list->empty()) {
    return at("inputs",
              make_error(StatusCode::InvalidArgument, "\"inputs\" must be a list of at least one input"));
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < list->size(); ++i) {
    MINUET_ASSIGN(InputDescription input, at(element("inputs", i), read_input((*list)[i], i == 0)));
    if (!names.insert(input.name).second) {
      return at(
          element("inputs", i) + ".name",
          make_error(StatusCode::InvalidArgument, "two inputs are called \"{0}\": rename one", input.name));
    }
    network.inputs.push_back(std::move(input));
  }
  return llvm::Error::success();
}

llvm::Error read_outputs(const Object& root, NetworkDescription& network) {
  const Value* const outputs = root.get("outputs");
  if (!outputs) return llvm::Error::success();
  const Array* const list = outputs->getAsArray();
  if (!list || list->empty()) {
    return at("outputs",
              make_error(StatusCode::InvalidArgument, "\"outputs\" must be a list of at least one name"));
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto name = (*list)[i].getAsString();
    if (!name || name->empty()) {
      return at(element("outputs", i),
                make_error(StatusCode::InvalidArgument, "an output must be the name of a result"));
    }
    if (llvm::is_contained(network.outputs, name->str())) {
      return at(element("outputs", i),
                make_error(StatusCode::InvalidArgument, "\"{0}\" is an output twice: leave one out", *name));
    }
    network.outputs.push_back(name->str());
  }
  return llvm::Error::success();
}

llvm::Error read_channels(const Object& root, NetworkDescription& network) {
  const Value* const channels = root.get("channels");
  if (!channels) return llvm::Error::success();
  const Array* const list = channels->getAsArray();
  if (!list || list->empty()) {
    return at("channels", make_error(StatusCode::InvalidArgument, "\"channels\" must be a list of widths"));
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    MINUET_ASSIGN(const i32 width, read_size((*list)[i], element("channels", i)));
    network.channels.push_back(width);
  }
  return llvm::Error::success();
}

llvm::Expected<NetworkDescription> read_network(const Object& root) {
  NetworkDescription network;
  MINUET_TRY(check_fields(root, "a network",
                          {"name", "ndim", "in_channels", "channels", "batch_norm_epsilon", "weights_order",
                           "layers", "inputs", "outputs", "shape"}));
  MINUET_ASSIGN(network.name, read_text(root, "name"));
  const auto ndim = root.getInteger("ndim");
  if (!ndim || *ndim < 1 || *ndim > kMaxDim) {
    return at("ndim", make_error(StatusCode::InvalidArgument, "\"ndim\" must be 1 to {0}", kMaxDim));
  }
  network.ndim = static_cast<i32>(*ndim);
  MINUET_TRY(read_inputs(root, network));
  MINUET_TRY(read_outputs(root, network));
  if (const Value* const shape = root.get("shape")) {
    MINUET_ASSIGN(network.shape, read_axes(*shape, "shape", network.ndim, {1, kMostCells}, 0));
  }
  MINUET_TRY(read_channels(root, network));
  if (const Value* epsilon = root.get("batch_norm_epsilon")) {
    MINUET_ASSIGN(network.batch_norm_epsilon, read_epsilon(*epsilon, "batch_norm_epsilon"));
  }
  if (root.get("weights_order")) {
    MINUET_ASSIGN(const std::string order, read_text(root, "weights_order"));
    MINUET_ASSIGN(network.weights_order, at("weights_order", parse_weights_order(order)));
  }
  MINUET_TRY(read_layers(root, network));
  return network;
}

}  // namespace

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
  if (!network) return annotate(with_place(network.takeError()), "network description");
  network->json = json.str();
  return network;
}

std::string print_network(const NetworkDescription& network,
                          const std::map<std::string, i32>& head_channels) {
  Array inputs, layers;
  for (const InputDescription& input : network.inputs) {
    Object object{{"name", input.name}, {"channels", input.channels}};
    if (!input.level.empty()) object["level"] = input.level;
    if (input.is_mask) object["type"] = "mask";
    inputs.push_back(std::move(object));
  }
  for (LayerDescription layer : network.layers) {
    const auto head = head_channels.find(layer.name);
    if (layer.op == Op::Head && layer.classes == 0 && head != head_channels.end())
      layer.classes = head->second;
    Object object{{"op", op_name(layer.op)}};
    if (!layer.input.empty()) object["input"] = layer.input;
    if (!layer.save.empty()) object["output"] = layer.save;
    entry_of(layer.op).print(layer, network.ndim, object);
    layers.push_back(std::move(object));
  }
  Object root{{"name", network.name},
              {"ndim", network.ndim},
              {"batch_norm_epsilon", network.batch_norm_epsilon},
              {"weights_order", weights_order_name(network.weights_order)},
              {"layers", std::move(layers)}};
  if (network.has_inputs) {
    root["inputs"] = std::move(inputs);
  } else {
    root["in_channels"] = network.inputs[0].channels;
  }
  if (!network.outputs.empty()) root["outputs"] = Array(network.outputs);
  if (!network.channels.empty()) root["channels"] = Array(network.channels);
  if (network.shape != AxisArray{}) root["shape"] = axes_json(network.shape, network.ndim);
  return print_json(std::move(root), /*indent=*/2) + "\n";
}

}  // namespace minuet
