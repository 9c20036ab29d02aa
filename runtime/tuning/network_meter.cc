#include "runtime/tuning/network_meter.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "codegen/choose/tuned_config.h"
#include "runtime/program/ops/convolution.h"
#include "runtime/tuning/meter_arrays.h"
#include "runtime/tuning/samples.h"
#include "runtime/weights/rounding.h"

namespace minuet {
namespace {

constexpr i32 kGpuRepeats = 16, kCpuRepeats = 5;

/// Returns the time of the part of a layer that the configuration of an operation affects.
double time_of(Operation operation, const StageTimes& times) {
  switch (operation) {
    case Operation::Gather:
      return times.gather;
    case Operation::Scatter:
      return times.scatter;
    case Operation::Gemm:
      return times.gemm;
    default:
      return times.gather + times.gemm + times.scatter + times.other;
  }
}

double sum_of(const StageTimes& times) {
  return times.sort + times.map + times.gather + times.gemm + times.scatter + times.other;
}

bool tries(Operation operation, const TuningConfigs& round) {
  return std::any_of(round.begin(), round.end(),
                     [&](const auto& trial) { return trial.first.operation == operation; });
}

i64 to_nanoseconds(double milliseconds) { return std::llround(milliseconds * 1e6); }

}  // namespace

NetworkMeter::NetworkMeter(std::shared_ptr<const Plan> plan, std::shared_ptr<KernelCache> cache,
                           std::shared_ptr<Device> device, TuningEnvironment environment,
                           MeterOptions options)
    : plan_(std::move(plan)),
      device_(std::move(device)),
      environment_(std::move(environment)),
      options_(std::move(options)),
      compiler_(std::move(cache), options_.cancelled) {}

llvm::Expected<std::unique_ptr<NetworkMeter>> NetworkMeter::create(std::shared_ptr<const Plan> plan,
                                                                   std::shared_ptr<KernelCache> cache,
                                                                   std::shared_ptr<Device> device,
                                                                   const TuningEnvironment& environment,
                                                                   MeterOptions options) {
  if (options.repeats == 0) options.repeats = device->info().arch.empty() ? kCpuRepeats : kGpuRepeats;
  std::unique_ptr<NetworkMeter> meter(new NetworkMeter(std::move(plan), std::move(cache), std::move(device),
                                                       environment, std::move(options)));
  MINUET_TRY(meter->find_batch_size());
  MINUET_TRY(meter->find_sizes());
  MINUET_TRY(meter->make_features());
  MINUET_TRY(meter->check_default_output());
  MINUET_TRY(meter->estimate());
  return meter;
}

llvm::Error NetworkMeter::set_default(TuningConfigs configs, std::optional<Dataflow> dataflow,
                                      MapMethod maps) {
  // The kernels of the announced measurements were compiled for another default configuration, so these
  // measurements are forgotten.
  compiler_.forget();
  fallback_.reset();
  default_ = std::move(configs);
  dataflow_ = dataflow;
  method_ = maps;
  MINUET_ASSIGN(fallback_, open({}));
  return llvm::Error::success();
}

i64 NetworkMeter::most_points() const {
  i64 points = 1;
  for (const MeterCloud& cloud : options_.clouds) points = std::max(points, cloud.count);
  return points;
}

/// Returns the number of values of a tensor in the cloud with most rows of its level.
i64 NetworkMeter::most_values(i32 tensor) const {
  const TensorSpec& spec = plan_->program.tensors[tensor];
  if (spec.is_dense()) return batch_size_ * plan_->program.storages[spec.storage].item_elements;
  return most_rows_[spec.level] * spec.channels;
}

/// Sets batch_size_ to the number of batch items of the clouds, if an op needs it.
[[gnu::cold]] llvm::Error NetworkMeter::find_batch_size() {
  const Program& program = plan_->program;
  if (llvm::none_of(program.levels, [](const LevelSpec& level) { return level.keeps_coordinates; }))
    return llvm::Error::success();
  batch_size_ = 1;
  for (const MeterCloud& cloud : options_.clouds) {
    std::vector<i32> coordinates(cloud.count * (1 + program.ndim));
    const i64 bytes = static_cast<i64>(coordinates.size() * sizeof(i32));
    if (bytes > 0) MINUET_TRY(device_->download(coordinates.data(), cloud.coordinates, bytes));
    for (std::size_t at = 0; at < coordinates.size(); at += 1 + program.ndim) {
      batch_size_ = std::max(batch_size_, std::min(coordinates[at], INT_MAX - 1) + 1);
    }
  }
  return llvm::Error::success();
}

/// Determines the sizes of all layers in each cloud, and allocates memory for the largest outputs.
[[gnu::cold]] llvm::Error NetworkMeter::find_sizes() {
  // Uses sorted maps, because only they have keys, and tuning results of Operation::Search are kept per key
  // type.
  MINUET_TRY(set_default({}, wanted_dataflow(plan_->program), MapMethod::Sorted));
  const Program& program = plan_->program;
  most_rows_.assign(program.levels.size(), 1);
  for (std::size_t cloud = 0; cloud < options_.clouds.size(); ++cloud) {
    if (llvm::Error error = settle(*fallback_, cloud)) {
      return annotate(std::move(error), "cloud " + std::to_string(cloud));
    }
    keys_.push_back(fallback_->network_maps()->key());
    for (std::size_t i = 0; i < most_rows_.size(); ++i) {
      most_rows_[i] = std::max(most_rows_[i], fallback_->level(static_cast<i32>(i)).caller_rows);
    }
    std::vector<LayerSize>& sizes = sizes_.emplace_back();
    std::vector<i64>& pairs_of_maps = map_pairs_.emplace_back(program.maps.size(), -1);
    std::vector<i64>& level_rows = level_rows_.emplace_back();
    for (std::size_t i = 0; i < program.levels.size(); ++i) {
      level_rows.push_back(fallback_->level(static_cast<i32>(i)).rows);
    }
    for (std::size_t i = 0; i < program.layers.size(); ++i) {
      const i64 rows = fallback_->level(program.tensors[program.layers[i].output].level).rows;
      MINUET_ASSIGN(const i64 pairs, fallback_->layer_pairs(static_cast<i32>(i)));
      sizes.push_back({rows, static_cast<double>(pairs) / static_cast<double>(std::max<i64>(rows, 1))});
      if (program.layers[i].map >= 0) pairs_of_maps[program.layers[i].map] = pairs;
    }
  }
  for (const i32 output : program.outputs) {
    const i64 bytes = most_values(output) * static_cast<i64>(sizeof(float));  // Elements have 2 or 4 bytes.
    MINUET_ASSIGN(DeviceMemory memory, DeviceMemory::create(device_, bytes));
    outputs_.push_back(std::move(memory));
  }
  return set_default({}, wanted_dataflow(plan_->program));
}

llvm::Error NetworkMeter::estimate() {
  const double start = seconds();
  MINUET_TRY(set_default({}, wanted_dataflow(plan_->program)));
  opening_seconds_ = seconds() - start;
  for (std::size_t cloud = 0; cloud < options_.clouds.size(); ++cloud) {
    // The time of the first inference is not used, because it includes the allocation of memory.
    MINUET_TRY(time_inference(*fallback_, cloud).takeError());
    MINUET_ASSIGN(const i64 time, time_inference(*fallback_, cloud));
    inference_seconds_ += static_cast<double>(time) * 1e-9;
  }
  return llvm::Error::success();
}

/// Returns the seconds that it takes to open the executions of the default and of the tried configurations,
/// to call settle() for both, and to run the warm-up pass of both.
double NetworkMeter::network_overhead() const {
  return 2 * (opening_seconds_ + (settling_clouds() + 1) * inference_seconds_);
}

llvm::Error NetworkMeter::make_features() {
  const Program& program = plan_->program;
  for (const i32 input : program.inputs) {
    MINUET_ASSIGN(DeviceMemory memory, make_numbers(device_, program.dtype, most_values(input), 1));
    features_.push_back(std::move(memory));
  }
  return llvm::Error::success();
}

double NetworkMeter::now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

llvm::Expected<std::shared_ptr<const CompiledPlan>> NetworkMeter::choose(const TuningConfigs& round) const {
  const TuningSnapshot snapshot(environment_, with_default(round, default_));
  return CompiledPlan::create(with_dataflow(plan_->program, dataflow_), device_->info().arch, &snapshot);
}

void NetworkMeter::announce(const TuningConfigs& round) {
  const std::string& arch = device_->info().arch;
  if (round.empty()) compiler_.forget();
  if (round.empty() || arch.empty()) return;
  llvm::Expected<std::shared_ptr<const CompiledPlan>> compiled = choose(round);
  // Ignores an error here, because measure() repeats the call and reports the error.
  if (!compiled) return llvm::consumeError(compiled.takeError());
  compiler_.start(round, (*compiled)->requests());
}

[[gnu::cold]] llvm::Expected<std::unique_ptr<Execution>> NetworkMeter::open(const TuningConfigs& round) {
  MINUET_ASSIGN(const std::shared_ptr<const CompiledPlan> compiled, choose(round));
  const bool is_cpu = device_->info().arch.empty();
  MINUET_ASSIGN(const BinaryList binaries,
                is_cpu ? BinaryList{} : compiler_.compile(round, compiled->requests()));
  MINUET_TRY(check_cancelled());
  const Reload again = [&](const Binary& refused) {
    return compiler_.cache()->replace(compiled->requests(), refused);
  };
  MINUET_ASSIGN(std::shared_ptr<const LoadedPlan> loaded,
                LoadedPlan::create(plan_, compiled, binaries, device_, again, nullptr));
  ExecutionOptions options;
  options.max_points = most_points();
  options.cloud.method = method_;
  options.cloud.batch_size = batch_size_;
  MINUET_ASSIGN(std::unique_ptr<Execution> execution, Execution::create(std::move(loaded), options));
  return execution;
}

llvm::Error NetworkMeter::prepare(Execution& execution, std::size_t cloud) {
  MINUET_TRY(execution.invalidate(/*for_maps=*/false));
  return execution.prepare(options_.clouds[cloud].coordinates, options_.clouds[cloud].count, nullptr);
}

/// Returns how often settle() prepares a cloud. After KeyBits::kPatience similar clouds, sorted maps may have
/// narrower keys. One more preparation then uses them.
i32 NetworkMeter::settling_clouds() const {
  return device_->info().arch.empty() ? 1 : KeyBits::kPatience + 1;
}

llvm::Error NetworkMeter::settle(Execution& execution, std::size_t cloud) {
  for (i32 i = 0; i < settling_clouds(); ++i) {
    MINUET_TRY(check_cancelled());
    MINUET_TRY(prepare(execution, cloud));
  }
  return llvm::Error::success();
}

llvm::Error NetworkMeter::run(Execution& execution) {
  const Program& program = plan_->program;
  const auto array = [&](i32 number, void* data) {
    const TensorSpec& spec = program.tensors[number];
    return array_of(program, number, data, execution.level(spec.level).caller_rows, batch_size_);
  };
  std::vector<GivenArray> inputs, outputs;
  for (std::size_t i = 0; i < features_.size(); ++i) {
    inputs.push_back(array(program.inputs[i], features_[i].data()));
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    outputs.push_back(array(program.outputs[i], outputs_[i].data()));
  }
  return execution.run_arrays(inputs, outputs, nullptr);
}

/// Returns the parts of an output that are compared.
std::vector<NetworkMeter::OutputPart> NetworkMeter::parts_of(const Execution& execution,
                                                             std::size_t output) const {
  const Program& program = plan_->program;
  const TensorSpec& tensor = program.tensors[program.outputs[output]];
  // Two right kernels may round numbers differently, and then another channel may be the largest.
  if (program.storages[tensor.storage].holds_integers) return {};
  const i64 count = tensor.is_dense() ? most_values(program.outputs[output])
                                      : execution.output_rows(output) * tensor.channels;
  std::vector<OutputPart> list;
  for (const ValueRange& range : compared_ranges(count)) {
    list.push_back({outputs_[output].data() + range.first * dtype_bytes(program.dtype), range.count});
  }
  return list;
}

/// Returns the compared values of all outputs.
llvm::Expected<std::vector<float>> NetworkMeter::output_of(Execution& execution) {
  const i64 bytes = dtype_bytes(plan_->program.dtype);
  std::vector<OutputPart> parts;
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    for (const OutputPart& part : parts_of(execution, i)) parts.push_back(part);
  }
  // Fills the parts with NaN before the run, which marks values that the run does not write.
  for (const OutputPart& part : parts) {
    const std::vector<char> marked(part.values * bytes, '\xff');
    MINUET_TRY(device_->upload(part.data, marked.data(), part.values * bytes));
  }
  MINUET_TRY(run(execution));
  MINUET_TRY(device_->synchronize(nullptr));
  std::vector<float> values;
  for (const OutputPart& part : parts) {
    std::vector<char> stored(part.values * bytes);
    MINUET_TRY(device_->download(stored.data(), part.data, part.values * bytes));
    values.resize(values.size() + part.values);
    load_values(plan_->program.dtype, stored.data(), part.values,
                values.data() + values.size() - part.values);
  }
  return values;
}

