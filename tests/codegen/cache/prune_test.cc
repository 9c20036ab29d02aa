#include "codegen/cache/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "tests/codegen/cache/store_fakes.h"

namespace minuet {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::IsEmpty;
using testing::SizeIs;

/// A store with `count` entries of about 1 KB, the i-th used i hours before the last.
class Shelf {
 public:
  explicit Shelf(int count, FileSystem& system = quick())
      : store(make_store(folder.path(), &warnings, {}, system)) {
    for (int i = 0; i < count; ++i) {
      samples.push_back(make_sample("kernel" + std::to_string(i), 1000));
      store.publish(samples.back().key, samples.back().bytes);
      set_age(store.entry_path(samples.back().key), hours(count - i + 10));
    }
  }
  static FileSystem& quick() {
    static QuickFileSystem system;
    return system;
  }
  /// Which of the samples are there, in their order.
  std::vector<int> there() const {
    std::vector<int> there;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (fs::exists(store.entry_path(samples[i].key))) there.push_back(static_cast<int>(i));
    }
    return there;
  }
  std::uint64_t bytes() const {
    std::uint64_t bytes = 0;
    for (const std::string& file : entries_in(folder.path())) bytes += fs::file_size(file);
    return bytes;
  }

  const TemporaryFolder folder;
  Warnings warnings;
  std::vector<Sample> samples;
  Store store;
};

TEST(Prune, R09_TheOldestGoUntilTheBytesFit) {
  Shelf shelf(40);
  const std::uint64_t before = shelf.bytes(), limit = before / 2;
  const PruneResult result = llvm::cantFail(shelf.store.prune({.bytes = limit}, true));
  EXPECT_TRUE(result.ran);
  EXPECT_LE(shelf.bytes(), limit);
  EXPECT_GT(shelf.bytes(), limit - limit / 10) << "no more than needed";
  EXPECT_EQ(result.bytes, shelf.bytes());
  EXPECT_EQ(result.removed_bytes, before - shelf.bytes());
  const std::vector<int> there = shelf.there();
  EXPECT_EQ(result.entries, there.size());
  EXPECT_EQ(result.removed_entries, 40 - there.size());
  for (std::size_t i = 0; i < there.size(); ++i) EXPECT_EQ(there[i], static_cast<int>(40 - there.size() + i));
}

TEST(Prune, R09_TheOldestGoUntilTheFilesFit) {
  Shelf shelf(40);
  llvm::cantFail(shelf.store.prune({.files = 20}, true));
  EXPECT_THAT(shelf.there(), SizeIs(19)) << "a little less than the limit";
  EXPECT_EQ(shelf.there().front(), 21);
}

/// R9's numbers: files that are all holes count in full, and a folder holds 20,000 of any size.
TEST(Prune, R09_TheLimitsIfNobodyNamesOthers) {
  const MemoryFolders in_memory;
  Shelf shelf(3);
  const auto add = [&](int number, std::uintmax_t bytes) {
    char key[65];
    std::snprintf(key, sizeof key, "%02x%062x", 16 + number % 200, number);
    const std::string path = shelf.store.entry_path(key);
    fs::create_directories(fs::path(path).parent_path());
    fs::permissions(fs::path(path).parent_path(), fs::perms::owner_all);
    write_text(path, "");
    fs::resize_file(path, bytes);
  };
  const auto removed = [&] { return llvm::cantFail(shelf.store.prune({}, true)).removed_entries; };
  add(1, 1000u << 20);
  EXPECT_EQ(removed(), 0u);
  add(2, 30u << 20);
  EXPECT_EQ(removed(), 4u) << "1030 MiB: all but the last one, for the large one is younger than the three";
  for (int number = 3; number < 20001; ++number) add(number, 0);
  EXPECT_EQ(removed(), 0u) << "20,000 less the one that went";
  add(20001, 0);
  add(20002, 0);
  EXPECT_EQ(removed(), 1001u) << "to a twentieth below";
}

TEST(Prune, R09_WithinItsLimitsNothingGoes) {
  Shelf shelf(20);
  const PruneResult result = llvm::cantFail(shelf.store.prune({.bytes = shelf.bytes(), .files = 20}, true));
  EXPECT_TRUE(result.ran);
  EXPECT_EQ(result.removed_entries, 0u);
  EXPECT_THAT(shelf.there(), SizeIs(20));
}

