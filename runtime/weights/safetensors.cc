#include "runtime/weights/safetensors.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <tuple>

#include "codegen/base/file_system.h"
#include "codegen/base/json_text.h"
#include "codegen/base/number_text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Endian.h"
#include "runtime/weights/foreign_weights.h"
#include "runtime/weights/rounding.h"

namespace minuet {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100u << 20;  // The file format sets this limit.

/// Returns the dtype that safetensors files call `type`. Returns nullopt for F64, which is not a DType, and
/// for unknown names.
std::optional<DType> stored_dtype(llvm::StringRef type) {
  for (const DType dtype : kDTypes) {
    if (type == kDTypeEnumerators[static_cast<int>(dtype)] && storage_type(dtype) == dtype) return dtype;
  }
  return std::nullopt;
}

int element_bytes(llvm::StringRef type) {
  if (type == "F64") return 8;
  const std::optional<DType> dtype = stored_dtype(type);
  return dtype ? dtype_bytes(*dtype) : 0;
}

/// Returns the number of elements of a shape, or InvalidArgument if a size is negative or the product
/// overflows.
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

llvm::Expected<std::vector<int64_t>> read_integers(const llvm::json::Object& object, llvm::StringRef tensor,
                                                   llvm::StringRef field) {
  const llvm::json::Array* array = object.getArray(field);
  if (!array)
    return make_error(StatusCode::InvalidArgument, "tensor \"{0}\" has no list \"{1}\"", tensor, field);
  std::vector<int64_t> values;
  for (const llvm::json::Value& value : *array) {
    const auto number = value.getAsInteger();
    if (!number || *number < 0) {
      return make_error(StatusCode::InvalidArgument, "\"{1}\" of tensor \"{0}\" is not a list of sizes",
                        tensor, field);
    }
    values.push_back(*number);
  }
  return values;
}

double double_at(const char* data, std::size_t index) {
  double value;
  std::memcpy(&value, data + index * sizeof value, sizeof value);
  return value;
}

}  // namespace

llvm::Error no_tensor_error(const std::string& path, llvm::StringRef name) {
  return make_error(StatusCode::InvalidArgument, "weights file {0} has no tensor \"{1}\"", path, name);
}

int64_t element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
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

llvm::Expected<SafetensorsFile> SafetensorsFile::open(llvm::StringRef path) {
  SafetensorsFile file;
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
  if (llvm::Error error = file.parse()) return annotate(std::move(error), ("weights file " + path).str());
  return file;
}

llvm::Error SafetensorsFile::parse() {
  const llvm::StringRef bytes = buffer_->getBuffer();
  MINUET_TRY(refuse_foreign_weights(bytes));
  if (bytes.size() < kLengthBytes) {
    return make_error(StatusCode::InvalidArgument, "it is too short for a safetensors file ({0} bytes)",
                      bytes.size());
  }
  const uint64_t length = llvm::support::endian::read64le(bytes.data());
  if (length > kLongestHeader || length > bytes.size() - kLengthBytes) {
    return make_error(
        StatusCode::InvalidArgument,
        "it is truncated or not a safetensors file: the header claims {0} bytes, the file has {1}", length,
        bytes.size());
  }
  auto header = parse_json(bytes.substr(kLengthBytes, length));
  if (!header) {
    return make_error(StatusCode::InvalidArgument, "its header is not JSON: {0}",
                      llvm::toString(header.takeError()));
  }
  const llvm::json::Object* root = header->getAsObject();
  if (!root) return make_error(StatusCode::InvalidArgument, "its header is not a JSON object");
  const llvm::StringRef data = bytes.substr(kLengthBytes + length);
  for (const auto& entry : *root) {
    const llvm::StringRef name = entry.first;
    const llvm::json::Object* object = entry.second.getAsObject();
    if (name == "__metadata__") {
      MINUET_TRY(read_metadata(entry.second));
      continue;
    }
    if (!object)
      return make_error(StatusCode::InvalidArgument, "\"{0}\" in its header does not describe a tensor",
                        name);
    Tensor tensor;
    const auto type = object->getString("dtype");
    tensor.type = type ? type->str() : "";
    MINUET_ASSIGN(tensor.shape, read_integers(*object, name, "shape"));
    MINUET_ASSIGN(const std::vector<int64_t> range, read_integers(*object, name, "data_offsets"));
    if (range.size() != 2 || range[0] > range[1]) {
      return make_error(StatusCode::InvalidArgument, "\"data_offsets\" of tensor \"{0}\" are not a range",
                        name);
    }
    if (static_cast<uint64_t>(range[1]) > data.size()) {
      return make_error(StatusCode::InvalidArgument,
                        "tensor \"{0}\" ends past the end of the file: the file is truncated", name);
    }
    tensor.data = data.data() + range[0];
    tensor.bytes = static_cast<uint64_t>(range[1] - range[0]);
    MINUET_ASSIGN(const uint64_t count, checked_count(tensor.shape));
    const int element = element_bytes(tensor.type);
    if (element != 0 && (tensor.bytes % element != 0 || tensor.bytes / element != count)) {
      return make_error(StatusCode::InvalidArgument,
                        "tensor \"{0}\" has {3} bytes, which do not match its shape {1} and type \"{2}\"",
                        name, shape_text(tensor.shape), tensor.type, tensor.bytes);
    }
    tensors_.emplace(name.str(), std::move(tensor));
  }
  return check_ranges(data);
}

