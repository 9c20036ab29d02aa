// Describes an array that the caller gives.
#pragma once

#include "kernels_templates/shared/parameter_kernels.h"
#include "llvm/ADT/SmallVector.h"

namespace minuet {

/// Names the element types of a caller's array that the library reads or writes. The values are those of the
/// ABI (minuet_element). Those of ArrayElement have the same values there.
enum class ElementType : i32 { F32 = 0, F16 = 2, BF16 = 3, F64 = 4, U8 = 6, I32 = 7, Bool = 9 };

/// Describes an array of up to kMaxArrayAxes axes, which the struct does not own.
struct GivenArray {
  void* data = nullptr;
  llvm::SmallVector<i64, kMaxArrayAxes> shape;
  llvm::SmallVector<i64, kMaxArrayAxes> strides;  // Holds the distance of neighbours in elements, per axis.
  ElementType element = ElementType::F32;
  bool on_host = false;  // Says whether `data` points to host memory although the device is a GPU.
};

inline i64 element_bytes(ElementType element) {
  switch (element) {
    case ElementType::F32:
    case ElementType::I32:
      return 4;
    case ElementType::F16:
    case ElementType::BF16:
      return 2;
    case ElementType::F64:
      return 8;
    case ElementType::U8:
    case ElementType::Bool:
      return 1;
  }
  return 0;
}

/// Returns the name of an element type in messages.
inline const char* element_name(ElementType element) {
  switch (element) {
    case ElementType::F32:
      return "f32";
    case ElementType::F16:
      return "f16";
    case ElementType::BF16:
      return "bf16";
    case ElementType::F64:
      return "f64";
    case ElementType::U8:
      return "u8";
    case ElementType::I32:
      return "i32";
    case ElementType::Bool:
      return "bool";
  }
  return "";
}

/// Returns the number of bytes from the array's first element to the end of its last one, or 0 if it has no
/// elements. No stride is negative.
inline i64 spanned_bytes(const GivenArray& array) {
  i64 last = 0;
  for (std::size_t axis = 0; axis < array.shape.size(); ++axis) {
    if (array.shape[axis] == 0) return 0;
    last += (array.shape[axis] - 1) * array.strides[axis];
  }
  return (last + 1) * element_bytes(array.element);
}

/// Returns true if the elements lie one behind the other, the last axis fastest.
inline bool is_contiguous(const GivenArray& array) {
  i64 expected = 1;
  for (std::size_t axis = array.shape.size(); axis-- > 0;) {
    if (array.shape[axis] != 1 && array.strides[axis] != expected) return false;
    expected *= array.shape[axis];
  }
  return true;
}

}  // namespace minuet
