// R13 under load: run under ThreadSanitizer too. What needs processes is in store_processes_test.cc.
#include <gtest/gtest.h>

#include <condition_variable>
#include <new>
#include <stdexcept>
#include <thread>

#include "tests/codegen/cache/store_fakes.h"

namespace minuet {
namespace {

template <class Work>
void in_threads(int count, const Work& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&work, i] { work(i); });
  for (std::thread& thread : threads) thread.join();
}

/// Opens once; who waits goes on then.
class Gate {
 public:
  void open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

TEST(KernelCacheConcurrency, R13_OneCompileAKey) {
  const TemporaryFolder folder;
  auto compiler = std::make_shared<FakeCompiler>();
  auto cache = make_cache(folder.path(), compiler);
  std::vector<std::shared_ptr<const Binary>> binaries(64);
  in_threads(64, [&](int i) {
    binaries[static_cast<std::size_t>(i)] =
        llvm::cantFail(cache->get_or_compile({make_source("gather"), "sm_90a"}));
  });
  EXPECT_EQ(compiler->compiles, 1);
  for (const auto& binary : binaries) EXPECT_EQ(binary, binaries[0]) << "all have the same one";
  EXPECT_EQ(cache->stats().compiled, 1);
  EXPECT_EQ(cache->stats().memory_hits, 63);
}

TEST(KernelCacheConcurrency, R13_OtherKeysDoNotWaitForACompile) {
  auto compiler = std::make_shared<FakeCompiler>();
  auto started = std::make_shared<Gate>(), finish = std::make_shared<Gate>();
  compiler->before = [=](const KernelSource& source) {
    if (source.display_name == "slow") started->open(), finish->wait();
    return llvm::Error::success();
  };
  auto cache = make_cache("", compiler);
  std::thread slow([&] { llvm::cantFail(cache->get_or_compile({make_source("slow"), "sm_90a"})); });
  started->wait();
  // Were a lock held while compiling, these would never return.
  llvm::cantFail(cache->get_or_compile({make_source("quick"), "sm_90a"}));
  llvm::cantFail(cache->get_or_compile({make_source("quick"), "sm_90a"}));
  EXPECT_EQ(cache->stats().memory_hits, 1);
  finish->open();
  slow.join();
  EXPECT_EQ(compiler->compiles, 2);
}

TEST(KernelCacheConcurrency, R13_AThrowReachesAllAndIsForgotten) {
  auto compiler = std::make_shared<FakeCompiler>();
  auto go = std::make_shared<Gate>();
  compiler->before = [=](const KernelSource&) -> llvm::Error {
    go->wait();
    throw std::runtime_error("the compiler broke");
  };
  auto cache = make_cache("", compiler);
  std::atomic<int> thrown{0};
  std::thread opener([&] {
    while (compiler->compiles == 0 || cache->stats().memory_hits < 7) std::this_thread::yield();
    go->open();
  });
  in_threads(8, [&](int) {
    try {
      llvm::consumeError(cache->get_or_compile({make_source("gather"), "sm_90a"}).takeError());
    } catch (const std::runtime_error& error) {
      if (std::string(error.what()) == "the compiler broke") ++thrown;
    }
  });
  opener.join();
  EXPECT_EQ(thrown, 8);
  EXPECT_EQ(compiler->compiles, 1);
  compiler->before = nullptr;
  llvm::cantFail(cache->get_or_compile({make_source("gather"), "sm_90a"}));
  EXPECT_EQ(compiler->compiles, 2);
}

/// Each compile gives other bytes, as one does whose result the driver takes.
class FreshCompiler : public FakeCompiler {
 public:
  llvm::Expected<Binary> compile(const KernelRequest& request, const CompileControl& control) override {
    llvm::Expected<Binary> binary = FakeCompiler::compile(request, control);
    if (binary) binary->cubin += std::to_string(compiles);
    return binary;
  }
};

/// What is thrown goes on to the caller of many, as of one: want of memory is not taken for what it is not.
TEST(KernelCacheConcurrency, R13_AThrowReachesWhoAsksForMany) {
  auto compiler = std::make_shared<FakeCompiler>();
  auto cache = make_cache("", compiler);
  const std::vector<KernelRequest> requests{{make_source("one"), "sm_90a"}, {make_source("two"), "sm_90a"}};
  compiler->before = [](const KernelSource&) -> llvm::Error {
    throw std::runtime_error("the compiler broke");
  };
  EXPECT_THROW(llvm::consumeError(cache->get_or_compile_all(requests).takeError()), std::runtime_error);
  compiler->before = [](const KernelSource&) -> llvm::Error { throw std::bad_alloc(); };
  EXPECT_THROW(llvm::consumeError(cache->get_or_compile_all(requests).takeError()), std::bad_alloc);
  compiler->before = nullptr;
  EXPECT_EQ(llvm::cantFail(cache->get_or_compile_all(requests)).size(), 2);
}

TEST(KernelCacheConcurrency, R28_ManyDevicesThatRefuseAKernelAtOnceHaveItCompiledOnce) {
  auto compiler = std::make_shared<FreshCompiler>();
  auto cache = make_cache("", compiler);
  const KernelSource source = make_source("gather");
  const auto refused = llvm::cantFail(cache->get_or_compile({source, "sm_90a"}));
  std::atomic<int> asking{0};
  compiler->before = [&](const KernelSource&) -> llvm::Error {
    while (asking < 16) std::this_thread::yield();
    return llvm::Error::success();
  };
  std::vector<std::shared_ptr<const Binary>> binaries(16);
  in_threads(16, [&](int i) {
    ++asking;
    binaries[static_cast<std::size_t>(i)] = llvm::cantFail(cache->replace({source, "sm_90a"}, *refused));
  });
  EXPECT_EQ(compiler->compiles, 2);
  EXPECT_EQ(cache->stats().compiled, 2);
  EXPECT_NE(binaries[0], refused);
  for (const auto& binary : binaries) EXPECT_EQ(binary, binaries[0]) << "all have the same one";
  EXPECT_EQ(llvm::cantFail(cache->get_or_compile({source, "sm_90a"})), binaries[0]);
  // Where the compile fails, all hear of it, and the next one tries again.
  compiler->before = [](const KernelSource&) { return make_error(StatusCode::Internal, "no such kernel"); };
  std::atomic<int> failures{0};
  in_threads(16, [&](int) {
    if (llvm::errorToBool(cache->replace({source, "sm_90a"}, *binaries[0]).takeError())) ++failures;
  });
  EXPECT_EQ(failures, 16);
  compiler->before = nullptr;
  EXPECT_NE(llvm::cantFail(cache->replace({source, "sm_90a"}, *binaries[0]))->cubin, binaries[0]->cubin);
}

TEST(KernelCacheConcurrency, R13_ManyKeysInManyThreads) {
  const TemporaryFolder folder;
  auto compiler = std::make_shared<FakeCompiler>();
  Warnings warnings;
  auto cache = make_cache(folder.path(), compiler, &warnings);
  in_threads(8, [&](int i) {
    for (int round = 0; round < 40; ++round) {
      const std::string name = "kernel" + std::to_string((i + round) % 20);
      const auto binary = llvm::cantFail(cache->get_or_compile({make_source(name), "sm_80"}));
      EXPECT_EQ(binary->display_name, name);
    }
  });
  EXPECT_EQ(compiler->compiles, 20);
  EXPECT_EQ(entries_in(folder.path()).size(), 20u);
  EXPECT_TRUE(warnings.all().empty());
}

}  // namespace
}  // namespace minuet
