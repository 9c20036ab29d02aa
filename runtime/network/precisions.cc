#include "runtime/network/precisions.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "codegen/choose/ops/pointwise.h"
#include "codegen/choose/ops/pooling.h"
#include "codegen/choose/ops/space.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/program/ops/convolution.h"

namespace minuet {
namespace {

/// Says in which forms the result of a layer, or an input, is read. The numbers are those of a layer that
/// reads it in this form, or -1. An output of the program counts as a reader of floating numbers.
struct Forms {
  i32 int8_reader = -1;
  bool has_float_reader = false;
};

constexpr const char* kSetFloat = "set its \"precision\" to \"float\"";

/// Returns true if each output of the pooling has at most one input, so that every reduction is a copy.
bool has_single_inputs(const PoolingProblem& problem) {
  if (!problem.is_transposed() || !problem.offsets.empty() || problem.dilation != AxisArray{1, 1, 1, 1})
    return false;
  for (std::size_t a = 0; a < problem.kernel_size.size(); ++a) {
    if (problem.kernel_size[a] > problem.stride[a]) return false;
  }
  return true;
}

/// Returns true if each element of the op's output is an element of its input, or 0.
bool moves_elements(const ProgramLayer& layer) {
  if (layer.problem.get_if<SpaceToChannelProblem>() || layer.problem.get_if<ChannelToSpaceProblem>())
    return true;
  const auto* const pooling = layer.problem.get_if<PoolingProblem>();
  return pooling != nullptr && !pooling->winners &&
         (pooling->reduction == Reduction::Max || has_single_inputs(*pooling));
}

/// Returns the problem of a layer that moves elements of `type`.
OpProblem moving_problem(const ProgramLayer& layer, DType type) {
  if (const auto* const given = layer.problem.get_if<SpaceToChannelProblem>()) {
    SpaceToChannelProblem problem = *given;
    problem.dtype = type;
    return problem;
  }
  if (const auto* const given = layer.problem.get_if<ChannelToSpaceProblem>()) {
    ChannelToSpaceProblem problem = *given;
    problem.dtype = type;
    return problem;
  }
  PoolingProblem problem = layer.problem.get<PoolingProblem>();
  problem.dtype = type;
  problem.reduction = Reduction::Max;
  return problem;
}

class PrecisionAssignment {
 public:
  explicit PrecisionAssignment(Program& program) : program_(program), forms_(program.tensors.size()) {}

  std::optional<PrecisionFault> run() {
    find_forms();
    if (std::optional<PrecisionFault> fault = check_producers()) return fault;
    make_storages();
    choose_types();
    if (std::optional<PrecisionFault> fault = find_scales()) return fault;
    if (std::optional<PrecisionFault> fault = check_residuals()) return fault;
    set_types();
    return std::nullopt;
  }

 private:
  bool overlap(i32 a, i32 b) const {
    const TensorSpec &first = program_.tensors[a], &second = program_.tensors[b];
    return first.storage == second.storage && first.column < second.column + second.channels &&
           second.column < first.column + first.channels;
  }

  /// Returns the tensors that layers write, and inputs, of which the columns of a tensor consist.
  std::vector<i32> parts_of(i32 tensor) const {
    std::vector<i32> parts;
    for (const i32 part : written_) {
      if (overlap(part, tensor)) parts.push_back(part);
    }
    return parts;
  }

  // ---- which forms of a tensor are read

  /// Records that layer `reader` reads a tensor. `reader` is -1 for an output of the program.
  void read(i32 tensor, i32 reader, bool in_int8) {
    for (const i32 part : parts_of(tensor)) {
      if (in_int8) {
        forms_[part].int8_reader = reader;
      } else {
        forms_[part].has_float_reader = true;
      }
    }
  }

  void find_forms() {
    for (const i32 input : program_.inputs) written_.push_back(input);
    for (const ProgramLayer& layer : program_.layers) written_.push_back(layer.output);
    for (const i32 output : program_.outputs) read(output, -1, /*in_int8=*/false);
    // Every reader of a tensor comes behind its producer.
    for (i32 i = static_cast<i32>(program_.layers.size()) - 1; i >= 0; --i) read_operands(i);
  }

