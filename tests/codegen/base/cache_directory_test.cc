#include "codegen/base/cache_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "tests/codegen/fakes.h"

namespace minuet {
namespace {

using testing::HasSubstr;

std::string choose(const std::string& explicit_directory, std::map<std::string, std::string> variables) {
  llvm::Expected<std::string> chosen =
      choose_cache_directory(explicit_directory, make_environment(std::move(variables)));
  return chosen ? *chosen : "error: " + llvm::toString(chosen.takeError());
}

TEST(CacheDirectory, R10_OrderOfTheChoices) {
  const TemporaryFolder home;
  const std::map<std::string, std::string> all = {
      {"MINUET_CACHE_DIR", "/m"}, {"XDG_CACHE_HOME", "/x"}, {"HOME", home.path()}};
  EXPECT_EQ(choose("/explicit", all), "/explicit");
  EXPECT_EQ(choose("", all), "/m");
  EXPECT_EQ(choose("", {{"XDG_CACHE_HOME", "/x"}, {"HOME", home.path()}}), "/x/minuet");
  EXPECT_EQ(choose("", {{"HOME", home.path()}}), home / ".cache/minuet");
  EXPECT_EQ(choose("", {{"HOME", home.path() + "/"}}), home / ".cache/minuet");
  EXPECT_EQ(choose("", {{"HOME", "/"}}), "/.cache/minuet");
}

TEST(CacheDirectory, R10_AHomeThatIsNotThereIsNotMade) {
  const TemporaryFolder folder;
  write_text(folder / "file", "");
  for (const std::string& home : {folder / "none", folder / "file"}) {
    EXPECT_THAT(choose("", {{"HOME", home}}), HasSubstr("error: HOME puts the cache folder below " + home));
    EXPECT_THAT(choose("", {{"XDG_CACHE_HOME", home + "/cache"}, {"HOME", "/"}}),
                HasSubstr("error: XDG_CACHE_HOME puts the cache folder below " + home));
  }
  EXPECT_EQ(choose("", {{"XDG_CACHE_HOME", folder / "cache"}}), folder / "cache/minuet") << "it may be made";
  EXPECT_EQ(choose(folder / "none/at/all", {}), folder / "none/at/all") << "asked for by name";
}

TEST(CacheDirectory, R10_UnsetEmptyAndRelativeAreRefused) {
  EXPECT_THAT(choose("", {}), HasSubstr("error: none of"));
  EXPECT_THAT(choose("", {{"HOME", ""}}), HasSubstr("error: none of"));
  EXPECT_THAT(choose("", {{"HOME", "home/me"}}), HasSubstr("error: HOME is 'home/me'"));
  EXPECT_THAT(choose("", {{"XDG_CACHE_HOME", "cache"}, {"HOME", "/h"}}), HasSubstr("error: XDG_CACHE_HOME"));
  EXPECT_THAT(choose("", {{"MINUET_CACHE_DIR", "."}}), HasSubstr("error: MINUET_CACHE_DIR"));
  EXPECT_THAT(choose("/a/../b", {}), HasSubstr("error: the given directory"));
}

std::string open(const std::string& directory, TrustPolicy policy = {::geteuid(), false}) {
  llvm::Expected<FileHandle> folder = open_cache_directory(directory, policy, real_file_system());
  return folder ? "" : llvm::toString(folder.takeError());
}

mode_t mode_of(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

TEST(CacheDirectory, R10_IsMadeForThisUserAlone) {
  const TemporaryFolder folder;
  EXPECT_EQ(open(folder / "a/b/c"), "");
  EXPECT_EQ(mode_of(folder / "a"), 0700u);
  EXPECT_EQ(mode_of(folder / "a/b/c"), 0700u);
}

TEST(CacheDirectory, R10_OneThatOthersMayWriteToIsRefused) {
  const TemporaryFolder folder;
  for (const mode_t mode : {0777u, 0770u, 0702u}) {
    ASSERT_EQ(::chmod(folder.path().c_str(), mode), 0);
    EXPECT_THAT(open(folder.path()), HasSubstr("others could put kernels there")) << mode;
    EXPECT_EQ(open(folder.path(), {::geteuid(), true}), "") << "MINUET_CACHE_SHARED=1";
  }
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  EXPECT_EQ(open(folder.path()), "");
}

TEST(CacheDirectory, R10_SomebodyElsesIsRefused) {
  const TemporaryFolder folder;
  struct stat status = {};
  status.st_uid = ::geteuid() + 1000;
  status.st_mode = S_IFDIR | 0700;
  EXPECT_FALSE((TrustPolicy{::geteuid(), false}.trusts(status)));
  status.st_uid = 0;
  EXPECT_TRUE((TrustPolicy{1000, false}.trusts(status))) << "root's is trusted";
  if (::geteuid() != 0) GTEST_SKIP() << "giving a folder away needs root";
  ASSERT_EQ(::chown(folder.path().c_str(), 12345, 12345), 0);
  EXPECT_THAT(open(folder.path()), HasSubstr("belongs to user 12345"));
}

TEST(CacheDirectory, R10_ALinkInAStickyFolderIsRefused) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "target");
  std::filesystem::create_directory(folder / "shared");
  std::filesystem::create_directory_symlink(folder / "target", folder / "shared/cache");
  ASSERT_EQ(::chmod((folder / "shared").c_str(), 01777), 0);
  EXPECT_THAT(open(folder / "shared/cache"), HasSubstr("is a link"));
  EXPECT_THAT(open(folder / "shared/cache/below"), HasSubstr("is a link"));
  EXPECT_THAT(open(folder / "shared/cache", {::geteuid(), true}), HasSubstr("is a link"))
      << "a folder that is shared on purpose is another matter than a link that anybody made";
  ASSERT_EQ(::chmod((folder / "shared").c_str(), 0755), 0);
  EXPECT_EQ(open(folder / "shared/cache"), "") << "a link of one's own is one's own business";
}

TEST(CacheDirectory, R10_ALinkWhereOthersMayWriteIsRefused) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "target");
  std::filesystem::create_directory(folder / "open");
  std::filesystem::create_directory_symlink("../target", folder / "open/cache");
  // A link of one's own that leads through that folder is no better.
  std::filesystem::create_directory_symlink(folder / "open/cache", folder / "mine");
  for (const mode_t mode : {0777u, 0775u}) {
    ASSERT_EQ(::chmod((folder / "open").c_str(), mode), 0);
    EXPECT_THAT(open(folder / "open/cache"), HasSubstr("is a link"));
    EXPECT_THAT(open(folder / "mine/below"), HasSubstr("is a link"));
  }
  ASSERT_EQ(::chmod((folder / "open").c_str(), 0755), 0);
  EXPECT_EQ(open(folder / "mine/below"), "");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "target/below"));
  if (::geteuid() != 0) GTEST_SKIP() << "giving a folder away needs root";
  ASSERT_EQ(::chown((folder / "open").c_str(), 12345, 12345), 0);
  EXPECT_THAT(open(folder / "mine/below"), HasSubstr("is a link"));
}

