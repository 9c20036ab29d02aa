// How the views of many maps are made together on the GPU: how many at once, and where their sort lies.
#pragma once

#include "codegen/choose/choice.h"
#include "runtime/cuda/map_workspace.h"

namespace minuet {

/// How many of the views, from the front, are made at once: a kernel's table holds kMostViews, a sort of all
/// their queries fewer than 2^30, and what is looked up is so in one index.
std::size_t view_batch(llvm::ArrayRef<ViewRequest> requests);

/// Of the queries that get an order.
i64 ordered_capacity(llvm::ArrayRef<ViewRequest> batch);

/// The scratch memory of one batch.
struct ViewWorkspace {
  u32* keys[2] = {};
  u32* rows[2] = {};
  i32* key_count = nullptr;    // on the device
  u32* state_words = nullptr;  // the sort's state, in one part
  i64 state_count = 0;
  i64 tiles = 0;
  i64 bytes = 0;

  /// Parts at `base`, or, with a null base, only sizes.
  static ViewWorkspace place(const RadixPassChoice& pass, i64 capacity, char* base);
  SortState sort_state() const;
};

}  // namespace minuet
