// Lists the kinds of ops of which a plan can be serialized.
#include "runtime/plan/ops/convolution.h"
#include "runtime/plan/ops/pointwise.h"
#include "runtime/plan/ops/pooling.h"
#include "runtime/plan/ops/space.h"

namespace minuet {

llvm::ArrayRef<OpFields> fields_of_ops() {
  static const OpFields ops[] = {
      {ConvolutionProblem::kKind, write_convolution, read_convolution},
      {PoolingProblem::kKind, write_pooling, read_pooling},
      {PoolingGradientProblem::kKind, write_pooling_gradient, read_pooling_gradient, 4},
      {SpaceToChannelProblem::kKind, write_space_to_channel, read_space_to_channel, 4},
      {ChannelToSpaceProblem::kKind, write_channel_to_space, read_channel_to_space, 4},
      {PointwiseProblem::kKind, write_pointwise, read_pointwise},
  };
  return ops;
}

}  // namespace minuet
