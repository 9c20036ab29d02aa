#include "tests/support/safetensors_writer.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace minuet {
namespace {

/// Little endian, like every machine that the tests run on.
std::string header_of(const std::map<std::string, FileTensor>& tensors) {
  std::string header = "{";
  size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    header += header.size() > 1 ? ",\"" : "\"";
    header += name + "\":{\"dtype\":\"F32\",\"shape\":[";
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      header += (i ? "," : "") + std::to_string(tensor.shape[i]);
    }
    const size_t end = offset + tensor.values.size() * sizeof(float);
    header += "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(end) + "]}";
    offset = end;
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  return header;
}

}  // namespace

void write_safetensors(const std::string& path, const std::map<std::string, FileTensor>& tensors) {
  const std::string header = header_of(tensors);
  const uint64_t length = header.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof(length));
  file << header;
  for (const auto& [name, tensor] : tensors) {
    file.write(reinterpret_cast<const char*>(tensor.values.data()),
               static_cast<std::streamsize>(tensor.values.size() * sizeof(float)));
  }
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

TemporaryPath::TemporaryPath(const std::string& name) {
  static std::atomic<int> number{0};
  path_ = (std::filesystem::temp_directory_path() /
           ("minuet-test-" + std::to_string(getpid()) + "-" + std::to_string(number++) + "-" + name))
              .string();
}

TemporaryPath::~TemporaryPath() { std::remove(path_.c_str()); }

}  // namespace minuet
