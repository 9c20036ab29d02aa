#include "runtime/engine/tensor.h"

#include <algorithm>
#include <numeric>

#include "runtime/engine/alignment.h"

namespace minuet {

llvm::Error check_tensor(const std::string& what, const Tensor& given, const Tensor& wanted) {
  if (given.rows != wanted.rows || given.channels != wanted.channels) {
    return make_error(StatusCode::InvalidArgument,
                      "{0} has shape [{1}, {2}], but the prepared execution needs [{3}, {4}]", what,
                      given.rows, given.channels, wanted.rows, wanted.channels);
  }
  if (given.dtype != wanted.dtype) {
    return make_error(StatusCode::InvalidArgument, "{0} is {1}, but the plan's dtype is {2}", what,
                      kDTypeNames[static_cast<int>(given.dtype)],
                      kDTypeNames[static_cast<int>(wanted.dtype)]);
  }
  if (given.rows == 0) return llvm::Error::success();
  if (!given.data) {
    return make_error(StatusCode::InvalidArgument, "{0} has {1} rows, but its data pointer is null", what,
                      given.rows);
  }
  MINUET_TRY(check_alignment(given.data, kVectorAlignment, what.c_str()));
  const i64 element = dtype_bytes(given.dtype);
  const i64 step = std::gcd(given.channels * element, static_cast<i64>(kVectorAlignment));
  if (given.ld < given.channels || given.ld > kMostRowStride || given.ld * element % step != 0) {
    return make_error(StatusCode::InvalidArgument,
                      "{0} has a row stride of {1} elements; for {2} channels it must be {2} to {3} elements "
                      "and a multiple of {4} bytes",
                      what, given.ld, given.channels, kMostRowStride, step);
  }
  return llvm::Error::success();
}

}  // namespace minuet
