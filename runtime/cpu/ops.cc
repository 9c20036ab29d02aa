#include "runtime/cpu/ops.h"

namespace minuet {

llvm::Expected<std::unique_ptr<CpuOp>> make_cpu_op(const OpChoice& choice) {
  const CpuFamily* const known = find_family(cpu_families(), choice.kind());
  if (known) return known->make(choice);
  return make_error(StatusCode::Internal, "the CPU device has no implementation of ops of kind {0}",
                    choice.kind().name);
}

}  // namespace minuet
