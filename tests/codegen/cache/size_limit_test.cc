// The limits of a cache folder, when it is opened and when the one who published to it is done.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "codegen/cache/size_record.h"
#include "tests/codegen/cache/layered_cache.h"

namespace minuet {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Ge;
using testing::Le;
using testing::SizeIs;

constexpr std::uint64_t kLimit = 20000;

/// About 1 KB on disk.
KernelSource kernel(int number) {
  std::minstd_rand random(static_cast<unsigned>(number) + 1);
  std::string text;
  while (text.size() < 1000) text += static_cast<char>('!' + random() % 90);
  return make_source("kernel" + std::to_string(number), text);
}

std::unique_ptr<KernelCache> open_limited(const std::string& folder, std::uint64_t most_bytes,
                                          FileSystem& system = real_file_system(), bool no_jit = false) {
  CacheOptions options = in_folder(folder);
  options.most_bytes = most_bytes;
  options.no_jit = no_jit;
  return llvm::cantFail(KernelCache::create(std::move(options), std::make_shared<FakeCompiler>(),
                                            make_environment({}), system));
}

void compile(KernelCache& cache, int first, int end) {
  for (int i = first; i < end; ++i) llvm::cantFail(cache.get_or_compile({kernel(i), "sm_90a"}));
}

std::uint64_t bytes_in(const std::string& folder) {
  std::uint64_t bytes = 0;
  for (const std::string& file : entries_in(folder)) bytes += fs::file_size(file);
  return bytes;
}

StoreRoot root_of(const std::string& folder, FileSystem& system = real_file_system()) {
  return {folder, own_policy(), system, "v" + std::to_string(kEntryFormat)};
}

/// Counts how often a folder's names are read, which only a look at the entries needs.
class CountingFileSystem : public FileSystem {
 public:
  int list(int folder, std::vector<std::string>* names) override {
    ++lists;
    if (before_list) std::exchange(before_list, nullptr)();
    return FileSystem::list(folder, names);
  }
  int lists = 0;
  std::function<void()> before_list;
};

TEST(SizeLimit, IsKeptWhenTheOneWhoPublishedEnds) {
  const TemporaryFolder folder;
  auto cache = open_limited(folder.path(), kLimit);
  compile(*cache, 0, 40);
  EXPECT_THAT(entries_in(folder.path()), SizeIs(40)) << "the first publish starts the 20 minutes";
  cache.reset();
  EXPECT_THAT(bytes_in(folder.path()), AllOf(Le(kLimit), Ge(kLimit * 8 / 10)));
}

TEST(SizeLimit, WhatWasPublishedLastStays) {
  const TemporaryFolder folder;
  auto cache = open_limited(folder.path(), 1);
  compile(*cache, 0, 5);
  cache.reset();
  EXPECT_THAT(entries_in(folder.path()), SizeIs(1));
}

TEST(SizeLimit, IsKeptWhenAFolderIsOpened) {
  const TemporaryFolder folder;
  compile(*open_limited(folder.path(), 0), 0, 40);
  ASSERT_THAT(entries_in(folder.path()), SizeIs(40));
  const auto cache = open_limited(folder.path(), kLimit);
  EXPECT_THAT(bytes_in(folder.path()), AllOf(Le(kLimit), Ge(kLimit * 8 / 10)));
}

/// Each alone is within the limit, and the first one ends before the second publishes.
TEST(SizeLimit, CountsWhatOthersPublish) {
  const TemporaryFolder folder;
  compile(*open_limited(folder.path(), kLimit), 0, 5);
  auto first = open_limited(folder.path(), kLimit), second = open_limited(folder.path(), kLimit);
  compile(*first, 5, 10);
  first.reset();
  ASSERT_THAT(entries_in(folder.path()), SizeIs(10));
  compile(*second, 10, 20);
  ASSERT_GT(bytes_in(folder.path()), kLimit);
  second.reset();
  EXPECT_LE(bytes_in(folder.path()), kLimit);
}

TEST(SizeLimit, WithinItNoEntryIsLookedAt) {
  const TemporaryFolder folder;
  compile(*open_limited(folder.path(), 0), 0, 20);
  CountingFileSystem system;
  auto cache = open_limited(folder.path(), 0, system);
  EXPECT_EQ(system.lists, 0);
  compile(*cache, 20, 22);
  cache.reset();
  EXPECT_EQ(system.lists, 0) << "and the record was there at the end too";
  const std::optional<StoreSize> size = read_size(root_of(folder.path()));
  ASSERT_TRUE(size.has_value());
  EXPECT_EQ(size->bytes, bytes_in(folder.path()));
  EXPECT_EQ(size->entries, 22u);
}

/// The record may be missing or damaged: an older version made the folder, a process was killed, or the disk
/// was full.
TEST(SizeLimit, WithoutAGoodRecordTheEntriesAreLookedAtOnce) {
  const TemporaryFolder folder;
  compile(*open_limited(folder.path(), 0), 0, 20);
  const std::string record = folder / ("v" + std::to_string(kEntryFormat) + "/size");
  for (const std::optional<std::string>& text : std::vector<std::optional<std::string>>{
           std::nullopt, "", "add 100\n", "total 1 1\nad", "total 1\n", "total 1 1 1\n",
           "add 1 1\ntotal 1 1\n", "total -1 1\n", "\n", std::string(2 << 20, 'a')}) {
    fs::remove(record);
    if (text) write_text(record, *text);
    if (text) fs::permissions(record, fs::perms::owner_read | fs::perms::owner_write);
    SCOPED_TRACE(text ? text->substr(0, 20) : "no record");
    CountingFileSystem system;
    open_limited(folder.path(), 0, system);
    EXPECT_GT(system.lists, 0);
    system.lists = 0;
    open_limited(folder.path(), 0, system);
    EXPECT_EQ(system.lists, 0);
    EXPECT_EQ(read_size(root_of(folder.path()))->bytes, bytes_in(folder.path()));
  }
}

/// A prune begins the record anew before it looks.
TEST(SizeLimit, WhatIsPublishedDuringAPruneIsCounted) {
  const TemporaryFolder folder;
  compile(*open_limited(folder.path(), 0), 0, 5);
  CountingFileSystem system;
  system.before_list = [&] { compile(*open_limited(folder.path(), 0), 5, 10); };
  Store store(folder.path(), own_policy(), system, [](const std::string&) {});
  ASSERT_TRUE(llvm::cantFail(store.prune({}, /*force=*/true)).ran);
  ASSERT_THAT(entries_in(folder.path()), SizeIs(10));
  EXPECT_GE(read_size(root_of(folder.path()))->bytes, bytes_in(folder.path()));
}

TEST(SizeLimit, WhoMayNotChangeTheFolderRemovesNothing) {
  const TemporaryFolder folder;
  compile(*open_limited(folder.path(), 0), 0, 40);
  open_limited(folder.path(), kLimit, real_file_system(), /*no_jit=*/true);
  EXPECT_THAT(entries_in(folder.path()), SizeIs(40));
}

/// Commands that only look at a folder open it so. This one is past its limit and has no record of its size.
TEST(SizeLimit, WithoutALimitNothingIsRemovedOrLookedAt) {
  const TemporaryFolder folder;
  compile(*open_limited(folder.path(), 0), 0, 40);
  const std::string version = folder / ("v" + std::to_string(kEntryFormat));
  fs::remove(version + "/size");
  for (const std::string& file : entries_in(folder.path())) set_age(file, std::chrono::hours(300));
  set_age(version + "/pruned", std::chrono::hours(300));
  CountingFileSystem system;
  auto cache = open_limited(folder.path(), kNoByteLimit, system);
  EXPECT_EQ(system.lists, 0);
  cache.reset();
  EXPECT_EQ(system.lists, 0);
  EXPECT_THAT(entries_in(folder.path()), SizeIs(40));
  EXPECT_FALSE(fs::exists(version + "/size"));
}

TEST(SizeLimit, AChildOfAForkHasPublishedNothing) {
  const TemporaryFolder folder;
  auto cache = open_limited(folder.path(), kLimit);
  compile(*cache, 0, 40);
  EXPECT_EQ(in_child([&] { return cache.reset(), std::string(); }), "");
  EXPECT_THAT(entries_in(folder.path()), SizeIs(40));
}

TEST(SizeLimit, ARecordIsSummedUp) {
  const auto sum = [](const char* text) {
    const std::optional<StoreSize> size = sum_of_record(text);
    return size ? std::to_string(size->bytes) + " in " + std::to_string(size->entries) : "unknown";
  };
  EXPECT_EQ(sum("total 0 0\n"), "0 in 0");
  EXPECT_EQ(sum("total 1000 3\nadd 20\nadd 300\n"), "1320 in 5");
  EXPECT_EQ(sum("add 20\nadd 300\ntotal 1000 3\nadd 1\n"), "1321 in 6")
      << "what came during the prune counts";
  EXPECT_EQ(sum("total 18446744073709551615 1\nadd 2\n"), "18446744073709551615 in 2");
  for (const char* text : {"", "add 20\n", "total x 1\n", "total 1 x\n", "total 1 1\nadd\n",
                           "total 1 1\nadd 1 1\n", "Total 1 1\n", "total 1 1\n\n"}) {
    EXPECT_EQ(sum(text), "unknown") << text;
  }
}

}  // namespace
}  // namespace minuet
