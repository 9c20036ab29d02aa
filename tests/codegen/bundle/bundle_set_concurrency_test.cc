#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <random>
#include <thread>

#include "codegen/bundle/bundle_set.h"
#include "codegen/bundle/bundle_writer.h"
#include "tests/codegen/bundle/bundle_fakes.h"
#include "tests/support/expect.h"

namespace minuet {
namespace {

TEST(BundleSetConcurrency, R21_ThreadsReadRejectAndMeetDamageAtOnce) {
  constexpr int kThreads = 8, kKernels = 24;
  const TemporaryFolder folder;
  const std::vector<Entry> entries = make_kernels(kKernels);
  const std::string path = folder / "a.bundle";
  put_bundle(path, entries);
  const auto whole = llvm::cantFail(Bundle::open(path));
  std::string bytes = contents(path);
  bytes[whole->item(whole->find(entries[0].request_key).value()).offset + 3] ^= 1;
  write_text(path, bytes);
  Warnings warnings;
  BundleOptions options;
  options.places = {{path, ""}};
  options.warn = warnings.sink();
  BundleSet set(options);
  std::atomic<int> right{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kKernels; ++i) {
        const Entry& wanted = entries[(i * 7 + thread) % kKernels];
        const auto found = set.find(fake_request(wanted.binary.display_name));
        if (found) ++(found->binary.cubin == wanted.binary.cubin ? right : wrong);
        if (i == kKernels / 2) set.reject(entries[1].request_key);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(right, kThreads * (kKernels - 2));
  EXPECT_LE(right, kThreads * (kKernels - 1));
  EXPECT_THAT(warnings.all(), testing::SizeIs(1));
}

TEST(BundleSetConcurrency, R21_BundlesInMemoryAreAddedWhileOthersAreRead) {
  constexpr int kThreads = 8;
  const std::vector<Entry> entries = make_kernels(kThreads);
  BundleSet set({});
  std::atomic<int> added{0}, wrong{0};
  std::vector<std::thread> threads;
  for (const Entry& entry : entries) {
    threads.emplace_back([&] {
      auto bytes = std::make_unique<std::string>(llvm::cantFail(make_bundle("sm_90a", {entry})));
      if (!llvm::errorToBool(set.add_memory({{*bytes, ""}}))) ++added;
      bytes.reset();
      for (const Entry& wanted : entries) {
        const auto found = set.find(fake_request(wanted.binary.display_name));
        if (found ? found->binary.cubin != wanted.binary.cubin : &wanted == &entry) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(added, kThreads);
  EXPECT_EQ(wrong, 0);
}

TEST(BundleSetConcurrency, R21_ABundleThatManyThreadsAddIsHeldOnce) {
  const std::string bytes = llvm::cantFail(make_bundle("sm_90a", make_kernels(1)));
  BundleSet set({});
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&] { EXPECT_FALSE(llvm::errorToBool(set.add_memory({{bytes, ""}}))); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(set.bundles().size(), 1u);
}

TEST(BundleSetConcurrency, R16_AForkedChildWaitsForNoThreadOfItsParent) {
  if (kAddressSanitized) GTEST_SKIP() << "ASan's allocator has locks of its own, which a fork does not mind";
  const TemporaryFolder folder;
  const std::vector<Entry> entries = make_kernels(2);
  put_bundle(folder / "a.bundle", entries);
  BundleOptions options;
  options.places = {{folder / "a.bundle", ""}};
  BundleSet set(options);
  auto finds = [&](int i) { return set.find(fake_request(entries[i].binary.display_name)).has_value(); };
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int thread = 0; thread < 2; ++thread) {
    busy.emplace_back([&] {
      while (!stop) set.reject(entries[1].request_key), set.bundles();
    });
  }
  for (int round = 0; round < 300 && !HasFailure(); ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);  // a hang becomes a failure
      set.reject(entries[1].request_key);
      ::_exit(finds(0) && !finds(1) ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "round " << round;
  }
  stop = true;
  for (std::thread& thread : busy) thread.join();
}

/// A fork in the middle of a bundle's first read, which unpacks what all its kernels share.
TEST(BundleSetConcurrency, R16_AForkInTheMiddleOfAFirstReadLeavesTheChildFree) {
  if (kAddressSanitized) GTEST_SKIP() << "ASan's allocator has locks of its own, which a fork does not mind";
  const TemporaryFolder folder;
  Entry entry = make_kernel("gather");
  // What does not pack takes milliseconds to digest.
  std::minstd_rand random(1);
  std::generate_n(std::back_inserter(entry.binary.cubin), 900000,
                  [&] { return static_cast<char>(random() >> 8); });
  put_bundle(folder / "a.bundle", {entry});
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    const auto bundle = llvm::cantFail(Bundle::open(folder / "a.bundle"));
    std::atomic<bool> begins{false}, forked{false};
    std::thread reader([&] {
      begins = true;
      EXPECT_EQ(llvm::cantFail(bundle->read(0)).binary.cubin, entry.binary.cubin);
      // One that has ended before the fork ThreadSanitizer calls a leak of the child's.
      while (!forked) std::this_thread::yield();
    });
    while (!begins) {
    }
    ::usleep(static_cast<useconds_t>(100 * round));
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);  // a hang becomes a failure
      ::_exit(llvm::cantFail(bundle->read(0)).binary.cubin == entry.binary.cubin ? 0 : 1);
    }
    forked = true;
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "round " << round;
    reader.join();
  }
}

}  // namespace
}  // namespace minuet
