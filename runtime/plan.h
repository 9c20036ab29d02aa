// A plan: a validated network or convolution with its choices and parameters. Immutable.
//
// The road of a tensor starts here: problem -> choose -> (emit, compile) -> load -> execution.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "codegen/cache/compile_list.h"
#include "runtime/device.h"
#include "runtime/parameters.h"

namespace minuet {

struct PlanLayer {
  ConvolutionChoice choice;
  LayerParameters parameters;
};

/// What networks and single convolutions have in common. What was measured for their layers
/// (codegen/tuning), or null, decides with the problem; a cloud's size is not known here.
struct Plan {
  EngineChoice engine;
  std::vector<PlanLayer> layers;
  PermuteRowsSpec permute_input, permute_output, permute_coordinates;
  GroupingChoice grouping;

  /// Every kernel that any cloud may need, each once.
  std::vector<KernelSource> sources() const;
  /// Those of the same plan made with `tuning`.
  std::vector<KernelSource> sources(const TuningSnapshot& tuning) const;

  /// The search and the grouping that all layers share: those of the largest kernel.
  void choose_shared(i32 ndim, const TuningSnapshot* tuning);
};

/// A network as the caller asks for it.
struct NetworkProblem {
  NetworkDescription description;
  DType dtype = DType::F16;
  std::vector<i32> channels;  // empty: as described
  i32 ndim = 0;               // 0: as described
};

/// Its layers, with the channels that `problem` asks for and the heads that `source` has; the parameters are
/// checked against them.
llvm::Expected<NetworkProgram> make_program(NetworkProblem& problem, const ParameterSource& source);

struct NetworkPlan : Plan {
  NetworkProgram program;
  i64 parameter_count = 0;

  static llvm::Expected<std::shared_ptr<const NetworkPlan>> create(NetworkProblem problem,
                                                                   const ParameterSource& source,
                                                                   const TuningSnapshot* tuning = nullptr);
};

struct ConvolutionPlan : Plan {
  ConvolutionProblem problem;

  /// weight: fp32 [volume, in_channels, out_channels]; scale and shift as the problem says.
  static llvm::Expected<std::shared_ptr<const ConvolutionPlan>> create(
      ConvolutionProblem problem, LayerParameters parameters, const TuningSnapshot* tuning = nullptr);
};

/// One search for all maps: `volume` is the largest kernel's.
EngineChoice choose_engine(i32 ndim, i64 volume = 0, const TuningSnapshot* tuning = nullptr);

/// For Device::load: compiles a binary of `sources` anew that the driver refused on a device of `arch` (R28).
llvm::Expected<std::shared_ptr<const Binary>> recompile(KernelCache& cache,
                                                        const std::vector<KernelSource>& sources,
                                                        llvm::StringRef arch, const Binary& refused);

/// A plan's parameters on one device, its kernels loaded there. Immutable, shared by executions.
struct LoadedPlan {
  std::shared_ptr<Device> device;
  DeviceMemory parameters;
  std::vector<ConvolutionWeights> weights;  // by layer
};

/// Where a plan is compiled for and loaded on. Thread-safe.
class PlanResidence {
 public:
  PlanResidence(std::shared_ptr<const Plan> plan, std::shared_ptr<KernelCache> cache)
      : plan_(std::move(plan)), cache_(std::move(cache)) {}
  KernelCache& cache() const { return *cache_; }

  llvm::Expected<BinaryList> compile(llvm::StringRef arch, const CancelToken* cancel = nullptr);
  /// FailedPrecondition where compile(device's arch) has not happened.
  llvm::Error load(std::shared_ptr<Device> device);
  llvm::Expected<std::shared_ptr<const LoadedPlan>> loaded_on(const Device& device) const;

 private:
  llvm::Expected<std::shared_ptr<const Binary>> reload(llvm::StringRef arch, const Binary& refused);

  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<KernelCache> cache_;
  mutable std::mutex mutex_;  // of the two maps; never held while compiling or loading
  std::map<std::string, BinaryList> compiled_;
  std::map<const Device*, std::shared_ptr<const LoadedPlan>> loaded_;
};

}  // namespace minuet
