// Batches of views that are made together on the GPU, and the scratch memory of a batch.
#pragma once

#include "codegen/choose/choice.h"
#include "runtime/cuda/map_workspace.h"

namespace minuet {

/// Returns how many views, from the front, form one batch. A kernel's table holds kMostViews, all queries
/// together must be fewer than 2^30 to be sorted, and all rows that are looked up must be in one index.
std::size_t view_batch(llvm::ArrayRef<ViewRequest> requests);

/// Returns the capacity of the queries that are put in order.
i64 ordered_capacity(llvm::ArrayRef<ViewRequest> batch);

/// The scratch memory of one batch.
struct ViewWorkspace {
  u32* keys[2] = {};
  u32* rows[2] = {};
  i32* key_count = nullptr;    // device
  u32* state_words = nullptr;  // the state of the sort, contiguous
  i64 state_count = 0;
  i64 tiles = 0;
  i64 bytes = 0;

  /// Places the parts at `base`; with a null base only the sizes are set.
  static ViewWorkspace place(const RadixPassChoice& pass, i64 capacity, char* base);
  SortState sort_state() const;
};

}  // namespace minuet
