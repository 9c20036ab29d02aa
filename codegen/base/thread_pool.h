// The CPU device's threads: one pool a device, shared by its engines.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels_templates/shared/macros.h"
#include "llvm/ADT/STLExtras.h"

namespace minuet {

class ThreadPool {
 public:
  /// `threads` in all, the one that calls run() among them; at least 1. Where the system gives fewer,
  /// the pool makes do with those.
  explicit ThreadPool(i32 threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Threads that may be in one run(), and so the number of `slot`s.
  i32 threads() const { return static_cast<i32>(workers_.size()) + 1; }

  /// work(task, slot) for every task in [0, tasks), in any order, on this thread and on idle ones;
  /// returns when all are done. Two calls that run at once in the same run() have different slots.
  /// May be called from many threads at once, but not from inside `work`. `work` must not throw.
  void run(i64 tasks, llvm::function_ref<void(i64 task, i32 slot)> work);

 private:
  struct Job {
    llvm::function_ref<void(i64, i32)> work;
    i64 tasks;
    i64 next = 0;    // guarded by mutex_, like all of it
    i32 slots = 0;   // handed out
    i32 active = 0;  // threads inside
  };

  void serve();
  /// Takes tasks of the job until there are none. Holds `lock` except while it works.
  void take_part(Job& job, std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable wake_;  // a job came, or the end
  std::condition_variable done_;  // a thread left a job
  std::deque<Job*> jobs_;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace minuet
