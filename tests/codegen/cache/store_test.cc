#include "codegen/cache/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>

#include "tests/codegen/cache/store_fakes.h"
#include "tests/support/expect.h"

namespace minuet {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::string reason_of(llvm::Expected<Entry> entry) { return entry ? "" : llvm::toString(entry.takeError()); }

TEST(Store, R05_EntriesAreListedAndReadOneByOne) {
  const TemporaryFolder folder;
  Store store = make_store(folder.path());
  EXPECT_THAT(llvm::cantFail(store.list()), IsEmpty()) << "no store yet";
  const Sample a = make_sample("a"), b = make_sample("b", 5000);
  store.publish(a.key, a.bytes);
  store.publish(b.key, b.bytes);
  set_age(store.entry_path(b.key), std::chrono::hours(3));
  const std::vector<StoredEntry> entries = llvm::cantFail(store.list());
  ASSERT_THAT(entries, SizeIs(2));
  EXPECT_EQ(entries[0].build_key, b.key) << "the one used longest ago comes first";
  EXPECT_EQ(entries[0].path, store.entry_path(b.key));
  EXPECT_EQ(entries[0].bytes, b.bytes.size());
  EXPECT_EQ(contents(entries[1].path), a.bytes);
  EXPECT_LT(entries[0].modified, entries[1].modified);
  EXPECT_EQ(llvm::cantFail(store.read(a.key)).binary.display_name, "a");
  for (const std::string& key :
       {make_sample("c").key, std::string("abc"), std::string("../../../etc/passwd")}) {
    EXPECT_EQ(take_status(store.read(key).takeError()).code(), StatusCode::NotFound) << key;
  }
}

/// The damage is told by read(), which leaves it; load() clears it away, so that a new entry fits.
void expect_repair(const std::string& how, const std::function<void(const std::string& file)>& spoil) {
  SCOPED_TRACE(how);
  const TemporaryFolder folder;
  Warnings warnings;
  Store store = make_store(folder.path(), &warnings);
  const Sample sample = make_sample("a", 3000);
  store.publish(sample.key, sample.bytes);
  const std::string file = store.entry_path(sample.key);
  spoil(file);
  EXPECT_NE(reason_of(store.read(sample.key)), "");
  EXPECT_TRUE(fs::exists(fs::symlink_status(file)));
  EXPECT_THAT(warnings.all(), IsEmpty());
  EXPECT_EQ(store.find(sample.key), std::nullopt);
  EXPECT_THAT(warnings.all(), SizeIs(1));
  EXPECT_FALSE(fs::exists(fs::symlink_status(file)));
  store.publish(sample.key, sample.bytes);
  EXPECT_NE(store.find(sample.key), std::nullopt);
  EXPECT_THAT(warnings.all(), SizeIs(1));
}

TEST(Store, R07_DamageIsToldClearedAndReplaced) {
  const MemoryFolders in_memory;
  const std::size_t size = make_sample("a", 3000).bytes.size();
  for (std::size_t percent = 0; percent < 100; ++percent) {
    expect_repair("truncated to " + std::to_string(percent) + " %",
                  [&](const std::string& file) { fs::resize_file(file, size * percent / 100); });
  }
  for (std::size_t at = 0; at < size; at += 97) {
    expect_repair("flipped byte " + std::to_string(at), [at](const std::string& file) {
      std::string text = contents(file);
      text[at] = static_cast<char>(text[at] ^ 0x01);
      write_text(file, text);
    });
  }
  const Sample other = make_sample("other");
  expect_repair("the entry of another kernel",
                [&](const std::string& file) { write_text(file, other.bytes); });
}

/// A sample whose manifest has `text` in the place of its compile time. Its digest is right, as a writer of
/// another version or in another locale leaves it.
Sample with_compile_time(const std::string& text) {
  constexpr std::size_t kHead = 96, kManifestSize = 12, kDigest = 32;
  Sample sample = make_sample("odd");
  std::uint32_t size = 0;
  std::memcpy(&size, &sample.bytes[kManifestSize], sizeof size);
  std::string manifest = sample.bytes.substr(kHead, size);
  const std::string frame = sample.bytes.substr(kHead + size), field = "\"compile_ms\":2.5";
  manifest.replace(manifest.find(field), field.size(), text);
  size = static_cast<std::uint32_t>(manifest.size());
  std::memcpy(&sample.bytes[kManifestSize], &size, sizeof size);
  sample.bytes.replace(kDigest, 64, sha256_hex(manifest + frame));
  sample.bytes = sample.bytes.substr(0, kHead) + manifest + frame;
  return sample;
}

TEST(Store, AFieldThatIsNotNeededRemovesNoEntry) {
  const auto in_arrays = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  const std::pair<std::string, bool> fields[] = {
      {"\"compile_ms\":2.5", true},        {"\"compile_us\":2500", true},
      {"\"compile_ms\":\"2.5\"", true},    {"\"compile_ms\":null,\"new\":{\"a\":[1]}", true},
      {"\"compile_ms\":2,5", false},  // as older versions wrote it under a decimal comma
      {"\"compile_ms\":nan", false},       {"\"compile_ms\":1,\"compile_ms\":1", false},
      {"\"new\":" + in_arrays(100), false}};
  for (const auto& [text, is_read] : fields) {
    const TemporaryFolder folder;
    Warnings warnings;
    Store store = make_store(folder.path(), &warnings);
    const Sample sample = with_compile_time(text);
    store.publish(sample.key, sample.bytes);
    EXPECT_EQ(store.find(sample.key).has_value(), is_read) << text;
    EXPECT_EQ(warnings.all().empty(), is_read) << text;
    EXPECT_EQ(contents(store.entry_path(sample.key)), sample.bytes) << text << ": it stays as it was";
    const Sample good = make_sample("odd");
    store.publish(good.key, good.bytes);
    EXPECT_NE(store.find(good.key), std::nullopt) << "and a compile replaces it";
  }
}

TEST(Store, R07_WhateverStandsInAnEntrysPlaceIsClearedAndReplaced) {
  expect_repair("an empty folder",
                [](const std::string& file) { fs::remove(file), fs::create_directory(file); });
  expect_repair("a full folder",
                [](const std::string& file) { fs::remove(file), fs::create_directories(file + "/x/y"); });
  expect_repair("a fifo", [](const std::string& file) { fs::remove(file), ::mkfifo(file.c_str(), 0600); });
  expect_repair("a link to nothing",
                [](const std::string& file) { fs::remove(file), fs::create_symlink("nothing", file); });
  expect_repair("a link to a good entry", [](const std::string& file) {
    fs::rename(file, file + "-good");
    fs::create_symlink(file + "-good", file);
  });
  expect_repair("one that others may write", [](const std::string& file) { ::chmod(file.c_str(), 0666); });
  if (::geteuid() != 0) GTEST_SKIP() << "giving a file away needs root; the rest was tested";
  expect_repair("a planted one",
                [](const std::string& file) { EXPECT_EQ(::chown(file.c_str(), 12345, 12345), 0); });
}

TEST(Store, R07_AFullFolderIsPutAsideWithWhatIsInIt) {
  const TemporaryFolder folder;
  Store store = make_store(folder.path());
  const Sample sample = make_sample("a");
  fs::create_directories(store.entry_path(sample.key));
  for (const fs::path& made :
       {fs::path(folder.path()), fs::path(folder / "v1"), fs::path(folder / "v1/obj")}) {
    fs::permissions(made, fs::perms::owner_all);
  }
  fs::permissions(fs::path(store.entry_path(sample.key)).parent_path(), fs::perms::owner_all);
  write_text(store.entry_path(sample.key) + "/notes", "somebody's work");
  EXPECT_EQ(store.find(sample.key), std::nullopt);
  llvm::cantFail(store.prune({.bytes = 0, .orphan_age = std::chrono::seconds(0)}, /*force=*/true));
  const std::vector<std::string> files = entries_in(folder.path());
  ASSERT_THAT(files, SizeIs(1));
  EXPECT_THAT(files[0], HasSubstr("/aside-"));
  EXPECT_EQ(contents(files[0]), "somebody's work");
}

TEST(Store, R07_WhatLiesAmongTheEntriesAndIsNoneIsNamed) {
  const TemporaryFolder folder;
  Store store = make_store(folder.path());
  EXPECT_THAT(llvm::cantFail(store.strays()), IsEmpty()) << "no store yet";
  const Sample good = make_sample("a"), moved = make_sample("b");
  for (const Sample& sample : {good, moved}) store.publish(sample.key, sample.bytes);
  const std::string shelf = fs::path(store.entry_path(good.key)).parent_path().string() + "/";
  write_text(shelf + "tmp-1", "of a process that writes");
  fs::create_directory(shelf + "aside-1");
  EXPECT_THAT(llvm::cantFail(store.strays()), IsEmpty());
  const std::string place = std::string(62, 'e');
  fs::create_directory(shelf + place);
  fs::create_symlink(store.entry_path(good.key), shelf + std::string(62, 'f'));
  // An entry under a name that is no key; one under another's key is found when it is read.
  fs::copy_file(store.entry_path(good.key), shelf + "copy");
  fs::rename(store.entry_path(moved.key), shelf + std::string(62, 'd'));
  write_text(folder / "v1/obj/notes", "");
  fs::create_symlink(shelf, folder / "v1/obj/ee");
  const std::string foreign = ", so it does not belong to the kernel cache: move it away";
  std::vector<std::string> told;
  for (const ForeignFile& stray : llvm::cantFail(store.strays()))
    told.push_back(stray.path + ": " + stray.reason);
  EXPECT_THAT(told,
              testing::UnorderedElementsAre(shelf + place + ": it is not a regular file",
                                            shelf + std::string(62, 'f') + ": it is not a regular file",
                                            shelf + "copy: its name is not the key of a kernel" + foreign,
                                            folder / "v1/obj/notes: its name is not two hex digits" + foreign,
                                            testing::StartsWith(folder / "v1/obj/ee: ")));
  EXPECT_THAT(llvm::cantFail(store.list()), SizeIs(2));
  EXPECT_THAT(reason_of(store.read(good.key.substr(0, 2) + std::string(62, 'd'))),
              HasSubstr("the entry of another kernel"));
}

/// Fails to open entries.
class ShortOfDescriptors : public QuickFileSystem {
 public:
  explicit ShortOfDescriptors(int error) : error_(error) {}
  int open_at(int folder, const char* path, int flags, mode_t mode) override {
    if (std::string(path).size() == 62) return errno = error_, -1;
    return FileSystem::open_at(folder, path, flags, mode);
  }