llvm::Error NetworkMeter::check_default_output() {
  for (std::size_t cloud = 0; cloud < options_.clouds.size(); ++cloud) {
    MINUET_TRY(prepare(*fallback_, cloud));
    MINUET_ASSIGN(const std::vector<float> output, output_of(*fallback_));
    const auto is_informative = [](float value) { return std::isfinite(value) && value != 0; };
    if (std::any_of(output.begin(), output.end(), is_informative)) return llvm::Error::success();
  }
  return make_error(
      StatusCode::FailedPrecondition,
      "with these weights the network's output is 0 or not finite everywhere, so a wrong kernel "
      "could not be detected: tune with other weights");
}

llvm::Error NetworkMeter::check_output(Execution& trial, std::size_t cloud) {
  MINUET_TRY(prepare(*fallback_, cloud));
  MINUET_TRY(prepare(trial, cloud));
  MINUET_ASSIGN(const std::vector<float> fallback, output_of(*fallback_));
  MINUET_ASSIGN(const std::vector<float> tried, output_of(trial));
  if (agrees(tried, fallback)) return llvm::Error::success();
  return make_error(
      StatusCode::Internal,
      "with the tried kernels, the network's output differs from that with the default kernels");
}

[[gnu::cold]] llvm::Expected<std::map<TuningBucket, i64>> NetworkMeter::time_layers(
    Execution& execution, std::size_t cloud, const TuningConfigs& round) {
  MINUET_TRY(check_cancelled());
  MINUET_TRY(run(execution));
  MINUET_TRY(execution.query_times().takeError());
  const std::vector<ProgramLayer>& layers = plan_->program.layers;
  std::map<TuningBucket, i64> times;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const StageTimes layer = execution.layer_times(static_cast<i32>(i));
    if (convolution_of(layers[i]) == nullptr) continue;  // Only convolutions can be tuned.
    const ConvolutionProblem& problem = *convolution_of(layers[i]);
    // The fused dataflow computes a layer's shortcut in the layer's own launch, and gather-GEMM-scatter in a
    // launch after it. A comparison of the dataflows therefore adds the time of that launch.
    StageTimes with_shortcut = layer;
    if (i + 1 < layers.size() && layers[i + 1].may_join_last)
      with_shortcut += execution.layer_times(static_cast<i32>(i + 1));
    const auto [rows, density] = sizes_[cloud][i];
    for (const TuningBucket& bucket : buckets_of_layer(problem, rows, density)) {
      const bool is_whole = bucket.operation == Operation::Dataflow;
      if (round.count(bucket) != 0)
        times[bucket] += to_nanoseconds(time_of(bucket.operation, is_whole ? with_shortcut : layer));
    }
    const bool has_groups =
        dataflow_of(execution.selected(static_cast<i32>(i))->choice) == Dataflow::GatherGemmScatter;
    for (const auto& [bucket, config] : round) {
      if (has_groups && bucket.operation == Operation::Grouping) {
        times[bucket] += to_nanoseconds(layer.gather + layer.gemm + layer.scatter);
      }
    }
  }
  return times;
}

