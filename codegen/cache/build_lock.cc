#include "codegen/cache/build_lock.h"

#include <algorithm>
#include <cerrno>
#include <thread>

namespace minuet {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// One wait for one lock.
class BuildLockWait {
 public:
  BuildLockWait(const StoreRoot& root, const std::string& name, milliseconds bound, const CancelToken* cancel)
      : root_(root), name_(name), bound_(bound), cancel_(cancel), file_(root.system, -1) {}

  BuildLock run() {
    if (root_.read_only) return end(BuildLock::Outcome::Unavailable);
    for (;;) {
      if (!file_.good() && !open()) return end(BuildLock::Outcome::Unavailable);
      if (file_.try_lock()) {
        if (is_current()) return end(BuildLock::Outcome::Held);
        file_ = LockableFile(root_.system, -1);  // prune removed it while we waited: take the next one
        if (++lost_ == kMostLost) return end(BuildLock::Outcome::Unavailable);
      } else if (errno != EWOULDBLOCK) {
        return end(BuildLock::Outcome::Unavailable);  // ENOLCK, ENOSYS, EOPNOTSUPP, EBADF on some NFS
      } else {
        had_to_wait_ = true;
      }
      if (is_cancelled(cancel_)) return end(BuildLock::Outcome::Cancelled);
      if (Clock::now() - start_ >= bound_) return end(BuildLock::Outcome::TimedOut);
      if (file_.good()) pause();
    }
  }

 private:
  // Prune runs every 20 minutes: more than a few of these are a file system that tells no inodes.
  static constexpr int kMostLost = 20;

  bool open() {
    llvm::Expected<FileHandle> folder = root_.open({"lock"}, Missing::Make);
    if (!folder) return llvm::consumeError(folder.takeError()), false;
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    file_ = LockableFile(root_.system,
                         root_.system.open_at(folder->get(), name_.c_str(), flags, root_.policy.file_mode()));
    folder_ = std::move(*folder);
    return file_.good();
  }

  /// Whether the locked file still has its name: else others lock another file under that name.
  bool is_current() {
    struct stat held, named;
    return root_.system.stat_file(file_.get(), &held) == 0 &&
           root_.system.stat_at(folder_.get(), name_.c_str(), &named) == 0 && held.st_dev == named.st_dev &&
           held.st_ino == named.st_ino;
  }

  /// flock has no time limit of its own, and a signal to end it would need a handler of the host.
  void pause() {
    const auto rest = std::chrono::ceil<milliseconds>(bound_ - (Clock::now() - start_));
    std::this_thread::sleep_for(std::clamp(rest, milliseconds(0), pause_));
    pause_ = std::min(2 * pause_, milliseconds(100));
  }

  BuildLock end(BuildLock::Outcome outcome) {
    if (outcome != BuildLock::Outcome::Held) file_ = LockableFile(root_.system, -1);
    const auto waited = std::chrono::duration_cast<milliseconds>(Clock::now() - start_);
    return {outcome, std::move(file_), had_to_wait_, had_to_wait_ ? waited : milliseconds(0)};
  }

  const StoreRoot& root_;
  const std::string& name_;
  const milliseconds bound_;
  const CancelToken* const cancel_;
  const Clock::time_point start_ = Clock::now();
  milliseconds pause_{1};
  bool had_to_wait_ = false;
  int lost_ = 0;
  FileHandle folder_{root_.system, -1};
  LockableFile file_;
};

BuildLock take_build_lock(const StoreRoot& root, const std::string& build_key, milliseconds bound,
                          const CancelToken* cancel) {
  return BuildLockWait(root, build_key, bound, cancel).run();
}

}  // namespace minuet
