#include "codegen/cache/compile_list.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <optional>

#include "codegen/fork_watch.h"
#include "codegen/own_thread.h"
#include "codegen/worker/worker_pool.h"

namespace minuet {
namespace {

/// Compiles until the list is done or one kernel failed. What throws in here is a failure too: the
/// work runs on threads, where nothing else would catch it.
class CompileQueue {
 public:
  CompileQueue(KernelCache& cache, const std::vector<KernelSource>& sources, llvm::StringRef arch,
               const CancelToken* cancel)
      : cache_(cache), sources_(sources), arch_(arch), cancel_(cancel), binaries_(sources.size()) {
    for (std::size_t i = 0; i < sources.size(); ++i) {
      binaries_[i] = cache.find_in_memory(sources[i], arch);
      if (!binaries_[i]) missing_.push_back(i);
    }
  }

  std::size_t missing() const { return missing_.size(); }

  void work() noexcept {
    try {
      for (std::size_t i = next_++; i < missing_.size(); i = next_++) {
        auto binary = cache_.get_or_compile(sources_[missing_[i]], arch_, cancel_);
        if (binary) {
          binaries_[missing_[i]] = std::move(*binary);
        } else {
          fail(take_status(binary.takeError()));
        }
      }
    } catch (...) {
      threw_ = true;
      next_ = missing_.size();
    }
  }

  llvm::Expected<BinaryList> result() {
    if (failure_) return llvm::make_error<StatusError>(std::move(*failure_));
    if (threw_)
      return make_error(StatusCode::ResourceExhausted, "the host ran out of memory while compiling");
    return std::move(binaries_);
  }

 private:
  void fail(StatusError error) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_) failure_.emplace(std::move(error));
    // A recorded list is of use only when it is whole.
    if (!cache_.is_recording()) next_ = missing_.size();
  }

  KernelCache& cache_;
  const std::vector<KernelSource>& sources_;
  const llvm::StringRef arch_;
  const CancelToken* const cancel_;
  BinaryList binaries_;
  std::vector<std::size_t> missing_;  // of the sources: memory does not have them
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> threw_{false};
  std::mutex mutex_;
  std::optional<StatusError> failure_;
};

/// Joined at the end of their scope. Where the system gives no more threads, there are fewer.
class Workers {
 public:
  template <class Work>
  Workers(std::size_t count, Work work) {
    try {
      threads_.reserve(count);
      for (std::size_t i = 0; i < count; ++i) threads_.push_back(start_own_thread(work));
    } catch (const std::exception&) {  // the caller works too, so the list gets done
    }
  }
  ~Workers() {
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::vector<std::thread> threads_;
};

}  // namespace

llvm::Expected<BinaryList> compile_list(KernelCache& cache, const std::vector<KernelSource>& sources,
                                        llvm::StringRef arch, const CancelToken* cancel) {
  CompileQueue queue(cache, sources, arch, cancel);
  if (queue.missing() == 0) return queue.result();
  // Each may start a helper program, which takes memory.
  const int threads = count_workers(/*asked=*/0, available_resources(), queue.missing());
  {
    const Workers workers(static_cast<std::size_t>(threads - 1), [&] { queue.work(); });
    queue.work();
  }
  return queue.result();
}

llvm::Error BackgroundJob::start(Work work, llvm::function_ref<void(std::unique_ptr<BackgroundJob>)> keep) {
  std::unique_ptr<BackgroundJob> job(new BackgroundJob());
  std::promise<void> kept;
  std::packaged_task<StatusError()> task(
      [work = std::move(work), cancel = job->cancel_, kept = kept.get_future().share()] {
        kept.wait();
        llvm::Error error = work(*cancel);
        return error ? take_status(std::move(error)) : StatusError(StatusCode::Ok, "");
      });
  watch_forks();
  job->generation_ = fork_generation();
  job->result_ = task.get_future().share();
  try {
    job->thread_ = std::make_unique<std::thread>(start_own_thread(std::move(task)));
  } catch (const std::exception& exception) {
    return make_error(StatusCode::ResourceExhausted, "there is no thread for work in the background: {0}",
                      exception.what());
  }
  keep(std::move(job));
  kept.set_value();
  return llvm::Error::success();
}

bool BackgroundJob::is_out_of_reach() const {
  return generation_ != fork_generation() || thread_->get_id() == std::this_thread::get_id();
}

BackgroundJob::~BackgroundJob() {
  cancel();
  if (!thread_) return;
  if (generation_ != fork_generation()) {
    // A thread of another process: it can be neither joined nor detached.
    static_cast<void>(thread_.release());
  } else if (is_out_of_reach()) {
    thread_->detach();
  } else {
    thread_->join();
  }
}

bool BackgroundJob::wait_for(std::chrono::milliseconds time) const {
  return result_.wait_for(time) == std::future_status::ready;
}

llvm::Error BackgroundJob::wait() const {
  if (is_out_of_reach() && !done()) {
    return make_error(StatusCode::FailedPrecondition,
                      "a job cannot be waited for in its own callback, nor in a child of a fork");
  }
  const StatusError& result = result_.get();
  if (result.code() == StatusCode::Ok) return llvm::Error::success();
  return llvm::make_error<StatusError>(result);
}

}  // namespace minuet
