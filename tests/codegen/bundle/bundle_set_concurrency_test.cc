#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "codegen/bundle/bundle_set.h"
#include "tests/codegen/bundle/bundle_fakes.h"

namespace minuet {
namespace {

TEST(BundleSetConcurrency, R21_ThreadsReadRejectAndMeetDamageAtOnce) {
  constexpr int kThreads = 8, kKernels = 24;
  const TemporaryFolder folder;
  const std::vector<Entry> entries = make_kernels(kKernels);
  const std::string path = folder / "a.bundle";
  put_bundle(path, entries);
  const auto whole = llvm::cantFail(Bundle::open(path));
  std::string bytes = read_text(path);
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
        const auto found = set.find([&](llvm::StringRef) { return wanted.request_key; }, "sm_90a");
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

}  // namespace
}  // namespace minuet
