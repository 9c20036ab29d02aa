#include "runtime/network/network_program.h"

#include <algorithm>

#include "llvm/ADT/STLExtras.h"
#include "runtime/network/cover_chains.h"
#include "runtime/network/graph_builder.h"
#include "runtime/network/ops/op_entry.h"
#include "runtime/network/precisions.h"
#include "runtime/program/ops/convolution.h"
#include "runtime/program/program_memory.h"
#include "runtime/program/stages.h"

namespace minuet {

GraphBuilder::GraphBuilder(const NetworkDescription& description, DType dtype,
                           const HeadChannels& head_channels, std::optional<Dataflow> dataflow)
    : description_(description), head_channels_(head_channels), dataflow_(dataflow) {
  program_.name = description.name;
  program_.ndim = description.ndim;
  program_.dtype = dtype;
  LevelSpec level;
  if (description.takes_points()) {
    level.holds_points = true;
    level.dropped_axes = (1u << description.ndim) - 1;
  } else {
    level.shape = description.shape;
  }
  program_.levels.push_back(level);
  program_.inputs.assign(description.inputs.size(), -1);
  for (const InputDescription& input : description.inputs) program_.input_names.push_back(input.name);
}

llvm::Expected<Program> GraphBuilder::build(bool covers_chains) {
  MINUET_TRY(add_input(0, /*level=*/0));
  current_ = program_.inputs[0];
  for (std::size_t i = 0; i < description_.layers.size(); ++i) {
    const LayerDescription& layer = description_.layers[i];
    const std::string subject = op_name(layer.op) + (layer.name.empty() ? "" : " " + layer.name);
    const std::size_t first = program_.layers.size();
    MINUET_TRY(at(element("layers", i), about(subject, add(layer))));
    for (std::size_t l = first; l < program_.layers.size(); ++l)
      places_[program_.layers[l].name] = {element("layers", i), subject};
  }
  if (program_.layers.empty()) {
    return at("layers", make_error(StatusCode::InvalidArgument,
                                   "the network has only a head without weights, or only a concat, which "
                                   "compute nothing: give the head \"classes\", or add a layer"));
  }
  MINUET_TRY(add_outputs());
  MINUET_TRY(check_inputs());
  if (program_.takes_points()) add_point_inputs();
  move_items_last();
  if (covers_chains) cover_chains(program_);
  add_layer_outputs();
  MINUET_TRY(assign_types());
  assign_columns(program_);
  stack_storages(program_);
  return std::move(program_);
}

/// Gives the tensors the types that the precisions of the layers ask for.
llvm::Error GraphBuilder::assign_types() {
  fault_ = assign_precisions(program_);
  if (!fault_) return llvm::Error::success();
  const auto [place, subject] = places_[fault_->layer];
  const std::string& part = find_convolution(fault_->layer)->origin.part;
  llvm::Error error = at("precision", make_error(StatusCode::InvalidArgument,
                                                 "the convolution cannot compute in 8 bits, because {0}: {1}",
                                                 fault_->reason, fault_->remedy));
  if (!part.empty()) error = at(part, std::move(error));
  return at(place, about(subject, std::move(error)));
}

/// Adds the tensor of an input, and of all inputs that are on the same level because of it.
llvm::Error GraphBuilder::add_input(std::size_t number, i32 level) {
  const InputDescription& input = description_.inputs[number];
  if (program_.levels[root_of(program_, level)].is_made_in_run()) {
    return at(
        element("inputs", number) + ".level",
        make_error(StatusCode::InvalidArgument,
                   "the input \"{0}\" would lie on a level whose coordinates an op makes in each run, so "
                   "that the caller cannot know its rows: put it on the level of another input",
                   input.name));
  }
  program_.inputs[number] = add_tensor(level, input.channels);
  program_.storages.back().holds_mask = input.is_mask;
  if (number == 0 && program_.levels[level].holds_points) program_.storages.back().holds_points = true;
  results_[input.name] = program_.inputs[number];
  return add_inputs_on(input.name, level);
}

/// Adds the batch indices and the number of points, which only voxelize and devoxelize read.
void GraphBuilder::add_point_inputs() {
  for (const char* const name : {kBatchInput, kCountInput}) {
    program_.inputs.push_back(add_tensor(/*level=*/0, /*channels=*/1));
    program_.storages.back().holds_integers = true;
    program_.input_names.emplace_back(name);
  }
}

/// Adds the inputs whose description names `name`, which is on `level`.
llvm::Error GraphBuilder::add_inputs_on(const std::string& name, i32 level) {
  for (std::size_t i = 1; i < description_.inputs.size(); ++i) {
    if (description_.inputs[i].level == name && program_.inputs[i] < 0) MINUET_TRY(add_input(i, level));
  }
  return llvm::Error::success();
}

llvm::Error GraphBuilder::add(const LayerDescription& layer) {
  if (!layer.input.empty()) {
    MINUET_ASSIGN(current_, find_result(layer.input, "input"));
  }
  if (tensor(current_).is_dense() && layer.op != LayerDescription::Op::FromDense) {
    return at("input", make_error(StatusCode::InvalidArgument,
                                  "the layer reads a dense tensor, but only the op from_dense can: put "
                                  "from_dense in between, or name another input"));
  }
  if (layer.op != LayerDescription::Op::Voxelize) MINUET_TRY(check_is_features(current_, "input"));
  read_.insert(current_);
  MINUET_ASSIGN(const LayerDescription built, on_axes_of_input(layer));
  MINUET_TRY(entry_of(layer.op).build(*this, built));
  if (!layer.name.empty()) layers_.insert(layer.name);
  return layer.save.empty() ? llvm::Error::success() : save(layer);
}

/// Gives the name that the layer's description has to its result.
llvm::Error GraphBuilder::save(const LayerDescription& layer) {
  const bool is_input = llvm::any_of(description_.inputs,
                                     [&](const InputDescription& input) { return input.name == layer.save; });
  // The name of the only input is not reserved if the description does not choose it.
  const bool may_replace = is_input && !description_.has_inputs && !is_usual_input_replaced_;
  if (is_input && description_.has_inputs) {
    return at("output", make_error(StatusCode::InvalidArgument, "\"{0}\" is the name of an input: rename one",
                                   layer.save));
  }
  if (!may_replace && results_.count(layer.save) != 0) {
    return at("output", make_error(StatusCode::InvalidArgument,
                                   "two layers save their output as \"{0}\": rename one", layer.save));
  }
  is_usual_input_replaced_ |= may_replace;
  results_[layer.save] = current_;
  if (tensor(current_).is_dense()) return llvm::Error::success();  // No input lies on a dense tensor.
  return add_inputs_on(layer.save, level_of(current_));
}

llvm::Expected<i32> GraphBuilder::level_of_items(i32 level) {
  const auto found = llvm::find_if(program_.levels, [](const LevelSpec& other) { return other.holds_items; });
  if (found != program_.levels.end()) {
    const auto number = static_cast<i32>(found - program_.levels.begin());
    if (root_of(program_, number) == root_of(program_, level)) return number;
    return at("input",
              make_error(StatusCode::InvalidArgument,
                         "an op of the network makes a level in each run, and another layer pools a "
                         "level on the other side of this op already: pool levels of one side only"));
  }
  LevelSpec items;
  items.holds_items = true;
  items.dropped_axes = (1u << program_.ndim) - 1;
  program_.levels.push_back(items);
  return static_cast<i32>(program_.levels.size()) - 1;
}

/// Makes the level of batch items the last one (LevelSpec::holds_items).
void GraphBuilder::move_items_last() {
  const auto items = llvm::find_if(program_.levels, [](const LevelSpec& level) { return level.holds_items; });
  if (items == program_.levels.end()) return;
  const auto from = static_cast<i32>(items - program_.levels.begin());
  const auto last = static_cast<i32>(program_.levels.size()) - 1;
  const auto renumber = [&](i32& level) { level = level == from ? last : level > from ? level - 1 : level; };
  std::rotate(items, items + 1, program_.levels.end());
  for (LevelSpec& level : program_.levels) renumber(level.parent), renumber(level.other_parent);
  for (TensorSpec& tensor : program_.tensors) renumber(tensor.level);
  for (StorageSpec& storage : program_.storages) renumber(storage.level);
  for (MapSpec& map : program_.maps) renumber(map.fine), renumber(map.coarse);
  for (ProgramLayer& layer : program_.layers) renumber(layer.coordinates_level);
}

llvm::Error GraphBuilder::add_outputs() {
  if (description_.outputs.empty()) return add_output(kUsualOutput, current_);
  for (std::size_t i = 0; i < description_.outputs.size(); ++i) {
    const std::string& name = description_.outputs[i];
    const auto found = results_.find(name);
    if (found != results_.end()) {
      MINUET_TRY(at(element("outputs", i), add_output(name, found->second)));
    } else if (find_observed(name) != nullptr) {
      program_.outputs.push_back(-1);  // add_layer_outputs() sets the tensor.
      program_.output_names.push_back(name);
    } else {
      return at(
          element("outputs", i),
          make_error(StatusCode::InvalidArgument,
                     "no layer has the output \"{0}\": correct this name, or the layer's \"output\"", name));
    }
  }
  return llvm::Error::success();
}

/// Returns the convolution whose result an output of this name is, or null if there is none.
const ProgramLayer* GraphBuilder::find_observed(llvm::StringRef output) const {
  return output.consume_front(kLayerOutput) ? find_convolution(output.str()) : nullptr;
}

/// Returns the convolution of this name, or null if there is none.
const ProgramLayer* GraphBuilder::find_convolution(const std::string& name) const {
  const auto found = llvm::find_if(program_.layers, [&](const ProgramLayer& layer) {
    return layer.name == name && convolution_of(layer) != nullptr;
  });
  return found == program_.layers.end() ? nullptr : &*found;
}

/// Sets the tensors of the outputs that are named after convolutions. Their kernels may compute ops behind
/// them (cover_chains.h), so that their results are known late.
void GraphBuilder::add_layer_outputs() {
  for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
    if (program_.outputs[i] < 0) program_.outputs[i] = find_observed(program_.output_names[i])->output;
  }
}

