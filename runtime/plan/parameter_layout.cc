#include "runtime/plan/parameter_layout.h"

#include "runtime/program/ops/convolution.h"

namespace minuet {

ParameterLayout::ParameterLayout(const LoadedPlan& loaded, bool keeps_master, StoresWeight stores_weight)
    : loaded_(loaded),
      weight_type_(loaded.device->weight_type(loaded.plan->program.dtype)),
      parameters_(loaded.plan->parameter_list()),
      layers_(loaded.plan->program.layers.size()),
      stored_(parameters_.size()) {
  ArenaLayout layout;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const PlanParameter& parameter = parameters_[i];
    i64 count = 1;
    for (const int64_t size : parameter.shape) count *= size;
    // The scales and shifts of a chain are parts of two arrays (place_chain()).
    const bool is_part = parameter.role >= ParameterRole::Scale && !layer_of(parameter).affines.empty();
    const bool is_stored = !is_weight(parameter) || stores_weight(static_cast<std::size_t>(parameter.layer));
    if (!is_part && is_stored) stored_[i].offset = layout.add(count * dtype_bytes(storage_of(parameter)));
    if (keeps_master && dtype_of(parameter) != DType::F32) {
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
    const ProgramLayer& op = loaded_.plan->program.layers[i];
    const ConvolutionProblem* const problem = convolution_of(op);
    if (!op.affines.empty()) place_chain(i, layout);
    if (problem == nullptr || !problem->scale_shift || layers_[i].scale >= 0) continue;
    layers_[i].folded = {0};
    for (i64* const offset : {&layers_[i].scale, &layers_[i].shift}) {
      *offset = layout.add(problem->out_channels * static_cast<i64>(sizeof(float)));
    }
  }
  bytes_ = layout.bytes();
}

/// Places the scales and the shifts of all Affine steps of a chain, and those that are parameters in them.
[[gnu::cold]] void ParameterLayout::place_chain(std::size_t number, ArenaLayout& layout) {
  const ProgramLayer& chain = loaded_.plan->program.layers[number];
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

/// Returns the type to which the parameter's numbers are rounded.
DType ParameterLayout::dtype_of(const PlanParameter& parameter) const {
  return is_weight(parameter) ? loaded_.plan->program.dtype : DType::F32;
}

DType ParameterLayout::storage_of(const PlanParameter& parameter) const {
  return is_weight(parameter) ? storage_type(weight_type_) : DType::F32;
}

const ProgramLayer& ParameterLayout::layer_of(const PlanParameter& parameter) const {
  return loaded_.plan->program.layers[parameter.layer];
}

llvm::Expected<GivenWeight> ParameterLayout::find_weight_in(const ParameterValue& value,
                                                            WeightsOrder order) const {
  const PlanParameter& parameter = parameters_[value.parameter];
  const ConvolutionProblem& problem = *convolution_of(layer_of(parameter));
  MINUET_ASSIGN(GivenWeight given, find_weight(value.array, order, forward_of(problem), parameter.name));
  return problem.gradient_of ? transposed(given, problem) : std::move(given);
}

llvm::Expected<ParameterCopy> ParameterLayout::copy_of(const ParameterValue& value, WeightsOrder order,
                                                       char* block) const {
  const PlanParameter& parameter = parameters_[value.parameter];
  const ElementType element = value.array.element;
  if (element == ElementType::I32 || element == ElementType::U8 || element == ElementType::Bool) {
    return make_error(StatusCode::InvalidArgument, "it has elements of {0}; give it as f32, f16, bf16 or f64",
                      element_name(element));
  }
  GivenWeight given;
  if (is_weight(parameter)) {
    MINUET_ASSIGN(given, find_weight_in(value, order));
  } else {
    MINUET_ASSIGN(given, find_vector(value.array, order, parameter.shape.front()));
  }
  ParameterCopy job = {};
  job.source = value.array.data;
  job.target = at(stored_[value.parameter].offset, block);
  job.master = reinterpret_cast<float*>(at(stored_[value.parameter].master_offset, block));
  job.element = static_cast<ArrayElement>(value.array.element);
  read_from(std::move(given), job);
  job.dtype = dtype_of(parameter);
  job.storage = storage_of(parameter);
  return job;
}

BatchNormFold ParameterLayout::fold_of(std::size_t number, i32 affine, char* block) const {
  const Layer& layer = layers_[number];
  const ProgramLayer& op = loaded_.plan->program.layers[number];
  BatchNormFold job = {};
  job.epsilon = op.affines.empty() ? op.batch_norm_epsilon : op.affines[affine].epsilon;
  const OperandShape shape = op.problem.kind().shape(op.problem);
  job.channels = op.affines.empty() ? shape.out_channels : shape.in_channels;
  job.scale = reinterpret_cast<float*>(at(layer.scale, block)) + affine * job.channels;
  job.shift = reinterpret_cast<float*>(at(layer.shift, block)) + affine * job.channels;
  for (i32 i = layer.first; i < layer.end; ++i) {
    if (parameters_[i].affine != affine) continue;
    const auto* const values = reinterpret_cast<const float*>(at(stored_[i].offset, block));
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

void ParameterLayout::add_folds(std::size_t layer, char* block, std::vector<BatchNormFold>& folds) const {
  for (const i32 affine : layers_[layer].folded) folds.push_back(fold_of(layer, affine, block));
}

std::vector<ParameterImage> ParameterLayout::read_by(const CandidateSelection& selection) const {
  const OpChoice& choice = loaded_.compiled->candidates[selection.layer][selection.candidate].choice;
  return parameter_images(choice, weight_type_, loaded_.device->info().arch);
}

std::vector<LayerImage> ParameterLayout::images_of(llvm::ArrayRef<CandidateSelection> selections) const {
  std::vector<LayerImage> images;
  for (const CandidateSelection& selection : selections) {
    for (const ParameterImage& image : read_by(selection)) {
      if (image.part != ParameterPart::Weight || !image.weight.fused) continue;
      const LayerImage one{selection.layer + static_cast<std::size_t>(image.ahead), *image.weight.fused};
      if (!llvm::is_contained(images, one)) images.push_back(one);
    }
  }
  return images;
}

std::vector<std::vector<const void*>> ParameterLayout::pointers_of(
    llvm::ArrayRef<CandidateSelection> selections, const char* block,
    llvm::function_ref<const void*(const LayerImage&)> image_at) const {
  std::vector<std::vector<const void*>> pointers;
  for (const CandidateSelection& selection : selections) {
    std::vector<const void*>& read = pointers.emplace_back();
    for (const ParameterImage& image : read_by(selection)) {
      const std::size_t owner = selection.layer + static_cast<std::size_t>(image.ahead);
      if (image.part != ParameterPart::Weight) {
        const Layer& layer = layers_[owner];
        read.push_back(at(image.part == ParameterPart::Scale ? layer.scale : layer.shift, block));
      } else if (image.weight.fused) {
        read.push_back(image_at({owner, *image.weight.fused}));
      } else {
        read.push_back(weight_at(owner, block));
      }
    }
  }
  return pointers;
}

GivenWeight contiguous_weight(llvm::ArrayRef<int64_t> shape) {
  GivenWeight given;
  given.shape.assign(shape.begin(), shape.end());
  given.strides.resize(shape.size());
  i64 stride = 1;
  for (std::size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) given.strides[axis] = stride;
  return given;
}

}  // namespace minuet
