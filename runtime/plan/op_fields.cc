// Lists the kinds of ops of which a plan can be serialized.
#include "runtime/plan/ops/convolution.h"
#include "runtime/plan/ops/pointwise.h"
#include "runtime/plan/ops/pooling.h"

namespace minuet {

llvm::ArrayRef<OpFields> fields_of_ops() {
  static const OpFields ops[] = {
      {ConvolutionProblem::kKind, write_convolution, read_convolution},
      {PoolingProblem::kKind, write_pooling, read_pooling},
      {PointwiseProblem::kKind, write_pointwise, read_pointwise},
  };
  return ops;
}

}  // namespace minuet
