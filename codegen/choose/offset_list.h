// Describes kernels whose offsets are not those of a box: a cross, or a list that the caller gives.
#pragma once

#include <array>
#include <vector>

#include "codegen/base/error.h"
#include "kernels_templates/shared/key_layout.h"

namespace minuet {

using AxisArray = std::array<i32, kMaxDim>;

/// Holds the offsets of a kernel, in cells of the finer side of its map. Weights are in this order. Axes that
/// the problem does not have are 0.
using OffsetList = std::vector<AxisArray>;

/// Names the offsets that a kernel has.
enum class KernelShape : i32 {
  Box,  // The kernel has all combinations of the indices 0 to kernel_size - 1 of its axes.
  /// The kernel has those offsets of the centred box that are not 0 on at most one axis, in the order in
  /// which the box has them.
  Cross,
  Custom,  // The caller lists the offsets.
};
/// Holds the names of the values of KernelShape in descriptions.
inline constexpr const char* kKernelShapeNames[] = {"box", "cross", "custom"};

/// Replaces a cross or a custom kernel by the list of its offsets: sets `kernel_size` and `dilation` to 1 and
/// `offsets` to the list. Leaves a box as it is. A list with the offset 0 alone becomes a box of kernel size
/// 1, so that such a kernel reads no map. Returns InvalidArgument if there can be no such kernel.
llvm::Error list_offsets(KernelShape shape, i32 ndim, AxisArray& kernel_size, AxisArray& dilation,
                         OffsetList& offsets);

/// Returns InvalidArgument if a list of offsets is too long, or has an offset twice, too far away or on an
/// axis that does not exist. An empty list stands for a box.
llvm::Error check_offsets(i32 ndim, const OffsetList& offsets);

/// Returns the number of the offset that is 0 on each axis, or -1 if the list has none.
i32 find_center(const OffsetList& offsets);

/// Returns the largest distance from 0 of an offset on an axis, in cells.
i64 farthest_offset(const OffsetList& offsets, i32 axis);

}  // namespace minuet
