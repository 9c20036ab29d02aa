#include "codegen/cache/store_root.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <random>

namespace minuet {

std::string StoreRoot::path(const std::vector<std::string>& parts) const {
  std::string path = directory + "/v" + std::to_string(format);
  for (const std::string& part : parts) path += "/" + part;
  return path;
}

llvm::Expected<FileHandle> StoreRoot::open(const std::vector<std::string>& parts, Missing missing) const {
  if (read_only) missing = Missing::Fail;
  MINUET_ASSIGN(FileHandle folder, open_cache_directory(directory, policy, system, missing));
  std::vector<std::string> done;
  auto enter = [&](const std::string& name) -> llvm::Error {
    MINUET_ASSIGN(FileHandle next,
                  open_trusted_folder(folder.get(), name, path(done), policy, system, missing));
    folder = std::move(next);
    return llvm::Error::success();
  };
  MINUET_TRY(enter("v" + std::to_string(format)));
  for (const std::string& part : parts) {
    done.push_back(part);
    MINUET_TRY(enter(part));
  }
  return folder;
}

bool is_key(llvm::StringRef text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == llvm::StringRef::npos;
}

std::string unique_name(llvm::StringRef prefix) {
  static std::atomic<unsigned> count{0};
  // random_device reads the system's own source; the time stands in where it has none.
  unsigned long long salt =
      static_cast<unsigned long long>(std::chrono::steady_clock::now().time_since_epoch().count());
  try {
    salt ^= static_cast<unsigned long long>(std::random_device{}()) << 32;
  } catch (const std::exception&) {
  }
  // The process id alone would do on one host, and the directory may be on several.
  return llvm::formatv("{0}{1}-{2}-{3:x-}", prefix, ::getpid(), count++, salt).str();
}

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

bool is_older(const struct timespec& then, std::chrono::seconds age) {
  const std::time_t seconds = std::time(nullptr) - then.tv_sec;
  return std::max(seconds, -seconds) >= age.count();
}

Removal remove_if_same(FileSystem& system, int folder, const std::string& name, const struct stat& seen) {
  struct stat now;
  if (system.stat_at(folder, name.c_str(), &now) != 0) return errno == ENOENT ? Removal::Gone : Removal::Kept;
  if (!same_file(now, seen)) return Removal::Kept;
  if (system.unlink_at(folder, name.c_str()) == 0) return Removal::Removed;
  return errno == ENOENT ? Removal::Gone : Removal::Kept;
}

}  // namespace minuet
