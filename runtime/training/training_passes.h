// Describes the two passes of a training step of a network. Each pass is a program, with steps between its
// layers that no op does: batch norms, and the gradients of parameters. The description depends neither on an
// architecture nor on a point cloud.
//
// The forward pass computes what the network computes, but no op is folded into a convolution: a batch norm
// follows its convolution, because its statistics are those of the batch. A batch norm computes the sum and
// the ReLU behind it. The backward pass visits the steps in reverse order. Tensors of the forward pass that
// it reads are kept (Program::kept): both programs list the storages of these tensors in the same order.
#pragma once

#include <string>
#include <vector>

#include "codegen/choose/ops/affine_gradient.h"
#include "codegen/choose/ops/batch_norm.h"
#include "codegen/choose/ops/parameter_gradient.h"
#include "codegen/choose/ops/row_gradient.h"
#include "runtime/plan/plan.h"
#include "runtime/program/program.h"

namespace minuet {

struct TrainingOptions {
  u32 input_gradients = 0;           // Bit i is set if the gradient of input i is wanted.
  bool freezes_batch_norms = false;  // Batch norms use their running statistics, which do not change.
  float momentum = 0.1f;             // Is the share of a batch in the running statistics.
  bool is_cumulative = false;        // Gives all batches the same share instead.
  // The backward pass computes again what lies inside residual and bottleneck blocks, so that it is not kept.
  bool recomputes_blocks = false;
  // Name layers, or the common beginning of the names of several, whose inside is computed again too.
  std::vector<std::string> recomputed;
  // The backward pass computes the gradients of parameters beside the others.
  bool has_branches = false;

  bool recomputes() const { return recomputes_blocks || !recomputed.empty(); }
};

/// Holds the numbers, in the list of the network's parameters, of those that the kernels of a layer read. A
/// number is -1 if there is no such parameter: a scale is 1 then, and a shift 0.
struct LayerUse {
  i32 weight = -1, scale = -1, shift = -1;
};

/// Describes a batch norm, with the residual and the ReLU that follow it. The batch norms of a pass are
/// listed in the order of their steps.
struct NormUse {
  std::string name;
  BatchNormChoice choice;
  i32 input = 0, output = 0, residual = -1;  // Are tensors of the forward pass.
  i32 weight = -1, bias = -1;                // Are numbers of parameters, or -1.
  i32 mean = 0, variance = 0;                // Are numbers of parameters.
};

/// Describes a batch norm that the backward pass computes again, with the moments that the forward pass has
/// kept. All but `norm` are tensors of the backward pass.
struct RecomputedNormUse {
  i32 norm = 0;
  i32 input = 0, residual = -1, output = 0;
};

/// Describes the gradients of a batch norm. All but `norm` are tensors of the backward pass.
struct NormGradientUse {
  i32 norm = 0;
  i32 input = 0, output = -1;  // Hold what the forward pass has kept.
  i32 out_gradient = 0, residual_gradient = -1, input_gradient = 0;
};

/// Describes the gradient of a convolution's weight, or of its bias.
struct ParameterGradientUse {
  ParameterGradientChoice choice = {};
  i32 parameter = 0;
  i32 input = -1;           // Is the tensor that the forward pass has kept. It is -1 for a bias.
  i32 out_gradient = -1;    // Is a tensor of the backward pass, or -1 if nothing depends on the parameter.
  i32 map = -1;             // Is the kernel map of the convolution.
  bool is_swapped = false;  // Says whether the convolution reads the map from its coarser side.

