// The store under what only a process of its own can suffer: kills, limits, mounts, other users.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "codegen/cache/kernel_cache.h"
#include "codegen/cache/store.h"
#include "tests/codegen/cache/store_fakes.h"
#include "tests/support/expect.h"

namespace minuet {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using testing::HasSubstr;
using testing::IsEmpty;

// ---- R06: kills ---------------------------------------------------------------------------------

/// Writes a little at a time and rests, so that most kills hit a file half written.
class SlowWriter : public QuickFileSystem {
 public:
  ssize_t write(int file, const void* bytes, std::size_t size) override {
    ::usleep(100);
    return FileSystem::write(file, bytes, std::min<std::size_t>(size, 256));
  }
};

/// Loads and publishes one entry until killed. Ends by itself only where a load was bad.
[[noreturn]] void work_until_killed(const std::string& directory, const Sample& sample, unsigned seed) {
  SlowWriter system;
  Warnings warnings;
  Store store = make_store(directory, &warnings, {}, system);
  std::minstd_rand random(seed);
  for (;;) {
    const std::optional<Entry> entry = store.find(sample.key);
    if (entry && write_entry(*entry) != sample.bytes) ::_exit(3);
    if (!entry) store.publish(sample.key, sample.bytes);
    if (random() % 4 == 0) ::unlink(store.entry_path(sample.key).c_str());  // for there to be writers
    if (!warnings.all().empty())
      ::_exit(::write(2, warnings.all()[0].data(), warnings.all()[0].size()) > 0 ? 4 : 5);
  }
}

TEST(StoreProcesses, R06_KilledWritersLeaveNoBadEntry) {
  const TemporaryFolder folder;
  const Sample sample = make_sample("gather", 20000);
  constexpr std::size_t kProcesses = 64;
  const char* const asked = std::getenv("MINUET_KILL_SECONDS");  // tools/long
  const auto end = Clock::now() + std::chrono::seconds(asked != nullptr ? std::atoi(asked) : 5);
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  std::vector<pid_t> children;
  auto start = [&] {
    const unsigned child_seed = random();
    const pid_t child = ::fork();
    if (child == 0) work_until_killed(folder.path(), sample, child_seed);
    ASSERT_GT(child, 0);
    children.push_back(child);
  };
  // All at once: each takes its turn on the processor to die.
  auto stop = [&](std::size_t count) {
    std::shuffle(children.begin(), children.end(), random);
    for (std::size_t i = 0; i < count; ++i) ::kill(children[i], SIGKILL);
    for (std::size_t i = 0; i < count; ++i) {
      int status = 0;
      EXPECT_EQ(::waitpid(children[i], &status, 0), children[i]);
      EXPECT_TRUE(WIFSIGNALED(status)) << "a bad load: it ended by itself with " << WEXITSTATUS(status);
    }
    children.erase(children.begin(), children.begin() + static_cast<std::ptrdiff_t>(count));
  };
  Store store = make_store(folder.path());
  std::size_t seen = 0, kills = 0;
  while (Clock::now() < end && !testing::Test::HasFailure()) {
    while (children.size() < kProcesses) start();
    ::usleep(static_cast<useconds_t>(random() % 20000));
    const std::size_t count = 1 + random() % 8;
    stop(count);
    kills += count;
    const std::string bytes = contents(store.entry_path(sample.key));
    if (bytes.empty()) continue;  // removed, or removed since it was opened
    ++seen;
    EXPECT_TRUE(bytes == sample.bytes) << bytes.size() << " bytes of " << sample.bytes.size();
  }
  stop(children.size());
  EXPECT_GT(seen, 0u);
  // What the killed left is found, once it is old.
  const std::size_t left = entries_in(folder.path()).size();
  std::printf("%zu kills, %zu looks at the entry, %zu files left\n", kills, seen, left);
  const PruneResult result = llvm::cantFail(store.prune({.bytes = 0, .orphan_age = {}}, true));
  EXPECT_EQ(result.removed_orphans + result.removed_entries, left);
  EXPECT_THAT(entries_in(folder.path()), IsEmpty());
}

// ---- R12: several versions ----------------------------------------------------------------------

/// What a process of one version finds; it keeps what it misses.
std::string load_or_publish(const std::string& directory, const Sample& sample, StoreOptions options) {
  QuickFileSystem system;
  Warnings warnings;
  Store store = make_store(directory, &warnings, options, system);
  const std::optional<Entry> entry = store.find(sample.key);
  if (entry && write_entry(*entry) != sample.bytes) return "wrong";
  if (!entry) store.publish(sample.key, sample.bytes);
  return !warnings.all().empty() ? warnings.all()[0] : entry ? "found" : "published";
}

TEST(StoreProcesses, R12_TwoVersionsAlternateAndEachPublishesOnce) {
  const TemporaryFolder folder;
  const Sample sample = make_sample("gather");
  for (int round = 0; round < 100; ++round) {
    const int format = 1 + round % 2;
    // Each prunes all the time, and would wipe the other if it could.
    const StoreOptions options = {.limits = {.interval = {}, .orphan_age = {}}, .format = format};
    const std::string outcome = in_child([&] { return load_or_publish(folder.path(), sample, options); });
    EXPECT_EQ(outcome, round < 2 ? "published" : "found") << round;
  }
}

// ---- R10 and R11: what a machine may be like ----------------------------------------------------

/// Asks a cache for kernels: "" where each is right. Adds what was warned of.
std::string ask_for(KernelCache& cache, int count, std::size_t bytes = 100) {
  for (int i = 0; i < count; ++i) {
    const KernelSource source = make_source("kernel" + std::to_string(i), make_sample("text", bytes).bytes);
    auto binary = cache.get_or_compile({source, "sm_90a"});
    if (!binary) return "error: " + llvm::toString(binary.takeError());
    if ((*binary)->cubin.find(source.text) == std::string::npos) return "a wrong kernel";
  }
  return "";
}

std::string warnings_of(const Warnings& warnings) {
  std::string text;
  for (const std::string& warning : warnings.all()) text += "[" + warning + "]";
  return text;
}

/// A new cache in `directory`, asked for kernels: "", else what is wrong, or what it warned of.
std::string ask_new_cache(const std::string& directory, int count, std::size_t bytes = 100) {
  Warnings warnings;
  auto cache = make_cache(directory, std::make_shared<FakeCompiler>(), &warnings);
  const std::string wrong = ask_for(*cache, count, bytes);
  return wrong.empty() ? warnings_of(warnings) : "WRONG " + wrong;
}

TEST(StoreProcesses, R11_LimitOfFileSizes) {
  const TemporaryFolder folder;
  for (const rlim_t bytes : {0, 1, 100, 600}) {
    const std::string outcome = in_child([&] {
      const struct rlimit limit = {bytes, bytes};
      if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return std::string("no limit");
      return ask_new_cache(folder.path(), 3, 2000);
    });
    EXPECT_THAT(outcome, testing::StartsWith("[a kernel is not kept on disk")) << bytes;
  }
  EXPECT_THAT(entries_in(folder.path()), IsEmpty());
}

TEST(StoreProcesses, R11_LimitOfDescriptors) {
  if (kAddressSanitized)
    GTEST_SKIP() << "UBSan looks at memory through a pipe, and reports an error where it gets none";
  const TemporaryFolder folder;
  // The highest open descriptor is about 10: from none to be had to plenty.
  for (rlim_t count = 3; count < 24; ++count) {
    const std::string outcome = in_child([&] {
      const struct rlimit limit = {count, count};
      if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return std::string("no limit");
      const std::string text = ask_new_cache(folder / std::to_string(count), 3);
      return text.find("WRONG") == std::string::npos ? "" : text;
    });
    EXPECT_EQ(outcome, "") << count;
  }
  EXPECT_THAT(entries_in(folder / "23"), testing::SizeIs(3)) << "plenty was plenty";
}

/// As ask_new_cache, with the directory chosen from an environment.
std::string ask_with(std::map<std::string, std::string> variables) {
  Warnings warnings;
  CacheOptions options;
  options.warn = warnings.sink();
  auto cache = llvm::cantFail(KernelCache::create(
      options, std::make_shared<FakeCompiler>(), make_environment(std::move(variables)), real_file_system()));
  const std::string wrong = ask_for(*cache, 3);
  return wrong.empty() ? warnings_of(warnings) : "WRONG " + wrong;
}

TEST(StoreProcesses, R11_NoHome) {
  for (const char* home : {"", "/nonexistent-home", "/proc/self/none", "/dev/null"}) {
    const std::string outcome = ask_with({{"HOME", home}});
    EXPECT_THAT(outcome, testing::StartsWith("[kernels are kept in memory only: ")) << home;
    EXPECT_EQ(std::count(outcome.begin(), outcome.end(), '['), 1) << outcome;
  }
  EXPECT_FALSE(fs::exists("/nonexistent-home"));
}

/// A mount namespace of the child's own, so that nothing of it outlives the child.
bool enter_mounts() {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

bool may_mount() {
  return in_child([] { return enter_mounts() ? "" : "no"; }).empty();
}
#define MINUET_NEEDS_MOUNTS() \
  if (!may_mount()) GTEST_SKIP() << "mounting needs root and the right to a mount namespace"

TEST(StoreProcesses, R11_ASmallFileSystem) {
  MINUET_NEEDS_MOUNTS();
  const TemporaryFolder folder;
  for (const char* options : {"size=1m,mode=0700", "nr_inodes=4,mode=0700"}) {
    const std::string outcome = in_child([&] {
      if (!enter_mounts() || ::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, options) != 0) {
        return std::string("no mount");
      }
      const std::string text = ask_new_cache(folder.path(), 20, 100000);  // about 2 MB
      const std::size_t kept = llvm::cantFail(make_store(folder.path()).list()).size();
      return text + " kept " + (kept == 0 ? "none" : kept < 20 ? "some" : "all");
    });
    EXPECT_THAT(outcome, testing::StartsWith("[a kernel is not kept on disk"));
    EXPECT_THAT(outcome, testing::EndsWith(options[0] == 's' ? "kept some" : "kept none"));
    EXPECT_EQ(std::count(outcome.begin(), outcome.end(), '['), 1) << outcome;
  }
}

TEST(StoreProcesses, R11_AReadOnlyFileSystem) {
  MINUET_NEEDS_MOUNTS();
  const TemporaryFolder folder;
  EXPECT_EQ(ask_new_cache(folder.path(), 2), "");
  set_age(entries_in(folder.path())[0], std::chrono::hours(2));  // for it to want a touch
  const std::string outcome = in_child([&] {
    const char* const path = folder.path().c_str();
    if (!enter_mounts() || ::mount(path, path, nullptr, MS_BIND, nullptr) != 0 ||
        ::mount(nullptr, path, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
      return std::string("no mount");
    }
    const std::string warm = ask_new_cache(folder.path(), 2);
    if (!warm.empty()) return "warm " + warm;
    if (make_store(folder.path()).lock(std::string(64, 'a'), std::chrono::hours(1), nullptr).held()) {
      return std::string("a lock on a read-only file system");
    }
    return ask_new_cache(folder.path(), 5);
  });
  EXPECT_THAT(outcome, testing::StartsWith("[a kernel is not kept on disk"));
  EXPECT_THAT(outcome, HasSubstr("Read-only file system"));
  EXPECT_EQ(entries_in(folder.path()).size(), 2u);
}

TEST(StoreProcesses, R09_TheOrderOfUseIsKeptWithoutAccessTimes) {
  MINUET_NEEDS_MOUNTS();
  const TemporaryFolder folder;
  const std::string outcome = in_child([&] {
    if (!enter_mounts() ||
        ::mount("tmpfs", folder.path().c_str(), "tmpfs", MS_NOATIME, "size=1m,mode=0700") != 0) {
      return std::string("no mount");
    }
    Store store = make_store(folder.path());
    const Sample samples[] = {make_sample("a"), make_sample("b"), make_sample("c")};
    for (int i = 0; i < 3; ++i) {
      store.publish(samples[i].key, samples[i].bytes);
      set_age(store.entry_path(samples[i].key), std::chrono::hours(10 - i));
    }
    if (!store.find(samples[0].key)) return std::string("no load");
    llvm::cantFail(store.prune({.files = 1}, true));
    const std::vector<StoredEntry> left = llvm::cantFail(store.list());
    return std::string(left.size() == 1 && left[0].build_key == samples[0].key ? ""
                                                                               : "the wrong one is left");
  });
  EXPECT_EQ(outcome, "");
}

TEST(StoreProcesses, R11_AChangedRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "chroot needs root";
  const TemporaryFolder folder;
  fs::create_directory(folder / "cache");
  const std::string outcome = in_child([&] {
    if (::chroot(folder.path().c_str()) != 0 || ::chdir("/") != 0) return std::string("no chroot");
    const std::string nowhere = ask_with({{"HOME", "/root"}});
    if (nowhere.find("[kernels are kept in memory only") != 0) return "HOME is not there: " + nowhere;
    const std::string unset = ask_with({});
    if (unset.find("[kernels are kept in memory only") != 0) return "HOME is not set: " + unset;
    return ask_with({{"MINUET_CACHE_DIR", "/cache/minuet"}});
  });
  EXPECT_EQ(outcome, "");
  EXPECT_FALSE(fs::exists(folder / "root"));
  EXPECT_EQ(entries_in(folder / "cache/minuet").size(), 3u);
}

constexpr uid_t kAlice = 12345, kMallory = 12346;

/// Runs `work` as another user, with a umask that hides nothing.
std::string as_user(uid_t user, const std::function<std::string()>& work) {
  return in_child([&] {
    ::umask(0);
    if (::setgid(user) != 0 || ::setuid(user) != 0) return std::string("no such user");
    return work();
  });
}

TEST(StoreProcesses, R10_ASquattedOrOpenFolderIsNeverReadFrom) {
  if (::geteuid() != 0) GTEST_SKIP() << "to be two users needs root";
  const TemporaryFolder folder;
  fs::create_directory(folder / "tmp");
  for (const std::string& path : {folder.path(), folder / "tmp"}) ::chmod(path.c_str(), 01777);
  const std::string place = folder / "tmp/minuet";
  // Mallory was here first, with kernels under the keys that others will ask for.
  EXPECT_EQ(as_user(kMallory,
                    [&] {
                      auto cache = make_cache(place, std::make_shared<FakeCompiler>());
                      const std::string text = make_sample("text").bytes;
                      for (int i = 0; i < 3; ++i) {
                        llvm::cantFail(cache->get_or_compile(
                            {make_source("kernel" + std::to_string(i), text), "sm_90a"}));
                      }
                      return std::string();
                    }),
            "");
  const std::size_t planted = entries_in(place).size();
  EXPECT_EQ(planted, 3u);
  auto ask = [&] {
    Warnings warnings;
    auto compiler = std::make_shared<FakeCompiler>();
    auto cache = make_cache(place, compiler, &warnings);
    const std::string wrong = ask_for(*cache, 3);
    if (!wrong.empty()) return wrong;
    if (compiler->compiles != 3) return std::string("LOADED what another user planted");
    return warnings_of(warnings);
  };
  for (const uid_t user : {kAlice, static_cast<uid_t>(0)}) {
    const std::string outcome = as_user(user, ask);
    EXPECT_THAT(outcome, testing::StartsWith("[kernels are kept in memory only: " + place)) << user;
    EXPECT_EQ(std::count(outcome.begin(), outcome.end(), '['), 1) << outcome;
  }
  // Alice's own folder, where anybody may write.
  EXPECT_EQ(::chown(place.c_str(), kAlice, kAlice), 0);
  ::chmod(place.c_str(), 0777);
  EXPECT_THAT(as_user(kAlice, ask), HasSubstr("mode 777"));
  // Her own folder, alone, but what is in it is Mallory's.
  ::chmod(place.c_str(), 0700);
  EXPECT_THAT(as_user(kAlice, ask), testing::StartsWith("[the kernel cache is not read: " + place + "/v1"));
  for (const auto& below : fs::recursive_directory_iterator(place)) {
    if (!below.is_directory()) continue;
    EXPECT_EQ(::chown(below.path().c_str(), kAlice, kAlice), 0);
  }
  for (const std::string& file : entries_in(place)) ::chmod(file.c_str(), 0644);
  EXPECT_THAT(as_user(kAlice, ask), HasSubstr("other users may have written it"));
  // By now Alice has replaced them by her own.
  EXPECT_EQ(as_user(kAlice, [&] { return ask_new_cache(place, 3); }), "");
}

}  // namespace
}  // namespace minuet