[[gnu::cold]] llvm::Expected<std::map<TuningBucket, i64>> NetworkMeter::time_search(
    Execution& execution, std::size_t cloud, const TuningConfigs& round) {
  MINUET_TRY(check_cancelled());
  MINUET_TRY(prepare(execution, cloud));
  MINUET_ASSIGN(const StageTimes preparation, execution.query_times());
  std::map<TuningBucket, i64> times;
  for (const auto& [bucket, config] : round) {
    if (bucket.key == keys_[cloud]) times[bucket] = to_nanoseconds(preparation.map);
  }
  return times;
}

[[gnu::cold]] llvm::Expected<std::map<TuningBucket, i64>> NetworkMeter::time_whole(
    Execution& execution, std::size_t cloud, const TuningConfigs& round) {
  MINUET_TRY(check_cancelled());
  MINUET_TRY(prepare(execution, cloud));
  MINUET_TRY(run(execution));
  MINUET_ASSIGN(const StageTimes inference, execution.query_times());
  std::map<TuningBucket, i64> times;
  for (const auto& [bucket, config] : round) times[bucket] = to_nanoseconds(sum_of(inference));
  return times;
}

[[gnu::cold]] llvm::Error NetworkMeter::measure_cloud(Execution& trial, std::size_t cloud,
                                                      const TuningConfigs& round, Samples& samples) {
  MINUET_TRY(check_output(trial, cloud));
  const bool is_search = tries(Operation::Search, round), is_order = tries(Operation::Order, round);
  if (is_search || is_order) {
    MINUET_TRY(settle(*fallback_, cloud));
    MINUET_TRY(settle(trial, cloud));
  }
  const auto time = [&](bool is_trial) {
    Execution& execution = is_trial ? trial : *fallback_;
    return is_search  ? time_search(execution, cloud, round)
           : is_order ? time_whole(execution, cloud, round)
                      : time_layers(execution, cloud, round);
  };
  return add_samples(options_.repeats, time, samples);
}

