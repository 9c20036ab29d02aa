#include "codegen/base/file_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "codegen/cache/store.h"
#include "tests/codegen/cache/store_fakes.h"

namespace minuet {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;
using std::chrono::milliseconds;
using testing::IsEmpty;

const std::string kKey(64, 'a');
constexpr milliseconds kOnce(0);
constexpr milliseconds kLong = std::chrono::minutes(10);

FileLock::Outcome try_once(const TemporaryFolder& folder, FileSystem& system = real_file_system()) {
  return make_store(folder.path(), nullptr, {}, system).lock(kKey, kOnce, nullptr).outcome();
}

TEST(BuildLock, R14_ThreadsExcludeEachOther) {
  const TemporaryFolder folder;
  std::atomic<int> inside{0}, most{0};
  std::atomic<bool> done{false};
  int unguarded = 0;
  // Prunes all the while, so that the file goes from under those who wait.
  std::thread pruner([&] {
    while (!done) llvm::cantFail(make_store(folder.path()).prune({}, true));
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      Store store = make_store(folder.path());
      for (int round = 0; round < 100; ++round) {
        FileLock lock = store.lock(kKey, kLong, nullptr);
        ASSERT_TRUE(lock.held());
        most = std::max<int>(most, ++inside);
        ++unguarded;
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  pruner.join();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(unguarded, 400);
}

TEST(BuildLock, R14_TheResultTellsWhatHappened) {
  const TemporaryFolder folder;
  Store store = make_store(folder.path());
  FileLock lock = store.lock(kKey, kLong, nullptr);
  EXPECT_TRUE(lock.held());
  EXPECT_FALSE(lock.had_to_wait());
  EXPECT_EQ(lock.waited(), milliseconds(0));
  const FileLock late = store.lock(kKey, milliseconds(30), nullptr);
  EXPECT_EQ(late.outcome(), FileLock::Outcome::TimedOut);
  EXPECT_TRUE(late.had_to_wait());
  EXPECT_NE(late.waited(), milliseconds(0));
  EXPECT_TRUE(store.lock(std::string(64, 'b'), kOnce, nullptr).held()) << "another key";
  lock.release();
  EXPECT_TRUE(store.lock(kKey, kOnce, nullptr).held());
  EXPECT_TRUE(fs::exists(folder / ("v1/lock/" + kKey))) << "only prune removes it";
}

/// Counts the tries to lock.
class LockCounter : public QuickFileSystem {
 public:
  int lock(int file, int operation) override {
    if (operation != LOCK_UN) ++tries;
    return FileSystem::lock(file, operation);
  }
  std::atomic<int> tries{0};
};

TEST(BuildLock, R14_AWaitEndsWithTheLockOrByCancel) {
  const TemporaryFolder folder;
  for (const bool cancelled : {false, true}) {
    LockCounter system;
    FileLock lock = make_store(folder.path()).lock(kKey, kOnce, nullptr);
    CancelToken cancel;
    auto outcome = FileLock::Outcome::Unavailable;
    bool waited = false;
    std::thread waiter([&] {
      const FileLock mine = make_store(folder.path(), nullptr, {}, system).lock(kKey, hours(10), &cancel);
      outcome = mine.outcome(), waited = mine.had_to_wait();
    });
    while (system.tries < 3) std::this_thread::yield();
    if (cancelled) {
      cancel.cancel();
    } else {
      lock.release();
    }
    waiter.join();
    EXPECT_EQ(outcome, cancelled ? FileLock::Outcome::Cancelled : FileLock::Outcome::Held);
    EXPECT_TRUE(waited);
  }
}

TEST(BuildLock, R14_WhoWaitsForARemovedFileTakesTheNextOne) {
  const TemporaryFolder folder;
  LockCounter system;
  make_store(folder.path()).lock(kKey, kOnce, nullptr);
  const std::string path = folder / ("v1/lock/" + kKey);
  LockableFile prune(real_file_system(), ::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(prune.try_lock());
  std::thread waiter([&] {
    const FileLock lock = make_store(folder.path(), nullptr, {}, system).lock(kKey, kLong, nullptr);
    EXPECT_TRUE(lock.held());
    // Were it the lock of the nameless file, this would be held too.
    EXPECT_EQ(try_once(folder), FileLock::Outcome::TimedOut);
  });
  while (system.tries < 2) std::this_thread::yield();
  fs::remove(path);
  prune.unlock();
  waiter.join();
  EXPECT_EQ(try_once(folder), FileLock::Outcome::Held);
}

/// A child that holds the lock until it is killed; returns once it does.
pid_t start_holder(const TemporaryFolder& folder) {
  const pid_t child = ::fork();
  if (child == 0) {
    const FileLock lock = make_store(folder.path()).lock(kKey, kLong, nullptr);
    if (!lock.held()) ::_exit(1);
    write_text(folder / "held", "");
    for (;;) ::pause();
  }
  while (!fs::exists(folder / "held")) ::usleep(1000);
  return child;
}

void kill_and_wait(pid_t child) {
  ::kill(child, SIGKILL);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(BuildLock, R14_AKilledHolderFreesIt) {
  const TemporaryFolder folder;
  const pid_t holder = start_holder(folder);
  EXPECT_EQ(try_once(folder), FileLock::Outcome::TimedOut);
  kill_and_wait(holder);
  EXPECT_EQ(try_once(folder), FileLock::Outcome::Held);
}

TEST(BuildLock, R14_AStoppedHolderIsWaitedForNoLongerThanTheBound) {
  const TemporaryFolder folder;
  const pid_t holder = start_holder(folder);
  ASSERT_EQ(::kill(holder, SIGSTOP), 0);
  ASSERT_EQ(::waitpid(holder, nullptr, WUNTRACED), holder);
  Store store = make_store(folder.path());
  EXPECT_EQ(store.lock(kKey, milliseconds(50), nullptr).outcome(), FileLock::Outcome::TimedOut);
  // Who went on without the lock publishes as ever.
  const Sample sample = make_sample("a");
  store.publish(sample.key, sample.bytes);
  EXPECT_NE(store.find(sample.key), std::nullopt);
  kill_and_wait(holder);
}

TEST(BuildLock, R16_AForkedChildNeitherKeepsNorFreesIt) {
  const TemporaryFolder folder;
  FileLock lock = make_store(folder.path()).lock(kKey, kOnce, nullptr);
  ASSERT_TRUE(lock.held());
  EXPECT_EQ(in_child([&] { return lock.release(), std::string(); }), "");
  EXPECT_EQ(try_once(folder), FileLock::Outcome::TimedOut) << "the child's copy freed it";
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  lock.release();
  EXPECT_EQ(try_once(folder), FileLock::Outcome::Held) << "the child holds it on";
  kill_and_wait(child);
}

/// A file system without flock, or without room.
class WithoutLocks : public QuickFileSystem {
 public:
  WithoutLocks(int open_error, int lock_error) : open_error_(open_error), lock_error_(lock_error) {}
  int open_at(int folder, const char* path, int flags, mode_t mode) override {
    if (open_error_ != 0 && (flags & O_CREAT) != 0) return errno = open_error_, -1;
    return FileSystem::open_at(folder, path, flags, mode);
  }
  int lock(int file, int operation) override {
    return lock_error_ != 0 ? (errno = lock_error_, -1) : FileSystem::lock(file, operation);
  }

 private:
  int open_error_, lock_error_;
};

TEST(BuildLock, R14_WithoutLocksNobodyWaitsAndNothingIsSaid) {
  const TemporaryFolder folder;
  Warnings warnings;
  std::vector<std::unique_ptr<WithoutLocks>> systems;
  for (const int error : {ENOLCK, ENOSYS, EOPNOTSUPP, EBADF, EINVAL, EIO}) {
    systems.push_back(std::make_unique<WithoutLocks>(0, error));
  }
  for (const int error : {EROFS, ENOSPC, EDQUOT, EMFILE, ENFILE, EACCES}) {
    systems.push_back(std::make_unique<WithoutLocks>(error, 0));
  }
  for (const auto& system : systems) {
    const FileLock lock = make_store(folder.path(), &warnings, {}, *system).lock(kKey, kLong, nullptr);
    EXPECT_EQ(lock.outcome(), FileLock::Outcome::Unavailable);
    EXPECT_FALSE(lock.had_to_wait());
  }
  EXPECT_THAT(warnings.all(), IsEmpty());
}

/// A file system whose inode numbers differ from call to call.
class NoInodes : public QuickFileSystem {
 public:
  int stat_at(int folder, const char* path, struct stat* status) override {
    const int result = FileSystem::stat_at(folder, path, status);
    status->st_ino += ++count_;
    return result;
  }

 private:
  ino_t count_ = 0;
};

TEST(BuildLock, R14_WithoutInodeNumbersItIsLockless) {
  const TemporaryFolder folder;
  NoInodes system;
  const FileLock lock = make_store(folder.path(), nullptr, {}, system).lock(kKey, kLong, nullptr);
  EXPECT_EQ(lock.outcome(), FileLock::Outcome::Unavailable);
}

TEST(BuildLock, R10_AFolderThatOthersMayWriteToIsNoPlaceForLocks) {
  const TemporaryFolder folder;
  EXPECT_EQ(try_once(folder), FileLock::Outcome::Held);
  fs::permissions(folder / "v1/lock", fs::perms::all);
  EXPECT_EQ(try_once(folder), FileLock::Outcome::Unavailable);
}

}  // namespace
}  // namespace minuet
