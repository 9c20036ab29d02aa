// Describes the forward pass of a training step.
#include <algorithm>
#include <map>

#include "codegen/choose/ops/dense.h"
#include "codegen/choose/ops/global_pooling.h"
#include "codegen/choose/ops/pooling.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/program/ops/convolution.h"
#include "runtime/training/pass_program.h"

namespace minuet {
namespace {

/// Returns the error for a layer whose gradient this library does not compute as a part of a network.
llvm::Error not_trainable(const ProgramLayer& layer) {
  return make_error(StatusCode::Unimplemented,
                    "layer {0}, a {1}, has no gradient in a training plan: train the network op by op "
                    "(runtime/abi/GRADIENTS.md lists the call for each op), or leave the layer out",
                    layer.name, layer.problem.kind().name);
}

PointwiseKind kind_of(Activation activation) {
  for (i32 i = 0; i < kPointwiseKinds; ++i) {
    const auto kind = static_cast<PointwiseKind>(i);
    if (is_activation(kind) && activation_of(kind) == activation) return kind;
  }
  return PointwiseKind::None;
}

class ForwardBuilder {
 public:
  ForwardBuilder(const Program& network, const TrainingPasses& passes) : network_(network), passes_(passes) {
    Program& program = pass_.program;
    program = network;
    program.layers.clear();
    program.is_training_pass = true;
    for (std::size_t i = 0; i < passes.parameters.size(); ++i) {
      numbers_[passes.parameters[i].name] = static_cast<i32>(i);
    }
  }

  llvm::Expected<ForwardPass> build() {
    MINUET_TRY(find_segments());
    for (std::size_t i = 0; i < network_.layers.size(); ++i) {
      take_segment(names_[i]);
      MINUET_TRY(add(network_.layers[i]));
    }
    fold_into_norms(pass_);
    return std::move(pass_);
  }

 private:
  llvm::Error add(const ProgramLayer& layer) {
    if (convolution_of(layer) != nullptr) return add_convolution(layer);
    if (layer.problem.get_if<PoolingProblem>() != nullptr) return add_pooling(layer);
    if (layer.problem.get_if<PointwiseProblem>() != nullptr) {
      return add_chain(layer, layer.problem.get<PointwiseProblem>().steps, layer.input, layer.operands);
    }
    if (layer.problem.get_if<ToDenseProblem>() != nullptr ||
        layer.problem.get_if<GlobalPoolingProblem>() != nullptr) {
      add_layer(layer, "", layer.problem, layer.map, layer.input, layer.output, {}).coordinates_level =
          layer.coordinates_level;
      return llvm::Error::success();
    }
    return not_trainable(layer);
  }

  /// Finds the name of the segment that each layer is in. Returns InvalidArgument if a given name is that of
  /// no segment.
  llvm::Error find_segments() {
    const std::vector<std::string>& given = passes_.options.recomputed;
    for (std::size_t i = 0; i < given.size(); ++i) {
      const auto has_name = [&](const ProgramLayer& layer) { return is_in(layer, given[i]); };
      if (llvm::any_of(network_.layers, has_name)) continue;
      return make_error(
          StatusCode::InvalidArgument,
          "recompute[{0}] is \"{1}\", but network {2} has no convolution, linear layer or pooling "
          "of this name, and none whose name begins with \"{1}.\"",
          i, given[i], network_.name);
    }
    std::size_t last = 0;  // Is the number of the last layer that is not a chain.
    for (const ProgramLayer& layer : network_.layers) {
      const std::size_t number = names_.size();
      names_.push_back(segment_of(layer));
      if (is_chain(layer)) continue;
      // A chain belongs to the segment on both sides of it.
      if (names_[last] == names_[number]) std::fill(names_.begin() + last, names_.end(), names_[number]);
      last = number;
    }
    return llvm::Error::success();
  }

  static bool is_chain(const ProgramLayer& layer) {
    return layer.problem.get_if<PointwiseProblem>() != nullptr;
  }

  /// Returns the name that a layer has in the description. Residual and bottleneck blocks have several
  /// convolutions, which have the block's name in their origins. A chain has no name of its own.
  static const std::string& name_of(const ProgramLayer& layer) {
    return layer.origin.layer.empty() ? layer.name : layer.origin.layer;
  }
  static bool is_in(const ProgramLayer& layer, const std::string& segment) {
    const std::string& name = name_of(layer);
    return !is_chain(layer) && (name == segment || name.starts_with(segment + "."));
  }

