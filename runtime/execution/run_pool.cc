#include "runtime/execution/run_pool.h"

#include <algorithm>

namespace minuet {

/// Removes a free execution from the pool and returns it, or returns null if there is none.
std::unique_ptr<Execution> RunPool::take(const LoadedPlan& loaded, const PyramidUse& use) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = llvm::find_if(free_, [&](const std::unique_ptr<Execution>& known) {
    return &known->loaded() == &loaded && known->options().on == use;
  });
  if (found == free_.end()) return nullptr;
  std::unique_ptr<Execution> taken = std::move(*found);
  free_.erase(found);
  return taken;
}

llvm::Error RunPool::with_execution(const std::shared_ptr<const LoadedPlan>& loaded, const PyramidUse& use,
                                    Work work) {
  std::unique_ptr<Execution> execution = take(*loaded, use);
  if (!execution) {
    MINUET_ASSIGN(execution, Execution::create_on(loaded, use, make_steps_));
  }
  llvm::Error error = work(*execution);
  const std::lock_guard<std::mutex> lock(mutex_);
  free_.push_back(std::move(execution));
  return error;
}

llvm::Error RunPool::run(const std::shared_ptr<const LoadedPlan>& loaded, const PyramidUse& use,
                         const PyramidRun& arguments, void* stream) {
  return with_execution(loaded, use,
                        [&](Execution& execution) { return execution.run_on(arguments, stream); });
}

llvm::Error RunPool::prepare(const std::shared_ptr<const LoadedPlan>& loaded, const PyramidUse& use,
                             const std::shared_ptr<ParameterSet>& parameters) {
  return with_execution(loaded, use, [&](Execution& execution) { return execution.prepare_on(parameters); });
}

void RunPool::drop(const Pyramid& pyramid) {
  // The executions are destroyed after the mutex is unlocked.
  std::vector<std::unique_ptr<Execution>> dropped;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto kept = std::stable_partition(
      free_.begin(), free_.end(),
      [&](const std::unique_ptr<Execution>& known) { return known->options().on.pyramid.get() != &pyramid; });
  std::move(kept, free_.end(), std::back_inserter(dropped));
  free_.erase(kept, free_.end());
}

}  // namespace minuet
