// Declares the work that makes a level of the candidates which a rule keeps.
#pragma once

#include "codegen/base/error.h"
#include "codegen/choose/ops/select.h"

namespace minuet {

/// Requests the kept candidates. Which members are read follows from the choice's problem.
struct SelectRequest {
  const SelectChoice* choice = nullptr;
  // SelectSource::Rows:
  const i32* coordinates = nullptr;  // Has the shape [most_rows, 1 + ndim], with the batch index first.
  const i32* row_count = nullptr;    // Points to the number of rows. Null means that it is `most_rows`.
  i64 most_rows = 0;
  /// Counts the batch items. SelectSource::Cells needs it. SelectRule::Best reads it for rows too, where 0
  /// says that batch indices are not limited.
  i64 batch_size = 0;
  const unsigned char* mask = nullptr;  // Has the shape [rows, children] or [cells].
  /// Holds the score of child k of row r, or of cell r, at r * scores_ld + k.
  const void* scores = nullptr;
  i64 scores_ld = 0;
  const void* dense = nullptr;  // Is the dense tensor of SelectRule::NonZero.

  void* workspace = nullptr;  // Has workspace_bytes() bytes.
  i64 capacity = 0;           // Counts the rows of selected, sources, parents and features.
  i32* selected = nullptr;    // Receives the coordinates in the shape [capacity, 1 + ndim], then zeros.
  /// Receives the number of the candidate (row * children + child, or the number of the cell) of each new
  /// row, and -1 behind them. It may be null.
  i32* sources = nullptr;
  /// Receives the row of each new row's candidate, and -1 behind them. It may be null, and is not for cells.
  i32* parents = nullptr;
  /// Receives the new row of each candidate of `most_rows` rows or of the cells, or -1. It may be null.
  i32* places = nullptr;
  /// Receives the features of the new rows with SelectRule::NonZero, then zeros, in the shape [capacity,
  /// channels]. It may be null.
  void* features = nullptr;
  i32* count = nullptr;   // Receives the number of new rows.
  u32* status = nullptr;  // Receives one word of kStatus... bits. If it is not 0, there are no new rows.
};

/// select() is called between Engine::begin() and Engine::end(). It only enqueues work, allocates nothing,
/// and may be captured into a CUDA graph. Engine::permute_rows() gathers tensors onto the new level, with
/// `sources` or `parents` as its index and `count` as its count, and brings gradients back with `places`.
class SelectOperations {
 public:
  virtual ~SelectOperations() = default;
  virtual i64 workspace_bytes(const SelectChoice& choice, i64 most_rows, i64 batch_size) const = 0;
  virtual llvm::Error select(const SelectRequest& request) = 0;
};

}  // namespace minuet
