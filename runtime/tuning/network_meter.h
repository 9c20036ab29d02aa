// Measures configurations in a whole network: each layer in its place behind the others, with what they left
// in the caches.
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

/// With which samples say something.
inline constexpr i32 kLeastNetworkPasses = 3;

struct MeterOptions {
  std::vector<MeterCloud> clouds;   // one at least
  i32 repeats = 0;                  // timed runs of each cloud in a round; 0: 16 on a GPU, 5 on the CPU
  std::function<bool()> cancelled;  // asked between runs, and while kernels are compiled; may be empty
};

/// One thread at a time. The plan is of a network. Times of a round are summed over the clouds and over the
/// layers that a bucket has, and do not hold the preparation of a cloud; but a search's are of the sorted
/// maps that a preparation makes, and an order's of a preparation and a run together. A round that tries one
/// of these tries nothing else.
class NetworkMeter final : public TuningMeter {
 public:
  static llvm::Expected<std::unique_ptr<NetworkMeter>> create(std::shared_ptr<const Plan> plan,
                                                              std::shared_ptr<KernelCache> cache,
                                                              std::shared_ptr<Device> device,
                                                              const TuningEnvironment& environment,
                                                              MeterOptions options);
  /// What rounds are compared with from here on. `dataflow`: of all layers; else each by its choice. `maps`:
  /// how they are made.
  llvm::Error set_default(TuningConfigs configs, std::optional<Dataflow> dataflow,
                          MapMethod maps = MapMethod::Indexed);
  struct LayerSize {
    i64 rows = 0;        // of the output
    double density = 0;  // pairs a row of it
  };
  /// By cloud and layer.
  const std::vector<std::vector<LayerSize>>& sizes() const { return sizes_; }
  /// Of each cloud's sorted maps.
  const std::vector<KeyType>& keys() const { return keys_; }
  /// About how long measure() takes, once its kernels are compiled.
  double round_seconds() const { return opening_seconds_ + 2 * (options_.repeats + 3) * inference_seconds_; }
  /// The same of measure_network() with set_default() before it, where it may take its time; and of its
  /// fewest passes.
  double network_seconds() const { return network_overhead() + 2 * options_.repeats * inference_seconds_; }
  double least_network_seconds() const {
    return network_overhead() + 2 * kLeastNetworkPasses * inference_seconds_;
  }

  static double now();
  double seconds() override { return now(); }
  void announce(const TuningConfigs& round) override;
  llvm::Expected<std::map<TuningBucket, TuningSamples>> measure(const TuningConfigs& round) override;
  /// Whole inferences of all clouds, wall time, from coordinates and features to the output: as many passes
  /// as a round has, or as few as fit into `seconds`. None, and nothing is run, where kLeastNetworkPasses do
  /// not.
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
  /// Until its keys and maps are made as they will be for more clouds like this one.
  llvm::Error settle(Execution& execution, std::size_t cloud);
  i32 settling_clouds() const;
  llvm::Error run(Execution& execution, std::size_t cloud);
  /// Of a large output, parts that are spread over it.
  llvm::Expected<std::vector<float>> output_of(Execution& execution, std::size_t cloud);
  /// That trials can be told from it.
  llvm::Error check_default_output();
  /// That both are prepared for a cloud, and that the trial's output is the default's.
  llvm::Error check_output(Execution& trial, std::size_t cloud);
  /// Of one run: nanoseconds of each bucket of `round`.
  llvm::Expected<std::map<TuningBucket, i64>> time_layers(Execution& execution, std::size_t cloud,
                                                          const TuningConfigs& round);
  /// Of one preparation: the same, of a round of searches.
  llvm::Expected<std::map<TuningBucket, i64>> time_search(Execution& execution, std::size_t cloud,
                                                          const TuningConfigs& round);
  /// Of a preparation and a run: the same, of a round of an order.
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
  double opening_seconds_ = 0;    // of the default, whose kernels are there
  double inference_seconds_ = 0;  // one of each cloud
  DeviceMemory features_, output_;
  TuningConfigs default_;
  std::optional<Dataflow> dataflow_;
  MapMethod method_ = MapMethod::Indexed;
  std::unique_ptr<Execution> fallback_;
  std::vector<Announced> announced_;
};

}  // namespace minuet
