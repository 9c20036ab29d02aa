// Declares a training plan: the forward and the backward pass of a network, compiled for architectures,
// loaded on devices, and run on pyramids. It keeps nothing between the calls for one step. The class is
// thread-safe.
#pragma once

#include <memory>

#include "runtime/execution/run_pool.h"
#include "runtime/training/pass_steps.h"

namespace minuet {

/// Holds the sizes in bytes of the memory that the caller gives to the two passes.
struct TrainingBytes {
  i64 kept = 0, forward_workspace = 0, backward_workspace = 0;
};

class Training {
 public:
  static llvm::Expected<std::shared_ptr<Training>> create(const Plan& network,
                                                          std::shared_ptr<KernelCache> cache,
                                                          const TrainingOptions& options);
  /// Uses these results of tuning, which may be null, instead of those of the network's plan.
  static llvm::Expected<std::shared_ptr<Training>> create_tuned(
      const Plan& network, const std::shared_ptr<const TuningSnapshot>& tuning,
      std::shared_ptr<KernelCache> cache, const TrainingOptions& options);

  const TrainingPasses& passes() const { return *passes_; }
  /// Adds the levels and maps of the network to `description`, for all purposes of both passes.
  llvm::Error describe(llvm::ArrayRef<i64> capacities, llvm::ArrayRef<i64> slots,
                       PyramidDescription& description) const;
  /// Returns the sources of the kernels that no plan of a pass lists.
  SourceList kernels(llvm::StringRef arch) const;
  /// Returns requests for all kernels of both passes. Kernels may be repeated.
  llvm::Expected<std::vector<KernelRequest>> requests(llvm::StringRef arch) const;
  /// Compiles both passes, if their kernels are nowhere to be found, and loads them. The caller loads
  /// kernels() before.
  llvm::Error load(const std::shared_ptr<Device>& device);
  /// Returns the sizes for one pyramid. `device` has the architecture, and need not exist (measured_gpu()).
  llvm::Expected<TrainingBytes> bytes(const std::shared_ptr<Device>& device, const PyramidUse& use) const;

  /// `run` has no parameters, no RunSteps arguments, and inputs and outputs as of the network. The arrays of
  /// `given` must stay valid until the call returns.
  llvm::Error forward(const Device& device, const PyramidUse& use, PyramidRun run,
                      const ForwardArguments& given, void* stream) const;
  /// The inputs of `run` are the gradients of the network's outputs, of which each may have no data. The
  /// outputs are the gradients of the network's inputs, and have data where TrainingOptions want it.
  llvm::Error backward(const Device& device, const PyramidUse& use, PyramidRun run,
                       const BackwardArguments& given, void* stream) const;

  /// Hold the executions of each pass, which a pyramid drops when it is destroyed.
  const std::shared_ptr<RunPool>& forward_runs() const { return forward_.runs; }
  const std::shared_ptr<RunPool>& backward_runs() const { return backward_.runs; }

 private:
  struct Pass {
    std::shared_ptr<PlanStore> store;
    std::shared_ptr<RunPool> runs;
  };
  Training() = default;
  llvm::Error add_exported_maps(PyramidDescription& description) const;
  llvm::Error check_values(const PassArguments& given) const;

  std::shared_ptr<const TrainingPasses> passes_;
  Pass forward_, backward_;
};

}  // namespace minuet
