// Implements a lock file, with which one process builds a kernel or writes a bundle while others wait for the
// result.
#pragma once

#include <cerrno>
#include <chrono>
#include <string>

#include "codegen/base/cancel_token.h"
#include "codegen/base/file_system.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace minuet {

/// Represents a lock on a file, which excludes other processes and other threads. The system releases the
/// lock if its holder is killed. If the holder is only stopped, others wait no longer than the time limit
/// with which they asked for the lock. Failing to get the lock is not an error, because a process that builds
/// a kernel can compile without the lock, and at worst a kernel is compiled twice. After getting the lock,
/// the caller must check again whether the work is done, even if it did not wait, because another holder may
/// have published the result and released the lock between the first check and the lock.
class FileLock {
 public:
  enum class Outcome {
    Held,         ///< The lock is held until release() or destruction.
    TimedOut,     ///< Another holder had the lock during the whole wait.
    Unavailable,  ///< The file system has no locks, is read-only or is full, for example.
    Cancelled,
  };

  Outcome outcome() const { return outcome_; }
  bool held() const { return outcome_ == Outcome::Held; }
  /// Returns errno of the call that failed if outcome() is Unavailable.
  int error() const { return error_; }
  /// Returns true if error() means that the file system has no locks.
  bool without_locks() const {
    // NFS returns EBADF for a file that is open only for reading.
    return error_ == ENOLCK || error_ == ENOSYS || error_ == EOPNOTSUPP || error_ == EBADF;
  }
  /// Returns true if another holder had the lock at some time during the wait.
  bool had_to_wait() const { return had_to_wait_; }
  std::chrono::milliseconds waited() const { return waited_; }

  /// Releases the lock. The file remains, so that the next holder need not create it again. In a process that
  /// was forked after the lock was taken, this function does nothing, because the child does not hold the
  /// lock.
  void release() { file_.unlock(); }

 private:
  friend class FileLockWait;
  FileLock(Outcome outcome, int error, LockableFile file, bool had_to_wait, std::chrono::milliseconds waited)
      : file_(std::move(file)),
        outcome_(outcome),
        error_(error),
        had_to_wait_(had_to_wait),
        waited_(waited) {}

  LockableFile file_;
  Outcome outcome_;
  int error_;
  bool had_to_wait_;
  std::chrono::milliseconds waited_;
};

using OpenFolder = llvm::function_ref<llvm::Expected<FileHandle>()>;

/// Waits for the lock on the file `name` in the folder that `open_folder` opens. Waits at most for `bound`,
/// where 0 means one attempt, and only until `cancel`, which may be null, is cancelled. A new file gets the
/// mode `mode`. The holder may remove the file, and waiters then create a new one.
FileLock take_file_lock(FileSystem& system, OpenFolder open_folder, const std::string& name, mode_t mode,
                        std::chrono::milliseconds bound, const CancelToken* cancel);

}  // namespace minuet
