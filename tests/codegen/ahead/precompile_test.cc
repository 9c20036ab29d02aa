// Bundles of kernels that are in the cache folder already, so that nothing is compiled.
#include "codegen/ahead/precompile.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <new>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include "codegen/compile/protocol.h"
#include "codegen/source/keys.h"
#include "tests/codegen/bundle/bundle_fakes.h"
#include "tests/codegen/cache/store_fakes.h"
#include "tests/codegen/choose/examples.h"

namespace {

std::atomic<std::size_t> key_comparisons{0};  // of keys as 64 hex digits or 32 bytes

void count_comparison(std::size_t size) {
  if (size == 64 || size == 32) ++key_comparisons;
}

}  // namespace

// The test is linked with --wrap of both, which compilers take for each other.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" int __real_memcmp(const void* a, const void* b, std::size_t size);
extern "C" int __real_bcmp(const void* a, const void* b, std::size_t size);
extern "C" int __wrap_memcmp(const void* a, const void* b, std::size_t size) {
  count_comparison(size);
  return __real_memcmp(a, b, size);
}
extern "C" int __wrap_bcmp(const void* a, const void* b, std::size_t size) {
  count_comparison(size);
  return __real_bcmp(a, b, size);
}
// NOLINTEND(bugprone-reserved-identifier)

namespace minuet {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

/// Counts the tries to lock, which may fail.
class LockCounter : public QuickFileSystem {
 public:
  explicit LockCounter(int error = 0) : error_(error) {}
  int lock(int file, int operation) override {
    if (operation != LOCK_UN) ++tries;
    return error_ == 0 ? FileSystem::lock(file, operation) : (errno = error_, -1);
  }
  std::atomic<int> tries{0};

 private:
  const int error_;
};

/// Where another user's lock file was left, which is not ours to write to.
class OthersLock : public QuickFileSystem {
 public:
  int open_at(int folder, const char* path, int flags, mode_t mode) override {
    if (std::string_view(path).starts_with(".minuet-")) return errno = EACCES, -1;
    return FileSystem::open_at(folder, path, flags, mode);
  }
};

/// Lets `other` go as soon as somebody has found it locked.
class LetGo : public FileSystem {
 public:
  int lock(int file, int operation) override {
    const int result = FileSystem::lock(file, operation);
    if (result != 0 && errno == EWOULDBLOCK) {
      other->unlock();
      errno = EWOULDBLOCK;
    }
    return result;
  }
  std::optional<LockableFile> other;
};

/// A build farm that has compiled kernels before.
struct Farm {
  explicit Farm(FileSystem& system = real_file_system())
      : cache(make_cache(folder / "cache", compiler, nullptr, system)) {}

  std::vector<KernelRequest> compile(const std::vector<std::string>& names) const {
    std::vector<KernelRequest> requests;
    for (const std::string& name : names) {
      requests.push_back(fake_request(name));
      llvm::cantFail(cache->get_or_compile(requests.back()));
    }
    return requests;
  }
  PrecompileResult precompile(const std::vector<std::string>& names,
                              const CancelToken* cancel = nullptr) const {
    return put(compile(names), cancel);
  }
  PrecompileResult put(const std::vector<KernelRequest>& requests,
                       const CancelToken* cancel = nullptr) const {
    PrecompileOptions options;
    options.output = folder / "out";
    options.cancel = cancel;
    return llvm::cantFail(minuet::precompile(*cache, requests, options));
  }
  std::string bundle() const { return bundle_path(folder / "out", "sm_90a"); }

