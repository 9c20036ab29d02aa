// Describes the ops that convert between the features of a level and a dense tensor, which has an element for
// each channel and cell of each batch item. A bird's-eye image is a dense tensor whose axes have another
// order. All functions are pure.
#pragma once

#include "codegen/choose/candidates.h"
#include "kernels_templates/shared/dense_kernels.h"

namespace minuet {

/// Describes the cells of a dense tensor and the order in which its elements are stored.
struct DenseLayout {
  AxisArray tensor_stride{1, 1, 1, 1};  // Holds the tensor stride of the level.
  AxisArray shape{1, 1, 1, 1};          // Holds the number of cells on each axis.
  // Holds the level's axes in the order in which the dense tensor stores them. The last one is contiguous,
  // unless the channels come last.
  AxisArray order{0, 1, 2, 3};
  bool channels_last = false;
  bool operator==(const DenseLayout&) const = default;
};

/// Returns the number of cells of a batch item. It can exceed 32 bits if the layout is not valid.
i64 cells_of(i32 ndim, const DenseLayout& layout);
CellGrid make_grid(i32 ndim, const DenseLayout& layout, i32 batch);

/// Holds what both ops have in common. The features are those of a level, and have columns `features`.
struct DenseProblem {
  i32 ndim = 3;
  DType dtype = DType::F16;
  i32 channels = 0;
  DenseLayout layout;
  Columns features;
};

/// Computes a dense tensor from the features of a level. Cells without a row are 0.
struct ToDenseProblem : DenseProblem {
  static const OpKind kKind;
};
/// Computes the features of a level from a dense tensor. A row outside the tensor's cells is 0.
struct FromDenseProblem : DenseProblem {
  static const OpKind kKind;
};

struct ToDenseChoice {
  static const OpFamily kKind;

  ToDenseProblem problem;
  ListCellRowsSpec list;
  ToDenseSpec kernel;
};
struct FromDenseChoice {
  static const OpFamily kKind;

  FromDenseProblem problem;
  FromDenseSpec kernel;
};
ToDenseChoice choose_to_dense(const ToDenseProblem& problem);
FromDenseChoice choose_from_dense(const FromDenseProblem& problem);

llvm::Error validate(const DenseProblem& problem);
void add_sources(SourceList& list, const ToDenseChoice& choice);
void add_sources(SourceList& list, const FromDenseChoice& choice);

}  // namespace minuet
