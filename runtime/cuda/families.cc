// Defines the table of op families, such as poolings, that the CUDA device runs. A test may link its own
// table instead.
#include "codegen/choose/ops/dense.h"
#include "codegen/choose/ops/depthwise.h"
#include "codegen/choose/ops/global_pooling.h"
#include "codegen/choose/ops/pointwise.h"
#include "codegen/choose/ops/pooling.h"
#include "codegen/choose/ops/pooling_gradient.h"
#include "codegen/choose/ops/space.h"
#include "runtime/cuda/ops.h"
#include "runtime/cuda/ops/convolution_fused.h"
#include "runtime/cuda/ops/convolution_gmas.h"
#include "runtime/cuda/ops/dense.h"
#include "runtime/cuda/ops/depthwise.h"
#include "runtime/cuda/ops/global_pooling.h"
#include "runtime/cuda/ops/pointwise.h"
#include "runtime/cuda/ops/pooling.h"
#include "runtime/cuda/ops/pooling_gradient.h"
#include "runtime/cuda/ops/space.h"

namespace minuet {
namespace {

template <class Ops>
std::unique_ptr<CudaOps> make(Launcher& launcher, const CudaEngineOptions& options) {
  return std::make_unique<Ops>(launcher, options);
}

}  // namespace

llvm::ArrayRef<CudaFamily> cuda_families() {
  static const CudaFamily families[] = {
      {GmasChoice::kKind, make<GmasStep>, warm_up_gmas, is_same_warm_up, gmas_memory_bound},
      {FusedChoice::kKind, make<FusedStep>, nullptr, nullptr, nullptr},
      {DepthwiseChoice::kKind, make_depthwise, nullptr, nullptr, nullptr},
      {PoolChoice::kKind, make_pooling, nullptr, nullptr, nullptr},
      {PoolingGradientChoice::kKind, make_pooling_gradient, nullptr, nullptr, nullptr},
      {GlobalPoolChoice::kKind, make_global_pooling, nullptr, nullptr, nullptr},
      {ToDenseChoice::kKind, make_to_dense, nullptr, nullptr, nullptr},
      {FromDenseChoice::kKind, make_from_dense, nullptr, nullptr, nullptr},
      {SpaceToChannelChoice::kKind, make_space_to_channel, nullptr, nullptr, nullptr},
      {ChannelToSpaceChoice::kKind, make_channel_to_space, nullptr, nullptr, nullptr},
      {PointwiseChoice::kKind, make_pointwise, nullptr, nullptr, nullptr},
  };
  return families;
}

}  // namespace minuet