llvm::Error GraphBuilder::add_output(const std::string& name, i32 tensor) {
  if (llvm::is_contained(program_.inputs, tensor)) {
    return make_error(StatusCode::InvalidArgument,
                      "the output \"{0}\" is an input of the network, which no layer changes: leave it out",
                      name);
  }
  program_.outputs.push_back(tensor);
  program_.output_names.push_back(name);
  return llvm::Error::success();
}

/// Returns InvalidArgument if an input is on no level of the network, or if no layer reads it.
llvm::Error GraphBuilder::check_inputs() const {
  for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
    const InputDescription& input = description_.inputs[i];
    if (program_.inputs[i] < 0) {
      return at(element("inputs", i) + ".level",
                make_error(StatusCode::InvalidArgument,
                           "no input and no layer's output is called \"{0}\": correct this name, or the "
                           "layer's \"output\"",
                           input.level));
    }
    if (read_.count(program_.inputs[i]) != 0) continue;
    return at(element("inputs", i), make_error(StatusCode::InvalidArgument,
                                               "no layer reads the input \"{0}\": leave it out", input.name));
  }
  return llvm::Error::success();
}

llvm::Expected<Program> build_program(const NetworkDescription& description, DType dtype,
                                      const HeadChannels& head_channels, std::optional<Dataflow> dataflow,
                                      bool covers_chains) {
  llvm::Expected<Program> program =
      GraphBuilder(description, dtype, head_channels, dataflow).build(covers_chains);
  if (!program) return annotate(with_place(program.takeError()), "network description");
  return program;
}

llvm::Expected<std::optional<PrecisionFault>> find_precision_fault(const NetworkDescription& description,
                                                                   const HeadChannels& head_channels) {
  GraphBuilder builder(description, DType::F16, head_channels, /*dataflow=*/{});
  llvm::Expected<Program> program = builder.build(/*covers_chains=*/true);
  if (program) return std::nullopt;
  if (!builder.precision_fault()) return with_place(program.takeError());
  llvm::consumeError(program.takeError());
  return builder.precision_fault();
}

}  // namespace minuet
