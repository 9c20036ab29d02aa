// A safetensors file. The first byte of the input says what the rest is:
//   even  a whole file
//   odd   two bytes with the size of the header, the header, the tensors' bytes
// In a file that is accepted, every tensor lies in the file, has the shape of the header and the values of
// its bytes, and no bytes follow the last tensor.
#include "runtime/weights/tensor_file.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "codegen/base/text_input.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include "tests/fuzz/fuzz_target.h"

namespace minuet {
namespace {

using llvm::support::endian::read64le;

constexpr std::size_t kLength = 8;

std::string safetensors_of(llvm::StringRef input) {
  const bool is_whole = input[0] % 2 == 0;
  input = input.drop_front();
  if (is_whole || input.size() < 2) return input.str();
  std::uint16_t size = 0;
  std::memcpy(&size, input.data(), sizeof size);
  const std::uint64_t length = size;
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  return bytes + input.drop_front(2).str();
}

/// Of one value; 0: there is no such type.
std::size_t value_bytes(llvm::StringRef type) {
  return type == "F64" ? 8 : type == "F32" ? 4 : type == "F16" || type == "BF16" ? 2 : 0;
}

/// By the C library: LLVM 14 rounds doubles far below float's least to that least, and not to zero.
float narrowed(std::uint64_t bits) {
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  char text[64];
  std::snprintf(text, sizeof text, "%a", value);
  return std::strtof(text, nullptr);
}

/// One value by LLVM's arithmetic.
float value_at(llvm::StringRef type, const char* bytes) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes, value_bytes(type));
  if (type == "F64") return narrowed(bits);
  const llvm::fltSemantics& semantics = type == "F32"   ? llvm::APFloat::IEEEsingle()
                                        : type == "F16" ? llvm::APFloat::IEEEhalf()
                                                        : llvm::APFloat::BFloat();
  llvm::APFloat value(semantics, llvm::APInt(static_cast<unsigned>(8 * value_bytes(type)), bits));
  bool loses = false;
  value.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &loses);
  return value.convertToFloat();
}

void check_tensor(const TensorFile& file, llvm::StringRef name, const llvm::json::Object& tensor,
                  llvm::StringRef data) {
  const auto text = tensor.getString("dtype");
  const llvm::StringRef type = text ? *text : "";
  std::vector<std::int64_t> shape;
  std::uint64_t count = 1;
  for (const llvm::json::Value& size : *tensor.getArray("shape")) {
    shape.push_back(*size.getAsInteger());
    count *= static_cast<std::uint64_t>(shape.back());
  }
  require(llvm::cantFail(file.shape(name)) == shape);
  const llvm::json::Array& range = *tensor.getArray("data_offsets");
  const auto begin = static_cast<std::uint64_t>(*range[0].getAsInteger());
  const auto end = static_cast<std::uint64_t>(*range[1].getAsInteger());
  require(begin <= end && end <= data.size());
  llvm::Expected<std::vector<float>> values = file.read(name, shape);
  const std::size_t bytes = value_bytes(type);
  bool is_finite = bytes != 0;
  for (std::size_t i = 0; is_finite && i < count; ++i) {
    is_finite = std::isfinite(value_at(type, data.data() + begin + i * bytes));
  }
  require(static_cast<bool>(values) == is_finite);
  if (!values) return llvm::consumeError(values.takeError());
  require(values->size() == count && count * bytes == end - begin);
  for (std::size_t i = 0; i < count; ++i) {
    const float expected = value_at(type, data.data() + begin + i * bytes), value = (*values)[i];
    require(std::memcmp(&expected, &value, sizeof value) == 0);
  }
  shape.push_back(1);
  require(llvm::errorToBool(file.read(name, shape).takeError()));
}

}  // namespace

bool fuzz_safetensors(llvm::StringRef input) {
  if (input.empty()) return false;
  const std::string bytes = safetensors_of(input);
  llvm::Expected<TensorFile> file = TensorFile::open(file_in_memory(bytes));
  if (!file) {
    llvm::consumeError(file.takeError());
    return false;
  }
  const std::uint64_t length = read64le(bytes.data());
  const llvm::StringRef data = llvm::StringRef(bytes).drop_front(kLength + length);
  const llvm::json::Value header = llvm::cantFail(
      llvm::json::parse(without_byte_order_mark(llvm::StringRef(bytes).substr(kLength, length))));
  std::uint64_t used = 0;
  const std::vector<std::string> names = file->names();
  for (const auto& [key, tensor] : *header.getAsObject()) {
    const llvm::StringRef name = key;
    require(std::count(names.begin(), names.end(), name.str()) == (name != "__metadata__"));
    if (name == "__metadata__") continue;
    check_tensor(*file, name, *tensor.getAsObject(), data);
    used = std::max(used, static_cast<std::uint64_t>(
                              *(*tensor.getAsObject()->getArray("data_offsets"))[1].getAsInteger()));
  }
  require(used == data.size());
  if (used == 0) return true;
  // Cut where the last tensor ends, it is refused.
  const llvm::StringRef cut = llvm::StringRef(bytes).take_front(kLength + length + used - 1);
  require(llvm::errorToBool(TensorFile::open(file_in_memory(cut)).takeError()));
  return true;
}

}  // namespace minuet
