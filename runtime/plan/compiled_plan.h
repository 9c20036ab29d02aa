// A plan compiled for one architecture, its loaded form on one device, and the store that keeps both.
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

/// The candidates for each op of a plan on one architecture. Immutable. The problems and the tuning results
/// (codegen/tuning) decide the candidates; the cloud decides which candidate runs.
struct CompiledPlan {
  std::string arch;  // "" for the CPU
  EngineChoice engine;
  /// By layer; empty for an op that every candidate of an op before it computes too.
  std::vector<std::vector<Candidate>> candidates;
  std::vector<PermuteRowsSpec> permute_inputs;  // by input of the program
  PermuteRowsSpec permute_output, permute_coordinates;
  GroupingChoice grouping;  // of all convolutions that run as gather-GEMM-scatter
  OrderChoice order;        // of a network's masked views

  /// Chooses with the plan's own tuning results.
  static llvm::Expected<std::shared_ptr<const CompiledPlan>> create(const Plan& plan, llvm::StringRef arch) {
    return create(plan.program, arch, plan.tuning.get());
  }
  /// `tuning` has the tuning results to use; null chooses what is expected to be fastest.
  static llvm::Expected<std::shared_ptr<const CompiledPlan>> create(const Program& program,
                                                                    llvm::StringRef arch,
                                                                    const TuningSnapshot* tuning);
  /// Returns true if a candidate of the layer reads its map in this form.
  bool has(ViewForm form, std::size_t layer) const;
  /// Returns every kernel that any cloud may need, each once.
  std::vector<KernelRequest> requests() const;
};

/// Returns the number of offsets of the largest kernel map, whose choice of search serves all maps; 0 if
/// there is no map.
i64 largest_volume(const Program& program);
/// Returns the convolution with the largest kernel, whose grouping and row order serve all convolutions; null
/// if there is no convolution.
const WindowProblem* largest_convolution(const Program& program);
/// Returns what can be tuned for a network as a whole; empty if it has no map.
std::vector<TuningBucket> buckets_of_network(const Program& program);

/// Returns every kernel of a plan for `arch`, including those that GPUs of that architecture choose by the
/// tuning results of these GPUs. Kernels may be repeated.
llvm::Expected<std::vector<KernelRequest>> requests_ahead(const Plan& plan, llvm::StringRef arch,
                                                          const std::vector<TuningEntry>& results);

/// A compiled plan's parameters on one device, where its kernels are loaded. Immutable; executions share it.
struct LoadedPlan {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const CompiledPlan> compiled;
  std::shared_ptr<Device> device;
  DeviceMemory parameters;
  /// By layer and candidate: the images that parameter_images() lists, on the device; null if the op does not
  /// have the parameter.
  std::vector<std::vector<std::vector<const void*>>> weights;

  /// Loads kernels, GEMMs and parameters in parallel. `trace` may be null.
  static llvm::Expected<std::shared_ptr<const LoadedPlan>> create(
      std::shared_ptr<const Plan> plan, std::shared_ptr<const CompiledPlan> compiled,
      const BinaryList& binaries, std::shared_ptr<Device> device, const Reload& reload, Trace* trace);
};

/// Keeps the compiled and loaded forms of a plan, by architecture and device. Thread-safe.
class PlanStore {
 public:
  PlanStore(std::shared_ptr<const Plan> plan, std::shared_ptr<KernelCache> cache)
      : plan_(std::move(plan)), cache_(std::move(cache)) {}
  const Plan& plan() const { return *plan_; }
  const std::shared_ptr<const Plan>& shared_plan() const { return plan_; }
  KernelCache& cache() const { return *cache_; }

  llvm::Expected<BinaryList> compile(llvm::StringRef arch, const CancelToken* cancel = nullptr);
  /// Loads the form compiled for the best architecture that the device runs. Returns FailedPrecondition if
  /// there is none.
  llvm::Error load(std::shared_ptr<Device> device);
  llvm::Expected<std::shared_ptr<const LoadedPlan>> loaded_on(const Device& device) const;

 private:
  struct Compiled {
    std::shared_ptr<const CompiledPlan> plan;
    BinaryList binaries;
  };
  /// Returns the compiled form that the device runs, and its architecture.
  llvm::Expected<std::pair<std::string, Compiled>> runnable_on(const DeviceInfo& device) const;
  /// Compiles the plan without tuning, after kernels of the tuned plan were missing for the reason `why`.
  llvm::Expected<BinaryList> compile_untuned(const CompiledPlan& untuned, StatusError why,
                                             const CancelToken* cancel);
  llvm::Expected<std::shared_ptr<const Binary>> reload(const std::string& arch, const CompiledPlan& compiled,
                                                       const Binary& refused);

  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<KernelCache> cache_;
  mutable std::mutex mutex_;  // guards both maps; never held while compiling or loading
  std::map<std::string, Compiled> compiled_;
  std::map<const Device*, std::shared_ptr<const LoadedPlan>> loaded_;
};

}  // namespace minuet
