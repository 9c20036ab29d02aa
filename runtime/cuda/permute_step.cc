#include "runtime/cuda/permute_step.h"

namespace minuet {

llvm::Expected<i32> PermuteStep::add(const PermuteRowsSpec& spec) {
  MINUET_ASSIGN(const Kernel<PermuteRowsParams> kernel, launcher_.device().kernel(spec));
  entries_.push_back({spec, kernel});
  return static_cast<i32>(entries_.size()) - 1;
}

llvm::Error PermuteStep::run(const PermuteRequest& request) {
  MINUET_TRY(launcher_.mark(Stage::Other));
  if (request.rows <= 0) return llvm::Error::success();
  const Entry& entry = entries_[request.permute];
  const i64 vectors =
      request.rows * (entry.spec.channels * dtype_bytes(entry.spec.io) / entry.spec.vector_bytes);
  return launcher_.launch_stride(
      entry.kernel, vectors,
      PermuteRowsParams{request.input, request.input_ld, request.index, request.rows, request.count,
                        request.output, request.output_ld, request.padding});
}

}  // namespace minuet
