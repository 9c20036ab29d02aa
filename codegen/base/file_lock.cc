#include "codegen/base/file_lock.h"

#include <algorithm>
#include <cerrno>
#include <thread>

namespace minuet {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// Tries to lock a file until it has the lock, the time limit has passed, or the wait is cancelled.
class FileLockWait {
 public:
  FileLockWait(FileSystem& system, OpenFolder open_folder, const std::string& name, mode_t mode,
               milliseconds bound, const CancelToken* cancel)
      : system_(system),
        open_folder_(open_folder),
        name_(name),
        mode_(mode),
        bound_(bound),
        cancel_(cancel),
        folder_(system, -1),
        file_(system, -1) {}

  FileLock run() {
    for (;;) {
      if (!file_.good() && !open()) return end(FileLock::Outcome::Unavailable, errno);
      if (file_.try_lock()) {
        if (is_current()) return end(FileLock::Outcome::Held);
        // The lock file was removed or replaced before it was locked, so open the one that now has its name.
        file_ = LockableFile(system_, -1);
        if (++lost_ == kMostLost) return end(FileLock::Outcome::Unavailable, ENOLCK);
      } else if (errno != EWOULDBLOCK) {
        return end(FileLock::Outcome::Unavailable, errno);
      } else {
        had_to_wait_ = true;
      }
      if (is_cancelled(cancel_)) return end(FileLock::Outcome::Cancelled);
      if (Clock::now() - start_ >= bound_) return end(FileLock::Outcome::TimedOut);
      if (file_.good()) pause();
    }
  }

 private:
  // Limits how often a lock file may be removed before it is locked. The kernel cache removes lock files at
  // most every 20 minutes, so many lost files mean that the file system has no stable inode numbers.
  static constexpr int kMostLost = 20;

  /// Opens or creates the lock file. Returns false and sets errno on failure.
  bool open() {
    llvm::Expected<FileHandle> folder = open_folder_();
    if (!folder) {
      const int error = errno;
      llvm::consumeError(folder.takeError());
      return errno = error, false;
    }
    // NFS locks only files that are open for writing.
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    file_ = LockableFile(system_, system_.open_at(folder->get(), name_.c_str(), flags, mode_));
    const int error = errno;
    folder_ = std::move(*folder);
    return errno = error, file_.good();
  }

  /// Returns true if the locked file still has its name. If it does not, other processes lock another file by
  /// that name.
  bool is_current() {
    struct stat held, named;
    return system_.stat_file(file_.get(), &held) == 0 &&
           system_.stat_at(folder_.get(), name_.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
           held.st_ino == named.st_ino;
  }

  /// Sleeps before the next attempt. The lock is polled because flock has no timeout, and interrupting it by
  /// a signal would need a signal handler in the host's process.
  void pause() {
    const auto rest = std::chrono::ceil<milliseconds>(bound_ - (Clock::now() - start_));
    std::this_thread::sleep_for(std::clamp(rest, milliseconds(0), pause_));
    pause_ = std::min(2 * pause_, milliseconds(100));
  }

  FileLock end(FileLock::Outcome outcome, int error = 0) {
    if (outcome != FileLock::Outcome::Held) file_ = LockableFile(system_, -1);
    const auto waited = std::chrono::duration_cast<milliseconds>(Clock::now() - start_);
    return {outcome, error, std::move(file_), had_to_wait_, had_to_wait_ ? waited : milliseconds(0)};
  }

  FileSystem& system_;
  const OpenFolder open_folder_;
  const std::string& name_;
  const mode_t mode_;
  const milliseconds bound_;
  const CancelToken* const cancel_;
  const Clock::time_point start_ = Clock::now();
  milliseconds pause_{1};
  bool had_to_wait_ = false;
  int lost_ = 0;
  FileHandle folder_;
  LockableFile file_;
};

FileLock take_file_lock(FileSystem& system, OpenFolder open_folder, const std::string& name, mode_t mode,
                        milliseconds bound, const CancelToken* cancel) {
  return FileLockWait(system, open_folder, name, mode, bound, cancel).run();
}

}  // namespace minuet
