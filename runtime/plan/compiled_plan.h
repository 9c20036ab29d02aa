// Declares a plan compiled for one architecture, its loaded form on one device, and the store that keeps
// both.
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
#include "runtime/program/stages.h"
#include "runtime/weights/weight_image.h"

namespace minuet {

struct CompiledStage;

/// Holds, for one architecture, the ways to run each op of a plan (Candidate). It is immutable. The op's
/// problem and the tuning results (codegen/tuning) decide which candidates an op has, and the cloud decides
/// which one runs.
struct CompiledPlan {
  std::string arch;  // Names an architecture of GPUs, or is empty for the CPU.
  EngineChoice engine;
  /// Lists the candidates of each layer. The list of an op is empty if every candidate of an earlier op
  /// computes it too.
  std::vector<std::vector<Candidate>> candidates;
  std::vector<PermuteRowsSpec> permute_inputs;   // There is one Spec for each input of the program.
  std::vector<PermuteRowsSpec> permute_outputs;  // There is one Spec for each output of the program.
  PermuteRowsSpec permute_coordinates;
  // Copies the coordinates of one axis. It is empty if the levels of all outputs have all axes.
  std::optional<PermuteRowsSpec> copy_axis;
  // The kernels of a ParameterSet depend on the next three members. weight_bytes is the number of bytes of an
  // element of a weight, or 0 if the plan has no parameters. folds_parameters says whether scales and shifts
  // are computed from other parameters.
  i32 weight_bytes = 0;
  bool folds_parameters = false;
  // Says whether a candidate reads an image of a weight (FusedImage).
  bool has_images = false;
  GroupingChoice grouping;  // Applies to all convolutions that run as gather-GEMM-scatter.
  OrderChoice order;        // Orders the rows in views of a network's own maps.
  /// Holds the stages of a program that has several, in the order in which they run. It is empty otherwise.
  /// Each stage has inputs and outputs of its own, and the program as a whole then has no permute_inputs and
  /// permute_outputs.
  std::vector<CompiledStage> stages;

  /// Chooses the candidates with the plan's own tuning results.
  static llvm::Expected<std::shared_ptr<const CompiledPlan>> create(const Plan& plan, llvm::StringRef arch) {
    return create(plan.program, arch, plan.tuning.get());
  }
  /// Chooses the candidates with the results in `tuning`. If it is null, chooses by heuristics what is
  /// expected to be fastest.
  static llvm::Expected<std::shared_ptr<const CompiledPlan>> create(const Program& program,
                                                                    llvm::StringRef arch,
                                                                    const TuningSnapshot* tuning);
  /// Returns true if a candidate of the layer reads its map in this form.
  bool has(ViewForm form, std::size_t layer) const;
  /// Returns a request for every kernel that any cloud may need, without repetitions.
  std::vector<KernelRequest> requests() const;

 private:
  void choose_permutes(const Program& program);
  void add_stages(const Program& program);
  void add_permutes(SourceList& list) const;
};

/// Holds one stage of a compiled plan. Its candidates are those of the plan.
struct CompiledStage {
  ProgramStage stage;
  std::shared_ptr<const CompiledPlan> compiled;
};

/// Returns the convolution with the largest kernel, or null if there is no convolution. The grouping of GEMMs
/// and the row order that are chosen for it serve all convolutions.
const WindowProblem* largest_convolution(const Program& program);
/// Returns the buckets (groups of problems that share a measurement) whose tuning results apply to a network
/// as a whole. There are none if the network has no map.
std::vector<TuningBucket> buckets_of_network(const Program& program);

/// Returns the size of an image of a layer's parameters, which a plan without values has too. image.ahead
/// says nothing here and in write_image(): `layer` is the one that has the parameters.
i64 image_bytes(const ProgramLayer& layer, const ParameterImage& image);
/// Writes an image of a layer's parameters.
void write_image(const LayerParameters& layer, const ParameterImage& image, char* target);

/// Returns requests for every kernel of a plan for `arch`, to compile them ahead of time. They include the
/// kernels that GPUs of this architecture choose by their tuning results in `results`. Kernels may be
/// repeated.
llvm::Expected<std::vector<KernelRequest>> requests_ahead(const Plan& plan, llvm::StringRef arch,
                                                          const std::vector<TuningEntry>& results);

/// Holds the parameters of a compiled plan on one device, on which its kernels are loaded. It is immutable,
/// because executions share it.
struct LoadedPlan {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const CompiledPlan> compiled;
  std::shared_ptr<Device> device;
  DeviceMemory parameters;
  /// Holds, for each candidate of each layer, pointers to its parameters on the device, in the order of
  /// parameter_images(). A pointer is null if the op does not have the parameter. If the plan has no values,
  /// the list of each layer is empty.
  std::vector<std::vector<std::vector<const void*>>> weights;
  /// If this is a stage of a plan (of_stage()), `whole` is that plan, and `layers` holds the number in it of
  /// each layer. Otherwise both are empty.
  std::shared_ptr<const LoadedPlan> whole;
  std::vector<i32> layers;

