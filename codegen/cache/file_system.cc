#include "codegen/cache/file_system.h"

#include <unistd.h>

#include <cstdio>

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
int FileSystem::sync(int file) { return ::fsync(file); }
int FileSystem::rename_at(int folder, const char* from, const char* to) {
  return ::renameat(folder, from, folder, to);
}
int FileSystem::unlink_at(int folder, const char* path) { return ::unlinkat(folder, path, 0); }
int FileSystem::make_folder_at(int folder, const char* path, mode_t mode) {
  return ::mkdirat(folder, path, mode);
}

FileSystem& real_file_system() {
  static FileSystem* const system = new FileSystem;
  return *system;
}

}  // namespace minuet
