// Describes the pooling of all rows of each batch item into one row. All functions are pure.
#pragma once

#include "codegen/choose/candidates.h"
#include "kernels_templates/shared/global_pool_kernels.h"

namespace minuet {

/// Computes the maximum, the average or the sum of the rows of each batch item. The result of an item without
/// rows is 0.
struct GlobalPoolingProblem {
  static const OpKind kKind;

  i32 ndim = 3;  // Holds the number of axes of the coordinates that the op reads.
  DType dtype = DType::F16;
  i32 channels = 0;
  Reduction reduction = Reduction::Max;
  Columns input, output;
};

struct GlobalPoolChoice {
  static const OpFamily kKind;

  GlobalPoolingProblem problem;
  // The first three kernels list the rows by batch item, and the other two pool them.
  ItemRowsSpec count, list;
  StartItemRowsSpec start;
  PoolItemsSpec pool;
  JoinItemsSpec join;
};
GlobalPoolChoice choose_global_pool(const GlobalPoolingProblem& problem);

llvm::Error validate(const GlobalPoolingProblem& problem);
void add_sources(SourceList& list, const GlobalPoolChoice& choice);

}  // namespace minuet
