// Reads the arrays that callers give.
#include "runtime/abi/c_api_internal.h"

namespace minuet {
namespace {

llvm::Expected<ElementType> read_element(minuet_element element, ArrayUse use) {
  switch (element) {
    case MINUET_ELEMENT_F32:
    case MINUET_ELEMENT_F16:
    case MINUET_ELEMENT_BF16:
    case MINUET_ELEMENT_F64:
      return static_cast<ElementType>(element);
    case MINUET_ELEMENT_I32:
      if (use != ArrayUse::Parameter) return ElementType::I32;
      break;
    case MINUET_ELEMENT_U8:
    case MINUET_ELEMENT_BOOL:
      if (use == ArrayUse::RunInput) return static_cast<ElementType>(element);
      break;
    default:
      break;
  }
  return use == ArrayUse::RunOutput
             ? make_error(StatusCode::InvalidArgument,
                          "its element is {0}; outputs are f32 (0), f16 (2), bf16 (3) or i32 (7)", element)
             : make_error(StatusCode::InvalidArgument,
                          "its element is {0}; features and parameters are f32 (0), f16 (2), bf16 (3) or f64 "
                          "(4)",
                          element);
}

llvm::Error check_axes(const minuet_array& given, i64 least_extent) {
  if (given.rank < 1 || given.rank > MINUET_MAX_RANK) {
    return make_error(StatusCode::InvalidArgument, "its rank is {0}; it must be 1 to {1}", given.rank,
                      MINUET_MAX_RANK);
  }
  for (i32 axis = 0; axis < given.rank; ++axis) {
    if (given.shape[axis] < least_extent || given.shape[axis] > INT32_MAX) {
      return make_error(StatusCode::InvalidArgument, "its shape[{0}] is {1}; it must be {2} to {3}", axis,
                        given.shape[axis], least_extent, INT32_MAX);
    }
    if (given.stride[axis] < 0 || (given.has_strides == 0 && given.stride[axis] != 0)) {
      return make_error(StatusCode::InvalidArgument,
                        "its stride[{0}] is {1}; it must not be negative, and must be 0 if has_strides is 0",
                        axis, given.stride[axis]);
    }
  }
  return llvm::Error::success();
}

/// Reads the shape and the strides of an array, whose element type is already known.
llvm::Error read_shape(const minuet_array& given, i64 least_extent, GivenArray& array) {
  MINUET_TRY(check_axes(given, least_extent));
  array.shape.assign(given.shape, given.shape + given.rank);
  array.strides.assign(given.stride, given.stride + given.rank);
  // Distances in bytes are computed in 64 bits.
  constexpr i64 kMostBytes = i64{1} << 62;
  i64 elements = 1, reach = 1;
  for (i32 axis = given.rank - 1; axis >= 0; --axis) {
    if (given.has_strides == 0) array.strides[axis] = elements;
    // An empty axis counts as one element, so that the strides of the others stay meaningful.
    const i64 extent = std::max<i64>(given.shape[axis], 1);
    i64 distance = 0;
    if (__builtin_mul_overflow(elements, extent, &elements) ||
        __builtin_mul_overflow(extent - 1, array.strides[axis], &distance) ||
        __builtin_add_overflow(reach, distance, &reach) ||
        reach > kMostBytes / element_bytes(array.element)) {
      return make_error(StatusCode::InvalidArgument, "its shape and strides reach farther than any memory");
    }
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<GivenArray> read_array(const minuet_array& given, ArrayUse use) {
  GivenArray array;
  MINUET_ASSIGN(array.element, read_element(given.element, use));
  MINUET_TRY(read_shape(given, use == ArrayUse::Parameter ? 1 : 0, array));
  MINUET_TRY(check_flags({{given.on_host, "its on_host"}, {given.has_strides, "its has_strides"}}));
  if (spanned_bytes(array) > 0) MINUET_TRY(check_pointer(given.data, "data"));
  MINUET_TRY(
      check_alignment(given.data, static_cast<std::uintptr_t>(element_bytes(array.element)), "its data"));
  array.data = given.data;
  array.on_host = given.on_host != 0;
  return array;
}

}  // namespace minuet
