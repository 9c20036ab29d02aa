#include "codegen/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace minuet {
namespace {

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (i32 threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (i64 tasks : {0, 1, 2, 3, 1000}) {
      std::vector<std::atomic<int>> done(tasks);
      pool.run(tasks, [&](i64 task, i32) { ++done[task]; });
      for (i64 i = 0; i < tasks; ++i) EXPECT_EQ(done[i], 1) << "task " << i << " of " << tasks;
    }
  }
}

TEST(ThreadPool, SlotsAreNotShared) {
  ThreadPool pool(4);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::atomic<int>> inside(pool.threads());
    std::atomic<int> shared{0};
    pool.run(200, [&](i64, i32 slot) {
      ASSERT_GE(slot, 0);
      ASSERT_LT(slot, pool.threads());
      if (inside[slot].fetch_add(1) != 0) ++shared;
      inside[slot].fetch_sub(1);
    });
    EXPECT_EQ(shared, 0);
  }
}

TEST(ThreadPool, ServesManyCallersAtOnce) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::vector<i64> sums(6, 0);
  for (size_t c = 0; c < sums.size(); ++c) {
    callers.emplace_back([&, c] {
      for (int round = 0; round < 100; ++round) {
        std::vector<i64> values(37, 0);  // written by whoever takes the task, read here without a lock
        pool.run(37, [&](i64 task, i32) { values[task] = task; });
        for (i64 value : values) sums[c] += value;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (i64 sum : sums) EXPECT_EQ(sum, 100 * 36 * 37 / 2);
}

}  // namespace
}  // namespace minuet
