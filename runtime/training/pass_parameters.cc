#include "runtime/training/pass_parameters.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "runtime/program/ops/convolution.h"

namespace minuet {
namespace {

constexpr u32 kOneAsWord = 0x3f800000;  // Has the bits of 1.0f.

const Program& program_of(const Execution& execution) { return execution.plan().program; }

i64 channels_of(const Program& program, const ProgramLayer& layer) {
  return program.tensors[layer.output].channels;
}

}  // namespace

llvm::Expected<float*> vector_in(const GivenArray& array, WeightsOrder order,
                                 const PlanParameter& parameter) {
  const auto read = [&]() -> llvm::Expected<float*> {
    MINUET_TRY(check_f32(array));
    // All orders have this form.
    if (array.shape.size() == 1 && array.shape[0] == parameter.shape.front() && array.strides[0] == 1) {
      return static_cast<float*>(array.data);
    }
    MINUET_ASSIGN(GivenWeight given, find_vector(array, order, parameter.shape.front()));
    given.join_axes();
    if (given.shape.size() == 1 && (given.shape[0] == 1 || given.strides[0] == 1)) {
      return static_cast<float*>(array.data);
    }
    return make_error(StatusCode::InvalidArgument,
                      "its elements are not side by side: copy it into a contiguous array");
  };
  llvm::Expected<float*> found = read();
  if (!found) return annotate(found.takeError(), "\"" + parameter.name + "\"");
  return found;
}

llvm::Error FoundWeight::find(const GivenArray& array, WeightsOrder order,
                              llvm::function_ref<ConvolutionProblem()> problem,
                              const PlanParameter& parameter) {
  if (order == order_ && !shape_.empty() && array.shape == shape_ && array.strides == strides_) {
    return llvm::Error::success();
  }
  auto found = find_weight(array, order, problem(), parameter.name);
  if (!found) return annotate(found.takeError(), "\"" + parameter.name + "\"");
  place = std::move(*found);
  order_ = order, shape_ = array.shape, strides_ = array.strides;
  return llvm::Error::success();
}

/// Returns true if the kernels read the elements of a weight in their own order, or if its images are made
/// from such elements.
static bool reads_elements(const ConvolutionProblem& problem, llvm::ArrayRef<ParameterImage> images) {
  return problem.groups > 1 || llvm::any_of(images, [](const ParameterImage& image) {
           return image.part == ParameterPart::Weight && !image.weight.fused;
         });
}

/// Returns the images that the kernels of a candidate read.
static std::vector<ParameterImage> images_of(const Candidate& candidate, const Execution& execution) {
  const Device& device = *execution.loaded().device;
  return parameter_images(candidate.choice, device.weight_type(program_of(execution).dtype),
                          device.info().arch);
}

/// Returns the image of the weight that the kernels of a candidate read, or nothing if they read elements.
static std::optional<FusedImage> fused_image_of(const ConvolutionProblem& problem, const Candidate& candidate,
                                                const Execution& execution) {
  const std::vector<ParameterImage> images = images_of(candidate, execution);
  if (reads_elements(problem, images)) return std::nullopt;
  const auto found =
      llvm::find_if(images, [](const ParameterImage& image) { return image.part == ParameterPart::Weight; });
  return found == images.end() ? std::nullopt : found->weight.fused;
}

std::vector<KeptImage> find_kept_images(const CompiledPlan& backward, const TrainingPasses& passes,
                                        const Execution& execution) {
  const BackwardPass& pass = passes.backward;
  std::vector<KeptImage> kept;
  if (passes.options.recomputes()) return kept;
  for (std::size_t i = 0; i < pass.program.layers.size(); ++i) {
    const ProgramLayer& layer = pass.program.layers[i];
    const ConvolutionProblem* const problem = convolution_of(layer);
    const std::vector<Candidate>& candidates = backward.candidates[i];
    if (problem == nullptr || !problem->gradient_of || candidates.empty()) continue;
    // Both passes have the same levels.
    const i64 rows = likely_rows_within(execution.level(pass.program.tensors[layer.output].level).rows);
    const Candidate& selected = select(candidates, rows, std::nullopt);
    const std::optional<FusedImage> layout = fused_image_of(*problem, selected, execution);
    if (!layout) continue;
    KeptImage image{static_cast<i32>(i), pass.layers[i].weight, *problem, *layout, 0};
    // Candidates are in the order of the rows that they serve.
    for (const Candidate& candidate : candidates) {
      const std::optional<FusedImage> other = fused_image_of(*problem, candidate, execution);
      if (other) image.bytes = std::max(image.bytes, fused_image_bytes(*other));
      if (&candidate == &selected) break;
    }
    kept.push_back(image);
  }
  return kept;
}

llvm::Error check_kept_images(llvm::ArrayRef<KeptImage> kept, const Execution& backward) {
  for (const KeptImage& image : kept) {
    const std::optional<FusedImage> read =
        fused_image_of(image.problem, backward.selected_candidate(image.layer), backward);
    if (read == image.layout) continue;
    return make_error(StatusCode::Internal, "layer {0} reads another image of its weight than is kept for it",
                      program_of(backward).layers[image.layer].name);
  }
  return llvm::Error::success();
}

PassParameters::PassParameters(const Execution& execution, llvm::ArrayRef<LayerUse> uses,
                               const TrainingPasses& passes, std::vector<KeptImage> kept, bool is_forward)
    : execution_(execution),
      parameters_(passes.parameters),
      dtype_(program_of(execution).dtype),
      weight_type_(execution.loaded().device->weight_type(dtype_)),
      layers_(uses.size()),
      kept_(std::move(kept)),
      kept_memory_(kept_.size()),
      is_forward_(is_forward) {
  for (std::size_t i = 0; i < uses.size(); ++i) {
    Layer& layer = layers_[i];
    const ProgramLayer& op = program_of(execution).layers[i];
    layer.use = uses[i];
    layer.images = images_of(execution.selected_candidate(static_cast<i32>(i)), execution);
    const ConvolutionProblem* const problem = convolution_of(op);
    if (problem == nullptr) continue;
    if (reads_elements(*problem, layer.images)) {
      layer.weight_bytes = weight_numbers(*problem) * dtype_bytes(storage_type(weight_type_));
    }
  }
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    // Each weight that the backward pass reads is that of a convolution of the forward pass.
    const auto is_of = [&](const Layer& layer) { return layer.use.weight == kept_[i].weight; };
    Layer& layer = is_forward ? *llvm::find_if(layers_, is_of) : layers_[kept_[i].layer];
    layer.kept.push_back(static_cast<i32>(i));
  }
  for (const PlanParameter& parameter : parameters_) {
    if (parameter.role != ParameterRole::Weight) {
      most_channels_ = std::max<i64>(most_channels_, parameter.shape.front());
    }
  }
}

