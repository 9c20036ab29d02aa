#include "codegen/choose/offset_list.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "codegen/choose/problem.h"
#include "llvm/ADT/STLExtras.h"

namespace minuet {
namespace {

constexpr AxisArray kOnes{1, 1, 1, 1};

llvm::Expected<OffsetList> cross_offsets(i32 ndim, const AxisArray& kernel_size, const AxisArray& dilation) {
  i64 count = 1;
  for (i32 a = 0; a < ndim; ++a) {
    if (kernel_size[a] < 1 || dilation[a] < 1 || i64{kernel_size[a]} * dilation[a] > kFarthestOffset) {
      return make_error(StatusCode::InvalidArgument,
                        "axis {0} has kernel size {1} and dilation {2}; both must be 1 or more, and their "
                        "product at most {3}",
                        a, kernel_size[a], dilation[a], kFarthestOffset);
    }
    count += kernel_size[a] - 1;
  }
  if (count > kMostOffsets) {
    return make_error(StatusCode::InvalidArgument,
                      "the cross has {0} offsets; at most {1} are supported: use a smaller kernel", count,
                      kMostOffsets);
  }
  OffsetList offsets{AxisArray{}};
  for (i32 a = 0; a < ndim; ++a) {
    for (i32 i = 0; i < kernel_size[a]; ++i) {
      AxisArray offset{};
      offset[a] = (centred_origin(kernel_size[a]) + i) * dilation[a];
      if (offset[a] != 0) offsets.push_back(offset);
    }
  }
  // A box numbers its offsets in this order.
  llvm::sort(offsets);
  return offsets;
}

}  // namespace

llvm::Error list_offsets(KernelShape shape, i32 ndim, AxisArray& kernel_size, AxisArray& dilation,
                         OffsetList& offsets) {
  if (shape != KernelShape::Custom && !offsets.empty()) {
    return make_error(StatusCode::InvalidArgument,
                      "offsets are given, but the kernel shape is {0}: leave them out, or set the kernel "
                      "shape to custom",
                      kKernelShapeNames[static_cast<int>(shape)]);
  }
  if (shape == KernelShape::Box) return llvm::Error::success();
  if (shape == KernelShape::Cross) {
    MINUET_ASSIGN(offsets, cross_offsets(ndim, kernel_size, dilation));
    kernel_size = dilation = kOnes;
  } else if (offsets.empty()) {
    return make_error(StatusCode::InvalidArgument,
                      "the kernel shape is custom, but there are no offsets: give at least one");
  } else if (kernel_size != kOnes || dilation != kOnes) {
    return make_error(StatusCode::InvalidArgument,
                      "the kernel has a list of offsets, which are in cells: leave its kernel size and "
                      "dilation out, and multiply the offsets by the dilation");
  }
  MINUET_TRY(check_offsets(ndim, offsets));
  if (offsets.size() == 1 && offsets.front() == AxisArray{}) offsets.clear();
  return llvm::Error::success();
}

llvm::Error check_offsets(i32 ndim, const OffsetList& offsets) {
  if (static_cast<i64>(offsets.size()) > kMostOffsets) {
    return make_error(StatusCode::InvalidArgument,
                      "the kernel has {0} offsets; at most {1} are supported: use fewer", offsets.size(),
                      kMostOffsets);
  }
  std::set<AxisArray> seen;
  for (std::size_t k = 0; k < offsets.size(); ++k) {
    for (i32 a = 0; a < kMaxDim; ++a) {
      const i64 most = a < ndim ? kFarthestOffset : 0;
      if (std::abs(i64{offsets[k][a]}) <= most) continue;
      return make_error(StatusCode::InvalidArgument,
                        "offset {0} is {1} on axis {2}; it must be -{3} to {3} there", k, offsets[k][a], a,
                        most);
    }
    if (seen.insert(offsets[k]).second) continue;
    return make_error(StatusCode::InvalidArgument,
                      "offsets {0} and {1} are equal: give each offset once, and add their weights",
                      llvm::find(offsets, offsets[k]) - offsets.begin(), k);
  }
  return llvm::Error::success();
}

i32 find_center(const OffsetList& offsets) {
  const auto found = llvm::find(offsets, AxisArray{});
  return found == offsets.end() ? -1 : static_cast<i32>(found - offsets.begin());
}

i64 farthest_offset(const OffsetList& offsets, i32 axis) {
  i64 farthest = 0;
  for (const AxisArray& offset : offsets) farthest = std::max(farthest, std::abs(i64{offset[axis]}));
  return farthest;
}

}  // namespace minuet
