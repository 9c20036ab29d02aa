#include "runtime/execution/run_pool.h"

namespace minuet {

RunPool::Key RunPool::key_of(const LoadedPlan& loaded, const PyramidUse& use) {
  return {use.pyramid.get(), &loaded, use.map, use.set_order};
}

/// Removes a free execution from the pool and returns it, or returns null if there is none.
std::unique_ptr<Execution> RunPool::take(const LoadedPlan& loaded, const PyramidUse& use) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = free_.find(key_of(loaded, use));
  if (found == free_.end() || found->second.empty()) return nullptr;
  std::unique_ptr<Execution> taken = std::move(found->second.back());
  found->second.pop_back();
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
  free_[key_of(*loaded, use)].push_back(std::move(execution));
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

llvm::Error RunPool::prepare_parameters(const std::shared_ptr<const LoadedPlan>& loaded,
                                        const PyramidUse& use, llvm::ArrayRef<GivenArray> values,
                                        WeightsOrder order, void* block, i64 bytes, void* stream) {
  return with_execution(loaded, use, [&](Execution& execution) {
    return execution.prepare_parameters(values, order, block, bytes, stream);
  });
}

void RunPool::drop(const Pyramid& pyramid) {
  // The executions are destroyed after the mutex is unlocked.
  std::vector<std::vector<std::unique_ptr<Execution>>> dropped;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto begin = free_.lower_bound(Key{&pyramid, nullptr, 0, 0});
  auto end = begin;
  for (; end != free_.end() && std::get<0>(end->first) == &pyramid; ++end)
    dropped.push_back(std::move(end->second));
  free_.erase(begin, end);
}

}  // namespace minuet