 private:
  int error_;
};

TEST(Store, R07_AnEntryThatCannotBeReadNowStays) {
  const TemporaryFolder folder;
  const Sample sample = make_sample("a");
  make_store(folder.path()).publish(sample.key, sample.bytes);
  for (const int error : {EMFILE, ENFILE, EACCES, EIO, ENOMEM, ESTALE}) {
    ShortOfDescriptors system(error);
    Warnings warnings;
    EXPECT_EQ(make_store(folder.path(), &warnings, {}, system).find(sample.key), std::nullopt);
    EXPECT_THAT(warnings.all(), SizeIs(1)) << error;
    EXPECT_NE(make_store(folder.path()).find(sample.key), std::nullopt) << error;
  }
}

class TouchCounter : public QuickFileSystem {
 public:
  int touch_at(int folder, const char* path) override {
    ++touches;
    return error != 0 ? (errno = error, -1) : FileSystem::touch_at(folder, path);
  }
  int touches = 0, error = 0;
};

TEST(Store, R09_AReadEntryIsTouchedAtMostHourly) {
  const TemporaryFolder folder;
  const Sample sample = make_sample("a");
  TouchCounter system;
  Warnings warnings;
  Store store = make_store(folder.path(), &warnings, {}, system);
  store.publish(sample.key, sample.bytes);
  system.touches = 0;
  EXPECT_NE(store.find(sample.key), std::nullopt);
  EXPECT_EQ(system.touches, 0) << "it was published just now";
  set_age(store.entry_path(sample.key), std::chrono::minutes(59));
  EXPECT_NE(store.find(sample.key), std::nullopt);
  EXPECT_EQ(system.touches, 0);
  set_age(store.entry_path(sample.key), std::chrono::minutes(61));
  for (int i = 0; i < 3; ++i) EXPECT_NE(store.find(sample.key), std::nullopt);
  EXPECT_EQ(system.touches, 1);
  system.error = EPERM;
  set_age(store.entry_path(sample.key), std::chrono::minutes(61));
  EXPECT_NE(store.find(sample.key), std::nullopt);
  EXPECT_EQ(system.touches, 2);
  EXPECT_THAT(warnings.all(), IsEmpty());
}

/// Counts whatever would change something, and does not do it.
class Untouchable : public FileSystem {
 public:
  int open_at(int folder, const char* path, int flags, mode_t mode) override {
    if ((flags & (O_CREAT | O_WRONLY | O_RDWR | O_TRUNC)) != 0) return change();
    return FileSystem::open_at(folder, path, flags, mode);
  }
  ssize_t write(int, const void*, std::size_t) override { return change(); }
  int rename_at(int, const char*, const char*) override { return change(); }
  int unlink_at(int, const char*) override { return change(); }
  int make_folder_at(int, const char*, mode_t) override { return change(); }
  int remove_folder_at(int, const char*) override { return change(); }
  int touch_at(int, const char*) override { return change(); }
  int lock(int, int) override { return change(); }
  int changes = 0;

