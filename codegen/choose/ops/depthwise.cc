#include "codegen/choose/ops/depthwise.h"

#include <algorithm>

namespace minuet {
namespace {

/// Returns the width of an access to an output row. An access must cover whole inputs, or a part of the
/// outputs of one input, and the corresponding access to an input row must be aligned.
i32 vector_bytes_of(const ConvolutionProblem& problem, i32 element) {
  const i32 multiplier = problem.out_channels / problem.in_channels;
  std::vector<Columns> outputs{problem.output};
  if (problem.residual) outputs.push_back(problem.residual_input);
  if (problem.second_output) outputs.push_back(problem.covered_output);
  const i32 input_bytes = widest_vector(element, problem.in_channels, {problem.input});
  for (i32 bytes = widest_vector(element, problem.out_channels, outputs); bytes > element; bytes /= 2) {
    const i32 elements = bytes / element;
    if (multiplier % elements == 0) return bytes;
    if (elements % multiplier == 0 && bytes / multiplier <= input_bytes) return bytes;
  }
  return element;
}

}  // namespace

DepthwiseChoice choose_depthwise(const ConvolutionProblem& problem) {
  DepthwiseChoice choice;
  choice.problem = problem;
  DepthwiseSpec& spec = choice.kernel;
  spec.io = problem.dtype;
  spec.in_channels = problem.in_channels;
  spec.out_channels = problem.out_channels;
  spec.volume = static_cast<i32>(kernel_volume(problem));
  spec.vector_bytes = vector_bytes_of(problem, dtype_bytes(spec.io));
  spec.scale_shift = problem.scale_shift;
  spec.residual = problem.residual;
  spec.activation = problem.activation;
  spec.second_output = problem.second_output;
  spec.second_activation = problem.second_activation;
  return choice;
}

void add_sources(SourceList& list, const DepthwiseChoice& choice) { list.add(choice.kernel); }

static bool is_same(const DepthwiseChoice& a, const DepthwiseChoice& b) { return a.kernel == b.kernel; }

const OpFamily DepthwiseChoice::kKind = make_op_family<DepthwiseChoice>("depthwise");

}  // namespace minuet
