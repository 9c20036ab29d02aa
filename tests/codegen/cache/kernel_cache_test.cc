#include "codegen/cache/kernel_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <set>

#include "codegen/compile/entry.h"
#include "codegen/compile/protocol.h"
#include "tests/codegen/cache/store_fakes.h"
#include "tests/support/expect.h"

namespace minuet {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// The kernel as a user sees it: its bytes, or the error's text.
std::string ask(KernelCache& cache, const KernelSource& source, const char* arch = "sm_90a") {
  llvm::Expected<std::shared_ptr<const Binary>> binary = cache.get_or_compile({source, arch});
  return binary ? (*binary)->cubin : "error: " + llvm::toString(binary.takeError());
}

/// What a compile of `source` gives, without any cache.
std::string expected(const KernelSource& source, const char* arch = "sm_90a") {
  FakeCompiler compiler;
  const std::string key = key_of(source, arch);
  return llvm::cantFail(compiler.compile({source, arch}, {})).cubin;
}

TEST(KernelCache, MemoryThenDiskThenCompile) {
  const TemporaryFolder folder;
  auto compiler = std::make_shared<FakeCompiler>();
  const KernelSource source = make_source("gather");
  auto cache = make_cache(folder.path(), compiler);
  EXPECT_EQ(ask(*cache, source), expected(source));
  EXPECT_EQ(ask(*cache, source), expected(source));
  EXPECT_EQ(compiler->compiles, 1);
  EXPECT_EQ(cache->stats().memory_hits, 1);
  auto other = make_cache(folder.path(), compiler);
  EXPECT_EQ(ask(*other, source), expected(source));
  EXPECT_EQ(compiler->compiles, 1);
  EXPECT_EQ(other->stats().disk_hits, 1);
  EXPECT_EQ(other->stats().compiled, 0);
  ASSERT_THAT(other->events(), SizeIs(1));
  EXPECT_EQ(other->events()[0].display_name, "gather");
  EXPECT_EQ(other->events()[0].origin, BinaryOrigin::Disk);
}

TEST(KernelCache, R02_AnotherCompilerIsAMissAndTheSameAnywhereIsAHit) {
  const TemporaryFolder folder;
  const KernelSource source = make_source("gather");
  auto first = std::make_shared<FakeCompiler>();
  ask(*make_cache(folder.path(), first), source);
  auto patched = std::make_shared<FakeCompiler>();
  patched->id_ = "fake 2";
  ask(*make_cache(folder.path(), patched), source);
  EXPECT_EQ(patched->compiles, 1);
  auto same = std::make_shared<FakeCompiler>();
  ask(*make_cache(folder.path(), same), source);
  EXPECT_EQ(same->compiles, 0);
}

TEST(KernelCache, R05_OneFileAnEntryAndNothingElse) {
  const TemporaryFolder folder;
  auto cache = make_cache(folder.path(), std::make_shared<FakeCompiler>());
  for (const char* name : {"a", "b", "c"}) ask(*cache, make_source(name));
  const std::vector<std::string> files = entries_in(folder.path());
  ASSERT_THAT(files, SizeIs(3));
  const std::vector<std::string> all = files_below(folder.path());
  std::set<std::string> others(all.begin(), all.end());
  for (const std::string& file : files) {
    const std::string name = file.substr(folder.path().size());
    EXPECT_THAT(name, testing::MatchesRegex("/v1/obj/[0-9a-f][0-9a-f]/[0-9a-f]+"));
    const Entry entry = llvm::cantFail(read_entry(contents(file)));
    EXPECT_EQ(name.substr(8, 2) + name.substr(11), entry.build_key);
    struct stat status = {};
    ASSERT_EQ(::stat(file.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    // Beside them what takes no room: who builds which kernel, by which compiler, when the store was pruned.
    const std::string lock = folder / ("v1/lock/" + name.substr(8, 2) + name.substr(11));
    EXPECT_EQ(others.erase(lock), 1u) << lock;
    EXPECT_EQ(std::filesystem::file_size(lock), 0u);
    EXPECT_EQ(others.erase(file), 1u);
  }
  EXPECT_THAT(others, testing::ElementsAre(folder / "v1/compilers/fake 1", folder / "v1/pruned"));
}

/// Spoils the one entry of a cache, then asks again: the right kernel, a warning, a fresh entry.
void expect_recovery(const std::function<void(const std::string& file)>& spoil, const std::string& how) {
  SCOPED_TRACE(how);
  const TemporaryFolder folder;
  const KernelSource source = make_source("gather");
  ask(*make_cache(folder.path(), std::make_shared<FakeCompiler>()), source);
  const std::vector<std::string> files = entries_in(folder.path());
  ASSERT_THAT(files, SizeIs(1));
  spoil(files[0]);
  auto compiler = std::make_shared<FakeCompiler>();
  Warnings warnings;
  EXPECT_EQ(ask(*make_cache(folder.path(), compiler, &warnings), source), expected(source));
  EXPECT_EQ(compiler->compiles, 1);
  EXPECT_THAT(warnings.all(), SizeIs(1));
  auto after = std::make_shared<FakeCompiler>();
  EXPECT_EQ(ask(*make_cache(folder.path(), after), source), expected(source));
  EXPECT_EQ(after->compiles, 0) << "a good entry is there again";
}

TEST(KernelCache, R07_TruncatedAndFlippedEntries) {
  const MemoryFolders in_memory;
  for (int percent = 0; percent < 100; ++percent) {
    expect_recovery(
        [percent](const std::string& file) {
          const std::string text = contents(file);
          write_text(file, text.substr(0, text.size() * static_cast<std::size_t>(percent) / 100));
        },
        "truncated to " + std::to_string(percent) + " %");
  }
  for (std::size_t at = 0; at < 600; at += 97) {
    expect_recovery(
        [at](const std::string& file) {
          std::string text = contents(file);
          text[at] = static_cast<char>(text[at] ^ 0x40);
          write_text(file, text);
        },
        "byte " + std::to_string(at));
  }
}

TEST(KernelCache, R07_WhatIsNoFileOfOurs) {
  namespace fs = std::filesystem;
  expect_recovery([](const std::string& file) { fs::remove(file), fs::create_directory(file); },
                  "a directory");
  expect_recovery([](const std::string& file) { fs::remove(file), fs::create_directories(file + "/below"); },
                  "a full directory");
  expect_recovery([](const std::string& file) { fs::remove(file), ::mkfifo(file.c_str(), 0600); }, "a fifo");
  expect_recovery(
      [](const std::string& file) {
        fs::rename(file, file + "-good");
        fs::create_symlink(file + "-good", file);
      },
      "a link to a good entry");
  expect_recovery([](const std::string& file) { ::chmod(file.c_str(), 0666); }, "one that others may write");
  if (::geteuid() == 0) {
    expect_recovery([](const std::string& file) { EXPECT_EQ(::chown(file.c_str(), 12345, 12345), 0); },
                    "a planted one");
  }
}

TEST(KernelCache, R07_SwappedEntriesAreMisses) {
  const TemporaryFolder folder;
  auto cache = make_cache(folder.path(), std::make_shared<FakeCompiler>());
  const KernelSource a = make_source("a"), b = make_source("b");
  ask(*cache, a), ask(*cache, b);
  const std::vector<std::string> files = entries_in(folder.path());
  ASSERT_THAT(files, SizeIs(2));
  std::filesystem::rename(files[0], files[0] + "-");
  std::filesystem::rename(files[1], files[0]);
  std::filesystem::rename(files[0] + "-", files[1]);
  auto compiler = std::make_shared<FakeCompiler>();
  auto other = make_cache(folder.path(), compiler);
  EXPECT_EQ(ask(*other, a), expected(a));
  EXPECT_EQ(ask(*other, b), expected(b));
  EXPECT_EQ(compiler->compiles, 2);
}

TEST(KernelCache, R08_AFailureIsReplayedAndNeverPublished) {
  const TemporaryFolder folder;
  auto compiler = std::make_shared<FakeCompiler>();
  compiler->before = [](const KernelSource&) {
    return llvm::make_error<StatusError>(StatusCode::Internal, "does not compile", "the log");
  };
  auto cache = make_cache(folder.path(), compiler);
  const KernelSource source = make_source("gather");
  for (int round = 0; round < 2; ++round) {
    const StatusError status = take_status(cache->get_or_compile({source, "sm_90a"}).takeError());
    EXPECT_EQ(status.code(), StatusCode::Internal);
    EXPECT_EQ(status.message(), "does not compile");
    EXPECT_EQ(status.detail(), "the log");
  }
  EXPECT_EQ(compiler->compiles, 1);
  EXPECT_THAT(entries_in(folder.path()), IsEmpty());
  EXPECT_THAT(ask(*cache, make_source("gather", "another text")), HasSubstr("error"));
  EXPECT_EQ(compiler->compiles, 2) << "a changed source is another request";
  auto repaired = std::make_shared<FakeCompiler>();
  EXPECT_EQ(ask(*make_cache(folder.path(), repaired), source), expected(source))
      << "as another process would";
}

TEST(KernelCache, R08_AFailureThatMayPassIsTriedAgain) {
  auto compiler = std::make_shared<FakeCompiler>();
  compiler->before = [&compiler](const KernelSource&) -> llvm::Error {
    if (compiler->compiles > 1) return llvm::Error::success();
    return make_error(StatusCode::ResourceExhausted, "out of memory");
  };
  auto cache = make_cache("", compiler);
  EXPECT_EQ(ask(*cache, make_source("gather")), "error: out of memory");
  EXPECT_EQ(ask(*cache, make_source("gather")), expected(make_source("gather")));
}

TEST(KernelCache, R10_ARefusedDirectoryMeansMemoryAndOneWarning) {
  const TemporaryFolder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  auto compiler = std::make_shared<FakeCompiler>();
  Warnings warnings;
  auto cache = make_cache(folder.path(), compiler, &warnings);
  EXPECT_EQ(cache->directory(), "");
  for (const char* name : {"a", "b", "a", "b"})
    EXPECT_EQ(ask(*cache, make_source(name)), expected(make_source(name)));
  EXPECT_EQ(compiler->compiles, 2);
  EXPECT_THAT(warnings.all(), SizeIs(1));
  EXPECT_THAT(entries_in(folder.path()), IsEmpty());
}

TEST(KernelCache, R11_ADirectoryThatVanishesComesBack) {
  const TemporaryFolder folder;
  auto cache = make_cache(folder / "cache", std::make_shared<FakeCompiler>());
  ask(*cache, make_source("a"));
  std::filesystem::remove_all(folder / "cache");
  EXPECT_EQ(ask(*cache, make_source("b")), expected(make_source("b")));
  EXPECT_THAT(entries_in(folder / "cache"), SizeIs(1));
}

TEST(KernelCache, R11_AFileSizeLimitDoesNotKillTheProcess) {
  const TemporaryFolder folder;
  auto cache = make_cache(folder.path(), std::make_shared<FakeCompiler>());
  struct rlimit old;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  struct rlimit tight = old;
  tight.rlim_cur = 100;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const std::string kernel = ask(*cache, make_source("gather"));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_EQ(kernel, expected(make_source("gather")));
  EXPECT_THAT(entries_in(folder.path()), IsEmpty());
}

TEST(KernelCache, R06_R11_WhateverCallOfTheStoreFailsTheKernelIsRight) {
  const MemoryFolders in_memory;
  const KernelSource source = make_source("gather");
  // How many calls a publish and a load make where nothing fails.
  const TemporaryFolder good;
  FailingFileSystem publish(-1, 0), load(-1, 0);
  ask(*make_cache(good.path(), std::make_shared<FakeCompiler>(), nullptr, publish), source);
  ask(*make_cache(good.path(), std::make_shared<FakeCompiler>(), nullptr, load), source);
  const int calls = std::max(publish.calls(), load.calls());
  ASSERT_GT(calls, 20);
  const int errors[] = {EROFS, ENOSPC, EDQUOT, EACCES, EMFILE, EIO, ENOENT, EINTR};
  for (int at = 0; at < calls; ++at) {
    // The short run has two of the errors for each call, the next ones for the next call.
    for (int i = 0; i < (long_tests_wanted() ? 8 : 2); ++i) {
      const int error = errors[(2 * at + i) % 8];
      SCOPED_TRACE("call " + std::to_string(at) + " fails with " + std::to_string(error));
      const TemporaryFolder folder;
      // Cold, then warm: first the calls of a publish, then those of a load.
      FailingFileSystem cold(at, error), warm(at, error);
      EXPECT_EQ(ask(*make_cache(folder.path(), std::make_shared<FakeCompiler>(), nullptr, cold), source),
                expected(source));
      for (const std::string& file : entries_in(folder.path())) {
        if (file.find("tmp-") != std::string::npos) continue;
        EXPECT_FALSE(llvm::errorToBool(read_entry(contents(file)).takeError()))
            << "a partial entry was published";
      }
      FailingFileSystem fine(-1, 0);
      ask(*make_cache(folder.path(), std::make_shared<FakeCompiler>(), nullptr, fine), source);
      EXPECT_EQ(ask(*make_cache(folder.path(), std::make_shared<FakeCompiler>(), nullptr, warm), source),
                expected(source));
    }
  }
}

TEST(KernelCache, R12_AnotherFormatHasItsOwnFolder) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "v0/obj/ab");
  write_text(folder / "v0/obj/ab/old", "an entry of another version");
  auto compiler = std::make_shared<FakeCompiler>();
  ask(*make_cache(folder.path(), compiler), make_source("gather"));
  ask(*make_cache(folder.path(), compiler), make_source("gather"));
  EXPECT_EQ(compiler->compiles, 1);
  EXPECT_EQ(contents(folder / "v0/obj/ab/old"), "an entry of another version");
}

TEST(KernelCache, R15_NoSignalHandlerIsTouched) {
  const TemporaryFolder folder;
  std::vector<struct sigaction> before(NSIG), after(NSIG);
  for (int number = 1; number < NSIG; ++number)
    ::sigaction(number, nullptr, &before[static_cast<size_t>(number)]);
  Warnings warnings;
  auto cache = make_cache(folder.path(), std::make_shared<FakeCompiler>(), &warnings);
  ask(*cache, make_source("gather"));
  FailingFileSystem full(12, ENOSPC);
  ask(*make_cache(folder / "full", std::make_shared<FakeCompiler>(), &warnings, full), make_source("gather"));
  for (int number = 1; number < NSIG; ++number) {
    const auto index = static_cast<std::size_t>(number);
    ::sigaction(number, nullptr, &after[index]);
    EXPECT_EQ(before[index].sa_handler, after[index].sa_handler) << "signal " << number;
    EXPECT_EQ(before[index].sa_flags, after[index].sa_flags) << "signal " << number;
  }
}

TEST(KernelCache, ArchitecturesAreChecked) {
  auto cache = make_cache("", std::make_shared<FakeCompiler>());
  EXPECT_THAT(ask(*cache, make_source("gather"), "sm_75"),
              HasSubstr("needs sm_80 or newer, but the target is sm_75"));
  KernelSource exact = make_source("exact");
  exact.exact_arch = "sm_90a";
  EXPECT_EQ(ask(*cache, exact, "sm_90a"), ask(*cache, make_source("exact"), "sm_90a"));
  EXPECT_THAT(ask(*cache, exact, "sm_100a"),
              HasSubstr("kernel exact needs sm_90a and no other, but the target is sm_100a"));
  EXPECT_THAT(ask(*cache, make_source("gather"), "gfx90a"), HasSubstr("is not an architecture"));
  EXPECT_THAT(ask(*cache, make_source("gather"), ""), HasSubstr("is not an architecture"));
}

TEST(KernelCache, WithoutACompilerAMissSaysHowToGetOne) {
  auto cache = make_cache("", nullptr);
  EXPECT_THAT(ask(*cache, make_source("gather")), HasSubstr("pip install nvidia-cuda-nvrtc"));
}

}  // namespace
}  // namespace minuet