TEST(Prune, R09_WhatWasReadLatelySurvives) {
  Shelf shelf(20);
  for (const std::size_t i : {0u, 3u}) EXPECT_NE(shelf.store.find(shelf.samples[i].key), std::nullopt);
  llvm::cantFail(shelf.store.prune({.files = 5}, true));
  EXPECT_THAT(shelf.there(), testing::ElementsAre(0, 3, 17, 18, 19));
}

TEST(Prune, R09_WhatIsPublishedJustNowIsNeverRemoved) {
  Shelf shelf(5);
  Store tight = make_store(shelf.folder.path(), nullptr, {.limits = {.bytes = 1, .interval = seconds(0)}},
                           Shelf::quick());
  const Sample fresh = make_sample("fresh", 1000);
  // Its clock may be behind: then the newest is not the one with the newest time.
  for (const Sample& sample : shelf.samples) set_age(tight.entry_path(sample.key), -minutes(5));
  tight.publish(fresh.key, fresh.bytes);
  EXPECT_THAT(shelf.there(), IsEmpty());
  EXPECT_NE(tight.find(fresh.key), std::nullopt);
}

TEST(Prune, R09_APublishPrunesAtMostEveryInterval) {
  Shelf shelf(5);
  const std::string stamp = shelf.folder / "v1/pruned";
  Store tight = make_store(shelf.folder.path(), nullptr, {.limits = {.files = 1}}, Shelf::quick());
  const Sample fresh = make_sample("fresh");
  tight.publish(fresh.key, fresh.bytes);
  EXPECT_THAT(shelf.there(), SizeIs(5)) << "the first publish started the clock just now";
  EXPECT_FALSE(llvm::cantFail(tight.prune({.files = 1}, /*force=*/false)).ran);
  set_age(stamp, minutes(19));
  tight.publish(fresh.key, fresh.bytes);
  EXPECT_THAT(shelf.there(), SizeIs(5));
  for (const minutes age : {minutes(21), minutes(-21)}) {
    Shelf other(5);
    set_age(other.folder / "v1/pruned", age);
    make_store(other.folder.path(), nullptr, {.limits = {.files = 1}}, Shelf::quick())
        .publish(fresh.key, fresh.bytes);
    EXPECT_THAT(other.there(), IsEmpty()) << age.count();
    EXPECT_FALSE(llvm::cantFail(other.store.prune({}, false)).ran) << "the clock starts again";
  }
}

