#include "runtime/plan/parameter_set.h"

#include <algorithm>

#include "llvm/ADT/ScopeExit.h"
#include "runtime/engine/arena.h"
#include "runtime/program/ops/convolution.h"
#include "runtime/weights/given_weight.h"

namespace minuet {
namespace {

// An error message names at most this many parameters.
constexpr std::size_t kMostNames = 8;

bool is_weight(const PlanParameter& parameter) { return parameter.role == ParameterRole::Weight; }

/// Returns where the elements of a parameter of this shape are if they lie one behind the other.
GivenWeight contiguous(llvm::ArrayRef<int64_t> shape) {
  GivenWeight given;
  given.shape.assign(shape.begin(), shape.end());
  given.strides.resize(shape.size());
  i64 stride = 1;
  for (std::size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) given.strides[axis] = stride;
  return given;
}

/// Returns where the elements of the weight that the caller has given are in the stored weight of the
/// gradient `problem`, whose shape is [volume, in_channels / groups, out_channels].
GivenWeight in_stored(const ConvolutionProblem& problem) {
  const i64 volume = kernel_volume(problem), inputs = group_inputs(problem);
  const i64 outputs = problem.out_channels, group_outputs = outputs / problem.groups;
  // The axes are [volume, input of a group, group, output of a group] of the forward convolution.
  return {{volume, group_outputs, i64{problem.groups}, inputs},
          {inputs * outputs, 1, group_outputs, outputs}};
}

}  // namespace

ParameterSet::ParameterSet(std::shared_ptr<const LoadedPlan> loaded, const ParameterSetOptions& options)
    : loaded_(std::move(loaded)),
      options_(options),
      weight_type_(loaded_->device->weight_type(loaded_->plan->program.dtype)),
      parameters_(loaded_->plan->parameter_list()),
      layers_(loaded_->plan->program.layers.size()),
      stored_(parameters_.size()),
      captured_layers_(layers_.size()),
      unset_(static_cast<i32>(parameters_.size())) {}

llvm::Expected<std::shared_ptr<ParameterSet>> ParameterSet::create(std::shared_ptr<const LoadedPlan> loaded,
                                                                   const ParameterSetOptions& options) {
  std::shared_ptr<ParameterSet> set(new ParameterSet(std::move(loaded), options));
  if (set->parameters_.empty()) {
    return make_error(StatusCode::InvalidArgument, "the plan has no parameters to set");
  }
  const LoadedPlan& plan = *set->loaded_;
  MINUET_ASSIGN(set->engine_, plan.device->create_engine(plan.compiled->engine));
  MINUET_TRY(set->allocate());
  return set;
}

WeightsOrder ParameterSet::described_order() const {
  const std::optional<NetworkRecord>& network = loaded_->plan->network;
  return network ? network->problem.description.weights_order : WeightsOrder::Minuet;
}

/// Returns the type to which the parameter's numbers are rounded.
DType ParameterSet::dtype_of(const PlanParameter& parameter) const {
  return is_weight(parameter) ? loaded_->plan->program.dtype : DType::F32;
}

/// Returns the type in which the set stores the parameter's numbers.
DType ParameterSet::storage_of(const PlanParameter& parameter) const {
  return is_weight(parameter) ? storage_type(weight_type_) : DType::F32;
}

const ProgramLayer& ParameterSet::layer_of(const PlanParameter& parameter) const {
  return loaded_->plan->program.layers[parameter.layer];
}

const char* ParameterSet::weight_of(std::size_t layer) const {
  return at(stored_[layers_[layer].first].offset);
}

llvm::Error ParameterSet::allocate() {
  ArenaLayout layout;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const PlanParameter& parameter = parameters_[i];
    i64 count = 1;
    for (const int64_t size : parameter.shape) count *= size;
    // The scales and shifts of a chain are parts of two arrays (allocate_chain()).
    const bool is_part = parameter.role >= ParameterRole::Scale && !layer_of(parameter).affines.empty();
    if (!is_part) stored_[i].offset = layout.add(count * dtype_bytes(storage_of(parameter)));
    if (options_.keeps_master && dtype_of(parameter) != DType::F32) {
      stored_[i].master_offset = layout.add(count * static_cast<i64>(sizeof(float)));
    }
    Layer& layer = layers_[parameter.layer];
    if (layer.first < 0) layer.first = static_cast<i32>(i);
    layer.end = static_cast<i32>(i) + 1;
    if (is_part) continue;
    if (parameter.role == ParameterRole::Scale) layer.scale = stored_[i].offset;
    if (parameter.role == ParameterRole::Shift) layer.shift = stored_[i].offset;
  }
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const ConvolutionProblem* const problem = convolution_of(loaded_->plan->program.layers[i]);
    if (!loaded_->plan->program.layers[i].affines.empty()) allocate_chain(i, layout);
    if (problem == nullptr || !problem->scale_shift || layers_[i].scale >= 0) continue;
    layers_[i].folded = {0};
    for (i64* const offset : {&layers_[i].scale, &layers_[i].shift}) {
      *offset = layout.add(problem->out_channels * static_cast<i64>(sizeof(float)));
    }
  }
  MINUET_ASSIGN(memory_, DeviceMemory::create(loaded_->device, layout.bytes()));
  // Folding reads the parameters of a layer together, also those that are not set yet.
  return loaded_->device->clear(memory_.data(), layout.bytes());
}

