#include "runtime/network/ops/pointwise.h"

#include "codegen/choose/ops/pointwise.h"
#include "runtime/network/description_fields.h"
#include "runtime/network/graph_builder.h"

namespace minuet {
namespace {

using llvm::json::Object;
using llvm::json::Value;
using Op = LayerDescription::Op;

llvm::Error read_function(const Object& object, const NetworkDescription& /*network*/,
                          LayerDescription& layer) {
  return read_layer_fields(object, "the ops relu, silu, sigmoid, tanh, softmax and argmax", {"op", "save"},
                           {}, layer);
}

void print_nothing(const LayerDescription& /*layer*/, i32 /*ndim*/, Object& /*object*/) {}

llvm::Error read_leaky_relu(const Object& object, const NetworkDescription& /*network*/,
                            LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the op leaky_relu", {"op", "slope", "save"}, {}, layer));
  layer.fields.slope = kUsualSlope;
  if (const Value* const slope = object.get("slope")) {
    MINUET_ASSIGN(layer.fields.slope, read_slope(*slope, "slope"));
  }
  return llvm::Error::success();
}

void print_leaky_relu(const LayerDescription& layer, i32 /*ndim*/, Object& object) {
  object["slope"] = static_cast<double>(layer.fields.slope);
}

llvm::Error read_gelu(const Object& object, const NetworkDescription& /*network*/, LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the op gelu", {"op", "approximate", "save"}, {}, layer));
  std::string approximate = "none";
  MINUET_TRY(read_optional_text(object, "approximate", approximate));
  layer.approximates_gelu = approximate == "tanh";
  if (layer.approximates_gelu || approximate == "none") return llvm::Error::success();
  return at("approximate",
            make_error(StatusCode::InvalidArgument, "\"approximate\" must be \"none\" or \"tanh\""));
}

void print_gelu(const LayerDescription& layer, i32 /*ndim*/, Object& object) {
  object["approximate"] = layer.approximates_gelu ? "tanh" : "none";
}

llvm::Error read_with(const Object& object, const NetworkDescription& /*network*/, LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the ops add and multiply", {"op", "with", "save"}, {}, layer));
  MINUET_ASSIGN(layer.skip, read_text(object, "with"));
  return llvm::Error::success();
}

void print_with(const LayerDescription& layer, i32 /*ndim*/, Object& object) { object["with"] = layer.skip; }

/// Reads "name", and "epsilon" and "affine" if the layer has them. The defaults are set already.
[[gnu::cold]] llvm::Error read_norm_fields(const Object& object, LayerDescription& layer) {
  MINUET_ASSIGN(layer.name, read_text(object, "name"));
  if (const Value* const epsilon = object.get("epsilon")) {
    MINUET_ASSIGN(layer.fields.epsilon, read_epsilon(*epsilon, "epsilon"));
  }
  if (const Value* const affine = object.get("affine")) {
    MINUET_ASSIGN(layer.fields.affine, read_flag(*affine, "affine"));
  }
  return llvm::Error::success();
}

llvm::Error read_norm(const Object& object, const NetworkDescription& network, LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the ops batch_norm and layer_norm",
                               {"op", "name", "epsilon", "affine", "save"}, {}, layer));
  if (layer.op == Op::BatchNorm) layer.fields.epsilon = network.batch_norm_epsilon;
  return read_norm_fields(object, layer);
}

void print_norm(const LayerDescription& layer, i32 /*ndim*/, Object& object) {
  object["name"] = layer.name;
  object["epsilon"] = layer.fields.epsilon;
  object["affine"] = layer.fields.affine;
}

llvm::Error read_scale_shift(const Object& object, const NetworkDescription& /*network*/,
                             LayerDescription& layer) {
  MINUET_TRY(read_layer_fields(object, "the op scale_shift", {"op", "name", "save"}, {}, layer));
  return read_norm_fields(object, layer);
}

void print_scale_shift(const LayerDescription& layer, i32 /*ndim*/, Object& object) {
  object["name"] = layer.name;
}

