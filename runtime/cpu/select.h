// Lists the candidates that a rule keeps, on the CPU.
#pragma once

#include "codegen/base/thread_pool.h"
#include "runtime/engine/select_operations.h"

namespace minuet {

class CpuSelections final : public SelectOperations {
 public:
  explicit CpuSelections(ThreadPool& pool) : pool_(pool) {}
  i64 workspace_bytes(const SelectChoice& choice, i64 most_rows, i64 batch_size) const override;
  llvm::Error select(const SelectRequest& request) override;

 private:
  ThreadPool& pool_;
};

}  // namespace minuet
