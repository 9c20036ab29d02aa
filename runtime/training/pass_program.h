// Builds the program of a pass, layer by layer.
#pragma once

#include "codegen/choose/ops/pointwise.h"
#include "codegen/choose/ops/pooling.h"
#include "runtime/training/training_passes.h"

namespace minuet {

/// Returns a chain of pointwise steps on tensors of this program.
PointwiseProblem chain_of(const Program& program, i32 channels, std::vector<PointwiseStep> steps);

/// Returns true if each output of a pooling has at most one input, of which it is a copy whatever the
/// reduction is, because the kernels of the finer side's cells do not overlap.
bool has_one_partner(const PoolingProblem& problem);

/// Adds a tensor with a storage of its own, and returns its number.
i32 add_tensor(Program& program, i32 level, i32 channels, bool holds_integers = false);

/// Appends a layer that computes `output` from `input`. `map` is -1 if the op reads none.
ProgramLayer& append_layer(Program& program, std::string name, const OpProblem& problem, i32 map, i32 input,
                           i32 output);

/// Returns the channels of a vector of the kernels between the layers, which they choose by the number of the
/// tensor's channels alone.
i64 channels_of_vector(const Program& program, i32 tensor);
/// Returns true if the columns of a tensor begin where such a kernel can read whole vectors.
bool has_whole_vectors(const Program& program, i32 tensor);

/// Lists the tensors that one step of a pass reads or writes.
using StepTensors = std::vector<i32>;
/// Returns the tensors of a layer.
StepTensors tensors_of(const ProgramLayer& layer);
/// Returns the tensors of a step of the forward pass.
StepTensors tensors_of(const ForwardPass& pass, const PassStep& step);
/// Returns the tensor that a step of the forward pass computes.
i32 output_of(const ForwardPass& pass, const PassStep& step);
/// Returns the tensors that a step of the forward pass reads.
StepTensors inputs_of(const ForwardPass& pass, const PassStep& step);

/// Decides where the tensors of a finished pass are in memory. `steps` has the tensors of each step, in the
/// order in which the steps run. Returns the error of a layer whose problem is not valid.
llvm::Error place_pass(Program& program, llvm::ArrayRef<StepTensors> steps);

}  // namespace minuet
