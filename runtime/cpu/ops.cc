#include "runtime/cpu/ops.h"

#include "codegen/choose/ops/pooling.h"
#include "runtime/cpu/ops/convolution.h"
#include "runtime/cpu/ops/pooling.h"

namespace minuet {
namespace {

/// One line for each family.
struct CpuFamily {
  const OpFamily& family;
  llvm::Expected<std::unique_ptr<CpuOp>> (*make)(const OpChoice& choice,
                                                 llvm::ArrayRef<const void*> parameters);
};
const CpuFamily kFamilies[] = {
    {GmasChoice::kKind, make_gmas_op},
    {FusedChoice::kKind, make_fused_op},
    {PoolChoice::kKind, make_pooling_op},
};

}  // namespace

llvm::Expected<std::unique_ptr<CpuOp>> make_cpu_op(const OpChoice& choice,
                                                   llvm::ArrayRef<const void*> parameters) {
  for (const CpuFamily& known : kFamilies) {
    if (&known.family == &choice.kind()) return known.make(choice, parameters);
  }
  return make_error(StatusCode::Internal, "nothing runs the family {0} on the CPU", choice.kind().name);
}

}  // namespace minuet
