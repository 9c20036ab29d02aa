#include "runtime/safetensors_writer.h"

#include "codegen/cache/whole_file.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"

namespace minuet {
namespace {

constexpr std::size_t kAlignment = 8;

std::string header_of(const std::map<std::string, FileTensor>& tensors) {
  std::string header = "{";
  std::size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t end = offset + tensor.values.size() * sizeof(float);
    header += llvm::formatv("{0}{1}:{{\"dtype\":\"F32\",\"shape\":{2},\"data_offsets\":[{3},{4}]}",
                            header.size() == 1 ? "" : ",", llvm::json::Value(llvm::json::fixUTF8(name)),
                            llvm::json::Value(llvm::json::Array(tensor.shape)), offset, end)
                  .str();
    offset = end;
  }
  header += "}";
  header.append((kAlignment - header.size() % kAlignment) % kAlignment, ' ');
  return header;
}

}  // namespace

llvm::Error write_safetensors_file(const std::string& path,
                                   const std::map<std::string, FileTensor>& tensors) {
  const std::string header = header_of(tensors);
  char length[8];
  llvm::support::endian::write64le(length, header.size());
  std::string bytes = std::string(length, sizeof length) + header;
  for (const auto& [name, tensor] : tensors) {
    bytes.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
  }
  return write_whole_file(path, bytes);
}

}  // namespace minuet