void PassParameters::place(Placement& parts, Placement& kept) {
  for (std::size_t i = 0; i < kept_.size(); ++i) kept_memory_[i] = kept.take<char>(kept_[i].bytes);
  ones_ = parts.take<float>(most_channels_);
  zeros_ = parts.take<float>(most_channels_);
  reads_ones_ = reads_zeros_ = false;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = layers_[i];
    const ProgramLayer& op = program_of(execution_).layers[i];
    const i64 channels = channels_of(program_of(execution_), op);
    const ConvolutionProblem* const problem = convolution_of(op);
    const bool scales = problem ? problem->scale_shift : !op.affines.empty();
    reads_ones_ = reads_ones_ || (scales && layer.use.scale < 0);
    reads_zeros_ = reads_zeros_ || (scales && layer.use.shift < 0);
    layer.weight = parts.take<char>(layer.weight_bytes);
    layer.scale = layer.use.scale >= 0 ? parts.take<float>(channels) : nullptr;
    layer.shift = layer.use.shift >= 0 ? parts.take<float>(channels) : nullptr;
    layer.fused.clear();
    layer.pointers.clear();
    for (const ParameterImage& image : layer.images) {
      if (image.part == ParameterPart::Scale) {
        layer.pointers.push_back(!scales ? nullptr : layer.scale ? layer.scale : ones_);
      } else if (image.part == ParameterPart::Shift) {
        layer.pointers.push_back(!scales ? nullptr : layer.shift ? layer.shift : zeros_);
      } else if (image.weight.fused) {
        if (!is_forward_ && !layer.kept.empty()) {
          layer.pointers.push_back(kept_memory_[layer.kept.front()]);
          continue;
        }
        char* const memory = parts.take<char>(fused_image_bytes(*image.weight.fused));
        layer.fused.push_back({*image.weight.fused, memory});
        layer.pointers.push_back(memory);
      } else {
        layer.pointers.push_back(layer.weight);
      }
    }
  }
}

