// Describes the backward pass of a training step.
//
// Steps of the forward pass are visited in reverse order. Each tensor collects contributions, which are
// tensors of the backward pass whose sum is the gradient of the tensor. A contribution to a concatenation is
// one to each of its parts, of which it holds the columns.
#include <algorithm>

#include "codegen/choose/ops/dense.h"
#include "codegen/choose/ops/global_pooling.h"
#include "codegen/choose/ops/pooling_gradient.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/program/ops/convolution.h"
#include "runtime/training/kept_tensors.h"
#include "runtime/training/pass_program.h"

namespace minuet {
namespace {

class BackwardBuilder {
 public:
  BackwardBuilder(TrainingPasses& passes, const TuningSnapshot* tuning)
      : passes_(passes),
        tuning_(tuning),
        forward_(passes.forward),
        source_(passes.forward.program),
        kept_(passes, pass_),
        given_(source_.tensors.size()),
        added_until_(source_.tensors.size()),
        is_wanted_(source_.tensors.size()),
        first_reader_(source_.tensors.size(), -1) {
    pass_.program.name = source_.name;
    pass_.program.ndim = source_.ndim;
    pass_.program.dtype = source_.dtype;
    pass_.program.levels = source_.levels;
    pass_.program.maps = source_.maps;
    pass_.program.is_training_pass = true;
    pass_.program.inputs.clear();
    std::copy_n(source_.period, kMaxDim, pass_.program.period);
  }

  llvm::Expected<BackwardPass> build() {
    find_wanted();
    find_first_readers();
    add_out_gradients();
    for (step_ = static_cast<i32>(forward_.steps.size()); step_-- > 0;) {
      const PassStep& step = forward_.steps[step_];
      if (step.kind == StepKind::Norm) {
        add_norm(step.number);
      } else {
        MINUET_TRY(add_layer(step.number));
      }
    }
    add_input_gradients();
    return std::move(pass_);
  }

 private:
  /// Is a part of the gradient of a tensor. Of two contributions, that with the higher number has the earlier
  /// reader in the program.
  struct Contribution {
    i32 tensor = 0;
    i32 number = 0;
  };

  bool has_parameters(const PassStep& step) const {
    if (step.kind == StepKind::Norm) return true;
    const LayerUse& use = forward_.layers[step.number];
    return use.weight >= 0 || use.scale >= 0 || use.shift >= 0;
  }
  /// Returns true if `tensor` has all columns of `part`.
  bool contains(i32 tensor, i32 part) const {
    const TensorSpec &whole = source_.tensors[tensor], &inner = source_.tensors[part];
    return whole.storage == inner.storage && whole.column <= inner.column &&
           inner.column + inner.channels <= whole.column + whole.channels;
  }

  /// Finds the tensors that depend on a parameter, or on an input whose gradient is wanted.
  void find_wanted() {
    for (std::size_t i = 0; i < source_.inputs.size(); ++i) {
      if ((passes_.options.input_gradients >> i & 1) != 0) is_wanted_[source_.inputs[i]] = true;
    }
    const auto count = static_cast<i32>(source_.tensors.size());
    const auto depends = [&](i32 tensor) {
      for (i32 part = 0; part < count; ++part) {
        if (is_wanted_[part] && contains(tensor, part)) return true;
      }
      return false;
    };
    for (const PassStep& step : forward_.steps) {
      if (has_parameters(step) || llvm::any_of(inputs_of(forward_, step), depends))
        is_wanted_[output_of(forward_, step)] = true;
    }
    for (i32 tensor = 0; tensor < count; ++tensor) is_wanted_[tensor] = depends(tensor);
  }

  /// Finds, for each tensor, the earliest step that reads it or a concatenation that it is a part of.
  void find_first_readers() {
    for (std::size_t i = forward_.steps.size(); i-- > 0;) {
      for (const i32 input : inputs_of(forward_, forward_.steps[i])) {
        for (std::size_t part = 0; part < source_.tensors.size(); ++part) {
          if (contains(input, static_cast<i32>(part))) first_reader_[part] = static_cast<i32>(i);
        }
      }
    }
  }

  void contribute(i32 tensor, i32 gradient) {
    if (is_wanted_[tensor]) given_[tensor].push_back({gradient, contributions_++});
  }