TEST(CacheDirectory, R10_LinksInACircleOrToNothing) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("b", folder / "a");
  std::filesystem::create_symlink("a", folder / "b");
  EXPECT_THAT(open(folder / "a"), HasSubstr("symbolic links"));
  std::filesystem::create_symlink("unmounted/cache", folder / "link");
  EXPECT_THAT(open(folder / "link/minuet"), HasSubstr("unmounted does not exist"));
  EXPECT_FALSE(std::filesystem::exists(folder / "unmounted"));
}

/// Puts a link in a folder's place just when the walk has come to it.
class Swapper : public FileSystem {
 public:
  int open_at(int folder, const char* path, int flags, mode_t mode) override {
    if (std::string(path) == at && swap) std::exchange(swap, nullptr)();
    return FileSystem::open_at(folder, path, flags, mode);
  }
  std::string at;
  std::function<void()> swap;
};

TEST(CacheDirectory, R10_NothingIsSwappedBetweenCheckAndUse) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "tmp/mine");
  std::filesystem::create_directory(folder / "trap");
  ASSERT_EQ(::chmod((folder / "tmp").c_str(), 01777), 0);
  for (const char* const at : {"below", "mine"}) {
    Swapper system;
    system.at = at;
    system.swap = [&] {
      std::filesystem::rename(folder / "tmp/mine", folder / ("tmp/mine-before-" + system.at));
      std::filesystem::create_directory_symlink(folder / "trap", folder / "tmp/mine");
    };
    llvm::Expected<FileHandle> opened =
        open_cache_directory(folder / "tmp/mine/below", {::geteuid(), false}, system);
    // Past it already: it goes on in the folder it saw. Else the link is seen.
    EXPECT_EQ(static_cast<bool>(opened), system.at == "below");
    llvm::consumeError(opened.takeError());
    EXPECT_TRUE(std::filesystem::is_empty(folder / "trap"));
    std::filesystem::remove(folder / "tmp/mine");
    std::filesystem::create_directory(folder / "tmp/mine");
  }
  EXPECT_TRUE(std::filesystem::is_directory(folder / "tmp/mine-before-below/below"));
}

TEST(CacheDirectory, R10_NothingIsMadeWhereThatIsNotAsked) {
  const TemporaryFolder folder;
  llvm::Expected<FileHandle> opened =
      open_cache_directory(folder / "none/below", {::geteuid(), false}, real_file_system(), Missing::Fail);
  EXPECT_EQ(take_status(opened.takeError()).code(), StatusCode::NotFound);
  EXPECT_FALSE(std::filesystem::exists(folder / "none"));
}

TEST(CacheDirectory, R10_AFolderOnTheWayNeedNotBeReadable) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every folder";
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "way");
  ASSERT_EQ(::chmod((folder / "way").c_str(), 0311), 0);
  EXPECT_EQ(open(folder / "way/cache"), "");
  ASSERT_EQ(::chmod((folder / "way").c_str(), 0711), 0);
}

TEST(CacheDirectory, R10_AFileInItsPlaceIsRefused) {
  const TemporaryFolder folder;
  write_text(folder / "file", "");
  EXPECT_NE(open(folder / "file"), "");
  EXPECT_NE(open(folder / "file/below"), "");
}

}  // namespace
}  // namespace minuet
