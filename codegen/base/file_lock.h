// One process builds a kernel, or writes a bundle, and the others wait and read what it published (R14).
#pragma once

#include <cerrno>
#include <chrono>
#include <string>

#include "codegen/base/cancel_token.h"
#include "codegen/base/file_system.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace minuet {

/// The lock of a file, between processes and between threads. A killed holder's is free at once; a stopped
/// holder's is waited for no longer than the bound. Nothing here is an error: who builds a kernel and does
/// not get the lock compiles all the same, and at worst a kernel is compiled twice. Who gets it looks once
/// more whether the work is done, had it to wait or not: the last holder may have published and let go
/// between our first look and our lock.
class FileLock {
 public:
  enum class Outcome {
    Held,         // until release() or the end of scope
    TimedOut,     // somebody held it all the time
    Unavailable,  // no locks here: a file system without, a read-only or a full one
    Cancelled,
  };

  Outcome outcome() const { return outcome_; }
  bool held() const { return outcome_ == Outcome::Held; }
  /// Of Unavailable: errno of the call that failed, and whether it says that the file system has no locks.
  int error() const { return error_; }
  bool without_locks() const {
    // EBADF: NFS, of a file that is open to read only.
    return error_ == ENOLCK || error_ == ENOSYS || error_ == EOPNOTSUPP || error_ == EBADF;
  }
  /// Whether somebody else held it when we came.
  bool had_to_wait() const { return had_to_wait_; }
  std::chrono::milliseconds waited() const { return waited_; }

  /// Lets the next one go on. The file stays, so that they need not make it anew. A child forked meanwhile
  /// holds nothing, and releases nothing.
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

/// Waits for the lock of the file `name` in a folder, at most for `bound` (0: one try) and until `cancel`,
/// which may be null. Who holds the lock may remove the file: those who wait for it make a new one.
FileLock take_file_lock(FileSystem& system, OpenFolder open_folder, const std::string& name, mode_t mode,
                        std::chrono::milliseconds bound, const CancelToken* cancel);

}  // namespace minuet