  const TemporaryFolder folder;
  const std::shared_ptr<FakeCompiler> compiler = std::make_shared<FakeCompiler>();
  std::unique_ptr<KernelCache> cache;
};

TEST(Precompile, R20_WhatACompileThrowsIsAFailureBesideTheBundle) {
  Farm farm;
  const std::vector<KernelRequest> there = farm.compile({"one"});
  const auto failure_when = [&](std::function<llvm::Error(const KernelSource&)> before) {
    farm.compiler->before = std::move(before);
    const PrecompileResult result = farm.put({there[0], fake_request("two")});
    EXPECT_EQ(result.found, 1);
    EXPECT_EQ(result.compiled, 0);
    EXPECT_THAT(result.bundles, SizeIs(1));
    return result.first_failure.value_or(StatusError(StatusCode::Ok, ""));
  };
  const StatusError broken = failure_when(
      [](const KernelSource&) -> llvm::Error { throw std::runtime_error("the compiler broke"); });
  EXPECT_EQ(broken.code(), StatusCode::Internal);
  EXPECT_THAT(broken.message(), HasSubstr("the compiler broke"));
  const StatusError full = failure_when([](const KernelSource&) -> llvm::Error { throw std::bad_alloc(); });
  EXPECT_EQ(full.code(), StatusCode::ResourceExhausted);
}

/// Tuning results name kernels, so a bundle gets them only with all kernels that were asked for. Results that
/// it has stay.
TEST(Precompile, R20_TuningResultsComeOnlyWithAllKernels) {
  const TuningEntry entry = example_entry();
  const std::string results = write_tuning({entry});
  CancelToken cancelled;
  cancelled.cancel();
  for (const bool fails : {false, true}) {
    for (const CancelToken* const cancel :
         {static_cast<const CancelToken*>(nullptr), &std::as_const(cancelled)}) {
      Farm farm;
      std::vector<KernelRequest> requests = farm.compile({"one"});
      if (fails) requests.push_back(fake_request("two"));
      farm.compiler->before = [](const KernelSource&) {
        return make_error(StatusCode::Internal, "it broke");
      };
      PrecompileOptions options;
      options.output = farm.folder / "out";
      options.tuning = {{"sm_90a", {entry}}};
      const auto tuning_after = [&](const CancelToken* token) -> std::string {
        options.cancel = token;
        const PrecompileResult result = llvm::cantFail(precompile(*farm.cache, requests, options));
        EXPECT_EQ(result.failed, fails && !token ? 1 : 0);
        if (!std::filesystem::exists(farm.bundle())) return "";
        return llvm::cantFail(llvm::cantFail(Bundle::open(farm.bundle()))->tuning());
      };
      SCOPED_TRACE(testing::Message()
                   << (fails ? "a kernel fails" : "all are there") << (cancel ? ", cancelled" : ""));
      EXPECT_EQ(tuning_after(cancel), fails || cancel ? "" : results);
      requests.resize(1);
      options.cancel = nullptr;
      llvm::cantFail(precompile(*farm.cache, requests, options).takeError());
      if (fails) requests.push_back(fake_request("two"));
      options.tuning.clear();
      EXPECT_EQ(tuning_after(nullptr), results) << "which were there before";
    }
  }
}

TEST(Precompile, R20_KernelsAreAddedToAnExistingBundle) {
  Farm farm, at_once;
  EXPECT_EQ(farm.precompile({"one", "two"}).found, 2);
  const PrecompileResult result = farm.precompile({"two", "three"});
  ASSERT_THAT(result.bundles, SizeIs(1));
  EXPECT_EQ(result.bundles[0].kernels, 3);
  at_once.precompile({"three", "one", "two"});
  EXPECT_EQ(contents(farm.bundle()), contents(at_once.bundle()));
  EXPECT_THAT(files_below(farm.folder / "out"), SizeIs(1)) << "neither a lock nor a temporary file is left";
}

/// How often keys are compared while as many kernels come to a bundle of `count`.
std::size_t comparisons_while_doubling(int count) {
  Farm farm;
  std::vector<std::string> names;
  const auto add_names = [&] {
    for (int i = 0; i < count; ++i) names.push_back("kernel-" + std::to_string(names.size()));
  };
  add_names();
  farm.precompile(names);
  add_names();
  const std::vector<KernelRequest> requests = farm.compile(names);
  key_comparisons = 0;
  const PrecompileResult result = farm.put(requests);
  EXPECT_EQ(result.found, 2 * count);
  EXPECT_EQ(result.bundles.at(0).kernels, 2 * count);
  return key_comparisons;
}

TEST(Precompile, R20_NoKernelOfABundleIsComparedWithAllOthers) {
  const std::size_t few = comparisons_while_doubling(100), many = comparisons_while_doubling(400);
  std::printf("%zu comparisons for 200 kernels, %zu for 800\n", few, many);
  EXPECT_GT(few, 200u) << "they are counted";
  EXPECT_LT(many, 6 * few) << "four times as many kernels: 16 times as many pairs";
}

TEST(Precompile, R20_WhatOthersMayHaveWrittenIsNotWrittenAgain) {
  Farm farm;
  farm.precompile({"one"});
  ASSERT_EQ(::chmod(farm.bundle().c_str(), 0666), 0);
  PrecompileOptions options;
  options.output = farm.folder / "out";
  llvm::Expected<PrecompileResult> result =
      minuet::precompile(*farm.cache, {{make_source("one", "text of one"), "sm_90a"}}, options);
  ASSERT_FALSE(result);
  EXPECT_THAT(error_of(result.takeError()), HasSubstr("others may have written"));
}

/// As NFS says it, where a file is not open for writing, and others that have no locks.
TEST(Precompile, R14_AFileSystemWithoutLocksIsAskedOnce) {
  for (const int error : {EBADF, ENOLCK, ENOSYS, EOPNOTSUPP}) {
    LockCounter system(error);
    Farm farm(system);
    llvm::cantFail(farm.cache->get_or_compile({make_source("one", "text of one"), "sm_90a"}));
    system.tries = 0;
    EXPECT_THAT(farm.precompile({"one"}).bundles, SizeIs(1));
    EXPECT_EQ(system.tries, 1);
  }
}

TEST(Precompile, R17_AWaitForAnotherWriterIsCancelledAndNothingIsWrittenWithoutTheLock) {
  LockCounter system;
  Farm farm(system);
  farm.precompile({"one"});
  const std::string before = contents(farm.bundle());
  LockableFile other(real_file_system(), ::open((farm.folder / "out/.minuet-sm_90a.lock").c_str(),
                                                O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(other.try_lock());
  CancelToken cancel;
  llvm::cantFail(farm.cache->get_or_compile({make_source("two", "text of two"), "sm_90a"}));
  const int tries = system.tries;
  std::thread canceller([&] {
    while (system.tries < tries + 3) std::this_thread::yield();
    cancel.cancel();
  });
  const PrecompileResult result = farm.precompile({"one", "two"}, &cancel);
  canceller.join();
  ASSERT_TRUE(result.first_failure);
  EXPECT_EQ(result.first_failure->code(), StatusCode::Cancelled);
  EXPECT_THAT(result.first_failure->message(), HasSubstr("another process is writing the bundle"));
  EXPECT_EQ(contents(farm.bundle()), before);
  other.unlock();
  EXPECT_EQ(farm.precompile({"two"}).bundles.at(0).kernels, 2);
}

TEST(Precompile, R20_NoBundleIsWrittenWithoutTheLockThatOthersTake) {
  OthersLock system;
  Farm farm(system);
  const PrecompileResult result = farm.precompile({"one"});
  EXPECT_THAT(result.bundles, SizeIs(0));
  EXPECT_FALSE(std::filesystem::exists(farm.bundle()));
  ASSERT_TRUE(result.first_failure);
  EXPECT_THAT(result.first_failure->message(), HasSubstr("/.minuet-sm_90a.lock cannot be taken"));
  EXPECT_THAT(result.first_failure->message(), HasSubstr("Permission denied"));
}

/// One process of many compiles a kernel, a build farm's too.
TEST(Precompile, R14_AFarmWaitsForWhoCompilesTheSameKernel) {
  LetGo system;
  const Farm farm(system);
  const KernelSource source = make_source("gather");
  const std::string locks = farm.folder / "cache/v1/lock";
  std::filesystem::create_directories(locks);
  for (const char* folder : {"cache", "cache/v1", "cache/v1/lock"})
    ::chmod((farm.folder / folder).c_str(), 0700);
  const std::string key = build_key(key_of(source, "sm_90a"), llvm::cantFail(farm.cache->compiler_info()).id);
  system.other.emplace(real_file_system(),
                       ::open((locks + "/" + key).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(system.other->try_lock());
  PrecompileOptions options;
  options.output = farm.folder / "out";
  const PrecompileResult result = llvm::cantFail(precompile(*farm.cache, {{source, "sm_90a"}}, options));
  EXPECT_EQ(result.compiled, 1);
  EXPECT_EQ(farm.cache->stats().waits, 1);
}

}  // namespace
}  // namespace minuet
