// Reads arrays of structs that have no struct_size: the options beside the array have the size of one
// element.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "codegen/base/error.h"
#include "kernels_templates/shared/macros.h"

namespace minuet {

/// Describes an array whose elements may be those of an older or a newer caller.
struct ElementArray {
  const void* first;
  std::size_t bytes;        // One element of the caller; 0 means first_bytes.
  std::size_t first_bytes;  // One element in 0.3.0, the first version with these structs.
  const char* bytes_name;
};

/// Returns InvalidArgument if the caller's elements cannot be those of any version.
template <class Element>
llvm::Error check_elements(ElementArray& array) {
  if (array.bytes == 0) array.bytes = array.first_bytes;
  if (array.bytes >= array.first_bytes && array.bytes % alignof(Element) == 0) return llvm::Error::success();
  return make_error(
      StatusCode::InvalidArgument,
      "{0} is {1}; it must be the size of one element, a multiple of {2} from {3} on: initialize the "
      "options with their _INIT macro",
      array.bytes_name, array.bytes, alignof(Element), array.first_bytes);
}

/// Reads one element by the rule of struct_size: fields that the caller's version does not have are 0, and
/// those that this version does not have must be 0.
template <class Element>
llvm::Expected<Element> read_element(const ElementArray& array, i32 number) {
  const char* const from =
      static_cast<const char*>(array.first) + array.bytes * static_cast<std::size_t>(number);
  Element element{};
  std::memcpy(&element, from, std::min(array.bytes, sizeof(Element)));
  if (array.bytes > sizeof(Element) &&
      std::any_of(from + sizeof(Element), from + array.bytes, [](char byte) { return byte != 0; })) {
    return make_error(
        StatusCode::InvalidArgument,
        "a field of a newer version of the headers is set: this library does not have it, so use a "
        "newer library or leave the field 0");
  }
  return element;
}

}  // namespace minuet