  /// Returns the number that a layer has in the plan whose parameters it reads.
  std::size_t layer_of_plan(std::size_t layer) const {
    return whole ? static_cast<std::size_t>(layers[layer]) : layer;
  }
  /// Returns one stage (CompiledPlan::stages) of a plan as a plan that has no parameters of its own.
  static std::shared_ptr<const LoadedPlan> of_stage(std::shared_ptr<const LoadedPlan> whole,
                                                    std::size_t stage);
  /// Loads kernels, GEMMs and parameters in parallel. `trace` may be null.
  static llvm::Expected<std::shared_ptr<const LoadedPlan>> create(
      std::shared_ptr<const Plan> plan, std::shared_ptr<const CompiledPlan> compiled,
      const BinaryList& binaries, std::shared_ptr<Device> device, const Reload& reload, Trace* trace);
};

/// Keeps the compiled forms of a plan by architecture, and the loaded ones by device. The class is
/// thread-safe.
class PlanStore {
 public:
  struct Compiled {
    std::shared_ptr<const CompiledPlan> plan;
    BinaryList binaries;
  };
  PlanStore(std::shared_ptr<const Plan> plan, std::shared_ptr<KernelCache> cache)
      : plan_(std::move(plan)), cache_(std::move(cache)) {}
  const Plan& plan() const { return *plan_; }
  const std::shared_ptr<const Plan>& shared_plan() const { return plan_; }
  KernelCache& cache() const { return *cache_; }

  llvm::Expected<BinaryList> compile(llvm::StringRef arch, const CancelToken* cancel = nullptr);
  /// Returns the form compiled for exactly this architecture, or FailedPrecondition if there is none.
  llvm::Expected<Compiled> compiled_for(llvm::StringRef arch) const;
  /// Loads the form compiled for the best architecture that the device runs. Returns FailedPrecondition if
  /// there is none.
  llvm::Error load(std::shared_ptr<Device> device);
  llvm::Expected<std::shared_ptr<const LoadedPlan>> loaded_on(const Device& device) const;
  /// Returns the form compiled for exactly the architecture of `device`, with neither kernels nor parameters
  /// on the device. It serves only to measure the memory of executions. Returns FailedPrecondition if the
  /// plan is not compiled for this architecture.
  llvm::Expected<std::shared_ptr<const LoadedPlan>> measured_on(std::shared_ptr<Device> device) const;

 private:
  /// Returns the compiled form that the device runs, and its architecture.
  llvm::Expected<std::pair<std::string, Compiled>> runnable_on(const DeviceInfo& device) const;
  /// Compiles the plan without tuning, after kernels of the tuned plan were missing for the reason `why`.
  llvm::Expected<BinaryList> compile_untuned(const CompiledPlan& untuned, StatusError why,
                                             const CancelToken* cancel);
  llvm::Expected<std::shared_ptr<const Binary>> reload(const std::string& arch, const CompiledPlan& compiled,
                                                       const Binary& refused);

  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<KernelCache> cache_;
  /// Guards compiled_ and loaded_, and is never held during compilation or loading.
  mutable std::mutex mutex_;
  std::map<std::string, Compiled> compiled_;
  std::map<const Device*, std::shared_ptr<const LoadedPlan>> loaded_;
};

}  // namespace minuet