  /// Returns true if the gradient is one of a weight that the pairs of the map give.
  bool reads_pairs() const { return map >= 0 && out_gradient >= 0; }
};

/// Describes the gradients of the scale and the shift of an Affine step.
struct AffineGradientUse {
  AffineGradientChoice choice = {};
  i32 scale = 0, shift = 0;  // Are numbers of parameters.
  i32 input = -1, out_gradient = -1;
};

/// Describes the gradient of a pooling of all rows of each batch item.
struct GroupGradientUse {
  GroupGradientChoice choice = {};
  i32 input = -1;  // Is the tensor that the forward pass has kept, which only a maximum reads, or -1.
  i32 out_gradient = -1, input_gradient = -1;
};

/// Names the work between the layers of a pass, and the list of the pass that describes it.
enum class StepKind : i32 {
  Layer,
  Norm,
  NormGradient,
  ParameterGradient,
  AffineGradient,
  GroupGradient,
  ClearTensor,
  BeginBranch,   // The steps up to EndBranch may run beside those behind it.
  ResumeBranch,  // The steps up to EndBranch wait for the branch, and for those in front of BeginBranch only.
  EndBranch,
  JoinBranch  // What follows waits for the branches before.
};
struct PassStep {
  StepKind kind = StepKind::Layer;
  i32 number = 0;  // Is the element of the list. For ClearTensor it is the tensor, which gets zeros.
  // Is the segment of the network that a step of the forward pass is in, or -1. The backward pass computes
  // again what lies inside segments.
  i32 segment = -1;
};

struct ForwardPass {
  Program program;
  std::vector<LayerUse> layers;  // Has one element for each layer of the program.
  std::vector<NormUse> norms;
  std::vector<PassStep> steps;
  bool has_branches = false;  // Says whether there are steps that begin a branch.
};

struct BackwardPass {
  Program program;
  std::vector<LayerUse> layers;
  std::vector<NormGradientUse> norms;
  std::vector<RecomputedNormUse> recomputed_norms;
  std::vector<ParameterGradientUse> parameters;
  std::vector<AffineGradientUse> affines;
  std::vector<GroupGradientUse> groups;
  std::vector<PassStep> steps;
  bool has_branches = false;  // Says whether there are steps that begin a branch.
  // Lists the vectors of parameters on which no output depends, so that their gradients are 0.
  std::vector<i32> without_gradient;
  // Hold the input of the program that an output of the network has, and the output of the program that an
  // input of the network has, or -1.
  std::vector<i32> out_gradients, input_gradients;
};

/// Describes a tensor that the backward pass reads.
struct KeptTensor {
  std::string name;  // Is the name of the layer or the input that computes the tensor.
  i32 tensor = 0;    // Is a tensor of the forward pass.
};

struct TrainingPasses {
  TrainingOptions options;
  std::vector<PlanParameter> parameters;  // Are those of the network's plan.
  ForwardPass forward;
  BackwardPass backward;
  std::vector<KeptTensor> kept;
};

/// Describes the passes of the network of `plan`. Returns Unimplemented with the name of the layer if an op
/// has no gradient here. `tuning` chooses the kernels for the gradients of weights, and may be null.
llvm::Expected<TrainingPasses> make_training_passes(const Plan& plan, const TrainingOptions& options,
                                                    const TuningSnapshot* tuning);

// The following functions are the parts of make_training_passes().

/// Describes the forward pass of a program in which no op is folded into another one.
llvm::Expected<ForwardPass> make_forward_pass(const Program& network, const TrainingPasses& passes);
/// Lets batch norms of a forward pass compute the sums and the ReLUs behind them.
void fold_into_norms(ForwardPass& pass);
/// Describes the backward pass, and adds to passes.kept what it reads.
llvm::Expected<BackwardPass> make_backward_pass(TrainingPasses& passes, const TuningSnapshot* tuning);
/// Lets chains whose results meet in one step run beside each other, such as the inside of a residual block
/// and its shortcut.
void divide_into_branches(ForwardPass& pass);
/// Moves the gradients of parameters into branches beside the other steps.
void divide_into_branches(BackwardPass& pass);
/// Returns how many weights the next group of divide_into_branches(BackwardPass&) has, after `done` of `all`
/// weights. The first groups are small, so that the branch begins soon. So are the last ones, because nothing
/// runs beside them after the chain's end. Small groups also need less memory.
i32 group_weights(i32 done, i32 all);

}  // namespace minuet
