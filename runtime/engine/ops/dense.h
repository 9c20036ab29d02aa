// Describes the requests of ops that convert between the features of a level and a dense tensor.
#pragma once

#include "runtime/engine/engine.h"

namespace minuet {

/// Requests an op of the families ToDenseChoice and FromDenseChoice. OpRequest::output_rows and output_count
/// are those of the level, also where the output is dense.
struct DenseRequest : OpRequest {
  /// Points to the coordinates of the level's rows, batch first, [output_rows, 1 + ndim].
  const i32* coordinates = nullptr;
  i32 batch_size = 0;
  /// Points to a table of [batch_size, cells] words, in which prepare_op() lists the row of each cell for
  /// run_op(). It is null for an op that reads a dense tensor.
  i32* cell_rows = nullptr;
};

}  // namespace minuet
