// A plan for one architecture, what is loaded of it on a device, and where both are kept.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "codegen/cache/kernel_cache.h"
#include "codegen/choose/candidates.h"
#include "runtime/engine/device.h"
#include "runtime/plan/plan.h"

namespace minuet {

/// What may run each op of a plan on one architecture. Immutable. What was measured (codegen/tuning) decides
/// with the problems; which candidate runs, the cloud does.
struct CompiledPlan {
  std::string arch;  // "" for the CPU
  EngineChoice engine;
  /// By layer; none of an op that the candidates of the op before it always compute.
  std::vector<std::vector<Candidate>> candidates;
  std::vector<PermuteRowsSpec> permute_inputs;  // by input of the program
  PermuteRowsSpec permute_output, permute_coordinates;
  GroupingChoice grouping;  // of all convolutions by gather-GEMM-scatter
  OrderChoice order;        // of a network's masked views

  /// Chooses by the plan's tuning.
  static llvm::Expected<std::shared_ptr<const CompiledPlan>> create(const Plan& plan, llvm::StringRef arch) {
    return create(plan.program, arch, plan.tuning.get());
  }
  /// `tuning`: what was measured; null chooses what is expected to be fastest.
  static llvm::Expected<std::shared_ptr<const CompiledPlan>> create(const Program& program,
                                                                    llvm::StringRef arch,
                                                                    const TuningSnapshot* tuning);
  /// Whether some candidate of the layer reads its map in this form.
  bool has(ViewForm form, std::size_t layer) const;
  /// Every kernel that any cloud may need, each once.
  std::vector<KernelRequest> requests() const;
};

/// Offsets of the largest kernel map, whose search serves all maps; 0 where there is no map.
i64 largest_volume(const Program& program);
/// The convolution with the largest kernel, whose grouping and order of rows serve all convolutions; null
/// where there is none.
const WindowProblem* largest_convolution(const Program& program);
/// What may be tuned of a network as a whole; nothing where it has no map.
std::vector<TuningBucket> buckets_of_network(const Program& program);

/// Every kernel of a plan for `arch`, and those that GPUs of it choose by what was measured on them: some may
/// be there twice.
llvm::Expected<std::vector<KernelRequest>> requests_ahead(const Plan& plan, llvm::StringRef arch,
                                                          const std::vector<TuningEntry>& results);

/// A compiled plan's parameters on one device, its kernels loaded there. Immutable, shared by executions.
struct LoadedPlan {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const CompiledPlan> compiled;
  std::shared_ptr<Device> device;
  DeviceMemory parameters;
  /// By layer and candidate: what parameter_images() lists, on the device; null where the op does not have
  /// it.
  std::vector<std::vector<std::vector<const void*>>> weights;

  /// Loads kernels, GEMMs and parameters, beside one another. `trace` may be null.
  static llvm::Expected<std::shared_ptr<const LoadedPlan>> create(
      std::shared_ptr<const Plan> plan, std::shared_ptr<const CompiledPlan> compiled,
      const BinaryList& binaries, std::shared_ptr<Device> device, const Reload& reload, Trace* trace);
};

/// Where a plan is compiled for and loaded on. Thread-safe.
class PlanStore {
 public:
  PlanStore(std::shared_ptr<const Plan> plan, std::shared_ptr<KernelCache> cache)
      : plan_(std::move(plan)), cache_(std::move(cache)) {}
  const Plan& plan() const { return *plan_; }
  const std::shared_ptr<const Plan>& shared_plan() const { return plan_; }
  KernelCache& cache() const { return *cache_; }

  llvm::Expected<BinaryList> compile(llvm::StringRef arch, const CancelToken* cancel = nullptr);
  /// Takes what is compiled for the best architecture that the device runs; FailedPrecondition where nothing
  /// is.
  llvm::Error load(std::shared_ptr<Device> device);
  llvm::Expected<std::shared_ptr<const LoadedPlan>> loaded_on(const Device& device) const;

 private:
  struct Compiled {
    std::shared_ptr<const CompiledPlan> plan;
    BinaryList binaries;
  };
  /// What the device runs, by its architecture.
  llvm::Expected<std::pair<std::string, Compiled>> runnable_on(const DeviceInfo& device) const;
  /// The kernels of the plan without tuning, once those of the tuned one are missing for the reason `why`.
  llvm::Expected<BinaryList> compile_untuned(const CompiledPlan& untuned, StatusError why,
                                             const CancelToken* cancel);
  llvm::Expected<std::shared_ptr<const Binary>> reload(const std::string& arch, const CompiledPlan& compiled,
                                                       const Binary& refused);

  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<KernelCache> cache_;
  mutable std::mutex mutex_;  // of the two maps; never held while compiling or loading
  std::map<std::string, Compiled> compiled_;
  std::map<const Device*, std::shared_ptr<const LoadedPlan>> loaded_;
};

}  // namespace minuet