  /// Returns the name of the segment that a layer is in, or "". Of several names the longest one counts.
  std::string segment_of(const ProgramLayer& layer) const {
    std::string longest;
    for (const std::string& given : passes_.options.recomputed) {
      if (is_in(layer, given) && given.size() > longest.size()) longest = given;
    }
    const bool is_in_block = passes_.options.recomputes_blocks && !layer.origin.part.empty();
    return longest.empty() && is_in_block ? layer.origin.layer : longest;
  }

  /// Numbers the segments, which the backward pass computes again.
  void take_segment(const std::string& name) {
    if (name.empty()) {
      segment_ = -1;
    } else if (segment_ < 0 || name != segment_name_) {
      segment_ = segments_++;
      segment_name_ = name;
    }
  }

  i32 number_of(const std::string& parameter) const {
    const auto found = numbers_.find(parameter);
    return found == numbers_.end() ? -1 : found->second;
  }
  i32 new_tensor(i32 like) {
    const TensorSpec spec = pass_.program.tensors[like];
    return add_tensor(pass_.program, spec.level, spec.channels);
  }

  ProgramLayer& add_layer(const ProgramLayer& origin, const char* suffix, const OpProblem& problem, i32 map,
                          i32 input, i32 output, const LayerUse& use) {
    pass_.steps.push_back({StepKind::Layer, static_cast<i32>(pass_.program.layers.size()), segment_});
    pass_.layers.push_back(use);
    return append_layer(pass_.program, origin.name + suffix, problem, map, input, output);
  }

  /// Adds the convolution alone, with its bias. What the network's op adds to it are ops of their own.
  llvm::Error add_convolution(const ProgramLayer& layer) {
    const ConvolutionProblem& given = *convolution_of(layer);
    ConvolutionProblem problem = given;
    problem.scale_shift = !layer.bias.empty();
    problem.residual = problem.shortcut = problem.second_output = false;
    problem.set_activation(Activation::None, 0);
    if (problem.dataflow.value_or(Dataflow::Fused) != Dataflow::Fused) {
      return make_error(StatusCode::InvalidArgument,
                        "layer {0}: the network was created with the dataflow {1}, which needs counts on the "
                        "host: use MINUET_DATAFLOW_FUSED or leave the dataflow out",
                        layer.name, dataflow_name(*problem.dataflow));
    }
    problem.dataflow = Dataflow::Fused;
    std::vector<PointwiseStep> steps;
    std::vector<i32> operands;
    std::vector<AffineNames> affines;
    if (!layer.batch_norm.empty()) {
      steps.push_back({PointwiseKind::Affine});
      affines.push_back({.scale = "",
                         .shift = "",
                         .batch_norm = layer.batch_norm,
                         .epsilon = layer.batch_norm_epsilon,
                         .is_affine = layer.is_affine});
    }
    if (given.residual) {
      steps.push_back({PointwiseKind::Add});
      operands.push_back(layer.residual);
    }
    if (given.activation != Activation::None) steps.push_back({kind_of(given.activation), given.slope});
    const i32 output = steps.empty() ? layer.output : new_tensor(layer.output);
    add_layer(layer, "", problem, layer.map, layer.input, output,
              {number_of(layer.weight), -1, layer.bias.empty() ? -1 : number_of(layer.bias)});
    if (steps.empty()) return llvm::Error::success();
    ProgramLayer behind = layer;
    behind.affines = std::move(affines);
    return add_chain(behind, steps, output, operands);
  }

  llvm::Error add_pooling(const ProgramLayer& layer) {
    PoolingProblem problem = layer.problem.get<PoolingProblem>();
    const bool is_copy = network_.maps[layer.map].is_identity();
    problem.winners = problem.reduction == Reduction::Max && !is_copy && !has_one_partner(problem);
    ProgramLayer& added = add_layer(layer, "", problem, layer.map, layer.input, layer.output, {});
    if (!problem.winners) return llvm::Error::success();
    const TensorSpec spec = pass_.program.tensors[layer.output];
    added.winners = add_tensor(pass_.program, spec.level, spec.channels, /*holds_integers=*/true);
    return llvm::Error::success();
  }