TEST(Prune, R09_OneProcessPrunesAndNobodyWaitsForIt) {
  Shelf shelf(5);
  LockableFile other(real_file_system(), ::open((shelf.folder / "v1/pruned").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(other.try_lock());
  EXPECT_FALSE(llvm::cantFail(shelf.store.prune({.files = 1}, true)).ran);
  EXPECT_THAT(shelf.there(), SizeIs(5));
  other.unlock();
  EXPECT_TRUE(llvm::cantFail(shelf.store.prune({.files = 1}, true)).ran);
}

class NoLocks : public QuickFileSystem {
 public:
  int lock(int, int) override { return errno = ENOLCK, -1; }
};

TEST(Prune, R09_WithoutLocksItPrunesAllTheSame) {
  NoLocks system;
  Shelf shelf(5, system);
  EXPECT_EQ(llvm::cantFail(shelf.store.prune({.files = 1}, true)).removed_entries, 4u);
}

TEST(Prune, R09_HalfWrittenFilesGoAfterAnHourAndOthersFilesNever) {
  Shelf shelf(1);
  const std::string folder = fs::path(shelf.store.entry_path(shelf.samples[0].key)).parent_path();
  for (const char* name : {"tmp-old", "tmp-new", "mine.txt", ".nfs0001"})
    write_text(folder + "/" + name, "half");
  fs::create_directory(folder + "/tmp-folder");
  for (const char* name : {"tmp-old", "mine.txt", ".nfs0001", "tmp-folder"}) {
    set_age(folder + "/" + name, minutes(61));
  }
  const PruneResult result = llvm::cantFail(shelf.store.prune({.bytes = 0}, true));
  EXPECT_EQ(result.removed_orphans, 1u);
  EXPECT_EQ(result.removed_entries, 1u);
  EXPECT_FALSE(fs::exists(folder + "/tmp-old"));
  for (const char* name : {"tmp-new", "mine.txt", ".nfs0001", "tmp-folder"}) {
    EXPECT_TRUE(fs::exists(folder + "/" + name)) << name;
  }
}

/// Does something to each entry just before prune looks at it for the second time.
class Meddler : public QuickFileSystem {
 public:
  int stat_at(int folder, const char* path, struct stat* status) override {
    const std::string name = path;
    if (meddle && name.size() == 65) meddle(root + "/v1/obj/" + name);  // "ab/" and 62 digits
    return FileSystem::stat_at(folder, path, status);
  }
  std::string root;
  std::function<void(const std::string& file)> meddle;
};

TEST(Prune, R09_WhatIsUsedOrReplacedMeanwhileStays) {
  for (const bool replace : {false, true}) {
    Meddler system;
    Shelf shelf(3, system);
    system.root = shelf.folder.path();
    system.meddle = [&](const std::string& file) {
      if (!replace) return set_age(file, seconds(0));
      write_text(file + "-new", contents(file));
      fs::rename(file + "-new", file);
    };
    const PruneResult result = llvm::cantFail(shelf.store.prune({.bytes = 0}, true));
    EXPECT_EQ(result.removed_entries, 0u);
    EXPECT_EQ(result.entries, 3u);
    EXPECT_THAT(shelf.there(), SizeIs(3));
    system.meddle = [](const std::string& file) { fs::remove(file); };
    const PruneResult again = llvm::cantFail(shelf.store.prune({.bytes = 0}, true));
    EXPECT_EQ(again.removed_entries, 0u) << "another removed them";
    EXPECT_EQ(again.entries, 0u);
  }
}

TEST(Prune, R14_LockFilesThatNobodyHoldsGo) {
  Shelf shelf(0);
  const std::string held = make_sample("held").key, free = make_sample("free").key;
  const FileLock lock = shelf.store.lock(held, seconds(0), nullptr);
  ASSERT_TRUE(lock.held());
  ASSERT_TRUE(shelf.store.lock(free, seconds(0), nullptr).held());
  write_text(shelf.folder / "v1/lock/notes", "not ours");
  shelf.store.publish(make_sample("a").key, make_sample("a").bytes);
  EXPECT_EQ(llvm::cantFail(shelf.store.prune({}, true)).removed_locks, 1u);
  EXPECT_TRUE(fs::exists(shelf.folder / ("v1/lock/" + held)));
  EXPECT_FALSE(fs::exists(shelf.folder / ("v1/lock/" + free)));
  EXPECT_TRUE(fs::exists(shelf.folder / "v1/lock/notes"));
  EXPECT_EQ(shelf.store.lock(held, seconds(0), nullptr).outcome(), FileLock::Outcome::TimedOut);
}

TEST(Prune, R09_NoStoreIsNothingToPrune) {
  const TemporaryFolder folder;
  EXPECT_TRUE(llvm::cantFail(make_store(folder / "none").prune({}, true)).ran) << "nobody else does";
  EXPECT_FALSE(fs::exists(folder / "none"));
}

constexpr std::uint64_t kCap = 4u << 20;  // of eight writers together

/// Publishes `count` entries of `writer`, reading those of `hot` all the time.
std::string write_many(const std::string& directory, int writer, int count, const std::vector<Sample>& hot) {
  QuickFileSystem system;
  Warnings warnings;
  const StoreLimits limits = {.bytes = kCap, .interval = seconds(0), .touch_interval = seconds(0)};
  Store store = make_store(directory, &warnings, {.limits = limits}, system);
  for (int i = 0; i < count; ++i) {
    const Sample sample = make_sample(std::to_string(writer) + "-" + std::to_string(i), 5000);
    store.publish(sample.key, sample.bytes);
    for (const Sample& kept : hot) {
      if (!store.find(kept.key)) return "an entry in use was removed";
    }
  }
  return warnings.all().empty() ? "" : warnings.all().front();
}

TEST(Prune, R09_EightWritersStayWithinTheCap) {
  const MemoryFolders in_memory;
  const TemporaryFolder folder;
  Store store = make_store(folder.path());
  std::vector<Sample> hot;
  for (int i = 0; i < 10; ++i) hot.push_back(make_sample("hot" + std::to_string(i), 5000));
  for (const Sample& sample : hot) store.publish(sample.key, sample.bytes);
  std::vector<std::string> outcomes(8);
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 8; ++writer) {
    threads.emplace_back([&, writer] {
      outcomes[static_cast<std::size_t>(writer)] = write_many(folder.path(), writer, 200, hot);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(outcomes, testing::Each(""));
  std::uint64_t bytes = 0;
  for (const StoredEntry& entry : llvm::cantFail(store.list())) bytes += entry.bytes;
  EXPECT_LE(bytes, kCap + kCap / 10);
  EXPECT_GT(bytes, kCap / 2) << "and it is used";
}

}  // namespace
}  // namespace minuet
