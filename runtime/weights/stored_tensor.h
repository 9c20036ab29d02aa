// Describes where the tensors of a weights file lie in its bytes. The readers of the formats return this.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/base/error.h"
#include "kernels_templates/shared/dtypes.h"

namespace minuet {

/// Describes a tensor whose elements lie in the bytes of a file.
struct StoredTensor {
  std::string type;  // Holds the name that safetensors files have for the type, for example "BF16".
  std::vector<int64_t> shape;
  /// Holds the distance of neighbours along each axis in elements. It is empty if the elements lie one behind
  /// the other in row-major order.
  std::vector<int64_t> strides;
  const char* data = nullptr;  // Points to the first element.
};

/// Holds what a reader found in the bytes of a file.
struct StoredTensors {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
  bool is_checkpoint = false;  // Says whether torch.save wrote the file.
};

/// Formats a shape, for example "[27, 4, 8]".
std::string shape_text(const std::vector<int64_t>& shape);
/// Returns the product of the sizes, or InvalidArgument if a size is negative or the product overflows.
llvm::Expected<uint64_t> checked_count(const std::vector<int64_t>& shape);
/// Returns the product of the sizes, which must not overflow. The readers of files check this for every
/// tensor.
int64_t element_count(const std::vector<int64_t>& shape);
/// Returns the dtype that safetensors files call `type`. Returns nullopt for F64, which is not a DType, and
/// for unknown names.
std::optional<DType> readable_dtype(llvm::StringRef type);
/// Returns the bytes of an element that TensorFile::read() can convert, or 0 for another type.
int readable_bytes(llvm::StringRef type);
/// Formats a number, for example "1e+300" or "nan".
std::string number_text(double value);
/// Formats the position of element `index` of a tensor, for example "[26, 3, 7]".
std::string place_text(const std::vector<int64_t>& shape, std::size_t index);

}  // namespace minuet
