// Wraps the system calls of the kernel cache on disk (codegen/cache/store.h) in virtual functions, so that
// tests can make each call fail.
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

/// Makes system calls with POSIX semantics, which return -1 and set errno on failure. No call follows a
/// symbolic link at the end of its path, except open_at() without O_NOFOLLOW. All functions are thread-safe.
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
  virtual int remove_folder_at(int folder, const char* path);  ///< Fails if the folder is not empty.
  virtual ssize_t read_link_at(int folder, const char* path, char* target, std::size_t size);
  virtual int touch_at(int folder, const char* path);  ///< Sets the access and modification times to now.
  virtual int list(int folder, std::vector<std::string>* names);  ///< Omits "." and "..".
  virtual int lock(int file, int operation);                      ///< Calls flock().
};

FileSystem& real_file_system();

/// Returns true if `path` is a character or block device. Reading from a device may never end.
bool is_device(llvm::StringRef path);

/// Returns FailedPrecondition if a file of `bytes` bytes exceeds this process's RLIMIT_FSIZE. A write past
/// that limit would raise SIGXFSZ, for which the host program may have no handler, instead of failing.
llvm::Error check_file_limit(std::uint64_t bytes);

/// This message of an error says that there is a folder, device or pipe in place of a file.
inline constexpr char kNotRegularFile[] = "it is not a regular file";

/// Owns a file descriptor and closes it on destruction.
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
  /// Closes the file and returns the result of close(). Callers that must detect a failure use this function.
  int close_now() { return system_->close(std::exchange(file_, -1)); }

 private:
  FileSystem* system_;
  int file_;
};

/// Owns an open file that this process can lock with flock(). Unlike a lock by fcntl(), the lock also
/// excludes other threads, and closing another descriptor of the file does not release it.
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
  /// Tries to lock without waiting. Returns false and sets errno on failure. EWOULDBLOCK means that another
  /// holder has the lock.
  bool try_lock();
  void unlock();

 private:
  FileSystem* system_;
  FileHandle file_;
  pid_t holder_ = 0;  ///< Holds the id of the process that took the lock, or 0 if the file is not locked.
};

}  // namespace minuet