  void read_operands(i32 number) {
    const ProgramLayer& layer = program_.layers[number];
    Forms& forms = forms_[layer.output];
    if (moves_elements(layer) && forms.int8_reader >= 0) {
      read(layer.input, forms.int8_reader, /*in_int8=*/true);
      if (forms.has_float_reader) read(layer.input, number, /*in_int8=*/false);
      return;
    }
    // Layers whose results are not read run too.
    if (forms.int8_reader < 0) forms.has_float_reader = true;
    read(layer.input, number, layer.is_int8);
    if (layer.residual >= 0) read(layer.residual, number, layer.is_int8);
    for (const i32 operand : layer.operands) read(operand, number, /*in_int8=*/false);
  }

  // ---- who writes them

  PrecisionFault fault_of(i32 reader, std::string reason, std::string remedy) const {
    return {program_.layers[reader].name, std::move(reason), std::move(remedy)};
  }

  /// Begins the reason why a layer that reads the result of another one cannot compute in 8 bits.
  static std::string of_result(const ProgramLayer& producer) {
    return "it reads the result of \"" + producer.name + "\", ";
  }

  std::optional<PrecisionFault> check_producers() const {
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      const Forms& forms = forms_[program_.inputs[i]];
      if (forms.int8_reader < 0) continue;
      return fault_of(
          forms.int8_reader,
          "it reads the network's input \"" + program_.input_names[i] + "\", which has floating numbers",
          "set its \"precision\" to \"float\"; a \"float\" convolution with an \"output_range\" can write "
          "8-bit numbers for the layers behind it");
    }
    for (const ProgramLayer& layer : program_.layers) {
      const Forms& forms = forms_[layer.output];
      if (forms.int8_reader < 0 || moves_elements(layer)) continue;
      if (convolution_of(layer) == nullptr) {
        return fault_of(forms.int8_reader, of_result(layer) + "which computes in floating numbers",
                        kSetFloat);
      }
      if (convolution_of(layer)->groups > 1) {
        return fault_of(forms.int8_reader,
                        of_result(layer) + "which has groups, and no kernel with groups writes 8-bit numbers",
                        kSetFloat);
      }
      if (layer.output_range > 0) continue;
      return fault_of(forms.int8_reader, of_result(layer) + "which has no \"output_range\"",
                      "give the largest magnitude of that result, or set the \"precision\" to \"float\"");
    }
    return std::nullopt;
  }

  // ---- storages

  /// Returns true if a part of the storage is read in floating numbers, or is an input.
  bool holds_floats(i32 storage) const {
    return llvm::any_of(written_, [&](i32 part) {
      return program_.tensors[part].storage == storage && forms_[part].has_float_reader;
    });
  }

  /// Gives each storage that is read in 8 bits a twin of such elements. A storage that is read in no other
  /// form is its own twin.
  void make_storages() {
    const auto storages = static_cast<i32>(program_.storages.size());
    for (const i32 part : written_) {
      const i32 storage = program_.tensors[part].storage;
      if (forms_[part].int8_reader < 0 || twins_.count(storage) != 0) continue;
      twins_[storage] = storage;
      if (!holds_floats(storage)) continue;
      twins_[storage] = static_cast<i32>(program_.storages.size());
      program_.storages.push_back(StorageSpec(program_.storages[storage]));
    }
    for (i32 storage = 0; storage < storages; ++storage) classes_.push_back(storage);
  }

  /// Returns the 8-bit form of a tensor.
  i32 twin_of(i32 tensor) {
    const i32 storage = twins_.at(program_.tensors[tensor].storage);
    if (storage == program_.tensors[tensor].storage) return tensor;
    const auto [found, is_new] = tensor_twins_.emplace(tensor, static_cast<i32>(program_.tensors.size()));
    if (is_new) {
      TensorSpec twin = program_.tensors[tensor];
      twin.storage = storage;
      program_.tensors.push_back(std::move(twin));
    }
    return found->second;
  }
  StorageSpec& int8_storage_of(i32 tensor) {
    return program_.storages[twins_.at(program_.tensors[tensor].storage)];
  }

  // ---- types

  i32 class_of(i32 storage) {
    while (classes_[storage] != storage) storage = classes_[storage] = classes_[classes_[storage]];
    return storage;
  }

  bool writes_int8(const ProgramLayer& layer) const { return forms_[layer.output].int8_reader >= 0; }

