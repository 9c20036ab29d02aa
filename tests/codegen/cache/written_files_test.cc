// Every system call of what writes a file is made to fail once: the file is there whole or as it was before,
// a failure is told, and nothing else is left.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <set>

#include "codegen/base/trace.h"
#include "codegen/base/whole_file.h"
#include "codegen/bundle/bundle_writer.h"
#include "codegen/cache/record_file.h"
#include "codegen/source/keys.h"
#include "codegen/tuning/tuning_store.h"
#include "runtime/weights/safetensors_writer.h"
#include "tests/codegen/cache/store_fakes.h"
#include "tests/codegen/choose/examples.h"
#include "tests/support/failing_calls.h"

// Fortified headers call these functions, and declare them only when they do.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl50-cpp)
extern "C" {
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int folder, const char* path, int flags);
int __openat64_2(int folder, const char* path, int flags);
}  // NOLINTEND(bugprone-reserved-identifier,cert-dcl50-cpp)

namespace minuet {
namespace {

namespace fs = std::filesystem;

/// Where a failure leaves the file.
enum class Left {
  Old,     // as it was, with nothing beside it
  Longer,  // as it was, perhaps with a part of what was appended
};

struct Writer {
  const char* name;
  Left left;
  std::function<llvm::Error(const std::string& path)> write;
};

const std::string kBytes(100000, 'x');

llvm::Error write_example_bundle(const std::string& path) {
  FakeCompiler compiler;
  const KernelSource source = make_source("gather");
  const std::string key = key_of(source, "sm_90a");
  const Binary binary = llvm::cantFail(compiler.compile({source, "sm_90a"}, {}));
  return write_bundle(path, "sm_90a", {{key, build_key(key, "fake 1"), source.name_expression, binary}})
      .takeError();
}

std::vector<Writer> writers() {
  return {{"a whole file", Left::Old, [](auto& path) { return write_whole_file(path, kBytes); }},
          {"a bundle", Left::Old, write_example_bundle},
          {"weights", Left::Old,
           [](auto& path) {
             return write_safetensors_file(path, {{"a", {{2, 2}, {1, 2, 3, 4}}}}, {{"b", "c"}});
           }},
          {"a trace", Left::Old, [](auto& path) { return Trace().write(path); }},
          {"a record of requests", Left::Longer, [](auto& path) {
             return RecordFile(path).append({make_source("gather"), "sm_90a"});
           }}};
}

const std::string kNone = "there is none";
std::string bytes_of(const std::string& path) { return fs::exists(path) ? contents(path) : kNone; }

/// A folder with nothing in it, or with a record of another kernel, which every writer may replace or append
/// to.
struct Place {
  explicit Place(bool is_new) {
    if (!is_new) llvm::cantFail(RecordFile(path).append({make_source("scatter"), "sm_80"}));
    before = bytes_of(path);
  }
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  std::string before;
};

/// One write, of which the `at`-th call fails.
struct Attempt {
  Attempt(int at, int error, const std::function<llvm::Error()>& write) {
    const FailingCalls failing(at, error);
    failed = llvm::errorToBool(write());
    calls = failing.calls(), call = failing.failed(), lost_bytes = failing.lost_bytes();
  }
  bool failed = false, lost_bytes = false;
  int calls = 0;
  std::string call;
};

void expect_right(const Writer& writer, const Place& place, const Attempt& attempt,
                  const std::string& whole) {
  const std::string after = bytes_of(place.path);
  if (!attempt.failed) {
    EXPECT_EQ(after, whole) << "it was told to be written";
    EXPECT_FALSE(attempt.lost_bytes) << "what is lost is told";
  } else if (writer.left == Left::Old) {
    EXPECT_EQ(after, place.before);
  } else if (writer.left == Left::Longer && place.before != kNone) {
    EXPECT_EQ(after.substr(0, place.before.size()), place.before);
  }
  for (const std::string& file : files_below(place.folder.path())) EXPECT_EQ(file, place.path);
}

/// Headers of the C library call these functions by several names, and all of them come to the shim.
TEST(FailingCalls, ComeUnderEveryName) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  write_text(path, "text");
  struct stat status;
  struct stat64 status64;
  char byte = 'x';
  const struct iovec part = {&byte, 1};
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  const char* const name = path.c_str();
  const std::pair<const char*, std::function<long()>> calls[] = {
      {"open", [&] { return ::open(name, O_RDONLY | O_CLOEXEC); }},
      {"open", [&] { return ::open64(name, O_RDONLY | O_CLOEXEC); }},
      {"open", [&] { return __open_2(name, O_RDONLY | O_CLOEXEC); }},
      {"open", [&] { return __open64_2(name, O_RDONLY | O_CLOEXEC); }},
      {"openat", [&] { return ::openat(AT_FDCWD, name, O_RDONLY | O_CLOEXEC); }},
      {"openat", [&] { return ::openat64(AT_FDCWD, name, O_RDONLY | O_CLOEXEC); }},
      {"openat", [&] { return __openat_2(AT_FDCWD, name, O_RDONLY | O_CLOEXEC); }},
      {"openat", [&] { return __openat64_2(AT_FDCWD, name, O_RDONLY | O_CLOEXEC); }},
      {"write", [&] { return ::write(file, &byte, 1); }},
      {"write", [&] { return ::writev(file, &part, 1); }},
      {"fstat", [&] { return ::fstat(file, &status); }},
      {"fstat", [&] { return ::fstat64(file, &status64); }},
      {"stat", [&] { return ::stat(name, &status); }},
      {"stat", [&] { return ::stat64(name, &status64); }},
      {"fsync", [&] { return ::fsync(file); }},
      {"fsync", [&] { return ::fdatasync(file); }},
  };
  for (const auto& [call, make] : calls) {
    const FailingCalls failing(0, EINVAL);
    {
      const PausedFailures paused;
      const long result = make();
      EXPECT_GE(result, 0) << call;
      if (call[0] == 'o') ::close(static_cast<int>(result));
    }
    EXPECT_EQ(failing.calls(), 0) << call;
    EXPECT_EQ(make(), -1) << call;
    EXPECT_EQ(failing.failed(), call);
  }
  ::close(file);
}

TEST(WrittenFiles, WhateverCallFailsTheyAreWholeOrAsBefore) {
  for (const Writer& writer : writers()) {
    for (const bool is_new : {true, false}) {
      const Place good(is_new);
      const Attempt whole(-1, 0, [&] { return writer.write(good.path); });
      ASSERT_FALSE(whole.failed) << writer.name;
      ASSERT_GE(whole.calls, 3) << writer.name << ": its calls do not come through the shim";
      for (int at = 0; at < whole.calls; ++at) {
        for (const int error : {EIO, ENOSPC}) {
          const Place place(is_new);
          const Attempt attempt(at, error, [&] { return writer.write(place.path); });
          SCOPED_TRACE(std::string(writer.name) + ": call " + std::to_string(at) + ", " + attempt.call);
          expect_right(writer, place, attempt, bytes_of(good.path));
        }
      }
    }
  }
}

TEST(WrittenFiles, WhateverCallFailsAnEntryIsWholeOrNotThere) {
  const Sample sample = make_sample("gather", 5000);
  std::set<std::string> lost, left_none;
  int calls = 0;
  for (int at = -1; at < calls; ++at) {
    const TemporaryFolder folder;
    Store store = make_store(folder.path());
    const Attempt attempt(at, EIO,
                          [&] { return store.publish(sample.key, sample.bytes), llvm::Error::success(); });
    if (at < 0) calls = attempt.calls;
    if (attempt.lost_bytes) lost.insert(attempt.call);
    SCOPED_TRACE("call " + std::to_string(at) + ", " + attempt.call);
    for (const std::string& file : entries_in(folder.path())) {
      EXPECT_EQ(file, store.entry_path(sample.key));
      EXPECT_EQ(contents(file), sample.bytes);
    }
    const std::size_t entries = entries_in(folder.path()).size();
    EXPECT_LE(entries, 1u);
    EXPECT_TRUE(at >= 0 || entries == 1u) << "nothing failed";
    if (entries == 0) left_none.insert(attempt.call);
  }
  EXPECT_THAT(left_none, testing::IsSupersetOf({"openat", "write", "close", "renameat"}))
      << "an entry that one of these has failed for is not published";
  EXPECT_EQ(lost, (std::set<std::string>{"close", "write"}));
}

TEST(WrittenFiles, WhateverCallFailsATuningResultIsWholeOrNotThere) {
  int calls = 0;
  for (int at = -1; at < calls; ++at) {
    const TemporaryFolder folder;
    const Attempt attempt(at, EIO, [&] { return store_in(folder.path()).publish(example_entry()); });
    if (at < 0) calls = attempt.calls;
    SCOPED_TRACE("call " + std::to_string(at) + ", " + attempt.call);
    EXPECT_TRUE(attempt.failed || !attempt.lost_bytes);
    llvm::Expected<TuningFolder> seen = store_in(folder.path()).load(environment_hash(example_environment()));
    ASSERT_TRUE(bool(seen)) << llvm::toString(seen.takeError());
    EXPECT_EQ(seen->entries.size(), attempt.failed ? 0u : 1u);
    EXPECT_TRUE(seen->skipped.empty());
  }
  EXPECT_GT(calls, 10);
}

}  // namespace
}  // namespace minuet
