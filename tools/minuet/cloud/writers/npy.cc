#include "tools/minuet/cloud/writers/npy.h"

#include <bit>
#include <cstring>
#include <string>

#include "llvm/Support/FormatVariadic.h"

namespace minuet::tool {
namespace {

static_assert(
    std::endian::native == std::endian::little,
    "the writers copy values from memory into little-endian files, so memory must be little-endian");

std::string header(const char* type, const std::vector<int64_t>& shape) {
  std::string tuple = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    tuple += std::to_string(shape[i]);
    if (i + 1 < shape.size() || shape.size() == 1) tuple += i + 1 < shape.size() ? ", " : ",";
  }
  std::string text =
      llvm::formatv("{{'descr': '{0}', 'fortran_order': False, 'shape': {1}), }", type, tuple).str();
  constexpr size_t kPreamble = 10, kAlignment = 64;
  while ((kPreamble + text.size() + 1) % kAlignment != 0) text += ' ';
  text += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(text.size() & 0xff);
  bytes += static_cast<char>(text.size() >> 8);
  return bytes + text;
}

template <class T>
std::string bytes_of(const char* type, const std::vector<T>& values, const std::vector<int64_t>& shape) {
  std::string bytes = header(type, shape);
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return bytes;
}

}  // namespace

std::string npy_bytes(const std::vector<float>& values, const std::vector<int64_t>& shape) {
  return bytes_of("<f4", values, shape);
}

std::string npy_bytes(const std::vector<int32_t>& values, const std::vector<int64_t>& shape) {
  return bytes_of("<i4", values, shape);
}

}  // namespace minuet::tool