/// Allocates the scales and the shifts of all Affine steps of a chain, and places those that are parameters
/// in them.
[[gnu::cold]] void ParameterSet::allocate_chain(std::size_t number, ArenaLayout& layout) {
  const ProgramLayer& chain = loaded_->plan->program.layers[number];
  const ParameterCounts counts = parameter_counts(chain);
  Layer& layer = layers_[number];
  layer.scale = layout.add(counts.scale * static_cast<i64>(sizeof(float)));
  layer.shift = layout.add(counts.shift * static_cast<i64>(sizeof(float)));
  for (i32 i = layer.first; i < layer.end; ++i) {
    const PlanParameter& parameter = parameters_[i];
    const i64 offset = parameter.affine * parameter.shape.front() * static_cast<i64>(sizeof(float));
    if (parameter.role == ParameterRole::Scale) stored_[i].offset = layer.scale + offset;
    if (parameter.role == ParameterRole::Shift) stored_[i].offset = layer.shift + offset;
  }
  for (std::size_t i = 0; i < chain.affines.size(); ++i) {
    if (!chain.affines[i].batch_norm.empty()) layer.folded.push_back(static_cast<i32>(i));
  }
}

llvm::Error ParameterSet::check_values(llvm::ArrayRef<ParameterValue> values) const {
  std::vector<bool> given(parameters_.size());
  for (const ParameterValue& value : values) {
    MINUET_TRY(check_parameter_number(value.parameter, parameters_.size()));
    if (given[value.parameter]) {
      return make_error(StatusCode::InvalidArgument, "parameter {0} (\"{1}\") is given twice",
                        value.parameter, parameters_[value.parameter].name);
    }
    given[value.parameter] = true;
  }
  return llvm::Error::success();
}

llvm::Expected<ParameterCopy> ParameterSet::copy_of(const ParameterValue& value, WeightsOrder order) const {
  const PlanParameter& parameter = parameters_[value.parameter];
  const ElementType element = value.array.element;
  if (element == ElementType::I32 || element == ElementType::U8 || element == ElementType::Bool) {
    return make_error(StatusCode::InvalidArgument, "it has elements of {0}; give it as f32, f16, bf16 or f64",
                      element_name(element));
  }
  GivenWeight given;
  if (is_weight(parameter)) {
    const ConvolutionProblem& problem = *convolution_of(layer_of(parameter));
    MINUET_ASSIGN(given, find_weight(value.array, order, forward_of(problem), parameter.name));
    if (problem.gradient_of) given = transposed(given, problem);
  } else {
    MINUET_ASSIGN(given, find_vector(value.array, order, parameter.shape.front()));
  }
  ParameterCopy job = {};
  job.source = value.array.data;
  job.target = at(stored_[value.parameter].offset);
  job.master = reinterpret_cast<float*>(at(stored_[value.parameter].master_offset));
  read_from(std::move(given), job);
  job.element = static_cast<ArrayElement>(value.array.element);
  job.dtype = dtype_of(parameter);
  job.storage = storage_of(parameter);
  return job;
}

