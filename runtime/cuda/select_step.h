// Lists the candidates that a rule keeps on the GPU, with the kernels of kernels_templates/select and the
// radix sort of the Map step.
#pragma once

#include "runtime/cuda/found_kernels.h"
#include "runtime/cuda/map_step.h"
#include "runtime/engine/select_operations.h"

namespace minuet {

/// Returns SelectOperations::workspace_bytes() of an engine whose Map step has these kernels.
i64 select_workspace_bytes(const MapChoice& map32, const MapChoice& map64, const SelectChoice& choice,
                           i64 most_rows, i64 batch_size);

class SelectStep final : public SelectOperations {
 public:
  /// Of the kernels for keys of 32 and of 64 bits, those of the sort are used.
  SelectStep(Launcher& launcher, const MapKernels& map32, const MapKernels& map64)
      : launcher_(launcher), map32_(map32), map64_(map64) {}
  i64 workspace_bytes(const SelectChoice& choice, i64 most_rows, i64 batch_size) const override;
  llvm::Error select(const SelectRequest& request) override;

 private:
  /// Marks the best candidates of each batch item, and lets params.mask point to the marks.
  llvm::Error mark_best(const SelectChoice& choice, const SortMemory& memory, i32 key_bits,
                        SelectParams& params);
  /// Gives the new rows their features.
  llvm::Error gather_cells(const SelectRequest& request, const SelectParams& params, u32* overflow);

  Launcher& launcher_;
  const MapKernels &map32_, &map64_;
  FoundKernels<ClearWordsSpec> clear_;
  FoundKernels<MakeScoreKeysSpec> keys_;
  FoundKernels<MarkBestSpec> mark_;
  FoundKernels<ListSelectedSpec> list_;
  FoundKernels<FinishSelectionSpec> finish_;
  FoundKernels<FromDenseSpec> features_;
};

}  // namespace minuet
