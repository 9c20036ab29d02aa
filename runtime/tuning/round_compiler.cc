#include "runtime/tuning/round_compiler.h"

#include <algorithm>
#include <chrono>

namespace minuet {

llvm::Error RoundCompiler::check_cancelled() const {
  if (!cancelled_ || !cancelled_()) return llvm::Error::success();
  return make_error(StatusCode::Cancelled, "tuning was stopped");
}

void RoundCompiler::start(const TuningConfigs& round, std::vector<KernelRequest> requests) {
  auto work = [cache = cache_, requests = std::move(requests)](const CancelToken& cancel) {
    return cache->get_or_compile_all(requests, &cancel).takeError();
  };
  llvm::consumeError(BackgroundJob::start(std::move(work), [&](std::unique_ptr<BackgroundJob> job) {
    started_.push_back({round, std::move(job)});
  }));
}

llvm::Expected<BinaryList> RoundCompiler::compile(const TuningConfigs& round,
                                                  const std::vector<KernelRequest>& requests) {
  constexpr std::chrono::milliseconds kCancelPollInterval{50};
  const auto is_round = [&](const Started& started) { return started.round == round; };
  auto found = std::find_if(started_.begin(), started_.end(), is_round);
  if (found == started_.end()) {
    start(round, requests);
    found = std::find_if(started_.begin(), started_.end(), is_round);
  }
  if (found != started_.end()) {
    const std::unique_ptr<BackgroundJob> job = std::move(found->job);
    started_.erase(found);
    // If tuning is cancelled, the destructor of `job` cancels the compilation.
    while (!job->wait_for(kCancelPollInterval)) MINUET_TRY(check_cancelled());
    // Ignores an error here, because the call below repeats the compilation and returns the error.
    llvm::consumeError(job->wait());
  }
  return cache_->get_or_compile_all(requests);
}

}  // namespace minuet