BatchNormFold ParameterSet::fold_of(std::size_t number, i32 affine) const {
  const Layer& layer = layers_[number];
  const ProgramLayer& op = loaded_->plan->program.layers[number];
  BatchNormFold job = {};
  job.epsilon = op.affines.empty() ? op.batch_norm_epsilon : op.affines[affine].epsilon;
  const OperandShape shape = op.problem.kind().shape(op.problem);
  job.channels = op.affines.empty() ? shape.out_channels : shape.in_channels;
  job.scale = reinterpret_cast<float*>(at(layer.scale)) + affine * job.channels;
  job.shift = reinterpret_cast<float*>(at(layer.shift)) + affine * job.channels;
  for (i32 i = layer.first; i < layer.end; ++i) {
    if (parameters_[i].affine != affine) continue;
    const auto* const values = reinterpret_cast<const float*>(at(stored_[i].offset));
    switch (parameters_[i].role) {
      case ParameterRole::Bias:
        job.convolution_bias = values;
        break;
      case ParameterRole::NormWeight:
        job.weight = values;
        break;
      case ParameterRole::NormBias:
        job.bias = values;
        break;
      case ParameterRole::NormMean:
        job.mean = values;
        break;
      case ParameterRole::NormVariance:
        job.variance = values;
        break;
      case ParameterRole::Weight:
      case ParameterRole::Scale:
      case ParameterRole::Shift:
        break;
    }
  }
  return job;
}

llvm::Error ParameterSet::call(void* stream, llvm::function_ref<llvm::Error()> work) {
  engine_->time_as(Timed::Nothing);
  MINUET_TRY(engine_->begin(stream));
  auto end = llvm::make_scope_exit([&] { llvm::consumeError(engine_->end()); });
  llvm::Error error = work();
  end.release();
  return llvm::joinErrors(std::move(error), engine_->end());
}

/// Enqueues the copies, and then what depends on the copied parameters.
llvm::Error ParameterSet::enqueue(llvm::ArrayRef<ParameterCopy> copies, llvm::ArrayRef<ParameterValue> values,
                                  const Images& live) {
  std::vector<bool> has_new_weight(layers_.size()), is_touched(layers_.size());
  for (const ParameterValue& value : values) {
    const PlanParameter& parameter = parameters_[value.parameter];
    is_touched[parameter.layer] = true;
    if (is_weight(parameter)) has_new_weight[parameter.layer] = true;
  }
  std::vector<BatchNormFold> folds;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (!is_touched[i]) continue;
    for (const i32 affine : layers_[i].folded) folds.push_back(fold_of(i, affine));
  }
  std::vector<WeightImageJob> images;
  for (const std::shared_ptr<Image>& image : live) {
    if (has_new_weight[image->layer]) images.push_back(job_of(*image));
  }
  ParameterOperations& operations = engine_->parameters();
  MINUET_TRY(operations.copy(copies));
  MINUET_TRY(operations.fold(folds));
  return operations.make_images(images);
}

/// Records that the values are set, and what a graph sets if the call is captured.
void ParameterSet::take_note(llvm::ArrayRef<ParameterValue> values, const Images& live) {
  for (const ParameterValue& value : values) {
    if (!std::exchange(stored_[value.parameter].is_set, true)) --unset_;
    if (!engine_->was_captured() || !is_weight(parameters_[value.parameter])) continue;
    const auto layer = static_cast<std::size_t>(parameters_[value.parameter].layer);
    captured_layers_[layer] = true;
    for (const std::shared_ptr<Image>& image : live) {
      if (image->layer == layer && !llvm::is_contained(captured_images_, image)) {
        captured_images_.push_back(image);
      }
    }
  }
}

llvm::Error ParameterSet::refuse_capture(void* stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return call(stream, [&]() -> llvm::Error {
    if (!engine_->was_captured()) return llvm::Error::success();
    return make_error(StatusCode::FailedPrecondition,
                      "the stream is being captured, and an array is in host memory: a graph can read and "
                      "write device memory only");
  });
}

/// Copies the arrays that are in host memory to `staged`, and lets their jobs read them there.
llvm::Error ParameterSet::stage(llvm::ArrayRef<ParameterValue> values,
                                llvm::MutableArrayRef<ParameterCopy> copies, void* stream,
                                DeviceMemory& staged) {
  ArenaLayout layout;
  std::vector<i64> places;
  for (const ParameterValue& value : values) {
    places.push_back(value.array.on_host ? layout.add(spanned_bytes(value.array)) : -1);
  }
  if (layout.bytes() == 0) return llvm::Error::success();
  MINUET_TRY(refuse_capture(stream));
  MINUET_ASSIGN(staged, DeviceMemory::create(loaded_->device, layout.bytes()));
  for (std::size_t i = 0; i < copies.size(); ++i) {
    if (places[i] < 0) continue;
    char* const place = staged.data() + places[i];
    MINUET_TRY(loaded_->device->upload(place, copies[i].source, spanned_bytes(values[i].array)));
    copies[i].source = place;
  }
  return llvm::Error::success();
}