  void add_out_gradients() {
    for (std::size_t i = 0; i < source_.outputs.size(); ++i) {
      const TensorSpec spec = source_.tensors[source_.outputs[i]];
      if (source_.storages[spec.storage].holds_integers) {
        pass_.out_gradients.push_back(-1);
        continue;
      }
      pass_.out_gradients.push_back(static_cast<i32>(pass_.program.inputs.size()));
      const i32 gradient = add_tensor(pass_.program, spec.level, spec.channels);
      pass_.program.tensors[gradient].dims = spec.dims;
      pass_.program.storages.back().item_elements = source_.storages[spec.storage].item_elements;
      pass_.program.inputs.push_back(gradient);
      pass_.program.input_names.push_back(source_.output_names[i]);
      contribute(source_.outputs[i], gradient);
    }
  }

  void add_input_gradients() {
    for (std::size_t i = 0; i < source_.inputs.size(); ++i) {
      if ((passes_.options.input_gradients >> i & 1) == 0) {
        pass_.input_gradients.push_back(-1);
        continue;
      }
      i32 gradient = gradient_of(source_.inputs[i]);
      if (gradient < 0) {
        gradient = like(source_.inputs[i]);
        pass_.steps.push_back({StepKind::ClearTensor, gradient});
      }
      pass_.input_gradients.push_back(static_cast<i32>(pass_.program.outputs.size()));
      pass_.program.outputs.push_back(gradient);
      pass_.program.output_names.push_back(source_.input_names[i]);
    }
  }

  /// Adds a tensor of the backward pass with the shape of one of the forward pass.
  i32 like(i32 tensor) {
    const TensorSpec spec = source_.tensors[tensor];
    return add_tensor(pass_.program, spec.level, spec.channels);
  }

  i32 kept(i32 tensor) { return kept_.get(tensor); }

  /// Returns true if a later contribution to `part`, or to a tensor that has it, contains `given`, which is a
  /// contribution to `whole`.
  bool is_added_already(const Contribution& given, i32 whole, i32 part) const {
    for (i32 between = 0; between < static_cast<i32>(added_until_.size()); ++between) {
      if (given.number < added_until_[between] && contains(whole, between) && contains(between, part)) {
        return true;
      }
    }
    return false;
  }

  /// Returns the contributions to a tensor as tensors with its columns, in the order of their readers.
  std::vector<i32> contributions_to(i32 tensor) {
    std::vector<Contribution> found;
    for (std::size_t whole = 0; whole < source_.tensors.size(); ++whole) {
      if (!contains(static_cast<i32>(whole), tensor)) continue;
      for (Contribution given : given_[whole]) {
        if (is_added_already(given, static_cast<i32>(whole), tensor)) continue;
        if (static_cast<i32>(whole) != tensor) {
          TensorSpec part = pass_.program.tensors[given.tensor];
          part.column += source_.tensors[tensor].column - source_.tensors[whole].column;
          part.channels = source_.tensors[tensor].channels;
          pass_.program.tensors.push_back(part);
          given.tensor = static_cast<i32>(pass_.program.tensors.size()) - 1;
        }
        found.push_back(given);
      }
    }
    llvm::sort(found, [](const Contribution& a, const Contribution& b) { return a.number > b.number; });
    std::vector<i32> tensors;
    tensors.reserve(found.size());
    for (const Contribution& one : found) tensors.push_back(one.tensor);
    return tensors;
  }

  /// Returns the tensor with the gradient of `tensor`, or -1 if the gradient is 0 for every input.
  i32 gradient_of(i32 tensor) {
    std::vector<i32> parts = contributions_to(tensor);
    if (parts.empty()) return -1;
    while (parts.size() > 1) {
      const std::size_t count = std::min<std::size_t>(parts.size(), 1 + kMostPointwiseSteps);
      const std::vector<PointwiseStep> steps(count - 1, {PointwiseKind::Add});
      const i32 sum =
          add_chain("sum of the gradients of " + kept_.name_of(tensor), steps, tensor, parts.front(),
                    {parts.begin() + 1, parts.begin() + static_cast<std::ptrdiff_t>(count)}, {});
      parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(count));
      parts.insert(parts.begin(), sum);
    }
    return parts.front();
  }

  ProgramLayer& add_op(std::string name, const OpProblem& problem, i32 map, i32 input, i32 output,
                       const LayerUse& use) {
    pass_.steps.push_back({StepKind::Layer, static_cast<i32>(pass_.program.layers.size())});
    pass_.layers.push_back(use);
    return append_layer(pass_.program, std::move(name), problem, map, input, output);
  }

