#include "codegen/cache/cache_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

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
  const std::map<std::string, std::string> all = {
      {"MINUET_CACHE_DIR", "/m"}, {"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}};
  EXPECT_EQ(choose("/explicit", all), "/explicit");
  EXPECT_EQ(choose("", all), "/m");
  EXPECT_EQ(choose("", {{"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}}), "/x/minuet");
  EXPECT_EQ(choose("", {{"HOME", "/h"}}), "/h/.cache/minuet");
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
  ASSERT_EQ(::chmod((folder / "shared").c_str(), 0755), 0);
  EXPECT_EQ(open(folder / "shared/cache"), "") << "a link of one's own is one's own business";
}

TEST(CacheDirectory, R10_AFileInItsPlaceIsRefused) {
  const TemporaryFolder folder;
  write_text(folder / "file", "");
  EXPECT_NE(open(folder / "file"), "");
  EXPECT_NE(open(folder / "file/below"), "");
}

}  // namespace
}  // namespace minuet