llvm::Error ParameterSet::set(llvm::ArrayRef<ParameterValue> values, WeightsOrder order, void* stream) {
  MINUET_TRY(check_values(values));
  std::vector<ParameterCopy> copies;
  for (const ParameterValue& value : values) {
    llvm::Expected<ParameterCopy> job = copy_of(value, order);
    if (!job) return annotate(job.takeError(), "parameter \"" + parameters_[value.parameter].name + "\"");
    copies.push_back(*job);
  }
  DeviceMemory staged;
  MINUET_TRY(stage(values, copies, stream, staged));
  Images live;
  llvm::Error error = [&] {
    const std::lock_guard<std::mutex> lock(mutex_);
    live = live_images();
    return call(stream, [&]() -> llvm::Error {
      MINUET_TRY(engine_->follow_last_call());
      take_note(values, live);
      return enqueue(copies, values, live);
    });
  }();
  // The staged arrays are freed on return, after an error too.
  if (staged.data() == nullptr) return error;
  return llvm::joinErrors(std::move(error), loaded_->device->synchronize(stream));
}

llvm::Error ParameterSet::get(i32 number, const GivenArray& array, void* stream) {
  MINUET_TRY(check_parameter_number(number, parameters_.size()));
  const PlanParameter& parameter = parameters_[number];
  if (!llvm::equal(array.shape, parameter.shape)) {
    return make_error(StatusCode::InvalidArgument, "the array's shape is not that of parameter \"{0}\"",
                      parameter.name);
  }
  if (!is_contiguous(array)) {
    return make_error(StatusCode::InvalidArgument, "the array for parameter \"{0}\" must be contiguous",
                      parameter.name);
  }
  if (array.element == ElementType::F64) {
    return make_error(StatusCode::InvalidArgument,
                      "parameter \"{0}\" cannot be copied to f64: use f32, f16 or bf16", parameter.name);
  }
  const i64 master = stored_[number].master_offset;
  ParameterCopy job = {};
  job.source = at(master >= 0 ? master : stored_[number].offset);
  job.element = master >= 0 ? ArrayElement::F32 : static_cast<ArrayElement>(storage_of(parameter));
  job.dtype = job.storage = static_cast<DType>(array.element);
  const ConvolutionProblem* const problem = convolution_of(layer_of(parameter));
  const bool is_transposed = problem != nullptr && problem->gradient_of && is_weight(parameter);
  read_from(is_transposed ? in_stored(*problem) : contiguous(parameter.shape), job);
  DeviceMemory staged;
  if (array.on_host) {
    MINUET_TRY(refuse_capture(stream));
    MINUET_ASSIGN(staged, DeviceMemory::create(loaded_->device, spanned_bytes(array)));
  }
  job.target = array.on_host ? staged.data() : array.data;
  llvm::Error error = [&]() -> llvm::Error {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!stored_[number].is_set) {
      return make_error(StatusCode::FailedPrecondition, "parameter \"{0}\" has no value yet", parameter.name);
    }
    return call(stream, [&]() -> llvm::Error {
      MINUET_TRY(engine_->follow_last_call());
      return engine_->parameters().copy(job);
    });
  }();
  if (!array.on_host) return error;
  MINUET_TRY(llvm::joinErrors(std::move(error), loaded_->device->synchronize(stream)));
  return loaded_->device->download(array.data, staged.data(), spanned_bytes(array));
}

llvm::Error ParameterSet::check_complete() const {
  if (unset_ == 0) return llvm::Error::success();
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string names;
  std::size_t count = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (stored_[i].is_set || ++count > kMostNames) continue;
    names += (names.empty() ? "\"" : ", \"") + parameters_[i].name + "\"";
  }
  const std::string more = count > kMostNames ? " and " + std::to_string(count - kMostNames) + " more" : "";
  return make_error(StatusCode::FailedPrecondition, "parameters without a value: {0}{1}; set them first",
                    names, more);
}

void ParameterSet::release_captures() {
  // Images are freed after the mutex is unlocked.
  Images released;
  SharedImages released_of_runs;
  const std::lock_guard<std::mutex> lock(mutex_);
  captured_layers_.assign(layers_.size(), false);
  std::swap(released, captured_images_);
  std::swap(released_of_runs, captured_run_images_);
}

}  // namespace minuet
