// Defines a pool of threads that execute the tasks of a call of run() together. All engines of a CPU device
// use the same pool.
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
  /// Creates a pool of `threads` threads (at least 1), including the thread that calls run(). If the system
  /// cannot create that many, the pool has fewer.
  explicit ThreadPool(i32 threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Returns the number of threads that can take part in one run(), which is also the number of values that
  /// the parameter `slot` of its tasks can have.
  i32 threads() const { return static_cast<i32>(workers_.size()) + 1; }

  /// Calls work(task, slot) for every task in [0, tasks), in any order, on this thread and on idle threads of
  /// the pool, and returns when all calls have returned. Concurrent calls of `work` in one run() have
  /// different slots in [0, threads()). Several threads may call run() at the same time, but `work` must not
  /// call it. `work` must not throw.
  void run(i64 tasks, llvm::function_ref<void(i64 task, i32 slot)> work);

 private:
  struct Job {
    llvm::function_ref<void(i64, i32)> work;
    i64 tasks;
    i64 next = 0;    ///< Holds the index of the next task. mutex_ guards it and the members below.
    i32 slots = 0;   ///< Holds the number (slot) of the next thread that takes part in the job.
    i32 active = 0;  ///< Counts the threads that work on the job.
  };

  void serve();
  /// Executes tasks of the job until none is left. `lock` is held except during a task.
  void take_part(Job& job, std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable wake_;  ///< Signals a new job or the destruction of the pool.
  std::condition_variable done_;  ///< Signals that the last active thread has left a job.
  std::deque<Job*> jobs_;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace minuet
