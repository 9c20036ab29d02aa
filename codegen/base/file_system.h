// The calls to the operating system that the store makes: a seam, so that tests can make each fail.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "codegen/base/error.h"

namespace minuet {

/// As POSIX has them: -1 and errno on failure. No call follows a link at the end of its path, but
/// for open_at without O_NOFOLLOW. Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual int open_at(int folder, const char* path, int flags, mode_t mode);
  virtual int close(int file);
  virtual int stat_file(int file, struct stat* status);
  virtual int stat_at(int folder, const char* path, struct stat* status);
  virtual ssize_t read(int file, void* bytes, std::size_t size);
  virtual ssize_t write(int file, const void* bytes, std::size_t size);
  virtual int rename_at(int folder, const char* from, const char* to);
  virtual int unlink_at(int folder, const char* path);
  virtual int make_folder_at(int folder, const char* path, mode_t mode);
  virtual int remove_folder_at(int folder, const char* path);  // an empty one
  virtual ssize_t read_link_at(int folder, const char* path, char* target, std::size_t size);
  virtual int touch_at(int folder, const char* path);             // both times become now
  virtual int list(int folder, std::vector<std::string>* names);  // without "." and ".."
  virtual int lock(int file, int operation);                      // flock
};

FileSystem& real_file_system();

/// Whether it is a device, which may have no end.
bool is_device(llvm::StringRef path);

/// FailedPrecondition where a file of that many bytes may not be written here: past that limit a write would
/// not fail but raise SIGXFSZ, and the host may have no handler (R11).
llvm::Error check_file_limit(std::uint64_t bytes);

/// The message for a folder, device or pipe where a file is needed.
inline constexpr char kNotRegularFile[] = "it is not a regular file";

/// A file descriptor that is closed at the end of its scope.
class FileHandle {
 public:
  FileHandle(FileSystem& system, int file) : system_(&system), file_(file) {}
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  FileHandle(FileHandle&& other) noexcept : system_(other.system_), file_(std::exchange(other.file_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    std::swap(system_, other.system_);
    std::swap(file_, other.file_);
    return *this;
  }
  ~FileHandle() {
    if (file_ >= 0) system_->close(file_);
  }
  bool good() const { return file_ >= 0; }
  int get() const { return file_; }
  /// Closes now, for a failure that matters.
  int close_now() { return system_->close(std::exchange(file_, -1)); }

 private:
  FileSystem* system_;
  int file_;
};

/// An open file that this process may lock for itself, by flock: unlike fcntl's locks it holds
/// between threads too, and closing another descriptor of the file does not drop it.
class LockableFile {
 public:
  LockableFile(FileSystem& system, int file) : system_(&system), file_(system, file) {}
  LockableFile(LockableFile&& other) noexcept = default;
  LockableFile& operator=(LockableFile&& other) noexcept {
    std::swap(system_, other.system_);
    std::swap(file_, other.file_);
    std::swap(holder_, other.holder_);
    return *this;
  }
  ~LockableFile() { unlock(); }
  bool good() const { return file_.good(); }
  int get() const { return file_.get(); }
  /// Does not wait. False with errno where it fails: EWOULDBLOCK where somebody else holds the lock.
  bool try_lock();
  void unlock();

 private:
  FileSystem* system_;
  FileHandle file_;
  pid_t holder_ = 0;  // whose lock it is; 0: nobody's
};

}  // namespace minuet
