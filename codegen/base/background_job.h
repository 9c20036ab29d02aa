// Work in the background, with a way to stop (R17).
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

/// Work that a thread of its own does, and what became of it.
class BackgroundJob {
 public:
  using Work = std::function<llvm::Error(const CancelToken&)>;
  /// `keep` gets the job, in this thread, and must not throw; only then `work` begins, so that it finds the
  /// job where it is kept. It gets the token to look at, and runs until it ends by itself or heeds the token.
  /// ResourceExhausted where the system gives no thread.
  static llvm::Error start(Work work, llvm::function_ref<void(std::unique_ptr<BackgroundJob>)> keep);
  BackgroundJob(const BackgroundJob&) = delete;
  BackgroundJob& operator=(const BackgroundJob&) = delete;
  /// Cancels and waits; not in the job's own thread, and not in a child of a fork, where it ends nowhere.
  ~BackgroundJob();

  void cancel() { cancel_->cancel(); }
  bool done() const { return wait_for(std::chrono::milliseconds(0)); }
  bool wait_for(std::chrono::milliseconds time) const;
  /// Waits. Any thread may ask, more than once; FailedPrecondition in the job's own, and in a child of a
  /// fork.
  llvm::Error wait() const;

 private:
  BackgroundJob() = default;
  /// Whether to wait for the thread would be to wait for ever.
  bool is_out_of_reach() const;

  std::uint64_t generation_ = 0;  // of forks
  std::shared_ptr<CancelToken> cancel_ = std::make_shared<CancelToken>();
  std::shared_future<StatusError> result_;  // code Ok: it went well
  std::unique_ptr<std::thread> thread_;
};

}  // namespace minuet
