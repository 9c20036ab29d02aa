// Measures configurations of the kernels that compute gradients, inside backward passes of a training step.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "codegen/tuning/tuner.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/maps/map_engines.h"
#include "runtime/training/training.h"
#include "runtime/tuning/network_meter.h"
#include "runtime/tuning/round_compiler.h"

namespace minuet {

/// Says which gradients are tuned together.
enum class GradientKind : i32 {
  Weights,  // Are those of weights, Operation::WeightGradient.
  Inputs    // Are those of the inputs of convolutions, Operation::InputGradient.
};

/// Measures the training step of a network on a GPU. The class is not thread-safe. The times of a round are
/// sums over the clouds and over the layers of a bucket (TuningBucket).
///
/// A training step knows the capacities of its levels and lists, but neither rows nor pairs. So all layers
/// that differ in density alone have the same kernel, and the same bucket here: that of the layer with most
/// pairs.
class TrainingMeter final : public TuningMeter {
 public:
  /// `network` has measured the clouds of `options`, of which there is at least one. Returns the error of
  /// Training::create() if the network cannot be trained.
  static llvm::Expected<std::unique_ptr<TrainingMeter>> create(std::shared_ptr<const Plan> plan,
                                                               std::shared_ptr<KernelCache> cache,
                                                               std::shared_ptr<Device> device,
                                                               TuningEnvironment environment,
                                                               const NetworkMeter& network);
  /// Sets the default configurations, with which later measurements are compared.
  llvm::Error set_default(TuningConfigs configs);
  /// Returns the tasks of all gradients of one kind, with one task per bucket.
  std::vector<TuningTask> tasks(GradientKind kind) const;
  /// Returns about how many seconds measure() takes once its kernels are compiled.
  double round_seconds() const { return opening_seconds_ + 2 * (options_.repeats + 3) * step_seconds_; }

  double seconds() override { return NetworkMeter::now(); }
  void announce(const TuningConfigs& round) override;
  llvm::Expected<std::map<TuningBucket, TuningSamples>> measure(const TuningConfigs& round) override;

 private:
  using Samples = std::map<TuningBucket, TuningSamples>;
  /// Describes the gradients that one step or layer of the backward pass computes for a cloud.
  struct Gradient {
    GradientKind kind = GradientKind::Weights;
    std::size_t number = 0;  // Is that of RunTimes::steps or of RunTimes::layers.
    TuningBucket bucket;
    i64 rows = 0;  // Is the number for which the kernel is chosen.
    i64 pairs = 0, most_pairs = 0;
    ConvolutionProblem problem;  // Is that of the forward or of the backward convolution.

    double density() const { return static_cast<double>(pairs) / static_cast<double>(rows); }
  };
  struct Cloud {
    MeterCloud points;
    std::shared_ptr<const Pyramid> pyramid;
    std::vector<Gradient> gradients;
  };

  TrainingMeter(std::shared_ptr<const Plan> plan, std::shared_ptr<KernelCache> cache,
                std::shared_ptr<Device> device, TuningEnvironment environment, const NetworkMeter& network);
  const TrainingPasses& passes() const { return fallback_->passes(); }
  llvm::Error add_cloud(const NetworkMeter& network, std::size_t number);
  llvm::Error add_gradients(Cloud& cloud, const std::vector<i64>& capacities,
                            const std::vector<i64>& pairs) const;
  std::map<TuningBucket, const Gradient*> largest(
      llvm::function_ref<TuningBucket(const Gradient&)> key) const;
  void share_buckets();
  llvm::Error allocate();
  llvm::Error make_parameters();
  llvm::Error make_tensors();
  llvm::Error estimate();
  llvm::Expected<std::shared_ptr<Training>> choose(const TuningConfigs& round) const;
  llvm::Expected<std::shared_ptr<Training>> open(const TuningConfigs& round);
  llvm::Error build(const Cloud& cloud);
  PyramidRun memory_of_run() const;
  llvm::Error make_room(const Training& training);
  llvm::Error run_forward(const Training& training, const Cloud& cloud);
  std::vector<GivenArray> parameter_arrays(const std::vector<DeviceMemory>& memory) const;
  std::vector<GivenArray> tensor_arrays(const std::vector<i32>& tensors,
                                        const std::vector<DeviceMemory>& memory, const Cloud& cloud) const;
  llvm::Error run_backward(const Training& training, const Cloud& cloud, RunTimes* times = nullptr);
  /// Runs a backward pass, and returns the values that are compared of the gradient of each weight.
  llvm::Expected<std::vector<std::vector<float>>> gradients_by(const Training& training, const Cloud& cloud);
  llvm::Error check_default();
  llvm::Error check_gradients(const Training& trial, const Cloud& cloud);
  llvm::Expected<std::map<TuningBucket, i64>> time_gradients(const Training& training, const Cloud& cloud,
                                                             const TuningConfigs& round);

  const std::shared_ptr<const Plan> plan_;
  const std::shared_ptr<Device> device_;
  const TuningEnvironment environment_;
  const MeterOptions options_;
  const i32 batch_size_;
  RoundCompiler compiler_;
  std::shared_ptr<MapEngines> engines_;
  TuningConfigs default_;
  std::shared_ptr<Training> fallback_;
  std::vector<Cloud> clouds_;
  // Is the memory of one step, which the steps of all clouds use.
  DeviceMemory buffer_, build_workspace_, kept_, workspace_;
  // Have one element for each parameter, input and output of the network.
  std::vector<DeviceMemory> parameters_, inputs_, outputs_, out_gradients_;
  // Has one element for each weight, and none for other parameters.
  std::vector<DeviceMemory> gradients_;
  double opening_seconds_ = 0, step_seconds_ = 0;
};

}  // namespace minuet
