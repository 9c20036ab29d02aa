// Lists the families of ops that an execution can run. A test may link another table in place of this one.
#include "codegen/choose/ops/convolution.h"
#include "codegen/choose/ops/dense.h"
#include "codegen/choose/ops/depthwise.h"
#include "codegen/choose/ops/global_pooling.h"
#include "codegen/choose/ops/pointwise.h"
#include "codegen/choose/ops/pooling.h"
#include "codegen/choose/ops/pooling_gradient.h"
#include "codegen/choose/ops/space.h"
#include "runtime/execution/op_work.h"
#include "runtime/execution/ops/convolution.h"
#include "runtime/execution/ops/dense.h"
#include "runtime/execution/ops/global_pooling.h"
#include "runtime/execution/ops/pooling_gradient.h"

namespace minuet {

llvm::ArrayRef<WorkOfFamily> works_of_families() {
  static const WorkOfFamily families[] = {
      {GmasChoice::kKind, make_gmas_work},
      {FusedChoice::kKind, make_view_work},
      {DepthwiseChoice::kKind, make_view_work},
      {PoolChoice::kKind, make_view_work},
      {ToDenseChoice::kKind, make_dense_work},
      {GlobalPoolChoice::kKind, make_global_pool_work},
      {FromDenseChoice::kKind, make_dense_work},
      {PointwiseChoice::kKind, make_view_work},
      {SpaceToChannelChoice::kKind, make_view_work},
      {ChannelToSpaceChoice::kKind, make_view_work},
      {PoolingGradientChoice::kKind, make_pooling_gradient_work},
  };
  return families;
}

}  // namespace minuet
