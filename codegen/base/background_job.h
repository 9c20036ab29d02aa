// Runs work on a background thread and can cancel it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <thread>

#include "codegen/base/cancel_token.h"
#include "codegen/base/error.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace minuet {

/// Runs a piece of work on its own thread and holds the result of that work.
class BackgroundJob {
 public:
  using Work = std::function<llvm::Error(const CancelToken&)>;
  /// Creates the job and passes it to `keep`, which runs in the calling thread and must not throw. `work`
  /// begins only after `keep` has returned, so that `work` finds the job where `keep` stored it. `work`
  /// should return soon after its token is cancelled. Returns ResourceExhausted if the system cannot create a
  /// thread.
  static llvm::Error start(Work work, llvm::function_ref<void(std::unique_ptr<BackgroundJob>)> keep);
  BackgroundJob(const BackgroundJob&) = delete;
  BackgroundJob& operator=(const BackgroundJob&) = delete;
  /// Cancels the job and waits for it to end. Does not wait in the job's own thread, where the wait would
  /// never end, or in a forked child, where the thread does not exist.
  ~BackgroundJob();

  void cancel() { cancel_->cancel(); }
  bool done() const { return wait_for(std::chrono::milliseconds(0)); }
  bool wait_for(std::chrono::milliseconds time) const;
  /// Waits for the job to end and returns its result. Any thread may call this function, also more than once.
  /// If the job has not ended, a call in the job's own thread or in a forked child returns
  /// FailedPrecondition.
  llvm::Error wait() const;

 private:
  BackgroundJob() = default;
  /// Returns true in the job's own thread and in a forked child, where waiting for the thread would never
  /// end.
  bool is_out_of_reach() const;

  std::uint64_t generation_ = 0;  ///< Holds fork_generation() (fork_watch.h) at the start of the job.
  std::shared_ptr<CancelToken> cancel_ = std::make_shared<CancelToken>();
  std::shared_future<StatusError> result_;  ///< Holds the result of the work, which has code Ok on success.
  std::unique_ptr<std::thread> thread_;
};

}  // namespace minuet
