// Files that the tool writes. Every system call is made to fail once: the file is there whole or as it was
// before, a failure is told, and nothing else is left.
#include "tools/minuet/base/output_file.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>

#include "tests/support/failing_calls.h"
#include "tests/tools/folder.h"

namespace minuet::tool {
namespace {

const std::string kWhole(100000, 'x');

/// As a library that writes by itself does.
llvm::Error write_by_path(const std::string& path) {
  MINUET_ASSIGN(OutputFile file, OutputFile::open(path));
  {
    const PausedFailures library_writes;
    std::ofstream(file.temporary_path()) << kWhole;
  }
  return file.keep();
}

TEST(OutputFile, WhateverCallFailsItIsWholeOrAsBefore) {
  const std::pair<const char*, std::function<llvm::Error(const std::string&)>> writers[] = {
      {"bytes", [](const std::string& path) { return write_file(path, kWhole); }}, {"a path", write_by_path}};
  for (const auto& [name, write] : writers) {
    for (const bool is_new : {true, false}) {
      int calls = 0;
      for (int at = -1; at < calls; ++at) {
        for (const int error : {EIO, ENOSPC}) {
          const Folder folder;
          const std::string path = is_new ? folder.path("file") : folder.file("file", "before");
          bool failed = false, lost_bytes = false;
          std::string call;
          {
            const FailingCalls failing(at, error);
            failed = llvm::errorToBool(write(path));
            call = failing.failed(), lost_bytes = failing.lost_bytes();
            if (at < 0) calls = failing.calls();
          }
          SCOPED_TRACE(std::string(name) + ": call " + std::to_string(at) + ", " + call);
          const bool is_there = std::filesystem::exists(path);
          EXPECT_EQ(is_there, !failed || !is_new);
          if (is_there) {
            EXPECT_EQ(contents(path), failed ? "before" : kWhole);
          }
          EXPECT_TRUE(failed || !lost_bytes) << "what is lost is told";
          for (const auto& entry : std::filesystem::directory_iterator(folder.path("")))
            EXPECT_EQ(entry.path().filename(), "file");
        }
      }
      EXPECT_GT(calls, 5) << "its calls do not come through the shim";
    }
  }
}

/// EINVAL of fsync says that there is no such thing here, and not that bytes were lost.
TEST(OutputFile, AFileSystemThatCannotSyncIsNoFailure) {
  for (const int error : {EINVAL, EIO}) {
    int fsync_at = -1;
    for (int at = 0; fsync_at < 0 && at < 100; ++at) {
      const Folder folder;
      const FailingCalls failing(at, error);
      llvm::consumeError(write_file(folder.path("file"), "whole"));
      if (failing.failed() == "fsync") fsync_at = at;
    }
    ASSERT_GE(fsync_at, 0);
    const Folder folder;
    const FailingCalls failing(fsync_at, error);
    EXPECT_EQ(llvm::errorToBool(write_file(folder.path("file"), "whole")), error == EIO);
  }
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(OutputFiles, AreWholeOrNotThere) {
  const Folder folder;
  const std::string path = folder.file("100% a.npy", "before");
  {
    llvm::Expected<OutputFile> file = OutputFile::open(path);
    ASSERT_TRUE(!!file) << llvm::toString(file.takeError());
    EXPECT_EQ(contents(path), "before");
    EXPECT_EQ(names_in(folder.path("")).size(), 2u);
  }
  EXPECT_EQ(contents(path), "before");
  EXPECT_EQ(names_in(folder.path("")), (std::vector<std::string>{"100% a.npy"}));
  std::filesystem::permissions(path,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  ASSERT_EQ(llvm::toString(write_file(path, "after")), "");
  EXPECT_EQ(contents(path), "after");
  EXPECT_EQ(std::filesystem::status(path).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(names_in(folder.path("")), (std::vector<std::string>{"100% a.npy"}));

  std::filesystem::create_symlink("100% a.npy", folder.path("link"));
  ASSERT_EQ(llvm::toString(write_file(folder.path("link"), "through the link")), "");
  EXPECT_EQ(contents(path), "through the link");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path("link")));
  ASSERT_EQ(llvm::toString(write_file("/dev/null", "gone")), "");
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(OutputFiles, KeepTheirModeWhoeverWritesThem) {
  const Folder folder;
  const std::filesystem::path path = folder.file("a", "before");
  for (const unsigned mode : {0600u, 0664u}) {
    std::filesystem::permissions(path, static_cast<std::filesystem::perms>(mode));
    llvm::Expected<OutputFile> file = OutputFile::open(path.string());
    ASSERT_TRUE(!!file) << llvm::toString(file.takeError());
    std::filesystem::remove(file->temporary_path());
    std::ofstream(file->temporary_path()) << "after";
    std::filesystem::permissions(file->temporary_path(), std::filesystem::perms::owner_all);
    ASSERT_EQ(llvm::toString(file->keep()), "");
    EXPECT_EQ(contents(path), "after");
    EXPECT_EQ(std::filesystem::status(path).permissions(), static_cast<std::filesystem::perms>(mode));
  }
}

TEST(OutputFiles, WhatAKilledProcessLeftIsInNobodysWay) {
  const Folder folder;
  const std::string left = ".minuet-" + std::to_string(::getpid()) + "-0.part";
  folder.file(left, "half");
  const std::string path = folder.path(std::string(250, 'n'));  // no longer name would be legal with a suffix
  ASSERT_EQ(llvm::toString(write_file(path, "whole")), "");
  EXPECT_EQ(contents(path), "whole");
  EXPECT_EQ(contents(folder.path(left)), "half");
  std::filesystem::create_symlink("nowhere", folder.path("link"));
  EXPECT_THAT(error_of(OutputFile::open(folder.path("link"))),
              testing::HasSubstr("a link to a file that does not exist"));
}

TEST(OutputFiles, WhatCannotBeWrittenIsSaidAtOnce) {
  const Folder folder;
  EXPECT_THAT(error_of(OutputFile::open("/nowhere/at/all.npy")),
              testing::HasSubstr("no folder '/nowhere/at'"));
  EXPECT_THAT(error_of(OutputFile::open(folder.path(""))), testing::HasSubstr("it is a folder"));
  EXPECT_THAT(error_of(OutputFile::open("/dev/full/x")), testing::HasSubstr("no folder"));
  llvm::Error full = write_file("/dev/full", "x");
  EXPECT_EQ(llvm::errorToErrorCode(std::move(full)), std::make_error_code(std::errc::io_error));
}

TEST(OutputFiles, NoneIsAnotherOrAnInput) {
  const Folder folder;
  const std::string input = folder.file("in.bin", "x");
  std::filesystem::create_hard_link(input, folder.path("hard.bin"));
  std::filesystem::create_symlink("in.bin", folder.path("soft.bin"));
  const auto check = [&](const std::string& first, const std::string& second) {
    return llvm::toString(
        check_distinct({{"--a", first}, {"--b", second}}, {{"the cloud", input}, {"--none", ""}}));
  };
  EXPECT_EQ(check(folder.path("a"), folder.path("b")), "");
  EXPECT_EQ(check("-", "-"), "");
  EXPECT_EQ(check("/dev/null", "/dev/null"), "");
  EXPECT_THAT(check(folder.path("a"), folder.path("./a")),
              testing::HasSubstr("--a and --b are the same file"));
  for (const char* name : {"in.bin", "hard.bin", "soft.bin", "./in.bin"}) {
    EXPECT_THAT(check(folder.path("a"), folder.path(name)), testing::HasSubstr("would overwrite the cloud"))
        << name;
  }
}

}  // namespace
}  // namespace minuet::tool