  /// Chooses signed or unsigned elements. All parts of a storage have one type, and ops that move elements do
  /// not change it. It is unsigned if every convolution that writes such a storage ends in a ReLU.
  void choose_types() {
    for (const ProgramLayer& layer : program_.layers) {
      if (!writes_int8(layer) || convolution_of(layer) != nullptr) continue;
      classes_[class_of(program_.tensors[layer.input].storage)] =
          class_of(program_.tensors[layer.output].storage);
    }
    std::map<i32, bool> is_signed;
    for (const ProgramLayer& layer : program_.layers) {
      const ConvolutionProblem* const problem = convolution_of(layer);
      if (!writes_int8(layer) || problem == nullptr) continue;
      is_signed[class_of(program_.tensors[layer.output].storage)] |= problem->activation != Activation::ReLU;
    }
    for (const auto& [storage, twin] : twins_) {
      program_.storages[twin].integers = is_signed[class_of(storage)] ? DType::S8 : DType::U8;
      program_.storages[twin].scales.assign(static_cast<std::size_t>(program_.storages[twin].ld), 1.0f);
    }
  }

  // ---- scales

  llvm::MutableArrayRef<float> scales_of(i32 tensor) {
    const TensorSpec& spec = program_.tensors[tensor];
    return llvm::MutableArrayRef<float>(int8_storage_of(tensor).scales)
        .slice(static_cast<std::size_t>(spec.column), static_cast<std::size_t>(spec.channels));
  }

  std::optional<PrecisionFault> find_scales() {
    for (const ProgramLayer& layer : program_.layers) {
      if (!writes_int8(layer)) continue;
      const llvm::MutableArrayRef<float> scales = scales_of(layer.output);
      if (convolution_of(layer) != nullptr) {
        const i32 largest = largest_integer(*int8_storage_of(layer.output).integers);
        std::fill(scales.begin(), scales.end(), layer.output_range / static_cast<float>(largest));
        continue;
      }
      const llvm::MutableArrayRef<float> sources = scales_of(layer.input);
      for (std::size_t c = 0; c < std::max(scales.size(), sources.size()); ++c) {
        // The channels of children lie side by side.
        float& scale = scales[c % scales.size()];
        const float source = sources[c % sources.size()];
        if (c >= scales.size() && scale != source) {
          return fault_of(forms_[layer.output].int8_reader,
                          of_result(layer) + "whose channels come from convolutions with different ranges",
                          std::string(kSetFloat) + ", or give them the same \"output_range\"");
        }
        scale = source;
      }
    }
    return std::nullopt;
  }

  /// A kernel multiplies a residual by one scale.
  std::optional<PrecisionFault> check_residuals() {
    for (std::size_t i = 0; i < program_.layers.size(); ++i) {
      const ProgramLayer& layer = program_.layers[i];
      if (!layer.is_int8 || layer.residual < 0) continue;
      const llvm::ArrayRef<float> scales = scales_of(layer.residual);
      if (llvm::all_of(scales, [&](float scale) { return scale == scales.front(); })) continue;
      return fault_of(static_cast<i32>(i), "it adds a concat of results with different ranges",
                      std::string(kSetFloat) + ", or give these results the same \"output_range\"");
    }
    return std::nullopt;
  }

  // ---- problems

  void set_types() {
    std::vector<ProgramLayer> layers;
    std::vector<i32> places;  // Holds where each layer of the program is in `layers`.
    for (std::size_t i = 0; i < program_.layers.size(); ++i) {
      places.push_back(static_cast<i32>(layers.size()));
      if (convolution_of(program_.layers[i]) == nullptr) {
        add_other(program_.layers[i], layers);
      } else {
        add_convolution(i, layers);
      }
    }
    for (LevelSpec& level : program_.levels) {
      if (level.is_made_in_run()) level.made_by = places[level.made_by];
    }
    program_.layers = std::move(layers);
  }

  void add_other(const ProgramLayer& layer, std::vector<ProgramLayer>& layers) {
    if (!writes_int8(layer)) return layers.push_back(layer);
    ProgramLayer moving = layer;
    moving.problem = moving_problem(layer, *int8_storage_of(layer.output).integers);
    moving.input = twin_of(layer.input);
    moving.output = twin_of(layer.output);
    if (forms_[layer.output].has_float_reader) {
      layers.push_back(layer);
      moving.name += kIn8Bits;
    }
    layers.push_back(std::move(moving));
  }

  /// Returns true if layer `number` reads or writes 8-bit elements.
  bool has_int8(std::size_t number) const {
    return program_.layers[number].is_int8 || writes_int8(program_.layers[number]);
  }

