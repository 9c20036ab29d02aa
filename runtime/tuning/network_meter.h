// Measures configurations of kernels inside a whole network, in which a layer runs after other layers and
// finds the hardware caches as those layers left them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "codegen/tuning/tuner.h"
#include "runtime/execution/execution.h"
#include "runtime/tuning/round_compiler.h"

namespace minuet {

struct MeterCloud {
  const i32* coordinates = nullptr;  // Points to device memory of shape [count, 1 + ndim].
  i64 count = 0;
};

/// A measurement of the whole network makes at least this many passes, because the samples of fewer passes
/// are not meaningful.
inline constexpr i32 kLeastNetworkPasses = 3;

struct MeterOptions {
  std::vector<MeterCloud> clouds;  // There must be at least one cloud.
  i32 repeats = 0;  // Counts the timed runs of a cloud per measurement. 0 means 16 on a GPU and 5 on the CPU.
  /// Returns true if tuning must stop. The meter calls this function between runs and during compilation. It
  /// may be empty.
  std::function<bool()> cancelled;
};

/// Measures the plan of a network. The class is not thread-safe. The times of a round
/// (codegen/tuning/tuner.h) are sums over the clouds and over the layers of a bucket (TuningBucket), without
/// the preparation of a cloud. There are two exceptions. The times of Operation::Search are those of the
/// sorted maps that a preparation makes, and the times of Operation::Order are those of a preparation and a
/// run together. A round that tries one of these two operations must not try anything else.
class NetworkMeter final : public TuningMeter {
 public:
  static llvm::Expected<std::unique_ptr<NetworkMeter>> create(std::shared_ptr<const Plan> plan,
                                                              std::shared_ptr<KernelCache> cache,
                                                              std::shared_ptr<Device> device,
                                                              const TuningEnvironment& environment,
                                                              MeterOptions options);
  /// Sets the default configurations, with which later measurements are compared. `dataflow` applies to all
  /// layers. If it is empty, each layer uses its own choice. `maps` is the method that makes coordinate sets
  /// and kernel maps.
  llvm::Error set_default(TuningConfigs configs, std::optional<Dataflow> dataflow,
                          MapMethod maps = MapMethod::Indexed);
  struct LayerSize {
    i64 rows = 0;        // Counts the rows of the output.
    double density = 0;  // Holds the number of pairs per output row.
  };
  /// Returns the sizes of each cloud's layers.
  const std::vector<std::vector<LayerSize>>& sizes() const { return sizes_; }
  /// Return, for each cloud, the rows of each level of the program, and the pairs of each map, or -1 for a
  /// map that no layer reads.
  const std::vector<std::vector<i64>>& level_rows() const { return level_rows_; }
  const std::vector<std::vector<i64>>& map_pairs() const { return map_pairs_; }
  /// Returns the number of batch items of the clouds, or 0 if no op needs it.
  i32 batch_size() const { return batch_size_; }
  const MeterOptions& options() const { return options_; }
  /// Returns the key type of each cloud's sorted maps.
  const std::vector<KeyType>& keys() const { return keys_; }
  /// Returns about how many seconds measure() takes once its kernels are compiled.
  double round_seconds() const { return opening_seconds_ + 2 * (options_.repeats + 3) * inference_seconds_; }
  /// The next two functions return about how many seconds set_default() and measure_network() take together.
  /// The first one assumes MeterOptions::repeats passes, and the second one kLeastNetworkPasses passes.
  double network_seconds() const { return network_overhead() + 2 * options_.repeats * inference_seconds_; }
  double least_network_seconds() const {
    return network_overhead() + 2 * kLeastNetworkPasses * inference_seconds_;
  }

  static double now();
  double seconds() override { return now(); }
  void announce(const TuningConfigs& round) override;
  llvm::Expected<std::map<TuningBucket, TuningSamples>> measure(const TuningConfigs& round) override;
  /// Measures whole inferences of all clouds in wall time, from coordinates and features to the output. It
  /// makes MeterOptions::repeats passes, or fewer if only fewer fit into `seconds`. If not even
  /// kLeastNetworkPasses fit, it runs nothing and returns no samples.
  llvm::Expected<TuningSamples> measure_network(const TuningConfigs& configs, double seconds);

 private:
  using Samples = std::map<TuningBucket, TuningSamples>;

  NetworkMeter(std::shared_ptr<const Plan> plan, std::shared_ptr<KernelCache> cache,
               std::shared_ptr<Device> device, TuningEnvironment environment, MeterOptions options);
  i64 most_points() const;
  double network_overhead() const;
  llvm::Error find_sizes();
  llvm::Error estimate();
  llvm::Error make_features();
  llvm::Error check_cancelled() const { return compiler_.check_cancelled(); }
  llvm::Expected<std::shared_ptr<const CompiledPlan>> choose(const TuningConfigs& configs) const;
  llvm::Expected<std::unique_ptr<Execution>> open(const TuningConfigs& round);
  llvm::Error prepare(Execution& execution, std::size_t cloud);
  /// Prepares a cloud repeatedly, until its keys and maps are made as after a long sequence of similar
  /// clouds.
  llvm::Error settle(Execution& execution, std::size_t cloud);
  i32 settling_clouds() const;
  /// Runs the cloud that is prepared.
  llvm::Error run(Execution& execution);
  /// Describes consecutive values of an output.
  struct OutputPart {
    char* data = nullptr;
    i64 values = 0;
  };
  llvm::Error find_batch_size();
  i64 most_values(i32 tensor) const;
  std::vector<OutputPart> parts_of(const Execution& execution, std::size_t output) const;
  /// Runs the cloud that is prepared and returns its outputs. Of a large output, the result has only evenly
  /// distributed parts.
  llvm::Expected<std::vector<float>> output_of(Execution& execution);
  /// Returns FailedPrecondition if the output of the default kernels cannot reveal a wrong kernel.
  llvm::Error check_default_output();
  /// Prepares the executions of the default and of the trial for a cloud, and returns an error if their
  /// outputs differ by more than rounding.
  llvm::Error check_output(Execution& trial, std::size_t cloud);
  /// The next three functions return the nanoseconds of each bucket of `round`. time_layers() measures one
  /// run. time_search() measures one preparation, for Operation::Search. time_whole() measures a preparation
  /// and a run, for Operation::Order.
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
  const std::shared_ptr<Device> device_;
  const TuningEnvironment environment_;
  const MeterOptions options_;
  RoundCompiler compiler_;
  std::vector<std::vector<LayerSize>> sizes_;
  std::vector<std::vector<i64>> level_rows_, map_pairs_;
  std::vector<KeyType> keys_;
  /// Holds the time to open an execution of the default configurations, whose kernels are already compiled.
  double opening_seconds_ = 0;
  double inference_seconds_ = 0;  // Holds the sum of the times of one inference of each cloud.
  // Hold one element for each input and output of the network.
  std::vector<DeviceMemory> features_, outputs_;
  // Holds, for each level (coordinate set), the largest number of the caller's rows in a cloud.
  std::vector<i64> most_rows_;
  // Holds the number of batch items of the clouds, or 0 if no op needs it.
  i32 batch_size_ = 0;
  TuningConfigs default_;
  std::optional<Dataflow> dataflow_;
  MapMethod method_ = MapMethod::Indexed;
  std::unique_ptr<Execution> fallback_;
};

}  // namespace minuet
