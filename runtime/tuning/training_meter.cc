#include "runtime/tuning/training_meter.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "llvm/ADT/ScopeExit.h"
#include "runtime/plan/parameter_layout.h"
#include "runtime/program/ops/convolution.h"
#include "runtime/tuning/meter_arrays.h"
#include "runtime/tuning/samples.h"
#include "runtime/weights/stored_tensor.h"

namespace minuet {
namespace {

i64 to_nanoseconds(const StageTimes& times) {
  const double sum = times.gather + times.gemm + times.scatter + times.other;
  return std::llround(sum * 1e6);
}

}  // namespace

TrainingMeter::TrainingMeter(std::shared_ptr<const Plan> plan, std::shared_ptr<KernelCache> cache,
                             std::shared_ptr<Device> device, TuningEnvironment environment,
                             const NetworkMeter& network)
    : plan_(std::move(plan)),
      device_(std::move(device)),
      environment_(std::move(environment)),
      options_(network.options()),
      batch_size_(network.batch_size()),
      compiler_(std::move(cache), options_.cancelled) {}

[[gnu::cold]] llvm::Expected<std::unique_ptr<TrainingMeter>> TrainingMeter::create(
    std::shared_ptr<const Plan> plan, std::shared_ptr<KernelCache> cache, std::shared_ptr<Device> device,
    TuningEnvironment environment, const NetworkMeter& network) {
  std::unique_ptr<TrainingMeter> meter(new TrainingMeter(std::move(plan), std::move(cache), std::move(device),
                                                         std::move(environment), network));
  MINUET_ASSIGN(meter->engines_,
                MapEngines::create(meter->device_, *meter->compiler_.cache(), meter->plan_->program.ndim));
  MINUET_TRY(meter->set_default({}));
  for (std::size_t i = 0; i < meter->options_.clouds.size(); ++i) {
    if (llvm::Error error = meter->add_cloud(network, i)) {
      return annotate(std::move(error), "cloud " + std::to_string(i));
    }
  }
  meter->share_buckets();
  MINUET_TRY(meter->allocate());
  MINUET_TRY(meter->make_parameters());
  MINUET_TRY(meter->make_tensors());
  MINUET_TRY(meter->estimate());
  return meter;
}

llvm::Error TrainingMeter::set_default(TuningConfigs configs) {
  // The kernels of the announced rounds were compiled for another default configuration.
  compiler_.forget();
  default_ = std::move(configs);
  MINUET_ASSIGN(fallback_, open({}));
  return llvm::Error::success();
}

/// Describes a pyramid whose levels have room for the rows of the cloud.
llvm::Error TrainingMeter::add_cloud(const NetworkMeter& network, std::size_t number) {
  const std::vector<i64>& rows = network.level_rows()[number];
  const std::size_t levels = passes().backward.program.levels.size();
  if (rows.size() != levels) {
    return make_error(StatusCode::Internal, "the network has {0} levels, and its training step {1}",
                      rows.size(), levels);
  }
  Cloud cloud;
  cloud.points = options_.clouds[number];
  std::vector<i64> capacities;
  capacities.reserve(rows.size());
  for (const i64 count : rows) capacities.push_back(std::max<i64>(count, 1));
  capacities.front() = std::max(capacities.front(), cloud.points.count);
  PyramidDescription description;
  description.ndim = plan_->program.ndim;
  description.batch_size = batch_size_;
  MINUET_TRY(fallback_->describe(capacities, /*slots=*/{}, description));
  MINUET_ASSIGN(cloud.pyramid, Pyramid::create(std::move(description)));
  MINUET_TRY(add_gradients(cloud, capacities, network.map_pairs()[number]));
  clouds_.push_back(std::move(cloud));
  return llvm::Error::success();
}

/// `capacities` are those of the levels, and `pairs` counts the pairs of each map of the network.
[[gnu::cold]] llvm::Error TrainingMeter::add_gradients(Cloud& cloud, const std::vector<i64>& capacities,
                                                       const std::vector<i64>& pairs) const {
  const BackwardPass& backward = passes().backward;
  const Program& program = backward.program;
  const std::vector<MapSpec>& maps = plan_->program.maps;
  const auto gradient_with = [&](i32 tensor, i32 map) -> llvm::Expected<Gradient> {
    const MapSpec& spec = program.maps[map];
    const auto found = std::find(maps.begin(), maps.end(), spec);
    Gradient gradient;
    gradient.rows = capacities[program.tensors[tensor].level];
    gradient.most_pairs = capacities[spec.coarse] * spec.volume();
    gradient.pairs = found == maps.end() ? -1 : pairs[found - maps.begin()];
    if (gradient.pairs >= 0) return gradient;
    return make_error(StatusCode::Internal,
                      "the backward pass reads a map that no layer of the network reads");
  };
  for (std::size_t i = 0; i < backward.parameters.size(); ++i) {
    const ParameterGradientUse& use = backward.parameters[i];
    const ConvolutionProblem& forward = use.choice.problem.forward;
    if (!use.choice.problem.weight || !use.reads_pairs() || !is_gradient_tunable(forward)) continue;
    MINUET_ASSIGN(Gradient gradient, gradient_with(use.out_gradient, use.map));
    gradient.kind = GradientKind::Weights, gradient.number = i, gradient.problem = forward;
    gradient.bucket = weight_gradient_bucket(forward, gradient.rows, gradient.density());
    cloud.gradients.push_back(std::move(gradient));
  }
  for (std::size_t i = 0; i < program.layers.size(); ++i) {
    const ProgramLayer& layer = program.layers[i];
    const ConvolutionProblem* const problem = convolution_of(layer);
    // Convolutions that the backward pass computes again are those of the forward pass.
    if (problem == nullptr || !problem->gradient_of || layer.map < 0 || !is_tunable(*problem)) continue;
    MINUET_ASSIGN(Gradient gradient, gradient_with(layer.output, layer.map));
    gradient.kind = GradientKind::Inputs, gradient.number = i, gradient.problem = *problem;
    // An execution chooses the kernel of a layer for the rows that it expects within the capacity.
    gradient.rows = likely_rows_within(gradient.rows);
    gradient.bucket = layer_bucket(Operation::Fused, *problem, gradient.rows);
    cloud.gradients.push_back(std::move(gradient));
  }
  return llvm::Error::success();
}

/// Returns, for each key, the gradient with most pairs.
std::map<TuningBucket, const TrainingMeter::Gradient*> TrainingMeter::largest(
    llvm::function_ref<TuningBucket(const Gradient&)> key) const {
  std::map<TuningBucket, const Gradient*> largest;
  for (const Cloud& cloud : clouds_) {
    for (const Gradient& gradient : cloud.gradients) {
      const Gradient*& known = largest[key(gradient)];
      if (known == nullptr || gradient.pairs > known->pairs) known = &gradient;
    }
  }
  return largest;
}

/// Gives all gradients whose buckets differ in density alone the bucket of the one with most pairs. They have
/// the same kernel, because the lists of a training step have room for every pair.
void TrainingMeter::share_buckets() {
  const auto without_density = [](const Gradient& gradient) {
    TuningBucket bucket = gradient.bucket;
    bucket.log4_density = kAnyDensity;
    return bucket;
  };
  std::map<TuningBucket, TuningBucket> shared;
  for (const auto& [bucket, gradient] : largest(without_density)) shared[bucket] = gradient->bucket;
  for (Cloud& cloud : clouds_) {
    for (Gradient& gradient : cloud.gradients) gradient.bucket = shared.at(without_density(gradient));
  }
}

[[gnu::cold]] std::vector<TuningTask> TrainingMeter::tasks(GradientKind kind) const {
  const std::string& arch = device_->info().arch;
  std::vector<TuningTask> tasks;
  for (const auto& [bucket, gradient] : largest([](const Gradient& gradient) { return gradient.bucket; })) {
    if (gradient->kind != kind) continue;
    if (kind == GradientKind::Weights) {
      tasks.push_back(weight_gradient_task(gradient->problem, arch, gradient->rows, gradient->most_pairs,
                                           gradient->density()));
    } else {
      std::vector<TuningTask> more = kernel_tasks(gradient->problem, arch, Dataflow::Fused, gradient->rows);
      std::move(more.begin(), more.end(), std::back_inserter(tasks));
    }
  }
  return tasks;
}

/// Replaces a block of memory that has fewer bytes than these by one that has them.
static llvm::Error enlarge(const std::shared_ptr<Device>& device, i64 bytes, DeviceMemory& memory) {
  if (bytes <= memory.bytes()) return llvm::Error::success();
  memory = DeviceMemory();
  MINUET_ASSIGN(memory, DeviceMemory::create(device, bytes));
  return llvm::Error::success();
}

llvm::Error TrainingMeter::allocate() {
  MINUET_ASSIGN(const MapEngines::Lease engine, engines_->take(nullptr));
  for (const Cloud& cloud : clouds_) {
    MINUET_ASSIGN(const PlacedPyramid::Bytes bytes,
                  PlacedPyramid(cloud.pyramid, **engine, device_->info().arch).measure());
    MINUET_TRY(enlarge(device_, bytes.buffer, buffer_));
    MINUET_TRY(enlarge(device_, bytes.workspace, build_workspace_));
  }
  return make_room(*fallback_);
}

/// Makes the memory of a step large enough for a training plan, whose kernels may need more of it.
llvm::Error TrainingMeter::make_room(const Training& training) {
  const std::shared_ptr<Device> measured = measured_gpu(device_->info().arch);
  for (const Cloud& cloud : clouds_) {
    PyramidUse use;
    use.pyramid = cloud.pyramid;
    MINUET_ASSIGN(const TrainingBytes bytes, training.bytes(measured, use));
    MINUET_TRY(enlarge(device_, bytes.kept, kept_));
    MINUET_TRY(enlarge(device_, std::max(bytes.forward_workspace, bytes.backward_workspace), workspace_));
  }
  return llvm::Error::success();
}

/// Uploads values with which numbers neither grow nor vanish from layer to layer.
[[gnu::cold]] llvm::Error TrainingMeter::make_parameters() {
  for (const PlanParameter& parameter : passes().parameters) {
    const i64 count = element_count(parameter.shape);
    if (is_weight(parameter)) {
      const double inputs = static_cast<double>(count) / static_cast<double>(parameter.shape.back());
      MINUET_ASSIGN(DeviceMemory memory,
                    make_numbers(device_, DType::F32, count, static_cast<float>(std::sqrt(6 / inputs))));
      parameters_.push_back(std::move(memory));
    } else {
      const bool is_factor = parameter.role == ParameterRole::NormWeight ||
                             parameter.role == ParameterRole::NormVariance ||
                             parameter.role == ParameterRole::Scale;
      const std::vector<float> values(static_cast<std::size_t>(count), is_factor ? 1.0f : 0.0f);
      const auto bytes = static_cast<i64>(values.size() * sizeof(float));
      MINUET_ASSIGN(DeviceMemory memory, DeviceMemory::create(device_, bytes));
      MINUET_TRY(device_->upload(memory.data(), values.data(), bytes));
      parameters_.push_back(std::move(memory));
    }
    gradients_.emplace_back();
    if (!is_weight(parameter)) continue;
    MINUET_ASSIGN(gradients_.back(), DeviceMemory::create(device_, count * static_cast<i64>(sizeof(float))));
  }
  return llvm::Error::success();
}

/// Makes inputs, outputs and gradients of outputs, which have room for the rows of every cloud.
[[gnu::cold]] llvm::Error TrainingMeter::make_tensors() {
  const Program& program = passes().forward.program;
  const auto most_values = [&](i32 tensor) {
    const TensorSpec& spec = program.tensors[tensor];
    if (spec.is_dense()) return batch_size_ * program.storages[spec.storage].item_elements;
    i64 rows = 1;
    for (const Cloud& cloud : clouds_) {
      const i32 level = cloud.pyramid->find_level(program, spec.level);
      rows = std::max(rows, level < 0 ? i64{batch_size_} : cloud.pyramid->capacity(level));
    }
    return rows * spec.channels;
  };
  for (const i32 input : program.inputs) {
    MINUET_ASSIGN(DeviceMemory memory, make_numbers(device_, program.dtype, most_values(input), 1));
    inputs_.push_back(std::move(memory));
  }
  for (const i32 output : program.outputs) {
    const i64 values = most_values(output);
    MINUET_ASSIGN(DeviceMemory memory, DeviceMemory::create(device_, values * i64{sizeof(float)}));
    outputs_.push_back(std::move(memory));
    MINUET_ASSIGN(DeviceMemory gradient, make_numbers(device_, program.dtype, values, 1));
    out_gradients_.push_back(std::move(gradient));
  }
  return llvm::Error::success();
}

llvm::Error TrainingMeter::estimate() {
  const double start = seconds();
  MINUET_TRY(set_default({}));
  opening_seconds_ = seconds() - start;
  for (const Cloud& cloud : clouds_) {
    MINUET_TRY(build(cloud));
    MINUET_TRY(run_forward(*fallback_, cloud));
    // The time of the first passes is not used, because it includes the creation of executions.
    MINUET_TRY(run_backward(*fallback_, cloud));
    MINUET_TRY(device_->synchronize(nullptr));
    const double begin = seconds();
    MINUET_TRY(run_forward(*fallback_, cloud));
    MINUET_TRY(run_backward(*fallback_, cloud));
    MINUET_TRY(device_->synchronize(nullptr));
    step_seconds_ += seconds() - begin;
  }
  return check_default();
}

llvm::Expected<std::shared_ptr<Training>> TrainingMeter::choose(const TuningConfigs& round) const {
  const auto snapshot = std::make_shared<const TuningSnapshot>(environment_, with_default(round, default_));
  return Training::create_tuned(*plan_, snapshot, compiler_.cache(), TrainingOptions());
}

void TrainingMeter::announce(const TuningConfigs& round) {
  if (round.empty()) return compiler_.forget();
  // Ignores errors here, because measure() repeats the calls and reports them.
  llvm::Expected<std::shared_ptr<Training>> training = choose(round);
  if (!training) return llvm::consumeError(training.takeError());
  llvm::Expected<std::vector<KernelRequest>> requests = (*training)->requests(device_->info().arch);
  if (!requests) return llvm::consumeError(requests.takeError());
  compiler_.start(round, std::move(*requests));
}

[[gnu::cold]] llvm::Expected<std::shared_ptr<Training>> TrainingMeter::open(const TuningConfigs& round) {
  MINUET_ASSIGN(std::shared_ptr<Training> training, choose(round));
  MINUET_ASSIGN(const std::vector<KernelRequest> requests, training->requests(device_->info().arch));
  MINUET_ASSIGN(const BinaryList binaries, compiler_.compile(round, requests));
  MINUET_TRY(compiler_.check_cancelled());
  MINUET_TRY(device_->load(
      binaries, [&](const Binary& refused) { return compiler_.cache()->replace(requests, refused); }));
  MINUET_TRY(training->load(device_));
  return training;
}

llvm::Error TrainingMeter::build(const Cloud& cloud) {
  MINUET_TRY(compiler_.check_cancelled());
  MINUET_ASSIGN(const MapEngines::Lease engine, engines_->take(nullptr));
  PlacedPyramid placed(cloud.pyramid, **engine, device_->info().arch);
  MINUET_TRY(placed.find_limits());
  MINUET_TRY(engine->begin(nullptr));
  const auto end = llvm::make_scope_exit([&] { engine->end(); });
  MINUET_TRY(placed.place(buffer_.data(), build_workspace_.data()));
  return placed.build(cloud.points.coordinates, nullptr, cloud.points.count);
}

PyramidRun TrainingMeter::memory_of_run() const {
  PyramidRun run;
  run.buffer = buffer_.data(), run.buffer_bytes = buffer_.bytes();
  run.workspace = workspace_.data(), run.workspace_bytes = workspace_.bytes();
  run.kept = kept_.data(), run.kept_bytes = kept_.bytes();
  return run;
}

/// Returns arrays with the shapes of the parameters. They have no data where there is no memory.
std::vector<GivenArray> TrainingMeter::parameter_arrays(const std::vector<DeviceMemory>& memory) const {
  std::vector<GivenArray> arrays(memory.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (memory[i].data() == nullptr) continue;
    const auto& shape = passes().parameters[i].shape;
    arrays[i] = whole_array(memory[i].data(), ElementType::F32, std::vector<i64>(shape.begin(), shape.end()));
  }
  return arrays;
}

std::vector<GivenArray> TrainingMeter::tensor_arrays(const std::vector<i32>& tensors,
                                                     const std::vector<DeviceMemory>& memory,
                                                     const Cloud& cloud) const {
  const Program& program = passes().forward.program;
  std::vector<GivenArray> arrays;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const i32 level = cloud.pyramid->find_level(program, program.tensors[tensors[i]].level);
    const i64 rows = level < 0 ? i64{batch_size_} : cloud.pyramid->capacity(level);
    arrays.push_back(array_of(program, tensors[i], memory[i].data(), rows, batch_size_));
  }
  return arrays;
}