/// Returns the tensor that an add or multiply combines with the layer's input.
[[gnu::cold]] llvm::Expected<i32> find_operand(GraphBuilder& graph, const LayerDescription& layer) {
  MINUET_ASSIGN(const i32 operand, graph.find_partner(layer.skip));
  MINUET_TRY(check_same_channels(graph, layer.skip, operand));
  return operand;
}

/// Returns true if the last layer of the program is a chain whose result only the layer that is built now
/// reads, and that has room for `steps` more steps.
bool has_open_chain(GraphBuilder& graph, std::size_t steps) {
  const std::vector<ProgramLayer>& layers = graph.program().layers;
  if (layers.empty() || layers.back().output != graph.current()) return false;
  const auto* const chain = layers.back().problem.get_if<PointwiseProblem>();
  const bool has_room = chain != nullptr && chain->steps.size() + steps <= kMostPointwiseSteps;
  return has_room && !graph.is_named(graph.current());
}

/// Returns a new chain without steps, whose output is a new tensor.
[[gnu::cold]] ProgramLayer make_chain(GraphBuilder& graph) {
  const TensorSpec input = graph.tensor(graph.current());
  PointwiseProblem problem;
  problem.ndim = graph.program().ndim;
  problem.dtype = graph.program().dtype;
  problem.channels = input.channels;
  ProgramLayer layer(problem);
  layer.map = -1;
  layer.input = graph.current();
  layer.output = graph.add_tensor(input.level, input.channels);
  return layer;
}

/// Returns a name that tells the steps and is unique in the program. Layers of the description have other
/// names, because no op of a description has such a name.
std::string name_of(const PointwiseProblem& problem, std::size_t number) {
  std::string name;
  for (const PointwiseStep& step : problem.steps) {
    name += (name.empty() ? "" : "+") + std::string(pointwise_name(step.kind));
  }
  return name + " " + std::to_string(number);
}

/// Appends the steps of a layer to the chain before it if that is possible, and otherwise to a new one.
/// `operand` is the tensor that a step reads, or -1. `affine` names the parameters of an Affine step, or is
/// null.
[[gnu::cold]] llvm::Error add_steps(GraphBuilder& graph, llvm::ArrayRef<PointwiseStep> steps,
                                    i32 operand = -1, const AffineNames* affine = nullptr) {
  Program& program = graph.program();
  if (!has_open_chain(graph, steps.size())) program.layers.push_back(make_chain(graph));
  ProgramLayer& layer = program.layers.back();
  PointwiseProblem problem = layer.problem.get<PointwiseProblem>();
  problem.steps.insert(problem.steps.end(), steps.begin(), steps.end());
  if (operand >= 0) {
    layer.operands.push_back(operand);
    problem.operands.emplace_back();  // assign_columns() sets the columns.
  }
  if (affine != nullptr) layer.affines.push_back(*affine);
  MINUET_TRY(validate(problem));
  if (problem.is_argmax()) {
    TensorSpec& output = program.tensors[layer.output];
    StorageSpec& storage = program.storages[output.storage];
    output.channels = storage.ld = problem.out_channels();
    storage.holds_integers = true;
  }
  layer.name = name_of(problem, program.layers.size() - 1);
  layer.problem = problem;
  graph.set_result(layer.output);
  return llvm::Error::success();
}

PointwiseKind kind_of(const LayerDescription& layer) {
  switch (layer.op) {
    case Op::Relu:
      return PointwiseKind::ReLU;
    case Op::LeakyRelu:
      return PointwiseKind::LeakyReLU;
    case Op::Gelu:
      return layer.approximates_gelu ? PointwiseKind::GeluTanh : PointwiseKind::Gelu;
    case Op::Silu:
      return PointwiseKind::Silu;
    case Op::Sigmoid:
      return PointwiseKind::Sigmoid;
    case Op::Tanh:
      return PointwiseKind::Tanh;
    case Op::Add:
      return PointwiseKind::Add;
    case Op::Multiply:
      return PointwiseKind::Multiply;
    case Op::Softmax:
      return PointwiseKind::Softmax;
    case Op::Argmax:
      return PointwiseKind::Argmax;
    default:
      return PointwiseKind::None;
  }
}

