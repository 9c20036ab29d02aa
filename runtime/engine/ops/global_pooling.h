// Describes the requests of ops that pool all rows of each batch item into one row.
#pragma once

#include "runtime/engine/engine.h"

namespace minuet {

/// Requests an op of the family GlobalPoolChoice. The output has one row for each batch item.
struct GlobalPoolRequest : OpRequest {
  /// Points to the coordinates of the input's rows, batch first, [input_rows, 1 + ndim].
  const i32* coordinates = nullptr;
  i32 batch_size = 0;
  /// Points to [input_rows] and to [batch_size, item_splits(batch_size, input_rows)] words, in which
  /// prepare_op() lists the rows by batch item for run_op() (kernels_templates/shared/global_pool_kernels.h).
  /// Both are null if there is one batch item.
  i32* item_rows = nullptr;
  u32* places = nullptr;
  /// Says whether prepare_op() makes the list. Another op that reads the same level makes it otherwise.
  bool makes_list = false;
  /// Points to memory for partial results, [kMostPieces, 2, channels].
  float* partials = nullptr;
};

}  // namespace minuet
