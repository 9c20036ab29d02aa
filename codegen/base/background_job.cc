#include "codegen/base/background_job.h"

#include <exception>

#include "codegen/base/fork_watch.h"
#include "codegen/base/own_thread.h"

namespace minuet {

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
    return make_error(StatusCode::ResourceExhausted, "cannot start a thread for background work: {0}",
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
    // The thread exists only in the parent process, so this child process can neither join nor detach it.
    // Destroying the std::thread would end the process, so it is leaked.
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
                      "a job cannot be waited for in its own callback, nor in a forked child process");
  }
  const StatusError& result = result_.get();
  if (result.code() == StatusCode::Ok) return llvm::Error::success();
  return llvm::make_error<StatusError>(result);
}

}  // namespace minuet