llvm::Expected<std::map<TuningBucket, TuningSamples>> NetworkMeter::measure(const TuningConfigs& round) {
  Samples samples;
  MINUET_ASSIGN(const std::unique_ptr<Execution> trial, open(round));
  trial->engine().set_profiling(true);
  fallback_->engine().set_profiling(true);
  for (std::size_t cloud = 0; cloud < options_.clouds.size(); ++cloud) {
    MINUET_TRY(measure_cloud(*trial, cloud, round, samples));
  }
  return samples;
}

llvm::Expected<i64> NetworkMeter::time_inference(Execution& execution, std::size_t cloud) {
  MINUET_TRY(check_cancelled());
  const double start = seconds();
  MINUET_TRY(prepare(execution, cloud));
  MINUET_TRY(run(execution));
  MINUET_TRY(device_->synchronize(nullptr));
  return std::llround((seconds() - start) * 1e9);
}

[[gnu::cold]] llvm::Expected<TuningSamples> NetworkMeter::measure_network(const TuningConfigs& configs,
                                                                          double seconds) {
  TuningSamples samples;
  if (seconds < least_network_seconds()) return samples;
  const double fit = (seconds - network_overhead()) / std::max(2 * inference_seconds_, 1e-9);
  const i32 most = std::max(options_.repeats, kLeastNetworkPasses);
  const i32 passes = static_cast<i32>(std::clamp<double>(fit, kLeastNetworkPasses, most));
  samples.fallback.resize(passes);
  samples.trial.resize(passes);
  MINUET_ASSIGN(const std::unique_ptr<Execution> trial, open(configs));
  fallback_->engine().set_profiling(false);
  for (std::size_t cloud = 0; cloud < options_.clouds.size(); ++cloud) {
    MINUET_TRY(settle(*fallback_, cloud));
    MINUET_TRY(settle(*trial, cloud));
    for (i32 pass = -1; pass < passes; ++pass) {
      for (const bool second : {false, true}) {
        const bool is_trial = (pass % 2 == 0) == second;
        MINUET_ASSIGN(const i64 time, time_inference(is_trial ? *trial : *fallback_, cloud));
        if (pass >= 0) (is_trial ? samples.trial : samples.fallback)[pass] += time;
      }
    }
  }
  return samples;
}

}  // namespace minuet
