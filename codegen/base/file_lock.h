// A lock file that lets one process build a kernel or write a bundle while others wait for the result.
#pragma once

#include <cerrno>
#include <chrono>
#include <string>

#include "codegen/base/cancel_token.h"
#include "codegen/base/file_system.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace minuet {

/// A lock on a file, between processes and between threads. It is released if its holder is killed; if the
/// holder is stopped, others wait no longer than their bound. Failing to get the lock is not an error: a
/// process that builds a kernel then compiles without it, and at worst a kernel is compiled twice. After
/// getting the lock, the caller must check again whether the work is done, even if it did not wait, because
/// another holder may have published the result and released the lock between the first check and the lock.
class FileLock {
 public:
  enum class Outcome {
    Held,         ///< until release() or destruction
    TimedOut,     ///< another holder had it during the whole wait
    Unavailable,  ///< for example the file system has no locks, is read-only or is full
    Cancelled,
  };

  Outcome outcome() const { return outcome_; }
  bool held() const { return outcome_ == Outcome::Held; }
  /// Returns errno of the call that failed, if outcome() is Unavailable.
  int error() const { return error_; }
  /// Returns true if error() means that the file system has no locks.
  bool without_locks() const {
    // NFS returns EBADF for a file that is open only for reading.
    return error_ == ENOLCK || error_ == ENOSYS || error_ == EOPNOTSUPP || error_ == EBADF;
  }
  /// Returns true if another holder had the lock at some time during the wait.
  bool had_to_wait() const { return had_to_wait_; }
  std::chrono::milliseconds waited() const { return waited_; }

  /// Releases the lock. The file remains, so that the next holder need not create it again. A process that
  /// was forked after the lock was taken does not hold it and releases nothing.
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

/// Waits for the lock on the file `name` in a folder, at most for `bound` (0 means one attempt) and until
/// `cancel` (may be null) is cancelled. The holder may remove the file; waiters then create a new one.
FileLock take_file_lock(FileSystem& system, OpenFolder open_folder, const std::string& name, mode_t mode,
                        std::chrono::milliseconds bound, const CancelToken* cancel);

}  // namespace minuet