void PassParameters::copy_floats(const float* source, float* target, i64 count) {
  ParameterCopy& job = copies_.emplace_back();
  job = {};
  job.source = source;
  job.target = target;
  job.elements = count;
  job.rank = 1;
  job.shape[0] = static_cast<i32>(count);
  job.strides[0] = 1;
  job.element = ArrayElement::F32;
  job.dtype = job.storage = DType::F32;
}

/// Lets a layer read the caller's vector. If the kernels cannot read it there, it is copied to `memory`.
llvm::Error PassParameters::take_vector(Layer& layer, ParameterPart part, i32 number, float* memory,
                                        llvm::ArrayRef<GivenArray> values, WeightsOrder order) {
  if (number < 0) return llvm::Error::success();
  MINUET_ASSIGN(const float* const source, vector_in(values[number], order, parameters_[number]));
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(source) % kWidestAccess == 0;
  if (!is_aligned) copy_floats(source, memory, parameters_[number].shape.front());
  for (std::size_t i = 0; i < layer.images.size(); ++i) {
    if (layer.images[i].part == part) layer.pointers[i] = is_aligned ? source : memory;
  }
  return llvm::Error::success();
}

llvm::Error PassParameters::take(llvm::ArrayRef<GivenArray> values, WeightsOrder order) {
  copies_.clear();
  jobs_.clear();
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = layers_[i];
    MINUET_TRY(take_vector(layer, ParameterPart::Scale, layer.use.scale, layer.scale, values, order));
    MINUET_TRY(take_vector(layer, ParameterPart::Shift, layer.use.shift, layer.shift, values, order));
    const ConvolutionProblem* const problem = convolution_of(program_of(execution_).layers[i]);
    if (problem == nullptr) continue;
    const PlanParameter& parameter = parameters_[layer.use.weight];
    const GivenArray& array = values[layer.use.weight];
    if (llvm::Error error = check_f32(array)) return annotate(std::move(error), "\"" + parameter.name + "\"");
    MINUET_TRY(layer.given_weight.find(
        array, order, [&] { return forward_of(*problem); }, parameter));
    const GivenWeight& forward = layer.given_weight.place;
    const GivenWeight given = problem->gradient_of ? transposed(forward, *problem) : forward;
    for (const auto& [layout, memory] : layer.fused) {
      jobs_.push_back(layer.weight_bytes > 0 ? stored_image_job(layout, layer.weight, memory)
                                             : image_from(given, problem->ndim, array.data, layout, memory));
    }
    // The images of one weight are made at the same time, so that the second one finds the weight in the L2
    // cache.
    for (const i32 number : layer.kept) {
      if (!is_forward_) break;
      const KeptImage& image = kept_[number];
      jobs_.push_back(image_from(transposed(forward, image.problem), image.problem.ndim, array.data,
                                 image.layout, kept_memory_[number]));
    }
    if (layer.weight_bytes == 0) continue;
    ParameterCopy& job = copies_.emplace_back();
    job = {};
    job.source = array.data;
    job.target = layer.weight;
    job.element = ArrayElement::F32;
    read_from(given, job);
    job.dtype = dtype_;
    job.storage = storage_type(weight_type_);
  }
  return llvm::Error::success();
}

llvm::Error PassParameters::enqueue() {
  Engine& engine = execution_.engine();
  if (reads_ones_) MINUET_TRY(engine.fill_words(ones_, kOneAsWord, most_channels_));
  if (reads_zeros_) MINUET_TRY(engine.fill_words(zeros_, 0, most_channels_));
  MINUET_TRY(engine.parameters().copy(copies_));
  return engine.parameters().make_images(jobs_);
}

}  // namespace minuet