  /// Adds a chain whose result has the shape of `shape`, a tensor of the forward pass.
  i32 add_chain(std::string name, std::vector<PointwiseStep> steps, i32 shape, i32 input,
                std::vector<i32> operands, const LayerUse& use) {
    const i32 output = like(shape);
    const bool has_affine =
        llvm::any_of(steps, [](const PointwiseStep& step) { return step.kind == PointwiseKind::Affine; });
    const PointwiseProblem problem =
        chain_of(pass_.program, source_.tensors[shape].channels, std::move(steps));
    ProgramLayer& layer = add_op(std::move(name), problem, /*map=*/-1, input, output, use);
    layer.operands = std::move(operands);
    // The names tell that the chain has a scale and a shift, whose values `use` names.
    if (has_affine)
      layer.affines = {{.scale = layer.name + ".scale", .shift = layer.name + ".shift", .batch_norm = ""}};
    return output;
  }

  /// Returns a tensor of its own with the columns of `gradient`, which is that of `tensor`, the result of the
  /// layer `name`. An Affine step without a scale and a shift copies them.
  i32 copy_of(i32 gradient, i32 tensor, const std::string& name) {
    return add_chain("copy of the gradient of " + name, {{PointwiseKind::Affine}}, tensor, gradient, {}, {});
  }

  void add_norm(i32 number) {
    const NormUse& norm = forward_.norms[number];
    i32 gradient = gradient_of(norm.output);
    if (gradient < 0) {
      for (const i32 parameter : {norm.weight, norm.bias}) forget(parameter);
      return;
    }
    // It may be columns of a concatenation's gradient, although the forward pass concatenates other tensors.
    if (!has_whole_vectors(pass_.program, gradient)) gradient = copy_of(gradient, norm.output, norm.name);
    NormGradientUse use{number, kept(norm.input)};
    const BatchNormProblem& problem = norm.choice.problem;
    if (problem.mask() == ReluMask::Output) use.output = kept(norm.output);
    use.out_gradient = gradient;
    if (problem.has_residual && problem.has_relu) use.residual_gradient = like(norm.residual);
    use.input_gradient = like(norm.input);
    pass_.steps.push_back({StepKind::NormGradient, static_cast<i32>(pass_.norms.size())});
    pass_.norms.push_back(use);
    // The residual comes behind the input in the program's order of readers.
    if (problem.has_residual) {
      contribute(norm.residual, use.residual_gradient < 0 ? gradient : use.residual_gradient);
    }
    contribute(norm.input, use.input_gradient);
  }

  llvm::Error add_layer(i32 number) {
    const ProgramLayer& layer = source_.layers[number];
    const LayerUse& use = forward_.layers[number];
    if (source_.storages[source_.tensors[layer.output].storage].holds_integers) return llvm::Error::success();
    if (const ConvolutionProblem* const problem = convolution_of(layer)) {
      return add_convolution(layer, *problem, use);
    }
    if (const auto* const problem = layer.problem.get_if<ToDenseProblem>()) {
      add_to_dense(layer, *problem);
      return llvm::Error::success();
    }
    const i32 gradient = gradient_of(layer.output);
    if (gradient < 0) {
      for (const i32 parameter : {use.scale, use.shift}) forget(parameter);
      return llvm::Error::success();
    }
    if (const auto* const pooling = layer.problem.get_if<PoolingProblem>()) {
      add_pooling(layer, *pooling, gradient);
    } else if (const auto* const pooling = layer.problem.get_if<GlobalPoolingProblem>()) {
      add_global_pooling(layer, pooling->reduction, gradient);
    } else {
      add_part(layer, layer.problem.get<PointwiseProblem>().steps, use, gradient);
    }
    return llvm::Error::success();
  }

  void forget(i32 parameter) {
    if (parameter >= 0) pass_.without_gradient.push_back(parameter);
  }

  llvm::Error add_parameter_gradient(const ConvolutionProblem& forward, bool is_weight,
                                     ParameterGradientUse use) {
    ParameterGradientProblem problem;
    problem.forward = forward;
    problem.forward.scale_shift = false;
    problem.weight = is_weight;
    problem.bias = !is_weight;
    MINUET_TRY(validate(problem));
    use.choice = choose_parameter_gradient(problem, tuning_);
    pass_.steps.push_back({StepKind::ParameterGradient, static_cast<i32>(pass_.parameters.size())});
    pass_.parameters.push_back(std::move(use));
    return llvm::Error::success();
  }

