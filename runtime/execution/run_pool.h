// Keeps the executions with which a plan runs on pyramids, so that runs of any number of threads create one
// only if none is free.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "runtime/execution/execution.h"

namespace minuet {

/// The class is thread-safe. It has at most as many executions for one use of a pyramid as there were runs at
/// the same time.
class RunPool {
 public:
  RunPool() = default;
  /// The executions have RunSteps that `make_steps` makes.
  explicit RunPool(MakeRunSteps make_steps) : make_steps_(std::move(make_steps)) {}
  /// Runs a loaded plan on a pyramid.
  llvm::Error run(const std::shared_ptr<const LoadedPlan>& loaded, const PyramidUse& use,
                  const PyramidRun& arguments, void* stream);
  /// Makes everything that a run with these parameters, which may be null, would make when it is the first
  /// one. The function allocates memory and waits.
  llvm::Error prepare(const std::shared_ptr<const LoadedPlan>& loaded, const PyramidUse& use,
                      const std::shared_ptr<ParameterSet>& parameters);
  /// Enqueues the work that writes a block for PyramidRun::prepared (Execution::prepare_parameters()).
  llvm::Error prepare_parameters(const std::shared_ptr<const LoadedPlan>& loaded, const PyramidUse& use,
                                 llvm::ArrayRef<GivenArray> values, WeightsOrder order, void* block,
                                 i64 bytes, void* stream);
  /// Destroys the executions of a pyramid that is not used any more, and waits for their last runs.
  void drop(const Pyramid& pyramid);

 private:
  using Work = llvm::function_ref<llvm::Error(Execution&)>;

  llvm::Error with_execution(const std::shared_ptr<const LoadedPlan>& loaded, const PyramidUse& use,
                             Work work);
  std::unique_ptr<Execution> take(const LoadedPlan& loaded, const PyramidUse& use);

  /// Says what an execution runs: the pyramid, the plan, the map, and the order of rows. A program that makes
  /// pyramids for many sizes of clouds has thousands of executions, among which a search would cost more than
  /// a run.
  using Key = std::tuple<const Pyramid*, const LoadedPlan*, i32, u32>;
  static Key key_of(const LoadedPlan& loaded, const PyramidUse& use);

  const MakeRunSteps make_steps_;
  std::mutex mutex_;  // Guards free_, and is not held while a run is enqueued or an execution is destroyed.
  std::map<Key, std::vector<std::unique_ptr<Execution>>> free_;
};

}  // namespace minuet
