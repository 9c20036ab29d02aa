// The calls to the operating system that the store makes: a seam, so that tests can make each fail.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>

namespace minuet {

/// As POSIX has them: -1 and errno on failure. Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual int open_at(int folder, const char* path, int flags, mode_t mode);
  virtual int close(int file);
  virtual int stat_file(int file, struct stat* status);
  virtual int stat_at(int folder, const char* path, struct stat* status);  // does not follow a link
  virtual ssize_t read(int file, void* bytes, std::size_t size);
  virtual ssize_t write(int file, const void* bytes, std::size_t size);
  virtual int sync(int file);
  virtual int rename_at(int folder, const char* from, const char* to);
  virtual int unlink_at(int folder, const char* path);
  virtual int make_folder_at(int folder, const char* path, mode_t mode);
};

FileSystem& real_file_system();

/// A file descriptor that is closed at the end of its scope.
class FileHandle {
 public:
  FileHandle(FileSystem& system, int file) : system_(system), file_(file) {}
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  FileHandle(FileHandle&& other) noexcept : system_(other.system_), file_(other.file_) { other.file_ = -1; }
  ~FileHandle() {
    if (file_ >= 0) system_.close(file_);
  }
  bool good() const { return file_ >= 0; }
  int get() const { return file_; }
  /// Closes now, for a failure that matters.
  int close_now() {
    const int file = file_;
    file_ = -1;
    return system_.close(file);
  }

 private:
  FileSystem& system_;
  int file_;
};

}  // namespace minuet