  llvm::Error add_convolution(const ProgramLayer& layer, const ConvolutionProblem& problem,
                              const LayerUse& use) {
    std::vector<i32> others;
    const bool reads_first = first_reader_[layer.input] == step_;
    // A kernel adds the gradients of the other readers to its own sum, before it rounds.
    if (is_wanted_[layer.input] && reads_first) others = contributions_to(layer.input);
    const i32 gradient = gradient_of(layer.output);
    ParameterGradientUse of_weight{.parameter = use.weight, .out_gradient = gradient, .map = layer.map};
    of_weight.is_swapped = problem.is_transposed();
    if (gradient >= 0) of_weight.input = kept(layer.input);
    llvm::Error error = add_parameter_gradient(problem, /*is_weight=*/true, std::move(of_weight));
    if (error) return annotate(std::move(error), layer.name);
    if (gradient < 0) {
      forget(use.shift);
      return llvm::Error::success();
    }
    if (use.shift >= 0) {
      MINUET_TRY(add_parameter_gradient(problem, /*is_weight=*/false,
                                        {.parameter = use.shift, .out_gradient = gradient}));
    }
    if (!is_wanted_[layer.input]) return llvm::Error::success();
    const bool is_within = problem.kind == ConvolutionKind::Submanifold;
    ConvolutionProblem of_input = is_within ? input_gradient_within(problem) : input_gradient_of(problem);
    of_input.residual = others.size() == 1;
    ProgramLayer& added =
        add_op("gradient of " + layer.name, of_input, layer.map, gradient, like(layer.input), {use.weight});
    const i32 result = added.output;
    if (of_input.residual) {
      added.residual = others.front();
      added_until_[layer.input] = contributions_;
    }
    contribute(layer.input, result);
    return llvm::Error::success();
  }

  /// Reads the rows of the layer's input from each gradient of the dense tensor. They are added as rows.
  void add_to_dense(const ProgramLayer& layer, const ToDenseProblem& problem) {
    FromDenseProblem of_input{problem};
    of_input.features = {};
    for (const i32 gradient : contributions_to(layer.output)) {
      const i32 output = like(layer.input);
      add_op("gradient of " + layer.name, of_input, /*map=*/-1, gradient, output, {}).coordinates_level =
          layer.coordinates_level;
      contribute(layer.input, output);
    }
  }

  void add_pooling(const ProgramLayer& layer, const PoolingProblem& problem, i32 gradient) {
    if (!is_wanted_[layer.input]) return;
    if (source_.maps[layer.map].is_identity()) return contribute(layer.input, gradient);
    PoolingProblem forward = problem;
    forward.winners = false;
    if (has_one_partner(problem)) forward.reduction = Reduction::Sum;
    const i32 output = like(layer.input);
    ProgramLayer& added =
        add_op("gradient of " + layer.name, input_gradient_of(forward), layer.map, gradient, output, {});
    if (layer.winners >= 0) added.operands = {kept(layer.winners)};
    contribute(layer.input, output);
  }

  void add_global_pooling(const ProgramLayer& layer, Reduction reduction, i32 gradient) {
    if (!is_wanted_[layer.input]) return;
    const TensorSpec spec = pass_.program.tensors[gradient];
    if (pass_.program.storages[spec.storage].ld != spec.channels) {
      gradient = copy_of(gradient, layer.output, layer.name);  // The kernel reads rows without gaps.
    }
    GroupGradientProblem problem;
    problem.dtype = source_.dtype;
    problem.channels = spec.channels;
    problem.reduction = reduction == Reduction::Max   ? PointReduction::Max
                        : reduction == Reduction::Sum ? PointReduction::Sum
                                                      : PointReduction::Mean;
    GroupGradientUse use{choose_group_gradient(problem), -1, gradient, like(layer.input)};
    if (reduction == Reduction::Max) use.input = kept(layer.input);
    pass_.steps.push_back({StepKind::GroupGradient, static_cast<i32>(pass_.groups.size())});
    pass_.groups.push_back(use);
    contribute(layer.input, use.input_gradient);
  }

