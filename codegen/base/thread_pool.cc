#include "codegen/base/thread_pool.h"

#include <signal.h>

#include <algorithm>
#include <system_error>

namespace minuet {

ThreadPool::ThreadPool(i32 threads) {
  // New threads inherit a mask that blocks all signals, so that threads of the host program receive the
  // signals.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  workers_.reserve(std::max(0, threads - 1));
  for (i32 i = 1; i < threads; ++i) {
    try {
      workers_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {
      break;  // The system allows no more threads, so use those that exist.
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(i64 tasks, llvm::function_ref<void(i64, i32)> work) {
  if (tasks <= 1 || workers_.empty()) {
    for (i64 task = 0; task < tasks; ++task) work(task, 0);
    return;
  }
  Job job{work, tasks};
  std::unique_lock<std::mutex> lock(mutex_);
  jobs_.push_back(&job);
  if (tasks > 2) {
    wake_.notify_all();
  } else {
    wake_.notify_one();
  }
  take_part(job, lock);
  jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
  done_.wait(lock, [&] { return job.active == 0; });
}

void ThreadPool::take_part(Job& job, std::unique_lock<std::mutex>& lock) {
  const i32 slot = job.slots++;
  ++job.active;
  while (job.next < job.tasks) {
    const i64 task = job.next++;
    lock.unlock();
    job.work(task, slot);
    lock.lock();
  }
  if (--job.active == 0) done_.notify_all();
}

void ThreadPool::serve() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    Job* job = nullptr;
    wake_.wait(lock, [&] {
      for (Job* candidate : jobs_) {
        if (candidate->next < candidate->tasks) job = candidate;
      }
      return stop_ || job != nullptr;
    });
    if (job == nullptr) return;
    take_part(*job, lock);
  }
}

}  // namespace minuet
