// Compiles the kernels of coming rounds of measurements while earlier rounds are measured.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "codegen/base/background_job.h"
#include "codegen/cache/kernel_cache.h"
#include "codegen/choose/tuning_snapshot.h"

namespace minuet {

/// The class is not thread-safe.
class RoundCompiler {
 public:
  /// `cancelled` returns true if tuning must stop, and may be empty.
  RoundCompiler(std::shared_ptr<KernelCache> cache, std::function<bool()> cancelled)
      : cache_(std::move(cache)), cancelled_(std::move(cancelled)) {}
  /// Returns Cancelled if tuning must stop.
  llvm::Error check_cancelled() const;
  /// Starts to compile the kernels of a round.
  void start(const TuningConfigs& round, std::vector<KernelRequest> requests);
  /// Stops all compilation, and forgets the rounds.
  void forget() { started_.clear(); }
  /// Waits for the kernels of a round, and compiles them if start() was not called for it.
  llvm::Expected<BinaryList> compile(const TuningConfigs& round, const std::vector<KernelRequest>& requests);
  const std::shared_ptr<KernelCache>& cache() const { return cache_; }

 private:
  struct Started {
    TuningConfigs round;
    std::unique_ptr<BackgroundJob> job;
  };
  const std::shared_ptr<KernelCache> cache_;
  const std::function<bool()> cancelled_;
  std::vector<Started> started_;
};

}  // namespace minuet
