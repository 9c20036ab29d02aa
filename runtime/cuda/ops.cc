#include "runtime/cuda/ops.h"

#include "codegen/choose/ops/pooling.h"

#include "runtime/cuda/ops/convolution_fused.h"
#include "runtime/cuda/ops/convolution_gmas.h"
#include "runtime/cuda/ops/pooling.h"

namespace minuet {
namespace {

template <class Ops>
std::unique_ptr<CudaOps> make(Launcher& launcher, const CudaEngineOptions& options) {
  return std::make_unique<Ops>(launcher, options);
}

/// One row per family.
const CudaFamily kFamilies[] = {
    {GmasChoice::kKind, make<GmasStep>, warm_up_gmas, is_same_warm_up},
    {FusedChoice::kKind, make<FusedStep>, nullptr, nullptr},
    {PoolChoice::kKind, make_pooling, nullptr, nullptr},
};

}  // namespace

const CudaFamily* find_cuda_family(const OpFamily& family) {
  for (const CudaFamily& known : kFamilies) {
    if (&known.family == &family) return &known;
  }
  return nullptr;
}

}  // namespace minuet
