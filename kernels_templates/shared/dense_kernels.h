// This file declares the Spec (compile time) and Params (run time) of the kernels that convert between the
// features of a level and a dense tensor, which has an element for each channel and cell of each batch item.
// All pointers are device pointers.
//
// A cell is a coordinate divided by the tensor stride of its level. The cells of a batch item are numbered
// from 0 in the order in which the dense tensor stores them. A tensor with the channels first has the shape
// [batch, channels, cells], and one with the channels last has the shape [batch, cells, channels].
#pragma once

#include "kernels_templates/shared/types.h"

namespace minuet {

/// Describes the cells of a dense tensor.
struct CellGrid {
  i32 tensor_stride[kMaxDim];
  i32 shape[kMaxDim];  // Gives the number of cells on each axis.
  i32 step[kMaxDim];   // Gives the difference between the numbers of two neighbouring cells on each axis.
  i32 cells;           // Gives the number of cells of a batch item.
  i32 batch;           // Gives the number of batch items.
};

/// Returns the number of the cell of a coordinate, counted over all batch items, or -1 if the coordinate is
/// outside the grid. `coordinate` has the batch index, and then one number for each axis.
template <i32 Ndim>
MINUET_HD constexpr i32 cell_of(const CellGrid& grid, const i32* coordinate) {
  bool is_inside = coordinate[0] >= 0 && coordinate[0] < grid.batch;
  i32 cell = 0;
  MINUET_UNROLL
  for (i32 a = 0; a < Ndim; ++a) {
    const i32 at = coordinate[a + 1] / grid.tensor_stride[a];
    const bool is_on_axis = coordinate[a + 1] >= 0 && at < grid.shape[a];
    is_inside = is_inside && is_on_axis;
    cell += is_on_axis ? at * grid.step[a] : 0;
  }
  return is_inside ? coordinate[0] * grid.cells + cell : -1;
}

/// The kernel list_cell_rows sets rows[cell] to the row of the level that lies in each occupied cell. It
/// leaves the other elements unchanged.
struct ListCellRowsSpec {
  i32 ndim = 3;
  i32 threads = 256;
  bool operator==(const ListCellRowsSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("ndim", ndim), visitor("threads", threads);
  }
};
struct ListCellRowsParams {
  const i32* coordinates;  // Holds coordinates, batch first, in the shape [*count, 1 + ndim].
  const i32* count;        // Points to the number of rows.
  CellGrid grid;
  i32* rows;  // Has the shape [batch, cells].
};

/// The kernel to_dense writes a whole dense tensor. A cell gets the features of its row, or zeros if it has
/// no row.
struct ToDenseSpec {
  DType io = DType::F16;
  i32 channels = 64;
  i32 vector_bytes = 16;  // Gives the width of one read, which divides every row's start and length.
  /// Gives the width of one write where the channels come first. It divides the bytes of a channel's cells.
  i32 store_bytes = 16;
  bool channels_last = false;
  i32 threads = 128;
  bool operator==(const ToDenseSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("channels", channels), visitor("vector_bytes", vector_bytes),
        visitor("store_bytes", store_bytes), visitor("channels_last", channels_last),
        visitor("threads", threads);
  }
};
struct ToDenseParams {
  const void* input;
  i64 input_ld;
  /// Holds, for each cell of each batch item, the input row that lies in it, or -1.
  const i32* rows;
  i32 cells;  // Gives the number of cells of a batch item.
  i32 batch;
  void* output;
  i32 is_aligned;  // If 0, `output` may begin on a multiple of an element's size that suits no wide write.
  /// The kernel sets *overflow to overflow_mark if it copies an infinite or NaN number, and otherwise leaves
  /// it unchanged.
  u32* overflow;
  u32 overflow_mark;
};

/// The kernel from_dense sets each row of the output to the elements of the row's cell. Rows outside the grid
/// become zeros.
struct FromDenseSpec {
  DType io = DType::F16;
  i32 ndim = 3;
  i32 channels = 64;
  i32 vector_bytes = 16;  // Gives the width of one write, which divides every row's start and length.
  bool channels_last = false;
  i32 threads = 128;
  bool operator==(const FromDenseSpec&) const = default;
  template <class Visitor>
  MINUET_HD constexpr void visit(Visitor&& visitor) const {
    visitor("io", io), visitor("ndim", ndim), visitor("channels", channels),
        visitor("vector_bytes", vector_bytes), visitor("channels_last", channels_last),
        visitor("threads", threads);
  }
};
struct FromDenseParams {
  const void* input;  // Points to the dense tensor.
  i32 is_aligned;     // If 0, `input` may begin on a multiple of an element's size that suits no wide read.
  const i32* coordinates;   // Holds coordinates, batch first, in the shape [*output_count, 1 + ndim].
  const i32* output_count;  // The count must be at most output_rows.
  i64 output_rows;
  i32 pads_output;  // If not 0, output rows at and after *output_count become zeros.
  CellGrid grid;
  void* output;
  i64 output_ld;
  u32* overflow;  // This member and the next are as in ToDenseParams.
  u32 overflow_mark;
};

}  // namespace minuet
