// Declares GmasRequest, which asks an engine for a convolution by gather-GEMM-scatter, and the weights of a
// convolution, which the gather-GEMM-scatter and the fused dataflow share.
#pragma once

#include "codegen/choose/ops/convolution.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/ops/convolution_groups.h"

namespace minuet {

/// Holds a kernel map in the form that gather-GEMM-scatter reads. A table entry is the row of a pair in the
/// gather and GEMM buffers, or -1 if there is no pair.
struct GmasTables {
  i32* source_table = nullptr;  // The shape is [volume][sources].
  i32* query_table = nullptr;   // The shape is [volume][queries].
  GroupTables groups;           // Points to device copies of the tables of a GroupPlan.
};

/// Requests one convolution by gather-GEMM-scatter.
struct GmasRequest : OpRequest {
  const GmasTables* tables = nullptr;
  /// Says whether prepare_op() of this request fills the tables, which several ops may read. The map must
  /// then have MapView::positions.
  bool fills_tables = false;
  const GroupPlan* groups = nullptr;
  /// Divides `groups` into slices. The buffers have at least as many rows as any slice.
  const GemmSlices* slices = nullptr;
  void* gather_buffer = nullptr;  // The shape is [buffer rows, in_channels].
  /// Holds partial sums. The shape is [buffer rows, out_channels].
  float* gemm_buffer = nullptr;
  float* sums = nullptr;  // Holds [output_rows, out_channels] sums if needs_sums() is true.
};

/// Points to the parameters of one convolution on a device. The constructor takes them in the order of
/// parameter_images().
struct ConvolutionWeights {
  const void* weight = nullptr;  // Points to the weights in the layout that the kernels read (WeightImage).
  const float* scale = nullptr;  // Points to [out_channels] numbers. Null means that there is no scale.
  const float* shift = nullptr;
  // Points to [out_channels] numbers if the residual has 8-bit elements, and is null otherwise.
  const float* residual_factor = nullptr;
  // The following parameters belong to the shortcut convolution that the same kernel computes too. They are
  // null if there is none.
  const void* shortcut_weight = nullptr;
  const float* shortcut_scale = nullptr;
  const float* shortcut_shift = nullptr;
  // The following parameters belong to the chain whose result is the second output
  // (ConvolutionProblem::second_output). They are null if there is none.
  const float* second_scale = nullptr;
  const float* second_shift = nullptr;

  ConvolutionWeights() = default;
  ConvolutionWeights(const ConvolutionProblem& problem, llvm::ArrayRef<const void*> parameters) {
    const auto at = [&](std::size_t i) { return i < parameters.size() ? parameters[i] : nullptr; };
    const auto numbers = [&](std::size_t i) { return static_cast<const float*>(at(i)); };
    weight = at(0), scale = numbers(1), shift = numbers(2);
    std::size_t next = 3;
    if (problem.residual_type) residual_factor = numbers(next++);
    // A chain has no weight.
    if (problem.second_output) {
      second_scale = numbers(next), second_shift = numbers(next + 1);
    } else {
      shortcut_weight = at(next), shortcut_scale = numbers(next + 1), shortcut_shift = numbers(next + 2);
    }
  }
};

/// Returns what a kernel reads to write the second output of a convolution, or zeros if it has none.
inline SecondOutput second_output_of(const ConvolutionProblem& problem, const ConvolutionWeights& weights,
                                     const OpRequest& request) {
  if (!problem.second_output) return {};
  const CoveredOp& chain = request.covered[0];
  return {weights.second_scale, weights.second_shift, chain.output,
          chain.output_ld,      chain.overflow,       problem.second_slope};
}

}  // namespace minuet
