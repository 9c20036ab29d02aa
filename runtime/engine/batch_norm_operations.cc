#include "runtime/engine/batch_norm_operations.h"

#include "runtime/engine/arena.h"

namespace minuet {

NormWorkspace::NormWorkspace(i32 channels, i64 most_rows, void* base) {
  // Earlier work may still use the memory, so the gaps between the parts are not poisoned.
  Placement parts(static_cast<char*>(base), /*idle=*/false);
  pieces = parts.take<PieceSums>(most_norm_pieces(most_rows) * channels);
  sums = parts.take<float>(2 * i64{channels});
  bytes = parts.bytes();
}

}  // namespace minuet