/// Runs a forward pass. A backward pass of the same training plan may follow, but none of another plan,
/// because what is kept depends on the kernels of both passes.
llvm::Error TrainingMeter::run_forward(const Training& training, const Cloud& cloud) {
  const Program& program = passes().forward.program;
  const std::vector<GivenArray> parameters = parameter_arrays(parameters_),
                                inputs = tensor_arrays(program.inputs, inputs_, cloud),
                                outputs = tensor_arrays(program.outputs, outputs_, cloud);
  PyramidRun run = memory_of_run();
  run.inputs = inputs, run.outputs = outputs;
  PyramidUse use;
  use.pyramid = cloud.pyramid;
  ForwardArguments given;
  given.parameters = parameters;
  return training.forward(*device_, use, run, given, nullptr);
}

/// Runs a backward pass on what the last forward pass has kept. `times` is null if it is not timed.
llvm::Error TrainingMeter::run_backward(const Training& training, const Cloud& cloud, RunTimes* times) {
  MINUET_TRY(compiler_.check_cancelled());
  const std::vector<GivenArray> parameters = parameter_arrays(parameters_),
                                gradients = parameter_arrays(gradients_);
  std::vector<GivenArray> out_gradients =
      tensor_arrays(passes().forward.program.outputs, out_gradients_, cloud);
  for (std::size_t i = 0; i < out_gradients.size(); ++i) {
    if (passes().backward.out_gradients[i] < 0) out_gradients[i] = {};  // The output has integers.
  }
  PyramidRun run = memory_of_run();
  run.inputs = out_gradients;
  run.times = times;
  PyramidUse use;
  use.pyramid = cloud.pyramid;
  BackwardArguments given;
  given.parameters = parameters;
  given.gradients = gradients;
  return training.backward(*device_, use, run, given, nullptr);
}

