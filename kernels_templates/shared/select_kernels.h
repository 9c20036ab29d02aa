// This file declares the Spec (compile time) and Params (run time) of the kernels that list the candidates
// which a rule keeps, and the functions that the CPU device computes too. All pointers are device pointers.
//
// The candidates are the children of the rows of a level (the rows themselves, if each has one child), or the
// cells of a dense tensor. They are numbered by row, and then by child, or by batch item, and then by cell,
// with the first axis slowest. One scan over them numbers those that are kept (list_selected). For the best
// scores of each batch item, the candidates are sorted by item and score first (make_score_keys, the radix
// sort of map/, mark_best), and the scan reads the marks.
#pragma once

#include "kernels_templates/shared/dense_kernels.h"
#include "kernels_templates/shared/types.h"

namespace minuet {

/// Names the rule by which candidates are kept.
enum class SelectRule : i32 {
  All,
  Mask,     // A candidate is kept if its byte of a mask is not 0.
  Above,    // A candidate is kept if its score is above a threshold. NaN is not.
  Best,     // The candidates with the highest scores of their batch item are kept. NaN is never kept.
  NonZero,  // A cell is kept if the dense tensor has a number there that is not 0. NaN is not 0.
};
constexpr i32 kSelectRules = static_cast<i32>(SelectRule::NonZero) + 1;

/// Names what the candidates are.
enum class SelectSource : i32 { Rows, Cells };

/// A block of list_selected handles `threads` candidates. Best is listed with the rule Mask, because
/// mark_best writes a mask, so no Spec has it. Only cells have the rule NonZero.
struct ListSelectedSpec {
  DType io = DType::F32;
  i32 ndim = 3;
  SelectSource source = SelectSource::Rows;
  SelectRule rule = SelectRule::Mask;
  i32 threads = 512;
  bool operator==(const ListSelectedSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("ndim", ndim), visitor("source", source), visitor("rule", rule),
        visitor("threads", threads);
  }
};
struct FinishSelectionSpec {
  i32 ndim = 3;
  i32 threads = 256;
  bool operator==(const FinishSelectionSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("threads", threads);
  }
};
struct MakeScoreKeysSpec {
  DType io = DType::F32;
  i32 ndim = 3;
  SelectSource source = SelectSource::Rows;
  i32 threads = 256;
  bool operator==(const MakeScoreKeysSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("ndim", ndim), visitor("source", source), visitor("threads", threads);
  }
};
struct MarkBestSpec {
  i32 threads = 256;
  bool operator==(const MarkBestSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("threads", threads);
  }
};

/// Describes the candidates. Only the members of their source are set.
struct Candidates {
  // Rows:
  const i32* coordinates;  // Holds coordinates, batch first, in the shape [most_rows, 1 + ndim].
  const i32* row_count;    // Points to the number of rows. If the pointer is null, there are `most_rows`.
  i64 most_rows;
  i32 children;                   // Gives the number of children of a row.
  i32 children_on_axis[kMaxDim];  // Gives the number of children on each axis.
  i32 child_step[kMaxDim];        // Gives the difference of coordinates between neighbouring children.
  // Cells:
  CellGrid grid;
  i64 most;  // Gives the number of candidates of `most_rows` rows, or of all cells. It is less than 2^30.
};

struct SelectParams {
  Candidates candidates;
  const unsigned char* mask;  // Has a byte for each candidate. With SelectRule::Best it is `marks`.
  const void* scores;         // Holds the score of child k of row r, or of cell r, at r * scores_ld + k.
  i64 scores_ld;
  float threshold;
  const void* dense;  // Points to the dense tensor.
  i64 channels;
  /// Give the numbers of elements from a channel, a cell (in the order of the tensor) and a batch item of the
  /// dense tensor to the next.
  i64 channel_step, cell_step, item_step;
  // The next members are for SelectRule::Best.
  i64 best;                 // Limits the candidates of a batch item that are kept.
  i64 batch_size;           // Limits the batch indices of rows, or is 0 if they are not limited.
  i32 score_bits;           // The low bits of a key hold the score, and the bits above hold the batch item.
  i32 key_bytes;            // A key has 4 or 8 bytes.
  i32* sort_count;          // Receives the number of candidates.
  void* keys;               // Receives the key of each candidate,
  u32* values;              // and its number.
  const void* sorted_keys;  // Holds `keys` and `values` after the sort. Only mark_best reads them.
  const u32* sorted_values;
  unsigned char* marks;  // Receives 1 for each candidate that is kept, and 0 for the others.
  // The results:
  u32* tiles;     // Holds the state of each tile of the scan (tile_sums.h), which must be preset to 0.
  i32* total;     // Receives the number of kept candidates, however many they are.
  i64 capacity;   // Limits the kept candidates. If there are more, none is kept, and the status says so.
  i32* selected;  // Receives the coordinates of kept candidates, in the shape [capacity, 1 + ndim].
  i32* sources;   // Receives the number of each kept candidate, and -1 behind them. It may be null.
  i32* parents;   // Receives the row of each kept child, and -1 behind them. It may be null.
  i32* places;    // Receives the new row of each candidate, or -1, in the shape [most]. It may be null.
  i32* count;     // Receives the number of kept candidates.
  u32* status;    // Receives kStatus... bits, and must be preset to 0.
};

/// Finds the coordinate of a child, batch first, from that of its row. Returns false if int32 cannot hold it.
template <i32 Ndim>
MINUET_HD constexpr bool find_child(const Candidates& candidates, const i32* parent, i32 child,
                                    i32* coordinate) {
  coordinate[0] = parent[0];
  bool fits = true;
  i32 rest = child;
  MINUET_UNROLL
  for (i32 a = Ndim - 1; a >= 0; --a) {
    const i64 at = parent[1 + a] + i64{rest % candidates.children_on_axis[a]} * candidates.child_step[a];
    rest /= candidates.children_on_axis[a];
    fits = fits && at <= 0x7fffffff;
    coordinate[1 + a] = static_cast<i32>(at);
  }
  return fits;
}
/// Finds the coordinate of a cell, batch first. Returns the number of the cell in its batch item, in the
/// order of the tensor.
template <i32 Ndim>
MINUET_HD constexpr i32 find_cell_of_grid(const CellGrid& grid, i32 candidate, i32* coordinate) {
  coordinate[0] = candidate / grid.cells;
  i32 rest = candidate % grid.cells, stored = 0;
  MINUET_UNROLL
  for (i32 a = Ndim - 1; a >= 0; --a) {
    const i32 at = rest % grid.shape[a];
    rest /= grid.shape[a];
    stored += at * grid.step[a];
    coordinate[1 + a] = at * grid.tensor_stride[a];
  }
  return stored;
}

/// Returns the key of a score, of which the lower ones are of higher scores. `bits` are those of the number,
/// which has `Bits` bits. Zeros of both signs have the same key, and NaN has the highest key of all.
template <i32 Bits>
MINUET_HD constexpr u32 score_key(u32 bits, u32 infinity) {
  constexpr u32 kAll = Bits == 32 ? ~0u : (1u << (Bits & 31)) - 1, kSign = 1u << (Bits - 1);
  const u32 magnitude = bits & ~kSign & kAll;
  if (magnitude > infinity) return kAll;
  const bool is_negative = (bits & kSign) != 0 && magnitude != 0;
  return is_negative ? kSign | magnitude : ~(kSign | magnitude) & kAll;
}
template <DType T>
MINUET_HD constexpr u32 score_key(u32 bits) {
  if constexpr (dtype_bytes(T) == 4) return score_key<32>(bits, 0x7f800000u);
  return score_key<16>(bits, T == DType::F16 ? 0x7c00u : 0x7f80u);
}
/// Returns true if a key with `score_bits` bits for the score belongs to NaN.
MINUET_HD constexpr bool is_key_of_nan(u64 key, i32 score_bits) {
  const u64 mask = (1ull << score_bits) - 1;
  return (key & mask) == mask;
}

/// Returns true if a score is greater than a threshold, which is not NaN. Both are given by their fp32 bits,
/// so that hosts which flush subnormals to zero get the same answer. NaN is not greater than any threshold.
MINUET_HD constexpr bool is_above(u32 score, u32 threshold) {
  return score_key<DType::F32>(score) < score_key<DType::F32>(threshold);
}

/// Returns true if an element of the dtype, given by its bits, is not 0. NaN is not.
template <DType T>
MINUET_HD constexpr bool is_not_zero(u32 bits) {
  return (bits & (dtype_bytes(T) == 4 ? 0x7fffffffu : 0x7fffu)) != 0;
}

}  // namespace minuet
