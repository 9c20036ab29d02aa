// Every system call of a file that the tool writes is made to fail once: it is there whole or as it was
// before, a failure is told, and nothing else is left.
#include "tools/minuet/base/output_file.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace minuet::tool