[[gnu::cold]] llvm::Expected<std::vector<std::vector<float>>> TrainingMeter::gradients_by(
    const Training& training, const Cloud& cloud) {
  const auto for_each_range = [&](auto work) -> llvm::Error {
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      const i64 count = gradients_[i].bytes() / static_cast<i64>(sizeof(float));
      if (count == 0) continue;
      for (const ValueRange& range : compared_ranges(count)) {
        MINUET_TRY(work(i, gradients_[i].data() + range.first * static_cast<i64>(sizeof(float)),
                        range.count * static_cast<i64>(sizeof(float))));
      }
    }
    return llvm::Error::success();
  };
  // Fills the ranges with NaN before the pass, which marks values that the pass does not write.
  MINUET_TRY(for_each_range([&](std::size_t /*parameter*/, char* data, i64 bytes) {
    const std::vector<char> marked(static_cast<std::size_t>(bytes), '\xff');
    return device_->upload(data, marked.data(), bytes);
  }));
  MINUET_TRY(run_backward(training, cloud));
  MINUET_TRY(device_->synchronize(nullptr));
  std::vector<std::vector<float>> values(gradients_.size());
  MINUET_TRY(for_each_range([&](std::size_t parameter, const char* data, i64 bytes) {
    std::vector<float>& all = values[parameter];
    const std::size_t before = all.size();
    all.resize(before + static_cast<std::size_t>(bytes) / sizeof(float));
    return device_->download(all.data() + before, data, bytes);
  }));
  return values;
}

