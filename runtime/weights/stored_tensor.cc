#include "runtime/weights/stored_tensor.h"

#include <limits>

#include "codegen/base/number_text.h"

namespace minuet {

std::optional<DType> readable_dtype(llvm::StringRef type) {
  for (const DType dtype : kDTypes) {
    if (type == kDTypeEnumerators[static_cast<int>(dtype)] && storage_type(dtype) == dtype) return dtype;
  }
  return std::nullopt;
}

llvm::Expected<uint64_t> checked_count(const std::vector<int64_t>& shape) {
  uint64_t count = 1;
  for (int64_t size : shape) {
    if (size < 0 || (size > 0 && count > std::numeric_limits<int64_t>::max() / static_cast<uint64_t>(size))) {
      return make_error(StatusCode::InvalidArgument, "the shape {0} has too many elements",
                        shape_text(shape));
    }
    count *= static_cast<uint64_t>(size);
  }
  return count;
}

int64_t element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

int readable_bytes(llvm::StringRef type) {
  if (type == "F64") return 8;
  const std::optional<DType> dtype = readable_dtype(type);
  return dtype ? dtype_bytes(*dtype) : 0;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string number_text(double value) { return general_text(value, 9); }

std::string place_text(const std::vector<int64_t>& shape, std::size_t index) {
  std::vector<int64_t> place(shape.size());
  for (std::size_t a = shape.size(); a-- > 0;) {
    place[a] = static_cast<int64_t>(index % static_cast<std::size_t>(shape[a]));
    index /= static_cast<std::size_t>(shape[a]);
  }
  return shape_text(place);
}

}  // namespace minuet
