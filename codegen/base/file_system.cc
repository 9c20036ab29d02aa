#include "codegen/base/file_system.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "llvm/Support/FileSystem.h"

namespace minuet {

int FileSystem::open_at(int folder, const char* path, int flags, mode_t mode) {
  return ::openat(folder, path, flags, mode);
}
int FileSystem::close(int file) { return ::close(file); }
int FileSystem::stat_file(int file, struct stat* status) { return ::fstat(file, status); }
int FileSystem::stat_at(int folder, const char* path, struct stat* status) {
  return ::fstatat(folder, path, status, AT_SYMLINK_NOFOLLOW);
}
ssize_t FileSystem::read(int file, void* bytes, std::size_t size) { return ::read(file, bytes, size); }
ssize_t FileSystem::write(int file, const void* bytes, std::size_t size) {
  return ::write(file, bytes, size);
}
int FileSystem::rename_at(int folder, const char* from, const char* to) {
  return ::renameat(folder, from, folder, to);
}
int FileSystem::unlink_at(int folder, const char* path) { return ::unlinkat(folder, path, 0); }
int FileSystem::make_folder_at(int folder, const char* path, mode_t mode) {
  return ::mkdirat(folder, path, mode);
}
int FileSystem::remove_folder_at(int folder, const char* path) {
  return ::unlinkat(folder, path, AT_REMOVEDIR);
}
ssize_t FileSystem::read_link_at(int folder, const char* path, char* target, std::size_t size) {
  return ::readlinkat(folder, path, target, size);
}
int FileSystem::touch_at(int folder, const char* path) {
  return ::utimensat(folder, path, nullptr, AT_SYMLINK_NOFOLLOW);
}
int FileSystem::lock(int file, int operation) { return ::flock(file, operation); }

int FileSystem::list(int folder, std::vector<std::string>* names) {
  // The folder is opened again, because reading through the caller's descriptor would move its position.
  const int file = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return -1;
  DIR* const stream = ::fdopendir(file);
  if (stream == nullptr) {
    const int error = errno;
    ::close(file);
    errno = error;
    return -1;
  }
  errno = 0;
  while (const dirent* const entry = ::readdir(stream)) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) {
      names->emplace_back(entry->d_name);
    }
    errno = 0;
  }
  const int error = errno;
  ::closedir(stream);
  errno = error;
  return error == 0 ? 0 : -1;
}

FileSystem& real_file_system() {
  static FileSystem* const system = new FileSystem;
  return *system;
}

bool LockableFile::try_lock() {
  int result;
  do {
    result = system_->lock(file_.get(), LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result == 0) holder_ = ::getpid();
  return result == 0;
}

void LockableFile::unlock() {
  // A child that was forked after the lock was taken shares the open file, and with it the lock. If the
  // parent only closed the file, the child would keep the lock, so the parent unlocks it explicitly. The
  // child must not unlock it, because the parent may still need the lock.
  if (file_.good() && holder_ == ::getpid()) system_->lock(file_.get(), LOCK_UN);
  holder_ = 0;
}

bool is_device(llvm::StringRef path) {
  namespace fs = llvm::sys::fs;
  fs::file_status status;
  if (fs::status(path, status)) return false;
  return status.type() == fs::file_type::character_file || status.type() == fs::file_type::block_file;
}

llvm::Error check_file_limit(std::uint64_t bytes) {
  struct rlimit limit;
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur)
    return llvm::Error::success();
  return make_error(
      StatusCode::FailedPrecondition,
      "the file would have {0} bytes, but this process may write at most {1}: raise RLIMIT_FSIZE (ulimit -f)",
      bytes, limit.rlim_cur);
}

}  // namespace minuet
