// Measures configurations inside a whole network, where each layer runs after the others and finds the caches
// as they left them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "codegen/base/background_job.h"
#include "codegen/tuning/tuner.h"
#include "runtime/execution/execution.h"

namespace minuet {

struct MeterCloud {
  const i32* coordinates = nullptr;  // device memory [count, 1 + ndim]
  i64 count = 0;
};

/// Fewest passes whose samples are meaningful.
inline constexpr i32 kLeastNetworkPasses = 3;

struct MeterOptions {
  std::vector<MeterCloud> clouds;   // at least one
  i32 repeats = 0;                  // timed runs of each cloud in a round; 0: 16 on a GPU, 5 on the CPU
  std::function<bool()> cancelled;  // called between runs and during compilation; may be empty
};

/// Measures the plan of a network. Not thread-safe. The times of a round are sums over the clouds and over
/// the layers of a bucket; they exclude the preparation of a cloud. There are two exceptions: the times of a
/// search are those of the sorted maps that a preparation makes, and the times of an order are those of a
/// preparation and a run together. A round that tries a search or an order must not try anything else.
class NetworkMeter final : public TuningMeter {
 public:
  static llvm::Expected<std::unique_ptr<NetworkMeter>> create(std::shared_ptr<const Plan> plan,
                                                              std::shared_ptr<KernelCache> cache,
                                                              std::shared_ptr<Device> device,
                                                              const TuningEnvironment& environment,
                                                              MeterOptions options);
  /// Sets what later rounds are compared with. `dataflow` applies to all layers; if it is empty, each layer
  /// uses its own choice. `maps` is the method that makes maps.
  llvm::Error set_default(TuningConfigs configs, std::optional<Dataflow> dataflow,
                          MapMethod maps = MapMethod::Indexed);
  struct LayerSize {
    i64 rows = 0;        // rows of the output
    double density = 0;  // pairs per output row
  };
  /// Returns the sizes by cloud and layer.
  const std::vector<std::vector<LayerSize>>& sizes() const { return sizes_; }
  /// Returns the key type of each cloud's sorted maps.
  const std::vector<KeyType>& keys() const { return keys_; }
  /// Returns about how long measure() takes once its kernels are compiled.
  double round_seconds() const { return opening_seconds_ + 2 * (options_.repeats + 3) * inference_seconds_; }
  /// Return the same for set_default() followed by measure_network(), with a full number of passes and with
  /// the fewest passes.
  double network_seconds() const { return network_overhead() + 2 * options_.repeats * inference_seconds_; }
  double least_network_seconds() const {
    return network_overhead() + 2 * kLeastNetworkPasses * inference_seconds_;
  }

  static double now();
  double seconds() override { return now(); }
  void announce(const TuningConfigs& round) override;
  llvm::Expected<std::map<TuningBucket, TuningSamples>> measure(const TuningConfigs& round) override;
  /// Measures whole inferences of all clouds in wall time, from coordinates and features to the output: as
  /// many passes as a round has, or as many as fit into `seconds`. Returns no samples, and runs nothing, if
  /// not even kLeastNetworkPasses fit.
  llvm::Expected<TuningSamples> measure_network(const TuningConfigs& configs, double seconds);

 private:
  struct Announced {
    TuningConfigs round;
    std::unique_ptr<BackgroundJob> job;
  };
  using Samples = std::map<TuningBucket, TuningSamples>;

  NetworkMeter(std::shared_ptr<const Plan> plan, std::shared_ptr<KernelCache> cache,
               std::shared_ptr<Device> device, TuningEnvironment environment, MeterOptions options);
  i64 most_points() const;
  double network_overhead() const;
  llvm::Error find_sizes();
  llvm::Error estimate();
  llvm::Error make_features();
  llvm::Error check_cancelled() const;
  TuningConfigs with_default(const TuningConfigs& round) const;
  llvm::Expected<std::shared_ptr<const CompiledPlan>> choose(const TuningConfigs& configs) const;
  void start_compiling(const TuningConfigs& round, const CompiledPlan& compiled);
  llvm::Expected<BinaryList> compile(const TuningConfigs& round, const CompiledPlan& compiled);
  llvm::Expected<std::unique_ptr<Execution>> open(const TuningConfigs& round);
  llvm::Error prepare(Execution& execution, std::size_t cloud);
  /// Prepares a cloud until its keys and maps are made as for a long sequence of similar clouds.
  llvm::Error settle(Execution& execution, std::size_t cloud);
  i32 settling_clouds() const;
  llvm::Error run(Execution& execution, std::size_t cloud);
  /// Runs a cloud and returns its output; of a large output only parts, evenly distributed.
  llvm::Expected<std::vector<float>> output_of(Execution& execution, std::size_t cloud);
  /// Returns FailedPrecondition if the default's output cannot reveal a wrong kernel.
  llvm::Error check_default_output();
  /// Prepares the default and the trial for a cloud, and checks that both have the same output.
  llvm::Error check_output(Execution& trial, std::size_t cloud);
  /// Return the nanoseconds of each bucket of `round` for one run (time_layers), one preparation in a round
  /// of searches (time_search), or a preparation and a run in a round of an order (time_whole).
  llvm::Expected<std::map<TuningBucket, i64>> time_layers(Execution& execution, std::size_t cloud,
                                                          const TuningConfigs& round);
  llvm::Expected<std::map<TuningBucket, i64>> time_search(Execution& execution, std::size_t cloud,
                                                          const TuningConfigs& round);
  llvm::Expected<std::map<TuningBucket, i64>> time_whole(Execution& execution, std::size_t cloud,
                                                         const TuningConfigs& round);
  llvm::Error measure_cloud(Execution& trial, std::size_t cloud, const TuningConfigs& round,
                            Samples& samples);
  llvm::Expected<i64> time_inference(Execution& execution, std::size_t cloud);

  const std::shared_ptr<const Plan> plan_;
  const std::shared_ptr<KernelCache> cache_;
  const std::shared_ptr<Device> device_;
  const TuningEnvironment environment_;
  const MeterOptions options_;
  std::vector<std::vector<LayerSize>> sizes_;
  std::vector<KeyType> keys_;
  double opening_seconds_ = 0;    // of the default, whose kernels are already compiled
  double inference_seconds_ = 0;  // one inference of each cloud
  DeviceMemory features_, output_;
  TuningConfigs default_;
  std::optional<Dataflow> dataflow_;
  MapMethod method_ = MapMethod::Indexed;
  std::unique_ptr<Execution> fallback_;
  std::vector<Announced> announced_;
};

}  // namespace minuet