 private:
  int change() { return ++changes, errno = EROFS, -1; }
};

/// All that a store does, for a sample that may be there.
void use(Store& store, const Sample& sample, bool is_there) {
  EXPECT_FALSE(llvm::errorToBool(store.check()));
  EXPECT_EQ(store.find(sample.key).has_value(), is_there);
  const FileLock lock = store.lock(sample.key, std::chrono::seconds(60), nullptr);
  EXPECT_EQ(lock.outcome(), FileLock::Outcome::Unavailable);
  store.publish(sample.key, sample.bytes);
  EXPECT_TRUE(llvm::errorToBool(store.prune({}, true).takeError()));
  EXPECT_TRUE(static_cast<bool>(store.list()));
  EXPECT_EQ(reason_of(store.read(sample.key)).empty(), is_there);
}

TEST(Store, R22_AReadOnlyStoreChangesNothing) {
  const TemporaryFolder folder;
  Untouchable system;
  Warnings warnings;
  const Sample sample = make_sample("a"), bad = make_sample("bad");
  Store missing = make_store(folder / "none/at/all", &warnings, {.read_only = true}, system);
  use(missing, sample, false);
  const StoreRoot root{folder / "none/at/all", own_policy(), system, "v1", /*read_only=*/true};
  EXPECT_TRUE(llvm::errorToBool(root.open({"obj"}, Missing::Make).takeError()));
  EXPECT_THAT(warnings.all(), IsEmpty());
  Store writer = make_store(folder.path());
  writer.publish(sample.key, sample.bytes);
  writer.publish(bad.key, "damaged");
  { FileLock makes_its_folder = writer.lock(bad.key, std::chrono::seconds(0), nullptr); }
  set_age(writer.entry_path(sample.key), std::chrono::hours(3));
  Store store = make_store(folder.path(), &warnings, {.read_only = true}, system);
  use(store, sample, true);
  EXPECT_THAT(warnings.all(), IsEmpty());
  use(store, bad, false);
  EXPECT_THAT(warnings.all(), SizeIs(1));
  fs::create_directories(writer.entry_path(make_sample("c").key));
  EXPECT_EQ(store.find(make_sample("c").key), std::nullopt);
  EXPECT_EQ(system.changes, 0);
  EXPECT_EQ(contents(writer.entry_path(bad.key)), "damaged");
}

/// As a client of a file server may see it for a minute: what was renamed is not there yet.
class NegativeDentries : public QuickFileSystem {
 public:
  int open_at(int folder, const char* path, int flags, mode_t mode) override {
    return hides(path) ? -1 : FileSystem::open_at(folder, path, flags, mode);
  }
  int stat_at(int folder, const char* path, struct stat* status) override {
    return hides(path) ? -1 : FileSystem::stat_at(folder, path, status);
  }

