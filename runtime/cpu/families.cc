// Defines the table of op families, such as poolings, that the CPU device runs. A test may link its own table
// instead.
#include "codegen/choose/ops/dense.h"
#include "codegen/choose/ops/global_pooling.h"
#include "codegen/choose/ops/pointwise.h"
#include "codegen/choose/ops/pooling.h"
#include "codegen/choose/ops/pooling_gradient.h"
#include "codegen/choose/ops/space.h"
#include "runtime/cpu/ops.h"
#include "runtime/cpu/ops/convolution.h"
#include "runtime/cpu/ops/dense.h"
#include "runtime/cpu/ops/global_pooling.h"
#include "runtime/cpu/ops/pointwise.h"
#include "runtime/cpu/ops/pooling.h"
#include "runtime/cpu/ops/pooling_gradient.h"
#include "runtime/cpu/ops/space.h"

namespace minuet {

llvm::ArrayRef<CpuFamily> cpu_families() {
  static const CpuFamily families[] = {
      {GmasChoice::kKind, make_gmas_op},
      {FusedChoice::kKind, make_fused_op},
      {PoolChoice::kKind, make_pooling_op},
      {PoolingGradientChoice::kKind, make_pooling_gradient_op},
      {GlobalPoolChoice::kKind, make_global_pooling_op},
      {ToDenseChoice::kKind, make_to_dense_op},
      {FromDenseChoice::kKind, make_from_dense_op},
      {SpaceToChannelChoice::kKind, make_space_to_channel_op},
      {ChannelToSpaceChoice::kKind, make_channel_to_space_op},
      {PointwiseChoice::kKind, make_pointwise_op},
  };
  return families;
}

}  // namespace minuet