llvm::Error SafetensorsFile::check_ranges(llvm::StringRef data) const {
  std::vector<const std::pair<const std::string, Tensor>*> in_file;
  for (const auto& tensor : tensors_) in_file.push_back(&tensor);
  llvm::sort(in_file, [](auto* a, auto* b) {
    return std::tie(a->second.data, a->second.bytes) < std::tie(b->second.data, b->second.bytes);
  });
  const char* end = data.begin();  // Points to the end of the tensors that the loop has checked.
  for (const auto* tensor : in_file) {
    const auto& [name, place] = *tensor;
    if (place.data > end) {
      return make_error(StatusCode::InvalidArgument, "{0} bytes before tensor \"{1}\" belong to no tensor",
                        place.data - end, name);
    }
    if (place.data < end) {
      return make_error(StatusCode::InvalidArgument, "tensor \"{0}\" begins inside another one", name);
    }
    end += place.bytes;
  }
  if (end == data.end()) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "its last {0} bytes belong to no tensor", data.end() - end);
}

llvm::Error SafetensorsFile::read_metadata(const llvm::json::Value& value) {
  const llvm::json::Object* object = value.getAsObject();
  if (!object) return make_error(StatusCode::InvalidArgument, "its \"__metadata__\" is not a JSON object");
  for (const auto& entry : *object) {
    const llvm::StringRef key = entry.first;
    const auto text = entry.second.getAsString();
    if (!text) return make_error(StatusCode::InvalidArgument, "\"{0}\" of its metadata is not a string", key);
    metadata_.emplace(key.str(), text->str());
  }
  return llvm::Error::success();
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

llvm::Expected<const SafetensorsFile::Tensor*> SafetensorsFile::find(llvm::StringRef name) const {
  const auto found = tensors_.find(name.str());
  if (found == tensors_.end()) {
    return no_tensor_error(path_, name);
  }
  return &found->second;
}

llvm::Expected<std::vector<int64_t>> SafetensorsFile::shape(llvm::StringRef name) const {
  MINUET_ASSIGN(const Tensor* tensor, find(name));
  return tensor->shape;
}

llvm::Expected<std::vector<float>> SafetensorsFile::read(llvm::StringRef name,
                                                         const std::vector<int64_t>& shape,
                                                         bool allow_non_finite) const {
  MINUET_ASSIGN(const Tensor* tensor, find(name));
  if (tensor->shape != shape) {
    return make_error(StatusCode::InvalidArgument,
                      "weights file {0}: tensor \"{1}\" has shape {2}, but the network needs {3}", path_,
                      name, shape_text(tensor->shape), shape_text(shape));
  }
  const int element = element_bytes(tensor->type);
  if (element == 0) {
    return make_error(
        StatusCode::InvalidArgument,
        "weights file {0}: tensor \"{1}\" is of type \"{2}\"; F64, F32, F16 and BF16 can be read", path_,
        name, tensor->type);
  }
  std::vector<float> values(tensor->bytes / element);
  if (tensor->type == "F64") {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(double_at(tensor->data, i));
  } else {
    load_values(*stored_dtype(tensor->type), tensor->data, values.size(), values.data());
  }
  if (allow_non_finite || are_finite(values.data(), values.size())) return values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    const double value = tensor->type == "F64" ? double_at(tensor->data, i) : values[i];
    return make_error(
        StatusCode::InvalidArgument, "weights file {0}: tensor \"{1}\" is {2} at {3}{4}{5}", path_, name,
        number_text(value), place_text(tensor->shape, i),
        std::isfinite(value) ? ", which float32 cannot hold" : "; every parameter must be a finite number",
        kAllowNonFiniteHint);
  }
  return values;
}

}  // namespace minuet