  /// Returns true if convolution `number` computes in 8 bits, and its result is read in no other form.
  bool is_int8_alone(std::size_t number) const {
    return program_.layers[number].is_int8 && writes_int8(program_.layers[number]) &&
           !forms_[program_.layers[number].output].has_float_reader;
  }

  /// Lets the layer behind convolution `number` run by itself if its kernel would compute it too, one of both
  /// has 8-bit elements, and no kernel computes both. A kernel of 8 bits computes a shortcut of 8 bits. Its
  /// second output is a copy of the first.
  void separate(std::size_t number) {
    const ConvolutionProblem& joined = *convolution_of(program_.layers[number]);
    if (!joined.shortcut && !joined.second_output) return;
    if (!has_int8(number) && !has_int8(number + 1)) return;
    if (joined.shortcut && is_int8_alone(number) && is_int8_alone(number + 1)) return;
    ConvolutionProblem alone = joined;
    alone.shortcut = alone.second_output = false;
    alone.second_activation = Activation::None;
    alone.second_slope = 0;
    program_.layers[number].problem = alone;
    program_.layers[number + 1].may_join_last = false;
  }

  void add_convolution(std::size_t number, std::vector<ProgramLayer>& layers) {
    separate(number);
    ProgramLayer layer = program_.layers[number];
    ConvolutionProblem problem = *convolution_of(layer);
    if (layer.is_int8) {
      problem.input_type = int8_storage_of(layer.input).integers;
      layer.input_scales = scales_of(layer.input).vec();
      layer.input = twin_of(layer.input);
      if (layer.residual >= 0) {
        problem.residual_type = int8_storage_of(layer.residual).integers;
        layer.residual_scale = scales_of(layer.residual).front();
        layer.residual = twin_of(layer.residual);
      }
    }
    if (problem.shortcut && layer.is_int8)
      problem.shortcut_type = int8_storage_of(program_.layers[number + 1].output).integers;
    if (!writes_int8(layer)) return add(std::move(layer), problem, layers);
    const DType type = *int8_storage_of(layer.output).integers;
    const float scale = scales_of(layer.output).front();
    if (!forms_[layer.output].has_float_reader) {
      problem.output_type = type;
      problem.output_factor = 1 / scale;
      layer.output_scale = scale;
      layer.output = twin_of(layer.output);
      return add(std::move(layer), problem, layers);
    }
    problem.second_output = true;
    problem.second_type = type;
    problem.second_factor = 1 / scale;
    ProgramLayer copy = copy_of(layer, 1 / scale);
    add(std::move(layer), problem, layers);
    layers.push_back(std::move(copy));
  }

  static void add(ProgramLayer layer, const ConvolutionProblem& problem, std::vector<ProgramLayer>& layers) {
    layer.problem = problem;
    layers.push_back(std::move(layer));
  }

  /// Returns the layer that makes the 8-bit copy of a convolution's result. The convolution's kernel computes
  /// it.
  ProgramLayer copy_of(const ProgramLayer& convolution, float factor) {
    PointwiseProblem problem;
    problem.ndim = program_.ndim;
    problem.dtype = program_.dtype;
    problem.channels = program_.tensors[convolution.output].channels;
    problem.steps = {{PointwiseKind::Affine, 0}};
    ProgramLayer copy{OpProblem(problem)};
    copy.name = convolution.name + kIn8Bits;
    copy.affines = {AffineNames{}};
    copy.affines.front().factor = factor;
    copy.map = -1;
    copy.input = convolution.output;
    copy.output = twin_of(convolution.output);
    copy.may_join_last = true;
    return copy;
  }

  static constexpr const char* kIn8Bits = " in 8 bits";

  Program& program_;
  std::vector<i32> written_;
  std::vector<Forms> forms_;  // Has an element for each tensor. Those of written tensors are used.
  // Map a storage and a tensor to its 8-bit form.
  std::map<i32, i32> twins_, tensor_twins_;
  std::vector<i32> classes_;  // Joins storages whose 8-bit elements have the same type.
};

}  // namespace

std::optional<PrecisionFault> assign_precisions(Program& program) {
  const auto is_int8 = [](const ProgramLayer& layer) { return layer.is_int8; };
  if (llvm::none_of(program.layers, is_int8)) return std::nullopt;
  return PrecisionAssignment(program).run();
}

}  // namespace minuet
