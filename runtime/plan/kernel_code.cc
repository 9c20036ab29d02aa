#include "runtime/plan/kernel_code.h"

#include "codegen/choose/ops/pointwise.h"
#include "llvm/ADT/STLExtras.h"

namespace minuet {
namespace {

/// Returns the name of the field that points to the parameters of an image, which are those of `layer`.
/// Kernels of all families use these names.
std::string field_name(const ParameterImage& image, const ProgramLayer& layer) {
  static constexpr const char* kNames[] = {"weights", "scale", "shift"};
  // A kernel may compute the chain behind its convolution, or else a shortcut (ConvolutionProblem).
  const char* const covered = layer.problem.get_if<PointwiseProblem>() != nullptr ? "second." : "shortcut.";
  return std::string(image.ahead > 0 ? covered : "") + kNames[static_cast<i32>(image.part)];
}

/// Adds the parameters to the fields that point to them. The fields are those of one kernel of the candidate,
/// which may read a part of the candidate's parameters or none.
void add_parameters(const Plan& plan, std::size_t number, const std::vector<ParameterImage>& images,
                    std::vector<KernelCodeField>& fields) {
  for (const ParameterImage& image : images) {
    const ProgramLayer& layer = plan.program.layers[number + static_cast<std::size_t>(image.ahead)];
    const std::string name = field_name(image, layer);
    const auto found =
        llvm::find_if(fields, [&](const KernelCodeField& field) { return field.field.name == name; });
    if (found == fields.end()) continue;
    found->data_bytes = image_bytes(layer, image);
    if (!plan.has_values || found->data_bytes == 0) continue;
    found->data.resize(static_cast<std::size_t>(found->data_bytes));
    write_image(plan.parameters[number + static_cast<std::size_t>(image.ahead)], image, found->data.data());
  }
}

/// Returns true if the layer leads from one stage to another. Its kernels run by more than the launches of a
/// layer, so they are not described.
bool leads_to_stage(const CompiledPlan& compiled, i32 layer) {
  return llvm::any_of(compiled.stages, [&](const CompiledStage& stage) {
    return llvm::is_contained(stage.stage.leading, layer);
  });
}

}  // namespace

[[gnu::cold]] llvm::Error visit_kernel_code(const Plan& plan, const CompiledPlan& compiled,
                                            const BinaryList& binaries,
                                            llvm::function_ref<void(const KernelCode&)> visitor) {
  for (std::size_t number = 0; number < compiled.candidates.size(); ++number) {
    if (leads_to_stage(compiled, static_cast<i32>(number))) continue;
    const std::vector<Candidate>& candidates = compiled.candidates[number];
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      SourceList list;
      add_sources(list, candidates[i].choice);
      const std::vector<KernelLaunch> launches = list.take_launches();
      const std::vector<ParameterImage> images =
          parameter_images(candidates[i].choice, plan.program.dtype, compiled.arch);
      for (const KernelLaunch& launch : launches) {
        const auto binary = llvm::find_if(binaries, [&](const std::shared_ptr<const Binary>& known) {
          return known->display_name == launch.display_name;
        });
        if (binary == binaries.end() || launch.fields == nullptr) {
          return make_error(StatusCode::Internal, "kernel {0} has no {1}", launch.display_name,
                            launch.fields == nullptr ? "list of fields (params_fields.h)" : "binary");
        }
        std::vector<KernelCodeField> fields;
        for (ParamsField& field : launch.fields()) fields.push_back({std::move(field), 0, {}});
        add_parameters(plan, number, images, fields);
        visitor({number, i, plan.program.layers[number].name, candidates[i],
                 static_cast<i32>(launches.size()), launch, **binary, std::move(fields)});
      }
    }
  }
  return llvm::Error::success();
}

}  // namespace minuet
