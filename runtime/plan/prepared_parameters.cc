#include "runtime/plan/prepared_parameters.h"

#include "runtime/program/ops/convolution.h"

namespace minuet {
namespace {

/// Returns which layers have their weight itself in the block. A kernel reads the weight without an image, or
/// the weight has groups, of which images can be made from the block only and not from the caller's array.
std::vector<bool> layers_that_store(const LoadedPlan& loaded, llvm::ArrayRef<CandidateSelection> selections) {
  const DType type = loaded.device->weight_type(loaded.plan->program.dtype);
  std::vector<bool> stores(loaded.plan->program.layers.size());
  for (const auto& [layer, candidate] : selections) {
    const OpChoice& choice = loaded.compiled->candidates[layer][candidate].choice;
    for (const ParameterImage& image : parameter_images(choice, type, loaded.device->info().arch)) {
      if (image.part != ParameterPart::Weight) continue;
      const std::size_t owner = layer + static_cast<std::size_t>(image.ahead);
      const ConvolutionProblem* const problem = convolution_of(loaded.plan->program.layers[owner]);
      if (!image.weight.fused || problem->groups > 1) stores[owner] = true;
    }
  }
  return stores;
}

}  // namespace

PreparedParameters::PreparedParameters(const LoadedPlan& loaded, std::vector<CandidateSelection> selections)
    : selections_(std::move(selections)),
      stores_weight_(layers_that_store(loaded, selections_)),
      layout_(loaded, /*keeps_master=*/false, [&](std::size_t layer) { return stores_weight_[layer]; }) {
  ArenaLayout layout;
  layout.add(layout_.bytes());
  for (const LayerImage& image : layout_.images_of(selections_)) {
    images_.push_back({image, layout.add(fused_image_bytes(image.layout))});
  }
  bytes_ = layout.bytes();
}

llvm::Expected<PreparedParameters::Jobs> PreparedParameters::jobs(llvm::ArrayRef<GivenArray> values,
                                                                  WeightsOrder order, char* block) const {
  MINUET_TRY(check_takes_values(layout_.program()));
  if (values.size() != parameters().size()) {
    return make_error(StatusCode::InvalidArgument, "{0} values are given, but the plan has {1} parameters",
                      values.size(), parameters().size());
  }
  Jobs made;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const PlanParameter& parameter = parameters()[i];
    const ParameterValue value{static_cast<i32>(i), values[i]};
    llvm::Error error = [&]() -> llvm::Error {
      MINUET_TRY(check_f32(value.array));
      // The array is checked, also where only images are made of it.
      MINUET_ASSIGN(const ParameterCopy job, layout_.copy_of(value, order, block));
      if (job.target) made.copies.push_back(job);
      return llvm::Error::success();
    }();
    if (error) return annotate(std::move(error), "parameter \"" + parameter.name + "\"");
  }
  for (std::size_t layer = 0; layer < layout_.layers(); ++layer) {
    layout_.add_folds(layer, block, made.folds);
  }
  for (const auto& [image, offset] : images_) {
    char* const target = block + offset;
    if (stores_weight_[image.layer]) {
      made.images.push_back(stored_image_job(image.layout, layout_.weight_at(image.layer, block), target));
      continue;
    }
    const ParameterValue value{layout_.weight_number(image.layer),
                               values[layout_.weight_number(image.layer)]};
    MINUET_ASSIGN(const GivenWeight given, layout_.find_weight_in(value, order));
    const i32 axes = convolution_of(layout_.layer_of(parameters()[value.parameter]))->ndim;
    made.images.push_back(image_from(given, axes, value.array.data, image.layout, target));
  }
  return made;
}

std::vector<std::vector<const void*>> PreparedParameters::pointers(const char* block) const {
  return layout_.pointers_of(selections_, block, [&](const LayerImage& wanted) -> const void* {
    const auto found = llvm::find_if(images_, [&](const Image& one) { return one.image == wanted; });
    return block + found->offset;
  });
}

llvm::Error PreparedParameters::enqueue(const Jobs& jobs, char* block, Engine& engine) const {
  // Steps of a chain that lack a scale or a shift read zeros.
  const auto words = static_cast<i64>(layout_.bytes() / sizeof(u32));
  MINUET_TRY(engine.fill_words(block, 0, words));
  ParameterOperations& operations = engine.parameters();
  MINUET_TRY(operations.copy(jobs.copies));
  MINUET_TRY(operations.fold(jobs.folds));
  return operations.make_images(jobs.images);
}

}  // namespace minuet
