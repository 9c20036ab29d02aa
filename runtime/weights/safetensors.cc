#include "runtime/weights/safetensors.h"

#include "codegen/base/json_text.h"
#include "llvm/Support/Endian.h"
#include "runtime/weights/file_ranges.h"

namespace minuet {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLongestHeader = 100u << 20;  // The file format sets this limit.

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

/// Reads the description of one tensor, whose bytes are in `data`.
llvm::Error read_tensor(llvm::StringRef name, const llvm::json::Object& object, llvm::StringRef data,
                        StoredTensor& tensor, FileRange& place) {
  const auto type = object.getString("dtype");
  tensor.type = type ? type->str() : "";
  MINUET_ASSIGN(tensor.shape, read_integers(object, name, "shape"));
  MINUET_ASSIGN(const std::vector<int64_t> range, read_integers(object, name, "data_offsets"));
  if (range.size() != 2 || range[0] > range[1]) {
    return make_error(StatusCode::InvalidArgument, "\"data_offsets\" of tensor \"{0}\" are not a range",
                      name);
  }
  if (static_cast<uint64_t>(range[1]) > data.size()) {
    return make_error(StatusCode::InvalidArgument,
                      "tensor \"{0}\" ends past the end of the file: the file is truncated", name);
  }
  tensor.data = data.data() + range[0];
  place = {static_cast<uint64_t>(range[0]), static_cast<uint64_t>(range[1]), name.str()};
  const uint64_t bytes = place.end - place.begin;
  MINUET_ASSIGN(const uint64_t count, checked_count(tensor.shape));
  const int element = readable_bytes(tensor.type);
  if (element != 0 && (bytes % element != 0 || bytes / element != count)) {
    return make_error(StatusCode::InvalidArgument,
                      "tensor \"{0}\" has {3} bytes, which do not match its shape {1} and type \"{2}\"", name,
                      shape_text(tensor.shape), tensor.type, bytes);
  }
  return llvm::Error::success();
}

/// Checks that every byte belongs to exactly one tensor.
llvm::Error check_ranges(std::vector<FileRange> ranges, uint64_t size) {
  sort_ranges(ranges);
  uint64_t end = 0;  // Holds the end of the tensors that the loop has checked.
  for (const FileRange& range : ranges) {
    if (range.begin > end) {
      return make_error(StatusCode::InvalidArgument, "{0} bytes before tensor \"{1}\" belong to no tensor",
                        range.begin - end, range.name);
    }
    if (range.begin < end) {
      return make_error(StatusCode::InvalidArgument, "tensor \"{0}\" begins inside another one", range.name);
    }
    end = range.end;
  }
  if (end == size) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "its last {0} bytes belong to no tensor", size - end);
}

llvm::Error read_metadata(const llvm::json::Value& value, std::map<std::string, std::string>& metadata) {
  const llvm::json::Object* object = value.getAsObject();
  if (!object) return make_error(StatusCode::InvalidArgument, "its \"__metadata__\" is not a JSON object");
  for (const auto& entry : *object) {
    const llvm::StringRef key = entry.first;
    const auto text = entry.second.getAsString();
    if (!text) return make_error(StatusCode::InvalidArgument, "\"{0}\" of its metadata is not a string", key);
    metadata.emplace(key.str(), text->str());
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<StoredTensors> read_safetensors(llvm::StringRef bytes) {
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
  StoredTensors stored;
  std::vector<FileRange> ranges;
  for (const auto& entry : *root) {
    const llvm::StringRef name = entry.first;
    if (name == "__metadata__") {
      MINUET_TRY(read_metadata(entry.second, stored.metadata));
      continue;
    }
    const llvm::json::Object* object = entry.second.getAsObject();
    if (!object)
      return make_error(StatusCode::InvalidArgument, "\"{0}\" in its header does not describe a tensor",
                        name);
    MINUET_TRY(read_tensor(name, *object, data, stored.tensors[name.str()], ranges.emplace_back()));
  }
  MINUET_TRY(check_ranges(std::move(ranges), data.size()));
  return stored;
}

}  // namespace minuet