  /// Adds the steps of a chain, divided into parts whose gradients need nothing that lies inside a part.
  /// `layer` has the output and the names of the Affine steps.
  llvm::Error add_chain(const ProgramLayer& layer, llvm::ArrayRef<PointwiseStep> steps, i32 input,
                        llvm::ArrayRef<i32> operands) {
    std::size_t affine = 0;
    i32 current = input;
    while (!steps.empty()) {
      const std::size_t count = length_of_part(steps, layer, affine);
      const llvm::ArrayRef<PointwiseStep> part = steps.take_front(count);
      steps = steps.drop_front(count);
      const i32 output = steps.empty() ? layer.output : new_tensor(layer.output);
      std::vector<i32> read;
      const AffineNames* names = nullptr;
      for (const PointwiseStep& step : part) {
        if (step.kind == PointwiseKind::Affine) names = &layer.affines[affine++];
        if (!reads_operand(step.kind)) continue;
        read.push_back(operands.front());
        operands = operands.drop_front();
      }
      if (names != nullptr && !names->batch_norm.empty()) {
        MINUET_TRY(add_norm(*names, part, current, output, read));
      } else {
        add_part(layer, part, current, output, read, names);
      }
      current = output;
    }
    return llvm::Error::success();
  }

  /// Returns the number of the first steps that one op computes.
  static std::size_t length_of_part(llvm::ArrayRef<PointwiseStep> steps, const ProgramLayer& layer,
                                    std::size_t affine) {
    const auto is_at = [&](std::size_t i, PointwiseKind kind) {
      return i < steps.size() && steps[i].kind == kind;
    };
    if (is_at(0, PointwiseKind::Affine) && !layer.affines[affine].batch_norm.empty()) {
      const std::size_t behind = is_at(1, PointwiseKind::Add) ? 2 : 1;
      return is_at(behind, PointwiseKind::ReLU) ? behind + 1 : behind;
    }
    if (is_at(0, PointwiseKind::LayerNorm) && is_at(1, PointwiseKind::Affine)) {
      return layer.affines[affine].batch_norm.empty() ? 2 : 1;
    }
    return is_at(0, PointwiseKind::Add) && is_at(1, PointwiseKind::ReLU) ? 2 : 1;
  }

  void add_part(const ProgramLayer& layer, llvm::ArrayRef<PointwiseStep> part, i32 input, i32 output,
                const std::vector<i32>& read, const AffineNames* names) {
    const i32 channels = pass_.program.tensors[input].channels;
    LayerUse use;
    if (names != nullptr) use = {-1, number_of(names->scale), number_of(names->shift)};
    const std::string suffix = std::string(" ") + pointwise_name(part.front().kind);
    ProgramLayer& added = add_layer(layer, suffix.c_str(), chain_of(pass_.program, channels, part.vec()),
                                    /*map=*/-1, input, output, use);
    added.operands = read;
    if (names != nullptr) added.affines = {*names};
  }

  llvm::Error add_norm(const AffineNames& names, llvm::ArrayRef<PointwiseStep> part, i32 input, i32 output,
                       const std::vector<i32>& read) {
    const TrainingOptions& options = passes_.options;
    BatchNormProblem problem;
    problem.ndim = pass_.program.ndim;
    problem.dtype = pass_.program.dtype;
    problem.channels = pass_.program.tensors[input].channels;
    problem.eps = static_cast<float>(names.epsilon);
    problem.has_running_mean = true;
    problem.momentum = options.momentum;
    problem.is_cumulative = options.is_cumulative;
    problem.has_residual = !read.empty();
    problem.has_relu = part.back().kind == PointwiseKind::ReLU;
    MINUET_TRY(annotate(validate(problem), "batch norm " + names.batch_norm));
    NormUse norm{names.batch_norm, choose_batch_norm(problem), input, output};
    if (problem.has_residual) norm.residual = read.front();
    if (names.is_affine) {
      norm.weight = number_of(names.batch_norm + ".weight");
      norm.bias = number_of(names.batch_norm + ".bias");
    }
    norm.mean = number_of(names.batch_norm + ".running_mean");
    norm.variance = number_of(names.batch_norm + ".running_var");
    pass_.steps.push_back({StepKind::Norm, static_cast<i32>(pass_.norms.size()), segment_});
    pass_.norms.push_back(std::move(norm));
    return llvm::Error::success();
  }

  const Program& network_;
  const TrainingPasses& passes_;
  std::map<std::string, i32> numbers_;
  std::vector<std::string> names_;  // Holds the name of the segment of each layer, or "".
  // Are the segment of the layer that is added, and the number of segments so far.
  i32 segment_ = -1, segments_ = 0;
  std::string segment_name_;
  ForwardPass pass_;
};

}  // namespace

bool has_one_partner(const PoolingProblem& problem) {
  return problem.is_transposed() && problem.kernel_size == problem.stride &&
         problem.dilation == AxisArray{1, 1, 1, 1} && problem.offsets.empty();
}

llvm::Expected<ForwardPass> make_forward_pass(const Program& network, const TrainingPasses& passes) {
  return ForwardBuilder(network, passes).build();
}

}  // namespace minuet
