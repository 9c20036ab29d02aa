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

/// Returns where the elements of the weight that the caller has given are in the stored weight of the
/// gradient `problem`, whose shape is [volume, in_channels / groups, out_channels].
GivenWeight in_stored(const ConvolutionProblem& problem) {
  const i64 volume = kernel_volume(problem), inputs = group_inputs(problem);
  const i64 outputs = problem.out_channels, group_outputs = outputs / problem.groups;
  // The axes are [volume, input of a group, group, output of a group] of the forward convolution.
  return {{volume, group_outputs, i64{problem.groups}, inputs},
          {inputs * outputs, 1, group_outputs, outputs}};
}

/// Returns InvalidArgument or OutOfRange unless each value names a parameter that no earlier one names.
llvm::Error check_values(llvm::ArrayRef<ParameterValue> values, llvm::ArrayRef<PlanParameter> parameters) {
  std::vector<bool> given(parameters.size());
  for (const ParameterValue& value : values) {
    MINUET_TRY(check_parameter_number(value.parameter, parameters.size()));
    if (given[value.parameter]) {
      return make_error(StatusCode::InvalidArgument, "parameter {0} (\"{1}\") is given twice",
                        value.parameter, parameters[value.parameter].name);
    }
    given[value.parameter] = true;
  }
  return llvm::Error::success();
}

}  // namespace

ParameterSet::ParameterSet(std::shared_ptr<const LoadedPlan> loaded, const ParameterSetOptions& options)
    : loaded_(std::move(loaded)),
      options_(options),
      layout_(*loaded_, options.keeps_master, [](std::size_t) { return true; }),
      is_set_(parameters().size()),
      captured_layers_(layout_.layers()),
      unset_(static_cast<i32>(parameters().size())) {}

llvm::Expected<std::shared_ptr<ParameterSet>> ParameterSet::create(std::shared_ptr<const LoadedPlan> loaded,
                                                                   const ParameterSetOptions& options) {
  MINUET_TRY(check_takes_values(loaded->plan->program));
  std::shared_ptr<ParameterSet> set(new ParameterSet(std::move(loaded), options));
  if (set->parameters().empty()) {
    return make_error(StatusCode::InvalidArgument, "the plan has no parameters to set");
  }
  const LoadedPlan& plan = *set->loaded_;
  MINUET_ASSIGN(set->engine_, plan.device->create_engine(plan.compiled->engine));
  MINUET_ASSIGN(set->memory_, DeviceMemory::create(plan.device, set->layout_.bytes()));
  // Folding reads the parameters of a layer together, also those that are not set yet.
  MINUET_TRY(plan.device->clear(set->memory_.data(), set->layout_.bytes()));
  return set;
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
  std::vector<bool> has_new_weight(layout_.layers()), is_touched(layout_.layers());
  for (const ParameterValue& value : values) {
    const PlanParameter& parameter = parameters()[value.parameter];
    is_touched[parameter.layer] = true;
    if (is_weight(parameter)) has_new_weight[parameter.layer] = true;
  }
  std::vector<BatchNormFold> folds;
  for (std::size_t i = 0; i < layout_.layers(); ++i) {
    if (is_touched[i]) layout_.add_folds(i, memory_.data(), folds);
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
    if (!is_set_[value.parameter]) --unset_;
    is_set_[value.parameter] = true;
    if (!engine_->was_captured() || !is_weight(parameters()[value.parameter])) continue;
    const auto layer = static_cast<std::size_t>(parameters()[value.parameter].layer);
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
  MINUET_TRY(check_values(values, parameters()));
  std::vector<ParameterCopy> copies;
  for (const ParameterValue& value : values) {
    llvm::Expected<ParameterCopy> job = layout_.copy_of(value, order, memory_.data());
    if (!job) return annotate(job.takeError(), "parameter \"" + parameters()[value.parameter].name + "\"");
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
  MINUET_TRY(check_parameter_number(number, parameters().size()));
  const PlanParameter& parameter = parameters()[number];
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
  const i64 master = layout_.master_offset(number);
  ParameterCopy job = {};
  job.source = memory_.data() + (master >= 0 ? master : layout_.offset(number));
  job.element = master >= 0 ? ArrayElement::F32 : static_cast<ArrayElement>(layout_.storage_of(parameter));
  job.dtype = job.storage = static_cast<DType>(array.element);
  const ConvolutionProblem* const problem = convolution_of(layout_.layer_of(parameter));
  const bool is_transposed = problem != nullptr && problem->gradient_of && is_weight(parameter);
  read_from(is_transposed ? in_stored(*problem) : contiguous_weight(parameter.shape), job);
  DeviceMemory staged;
  if (array.on_host) {
    MINUET_TRY(refuse_capture(stream));
    MINUET_ASSIGN(staged, DeviceMemory::create(loaded_->device, spanned_bytes(array)));
  }
  job.target = array.on_host ? staged.data() : array.data;
  llvm::Error error = [&]() -> llvm::Error {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!is_set_[number]) {
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
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    if (is_set_[i] || ++count > kMostNames) continue;
    names += (names.empty() ? "\"" : ", \"") + parameters()[i].name + "\"";
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
  captured_layers_.assign(layout_.layers(), false);
  std::swap(released, captured_images_);
  std::swap(released_of_runs, captured_run_images_);
}

}  // namespace minuet
