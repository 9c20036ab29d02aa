// Describes the ops that copy features between a level and a coarser one, whose rows have the features of
// their children side by side. A cell of the coarser level has as many children as its stride has cells, in
// the order of the offsets of a kernel map. All functions are pure.
#pragma once

#include <string>

#include "codegen/choose/candidates.h"
#include "kernels_templates/shared/space_kernels.h"

namespace minuet {

/// Holds what both ops have in common. The kernel has an offset for each child, from 0 to stride - 1 on each
/// axis. make_space_problem() sets it.
struct SpaceProblem : WindowProblem {
  i32 channels = 0;  // Counts the channels of the finer level.
  Columns input, output;
};

/// Computes the features of the coarser level. The channels of an absent child are 0.
struct SpaceToChannelProblem : SpaceProblem {
  static const OpKind kKind;
  static constexpr ConvolutionKind kDirection = ConvolutionKind::Strided;
};
/// Computes the features of the finer level. A row whose cell the coarser level lacks is 0.
struct ChannelToSpaceProblem : SpaceProblem {
  static const OpKind kKind;
  static constexpr ConvolutionKind kDirection = ConvolutionKind::Transposed;
};

template <class Problem>
Problem make_space_problem(i32 ndim, DType dtype, i32 channels, const AxisArray& stride) {
  Problem problem;
  problem.ndim = ndim;
  problem.dtype = dtype;
  problem.channels = channels;
  problem.stride = problem.kernel_size = stride;
  problem.kind = Problem::kDirection;
  begin_at_zero(problem);
  return problem;
}

struct SpaceToChannelChoice {
  static const OpFamily kKind;

  SpaceToChannelProblem problem;
  SpaceToChannelSpec kernel;
};
struct ChannelToSpaceChoice {
  static const OpFamily kKind;

  ChannelToSpaceProblem problem;
  ChannelToSpaceSpec kernel;
};
SpaceToChannelChoice choose_space_to_channel(const SpaceToChannelProblem& problem);
ChannelToSpaceChoice choose_channel_to_space(const ChannelToSpaceProblem& problem);

/// Returns the number of children, which is a kernel_volume(), for messages.
std::string children_text(i64 volume);

llvm::Error validate(const SpaceProblem& problem);
void add_sources(SourceList& list, const SpaceToChannelChoice& choice);
void add_sources(SourceList& list, const ChannelToSpaceChoice& choice);

}  // namespace minuet