llvm::Error build_step(GraphBuilder& graph, const LayerDescription& layer) {
  const PointwiseStep step{kind_of(layer), layer.fields.slope};
  if (!reads_operand(step.kind)) return add_steps(graph, step);
  MINUET_ASSIGN(const i32 operand, find_operand(graph, layer));
  return add_steps(graph, step, operand);
}

llvm::Error build_batch_norm(GraphBuilder& graph, const LayerDescription& layer) {
  MINUET_TRY(graph.claim(layer.name));
  const AffineNames names{"", "", layer.name, layer.fields.epsilon, layer.fields.affine};
  return add_steps(graph, PointwiseStep{PointwiseKind::Affine}, -1, &names);
}

AffineNames scale_and_shift_of(const LayerDescription& layer) {
  return {.scale = layer.name + ".weight", .shift = layer.name + ".bias", .batch_norm = ""};
}

llvm::Error build_scale_shift(GraphBuilder& graph, const LayerDescription& layer) {
  MINUET_TRY(graph.claim(layer.name));
  const AffineNames names = scale_and_shift_of(layer);
  return add_steps(graph, PointwiseStep{PointwiseKind::Affine}, -1, &names);
}

llvm::Error build_layer_norm(GraphBuilder& graph, const LayerDescription& layer) {
  MINUET_TRY(graph.claim(layer.name));
  const PointwiseStep steps[] = {{PointwiseKind::LayerNorm, static_cast<float>(layer.fields.epsilon)},
                                 {PointwiseKind::Affine}};
  const AffineNames names = scale_and_shift_of(layer);
  if (layer.fields.affine) return add_steps(graph, steps, -1, &names);
  MINUET_TRY(add_steps(graph, steps[0]));
  graph.program().layers.back().bare_norms.push_back(layer.name);
  return llvm::Error::success();
}

}  // namespace

llvm::Error check_same_channels(GraphBuilder& graph, const std::string& name, i32 operand) {
  const i32 wanted = graph.tensor(graph.current()).channels, channels = graph.tensor(operand).channels;
  if (channels == wanted) return llvm::Error::success();
  return at("with",
            make_error(StatusCode::InvalidArgument,
                       "\"{0}\" has {1} channels, but the layer's input has {2}: both must have as many",
                       name, channels, wanted));
}

llvm::Error add_sum(GraphBuilder& graph, i32 operand) {
  return add_steps(graph, PointwiseStep{PointwiseKind::Add}, operand);
}

OpEntry relu_entry() { return {"relu", read_function, print_nothing, build_step}; }
OpEntry leaky_relu_entry() { return {"leaky_relu", read_leaky_relu, print_leaky_relu, build_step}; }
OpEntry gelu_entry() { return {"gelu", read_gelu, print_gelu, build_step}; }
OpEntry silu_entry() { return {"silu", read_function, print_nothing, build_step}; }
OpEntry sigmoid_entry() { return {"sigmoid", read_function, print_nothing, build_step}; }
OpEntry tanh_entry() { return {"tanh", read_function, print_nothing, build_step}; }
OpEntry add_entry() { return {"add", read_with, print_with, build_step}; }
OpEntry multiply_entry() { return {"multiply", read_with, print_with, build_step}; }
OpEntry softmax_entry() { return {"softmax", read_function, print_nothing, build_step}; }
OpEntry argmax_entry() { return {"argmax", read_function, print_nothing, build_step}; }
OpEntry batch_norm_entry() { return {"batch_norm", read_norm, print_norm, build_batch_norm}; }
OpEntry scale_shift_entry() {
  return {"scale_shift", read_scale_shift, print_scale_shift, build_scale_shift};
}
OpEntry layer_norm_entry() { return {"layer_norm", read_norm, print_norm, build_layer_norm}; }

}  // namespace minuet