/// Returns FailedPrecondition if the gradients of the default kernels cannot reveal a wrong kernel.
llvm::Error TrainingMeter::check_default() {
  const auto is_informative = [](float value) { return std::isfinite(value) && value != 0; };
  for (const Cloud& cloud : clouds_) {
    MINUET_TRY(build(cloud));
    MINUET_TRY(run_forward(*fallback_, cloud));
    MINUET_ASSIGN(const std::vector<std::vector<float>> gradients, gradients_by(*fallback_, cloud));
    for (const std::vector<float>& of_weight : gradients) {
      if (std::any_of(of_weight.begin(), of_weight.end(), is_informative)) return llvm::Error::success();
    }
  }
  return make_error(StatusCode::FailedPrecondition,
                    "the gradients of all weights are 0 or not finite, so a wrong kernel could not be "
                    "detected: tune without training, or with other clouds");
}

/// Returns an error if the gradients of a weight with the default and with the trial differ by more than
/// rounding.
llvm::Error TrainingMeter::check_gradients(const Training& trial, const Cloud& cloud) {
  MINUET_TRY(run_forward(*fallback_, cloud));
  MINUET_ASSIGN(const std::vector<std::vector<float>> fallback, gradients_by(*fallback_, cloud));
  MINUET_TRY(run_forward(trial, cloud));
  MINUET_ASSIGN(const std::vector<std::vector<float>> tried, gradients_by(trial, cloud));
  for (std::size_t i = 0; i < tried.size(); ++i) {
    if (agrees(tried[i], fallback[i])) continue;
    return make_error(
        StatusCode::Internal,
        "with the tried kernels, the gradient of {0} differs from that with the default kernels",
        passes().parameters[i].name);
  }
  return llvm::Error::success();
}

