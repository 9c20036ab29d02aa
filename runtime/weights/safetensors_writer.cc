#include "runtime/weights/safetensors_writer.h"

#include "codegen/base/json_text.h"
#include "codegen/base/whole_file.h"
#include "llvm/Support/Endian.h"

namespace minuet {
namespace {

constexpr std::size_t kAlignment = 8;

std::string text_of(const std::string& text) { return print_json(llvm::json::fixUTF8(text)); }

std::string header_of(const std::map<std::string, FileTensor>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::string header = "{";
  for (const auto& [key, value] : metadata) {
    header += llvm::formatv("{0}{1}:{2}", header.size() == 1 ? "\"__metadata__\":{" : ",", text_of(key),
                            text_of(value))
                  .str();
  }
  if (!metadata.empty()) header += "}";
  std::size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t end = offset + tensor.values.size() * sizeof(float);
    header += llvm::formatv("{0}{1}:{{\"dtype\":\"F32\",\"shape\":{2},\"data_offsets\":[{3},{4}]}",
                            header.size() == 1 ? "" : ",", text_of(name),
                            print_json(llvm::json::Array(tensor.shape)), offset, end)
                  .str();
    offset = end;
  }
  header += "}";
  header.append((kAlignment - header.size() % kAlignment) % kAlignment, ' ');
  return header;
}

}  // namespace

llvm::Error write_safetensors_file(const std::string& path, const std::map<std::string, FileTensor>& tensors,
                                   const std::map<std::string, std::string>& metadata) {
  const std::string header = header_of(tensors, metadata);
  char length[8];
  llvm::support::endian::write64le(length, header.size());
  std::string bytes = std::string(length, sizeof length) + header;
  for (const auto& [name, tensor] : tensors) {
    bytes.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size() * sizeof(float));
  }
  return write_whole_file(path, bytes);
}

}  // namespace minuet
