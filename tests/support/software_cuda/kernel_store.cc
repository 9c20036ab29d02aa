#include "tests/support/software_cuda/kernel_store.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <system_error>

#include "tests/support/contents.h"

namespace minuet::software_cuda {
namespace {

namespace fs = std::filesystem;

/// Empty: nothing is kept.
fs::path store_of(const std::string& digest) {
  const char* const named = std::getenv("SOFTWARE_CUDA_STORE");
  return named == nullptr || *named == '\0' ? fs::path() : fs::path(named) / digest;
}

/// Two keys may have the same: a file begins with its whole key.
fs::path file_of(const fs::path& store, const std::string& key) {
  return store / std::to_string(std::hash<std::string>()(key));
}

}  // namespace

std::string kept(const std::string& digest, const std::string& key) {
  const fs::path store = store_of(digest);
  if (store.empty()) return "";
  const std::string bytes = contents(file_of(store, key));
  return bytes.compare(0, key.size(), key) == 0 ? bytes.substr(key.size()) : "";
}

void keep(const std::string& digest, const std::string& key, const std::string& library) {
  static std::atomic<int> count = 0;
  const fs::path store = store_of(digest);
  if (store.empty()) return;
  std::error_code error;
  // The first of its digest: what others kept will not be asked for.
  if (fs::create_directories(store, error)) {
    for (const fs::directory_entry& other : fs::directory_iterator(store.parent_path(), error)) {
      if (other.path() != store) fs::remove_all(other.path(), error);
    }
  }
  const fs::path file = file_of(store, key);
  fs::path written = file;
  written += "." + std::to_string(::getpid()) + "-" + std::to_string(count++);
  std::ofstream stream(written, std::ios::binary);
  stream << key << library;
  stream.close();
  if (stream) fs::rename(written, file, error);  // whole or not at all
  if (!stream || error) fs::remove(written, error);
}

}  // namespace minuet::software_cuda
