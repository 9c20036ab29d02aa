// Divides requests for views of kernel maps into batches that the GPU makes together, and places the scratch
// memory of a batch.
#pragma once

#include "codegen/choose/choice.h"
#include "runtime/cuda/map_workspace.h"

namespace minuet {

/// Returns how many views, counted from the front, form one batch. A kernel's table holds at most kMostViews
/// views. All queries together must be fewer than 2^30 to be sorted. All rows that are looked up must be in
/// one index.
std::size_t view_batch(llvm::ArrayRef<ViewRequest> requests);

/// Returns the total capacity, in queries, of those views in the batch that get an order.
i64 ordered_capacity(llvm::ArrayRef<ViewRequest> batch);

/// Holds the scratch memory of one batch of views.
struct ViewWorkspace {
  u32* keys[2] = {};
  u32* rows[2] = {};
  i32* key_count = nullptr;    // Points to one word of device memory.
  u32* state_words = nullptr;  // Holds all words of the sort's SortState in one piece.
  i64 state_count = 0;
  i64 tiles = 0;
  i64 bytes = 0;

  /// Places the parts at `base`. If `base` is null, this only sets the sizes.
  static ViewWorkspace place(const RadixPassChoice& pass, i64 capacity, char* base);
  SortState sort_state() const;
};

/// Returns MapOperations::view_workspace_bytes() of an engine that sorts ranks with these kernels.
i64 view_workspace_bytes(const RadixPassChoice& pass, llvm::ArrayRef<ViewRequest> requests);

}  // namespace minuet