 private:
  bool hides(const std::string& path) { return path.size() == 62 ? (errno = ENOENT, true) : false; }
};

TEST(Store, R06_AnEntryThatIsNotSeenAfterItsRenameIsAMiss) {
  const TemporaryFolder folder;
  NegativeDentries system;
  Warnings warnings;
  auto compiler = std::make_shared<FakeCompiler>();
  for (int process = 1; process <= 2; ++process) {
    auto cache = make_cache(folder.path(), compiler, &warnings, system);
    for (int round = 0; round < 3; ++round) {
      llvm::cantFail(cache->get_or_compile({make_source("gather"), "sm_90a"}));
    }
    EXPECT_EQ(compiler->compiles, process) << "from memory, never from the path";
  }
  EXPECT_THAT(warnings.all(), IsEmpty());
  EXPECT_THAT(entries_in(folder.path()), SizeIs(1));
}

class NoRename : public QuickFileSystem {
 public:
  int rename_at(int, const char*, const char*) override { return errno = EXDEV, -1; }
};

TEST(Store, R06_ARenameThatFailsLeavesNothing) {
  const TemporaryFolder folder;
  NoRename system;
  Warnings warnings;
  const Sample sample = make_sample("a");
  make_store(folder.path(), &warnings, {}, system).publish(sample.key, sample.bytes);
  EXPECT_THAT(warnings.all(), testing::ElementsAre(HasSubstr("cannot be renamed")));
  EXPECT_THAT(entries_in(folder.path()), IsEmpty());
}

/// A life of a store with every call in it: a link on the way, damage, a lock, prunes.
void live(const std::string& base, FileSystem& system, Warnings* warnings) {
  const Sample a = make_sample("a"), b = make_sample("b"), in_the_way = make_sample("c");
  const StoreOptions options = {
      .limits = {.bytes = 1, .interval = {}, .touch_interval = {}, .orphan_age = {}}};
  Store store = make_store(base + "/link/cache", warnings, options, system);
  llvm::consumeError(store.check());
  store.find(a.key);
  {
    const FileLock lock = store.lock(a.key, std::chrono::milliseconds(0), nullptr);
    store.publish(a.key, a.bytes);
  }
  std::error_code ignored;
  fs::create_directories(store.entry_path(in_the_way.key), ignored);
  fs::permissions(fs::path(store.entry_path(in_the_way.key)).parent_path(), fs::perms::owner_all, ignored);
  store.find(in_the_way.key);
  store.find(a.key);
  store.publish(b.key, b.bytes);  // and prunes away a and the lock file
  llvm::consumeError(store.list().takeError());
  llvm::consumeError(store.read(b.key).takeError());
  llvm::consumeError(store.prune({.orphan_age = {}}, true).takeError());
}

/// A folder with a link in it, for live().
void make_base(const std::string& base) {
  fs::create_directory(base + "/target");
  fs::create_directory_symlink("target", base + "/link");
}

TEST(Store, R06_R11_WhateverCallFailsNothingBadIsKept) {
  const MemoryFolders in_memory;
  const TemporaryFolder good;
  make_base(good.path());
  FailingFileSystem counter(-1, 0);
  Warnings none;
  live(good.path(), counter, &none);
  EXPECT_THAT(counter.kinds(), SizeIs(14)) << "a call of the seam is not in this test";
  EXPECT_THAT(none.all(), SizeIs(1)) << "the folder in an entry's place";
  const int errors[] = {ENOSPC, ENOENT, EACCES, EINTR, EROFS, EMFILE, EDQUOT, EIO, ENOLCK};
  for (int at = 0; at < counter.calls(); ++at) {
    // The short run has one of the errors for each call, the next one for the next call.
    for (int i = 0; i < (long_tests_wanted() ? 9 : 1); ++i) {
      const int error = errors[(at + i) % 9];
      SCOPED_TRACE("call " + std::to_string(at) + " fails with " + std::to_string(error));
      const TemporaryFolder folder;
      make_base(folder.path());
      FailingFileSystem failing(at, error);
      live(folder.path(), failing, nullptr);
      // Afterwards all is as good as ever.
      QuickFileSystem fine;
      Store store = make_store(folder / "target/cache", nullptr, {}, fine);
      for (const StoredEntry& entry : llvm::cantFail(store.list())) {
        EXPECT_EQ(reason_of(store.read(entry.build_key)), "");
      }
      for (const Sample& sample : {make_sample("a"), make_sample("b"), make_sample("c")}) {
        store.find(sample.key);  // clears the folder away that a failing store could not
        store.publish(sample.key, sample.bytes);
        EXPECT_NE(store.find(sample.key), std::nullopt);
        EXPECT_TRUE(store.lock(sample.key, std::chrono::milliseconds(0), nullptr).held());
      }
    }
  }
}

TEST(Store, R12_TwoFormatsShareARootAndNeitherWipesTheOther) {
  const TemporaryFolder folder;
  QuickFileSystem system;
  Warnings warnings;
  const Sample sample = make_sample("a");
  Store older = make_store(folder.path(), &warnings, {.format = 1}, system);
  Store newer = make_store(folder.path(), &warnings, {.format = 2}, system);
  newer.publish(sample.key, sample.bytes);
  EXPECT_EQ(contents(newer.entry_path(sample.key)), sample.bytes);
  EXPECT_EQ(older.find(sample.key), std::nullopt);
  older.publish(sample.key, sample.bytes);
  llvm::cantFail(newer.prune({.bytes = 0}, true));
  EXPECT_EQ(newer.find(sample.key), std::nullopt);
  EXPECT_NE(older.find(sample.key), std::nullopt);
  EXPECT_THAT(warnings.all(), IsEmpty());
}

}  // namespace
}  // namespace minuet
