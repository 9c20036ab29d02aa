#include "tests/support/safetensors_writer.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <stdexcept>

namespace minuet {

void write_safetensors(const std::string& path, const std::map<std::string, FileTensor>& tensors) {
  if (llvm::Error error = write_safetensors_file(path, tensors)) {
    throw std::runtime_error(llvm::toString(std::move(error)));
  }
}

TemporaryPath::TemporaryPath(const std::string& name) {
  static std::atomic<int> number{0};
  path_ = (std::filesystem::temp_directory_path() /
           ("minuet-test-" + std::to_string(getpid()) + "-" + std::to_string(number++) + "-" + name))
              .string();
}

TemporaryPath::~TemporaryPath() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace minuet
