#include "runtime/weights/tensor_file.h"

#include <cmath>
#include <cstring>

#include "codegen/base/file_system.h"
#include "runtime/weights/checkpoint.h"
#include "runtime/weights/foreign_weights.h"
#include "runtime/weights/rounding.h"
#include "runtime/weights/safetensors.h"

namespace minuet {
namespace {

double double_at(const char* data, std::size_t index) {
  double value;
  std::memcpy(&value, data + index * sizeof value, sizeof value);
  return value;
}

/// Returns a copy of the tensor's elements, each of `element` bytes, in row-major order.
std::string gather_elements(const StoredTensor& tensor, std::size_t count, std::size_t element) {
  std::string bytes(count * element, '\0');
  std::vector<int64_t> place(tensor.shape.size());
  int64_t source = 0;  // Holds the position of the element at `place`.
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(&bytes[i * element], tensor.data + static_cast<std::size_t>(source) * element, element);
    for (std::size_t axis = place.size(); axis-- > 0;) {
      source += tensor.strides[axis];
      if (++place[axis] < tensor.shape[axis]) break;
      source -= tensor.strides[axis] * tensor.shape[axis];
      place[axis] = 0;
    }
  }
  return bytes;
}

}  // namespace

llvm::Error no_tensor_error(const std::string& path, llvm::StringRef name) {
  return make_error(StatusCode::InvalidArgument, "weights file {0} has no tensor \"{1}\"", path, name);
}

llvm::Expected<TensorFile> TensorFile::open(llvm::StringRef path, llvm::StringRef key) {
  TensorFile file;
  file.path_ = path.str();
  if (is_device(path)) {
    return make_error(StatusCode::InvalidArgument,
                      "weights file {0} is a device, which may have no end: name a regular file", path);
  }
  // IsVolatile makes LLVM read the file instead of mapping it, because access to a mapped file would fail if
  // the file shrank.
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false,
                                            /*IsVolatile=*/true);
  if (!buffer) {
    return make_error(StatusCode::NotFound, "cannot read weights file {0}: {1}", path,
                      system_text(buffer.getError()));
  }
  file.buffer_ = std::move(*buffer);
  if (llvm::Error error = file.parse(key)) return annotate(std::move(error), ("weights file " + path).str());
  return file;
}

llvm::Error TensorFile::parse(llvm::StringRef key) {
  const llvm::StringRef bytes = buffer_->getBuffer();
  if (is_checkpoint_file(bytes)) {
    MINUET_ASSIGN(stored_, read_checkpoint(bytes, key));
    return llvm::Error::success();
  }
  MINUET_TRY(refuse_foreign_weights(bytes));
  if (!key.empty()) {
    return make_error(StatusCode::InvalidArgument,
                      "the option weights_key is \"{0}\", but the file is not a PyTorch checkpoint, so it "
                      "has no dicts: leave that option out",
                      key);
  }
  MINUET_ASSIGN(stored_, read_safetensors(bytes));
  return llvm::Error::success();
}

std::vector<std::string> TensorFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : stored_.tensors) names.push_back(name);
  return names;
}

llvm::Expected<const StoredTensor*> TensorFile::find(llvm::StringRef name) const {
  const auto found = stored_.tensors.find(name.str());
  if (found == stored_.tensors.end()) {
    return no_tensor_error(path_, name);
  }
  return &found->second;
}

llvm::Expected<std::vector<int64_t>> TensorFile::shape(llvm::StringRef name) const {
  MINUET_ASSIGN(const StoredTensor* tensor, find(name));
  return tensor->shape;
}

llvm::Expected<std::vector<float>> TensorFile::read(llvm::StringRef name, const std::vector<int64_t>& shape,
                                                    bool allow_non_finite) const {
  MINUET_ASSIGN(const StoredTensor* tensor, find(name));
  if (tensor->shape != shape) {
    return make_error(StatusCode::InvalidArgument,
                      "weights file {0}: tensor \"{1}\" has shape {2}, but the network needs {3}", path_,
                      name, shape_text(tensor->shape), shape_text(shape));
  }
  const int element = readable_bytes(tensor->type);
  if (element == 0) {
    return make_error(
        StatusCode::InvalidArgument,
        "weights file {0}: tensor \"{1}\" is of type \"{2}\"; F64, F32, F16 and BF16 can be read", path_,
        name, tensor->type);
  }
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  const std::string gathered =
      tensor->strides.empty() ? "" : gather_elements(*tensor, values.size(), static_cast<size_t>(element));
  const char* const data = tensor->strides.empty() ? tensor->data : gathered.data();
  if (tensor->type == "F64") {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(double_at(data, i));
  } else {
    load_values(*readable_dtype(tensor->type), data, values.size(), values.data());
  }
  if (allow_non_finite || are_finite(values.data(), values.size())) return values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    const double value = tensor->type == "F64" ? double_at(data, i) : values[i];
    return make_error(
        StatusCode::InvalidArgument, "weights file {0}: tensor \"{1}\" is {2} at {3}{4}{5}", path_, name,
        number_text(value), place_text(tensor->shape, i),
        std::isfinite(value) ? ", which float32 cannot hold" : "; every parameter must be a finite number",
        kAllowNonFiniteHint);
  }
  return values;
}

}  // namespace minuet