[[gnu::cold]] llvm::Expected<std::map<TuningBucket, i64>> TrainingMeter::time_gradients(
    const Training& training, const Cloud& cloud, const TuningConfigs& round) {
  RunTimes times;
  MINUET_TRY(run_forward(training, cloud));
  MINUET_TRY(run_backward(training, cloud, &times));
  std::map<TuningBucket, i64> sums;
  for (const Gradient& gradient : cloud.gradients) {
    if (round.count(gradient.bucket) == 0) continue;
    const std::vector<StageTimes>& list = gradient.kind == GradientKind::Weights ? times.steps : times.layers;
    if (gradient.number >= list.size()) {
      return make_error(StatusCode::Internal, "the step of gradient {0} was not timed", gradient.number);
    }
    sums[gradient.bucket] += to_nanoseconds(list[gradient.number]);
  }
  return sums;
}

llvm::Expected<std::map<TuningBucket, TuningSamples>> TrainingMeter::measure(const TuningConfigs& round) {
  Samples samples;
  MINUET_ASSIGN(const std::shared_ptr<Training> trial, open(round));
  MINUET_TRY(make_room(*trial));
  for (const Cloud& cloud : clouds_) {
    MINUET_TRY(build(cloud));
    MINUET_TRY(check_gradients(*trial, cloud));
    const auto time = [&](bool is_trial) {
      return time_gradients(is_trial ? *trial : *fallback_, cloud, round);
    };
    MINUET_TRY(add_samples(options_.repeats, time, samples));
  }
  return samples;
}

}  // namespace minuet