  /// Adds the gradients of a part of a chain (ForwardBuilder::add_chain()).
  void add_part(const ProgramLayer& layer, llvm::ArrayRef<PointwiseStep> steps, const LayerUse& use,
                i32 gradient) {
    const PointwiseStep first = steps.front();
    const std::string name = "gradient of " + layer.name;
    const auto chain = [&](std::vector<PointwiseStep> behind, std::vector<i32> operands) {
      return add_chain(name, std::move(behind), layer.input, gradient, std::move(operands), {-1, use.scale});
    };
    switch (first.kind) {
      case PointwiseKind::Add: {
        if (steps.size() > 1) gradient = chain({{PointwiseKind::ReLUGradient}}, {kept(layer.output)});
        contribute(layer.operands.front(), gradient);
        contribute(layer.input, gradient);
        return;
      }
      case PointwiseKind::Multiply: {
        const i32 other = layer.operands.front();
        if (is_wanted_[other]) contribute(other, chain({{PointwiseKind::Multiply}}, {kept(layer.input)}));
        if (is_wanted_[layer.input])
          contribute(layer.input, chain({{PointwiseKind::Multiply}}, {kept(other)}));
        return;
      }
      case PointwiseKind::LayerNorm: {
        std::vector<PointwiseStep> behind;
        if (steps.size() > 1) {
          add_affine_gradient(layer, use, gradient, first.number);
          behind.push_back({PointwiseKind::Affine});
        }
        if (!is_wanted_[layer.input]) return;
        behind.push_back({PointwiseKind::LayerNormGradient, first.number});
        return contribute(layer.input, chain(std::move(behind), {kept(layer.input)}));
      }
      case PointwiseKind::Affine:
        add_affine_gradient(layer, use, gradient, /*epsilon=*/0);
        if (is_wanted_[layer.input]) contribute(layer.input, chain({{PointwiseKind::Affine}}, {}));
        return;
      default:
        break;
    }
    if (!is_wanted_[layer.input]) return;
    const bool reads_result = first.kind == PointwiseKind::ReLU || first.kind == PointwiseKind::Sigmoid ||
                              first.kind == PointwiseKind::Tanh || first.kind == PointwiseKind::Softmax;
    contribute(layer.input, chain({{gradient_kind(first.kind), first.number}},
                                  {kept(reads_result ? layer.output : layer.input)}));
  }

  static PointwiseKind gradient_kind(PointwiseKind kind) {
    if (kind == PointwiseKind::Softmax) return PointwiseKind::SoftmaxGradient;
    for (i32 i = 0; i < kPointwiseKinds; ++i) {
      const PointwiseTraits traits = traits_of(static_cast<PointwiseKind>(i));
      if (traits.is_gradient && traits.activation == activation_of(kind)) return traits.kind;
    }
    return PointwiseKind::None;
  }

  void add_affine_gradient(const ProgramLayer& layer, const LayerUse& use, i32 gradient, float epsilon) {
    AffineGradientProblem problem;
    problem.dtype = source_.dtype;
    problem.channels = source_.tensors[layer.input].channels;
    problem.epsilon = epsilon;
    problem.scale = problem.shift = true;
    const i32 input = kept(layer.input);  // The steps that compute it again come first.
    pass_.steps.push_back({StepKind::AffineGradient, static_cast<i32>(pass_.affines.size())});
    pass_.affines.push_back({choose_affine_gradient(problem), use.scale, use.shift, input, gradient});
  }

  TrainingPasses& passes_;
  const TuningSnapshot* const tuning_;
  ForwardPass& forward_;
  const Program& source_;  // Is the program of the forward pass.
  BackwardPass pass_;
  KeptTensors kept_;
  i32 step_ = 0;           // Is the step of the forward pass that is visited.
  i32 contributions_ = 0;  // Counts all contributions so far.
  // The members below have an element for each tensor of the forward pass. These are
  // the contributions to it.
  std::vector<std::vector<Contribution>> given_;
  // A contribution with a lower number is contained in one with this number or a higher one.
  std::vector<i32> added_until_;
  std::vector<bool> is_wanted_;    // Says whether the gradient is wanted.
  std::vector<i32> first_reader_;  // Holds the earliest step that reads the tensor, or -1.
};

}  // namespace

llvm::Expected<BackwardPass> make_backward_pass(TrainingPasses& passes, const TuningSnapshot* tuning) {
  return BackwardBuilder(passes, tuning).build();
}

}  // namespace minuet
