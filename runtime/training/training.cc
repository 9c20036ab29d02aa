#include "runtime/training/training.h"

#include <functional>
#include <iterator>
#include <type_traits>
#include <utility>

#include "codegen/source/keys.h"

namespace minuet {
namespace {

std::shared_ptr<const Plan> plan_of(const Program& program, std::shared_ptr<const TuningSnapshot> tuning) {
  auto plan = std::make_shared<Plan>();
  plan->program = program;
  plan->parameters.resize(program.layers.size());
  plan->has_values = false;
  plan->tuning = std::move(tuning);
  return plan;
}

/// Returns the loaded form of a pass on the device.
llvm::Expected<std::shared_ptr<const LoadedPlan>> loaded_on(const PlanStore& store, const Device& device) {
  auto loaded = store.loaded_on(device);
  if (loaded) return loaded;
  llvm::consumeError(loaded.takeError());
  return make_error(StatusCode::FailedPrecondition,
                    "the training plan is not loaded on device {0}: call minuet_training_load first",
                    device.info().name);
}

/// Returns InvalidArgument if a pass cannot run on the execution's pyramid, which need not have been made for
/// the training plan.
llvm::Error check_pyramid(const TrainingPasses& passes, const Execution& execution) {
  const PyramidDescription& description = execution.pyramid().description();
  if (description.keep_first_duplicate) {
    return make_error(
        StatusCode::InvalidArgument,
        "the pyramid has keep_first_duplicate, but the gradients of duplicates would have to be "
        "added: make the pyramid with minuet_training_create_pyramid");
  }
  const Program& program = passes.backward.program;
  for (const ParameterGradientUse& use : passes.backward.parameters) {
    if (!use.reads_pairs() || program.maps[use.map].is_identity()) continue;
    const i32 number = execution.pyramid_map(use.map);
    if (number < 0 || execution.pyramid().exports(number)) continue;
    return make_error(
        StatusCode::InvalidArgument,
        "map {0} of the pyramid was not made for EXPORT, but the gradient of a weight reads its "
        "list of pairs: make the pyramid with minuet_training_create_pyramid",
        number);
  }
  return llvm::Error::success();
}

/// Returns the form of a pass that is compiled for the architecture, or that would be.
llvm::Expected<std::shared_ptr<const CompiledPlan>> plan_for(const PlanStore& store, llvm::StringRef arch) {
  auto compiled = store.compiled_for(arch);
  if (compiled) return compiled->plan;
  llvm::consumeError(compiled.takeError());
  return CompiledPlan::create(store.plan(), arch);
}

/// Returns the plan of the backward pass for a device.
using FindPlan = std::function<llvm::Expected<std::shared_ptr<const CompiledPlan>>(const Device& device)>;
/// Returns the function that makes the steps of a forward pass, or of a backward pass.
template <class Steps>
MakeRunSteps make_steps_of(std::shared_ptr<const TrainingPasses> passes, FindPlan find_plan) {
  return [passes = std::move(passes), find_plan = std::move(find_plan)](
             Execution& execution) -> llvm::Expected<std::unique_ptr<RunSteps>> {
    MINUET_TRY(check_pyramid(*passes, execution));
    MINUET_ASSIGN(const std::shared_ptr<const CompiledPlan> backward, find_plan(*execution.loaded().device));
    std::vector<KeptImage> kept = find_kept_images(*backward, *passes, execution);
    if (std::is_same_v<Steps, BackwardSteps>) MINUET_TRY(check_kept_images(kept, execution));
    return std::make_unique<Steps>(execution, passes, std::move(kept));
  };
}

/// Returns an execution of a pass that only measures memory.
llvm::Expected<std::unique_ptr<Execution>> measured(const PlanStore& store,
                                                    const std::shared_ptr<Device>& device,
                                                    const PyramidUse& use, const MakeRunSteps& make_steps) {
  auto loaded = std::make_shared<LoadedPlan>();
  loaded->plan = store.shared_plan();
  MINUET_ASSIGN(loaded->compiled, plan_for(store, device->info().arch));
  loaded->device = device;
  loaded->weights.resize(store.plan().parameters.size());
  return Execution::create_on(std::move(loaded), use, make_steps);
}

}  // namespace

llvm::Expected<std::shared_ptr<Training>> Training::create(const Plan& network,
                                                           std::shared_ptr<KernelCache> cache,
                                                           const TrainingOptions& options) {
  return create_tuned(network, network.tuning, std::move(cache), options);
}

llvm::Expected<std::shared_ptr<Training>> Training::create_tuned(
    const Plan& network, const std::shared_ptr<const TuningSnapshot>& tuning,
    std::shared_ptr<KernelCache> cache, const TrainingOptions& options) {
  MINUET_ASSIGN(TrainingPasses made, make_training_passes(network, options, tuning.get()));
  std::shared_ptr<Training> training(new Training());
  const auto passes = std::make_shared<const TrainingPasses>(std::move(made));
  training->passes_ = passes;
  const auto set_up = [&](Pass& pass, const Program& program) {
    pass.store = std::make_shared<PlanStore>(plan_of(program, tuning), cache);
  };
  set_up(training->forward_, passes->forward.program);
  set_up(training->backward_, passes->backward.program);
  const FindPlan find_plan =
      [store = training->backward_.store](
          const Device& device) -> llvm::Expected<std::shared_ptr<const CompiledPlan>> {
    MINUET_ASSIGN(const std::shared_ptr<const LoadedPlan> loaded, loaded_on(*store, device));
    return loaded->compiled;
  };
  training->forward_.runs = std::make_shared<RunPool>(make_steps_of<ForwardSteps>(passes, find_plan));
  training->backward_.runs = std::make_shared<RunPool>(make_steps_of<BackwardSteps>(passes, find_plan));
  return training;
}

llvm::Error Training::describe(llvm::ArrayRef<i64> capacities, llvm::ArrayRef<i64> slots,
                               PyramidDescription& description) const {
  // Both passes have the same levels and maps, so one program can have the layers of both.
  Program both = passes_->forward.program;
  const std::vector<ProgramLayer>& more = passes_->backward.program.layers;
  both.layers.insert(both.layers.end(), more.begin(), more.end());
  MINUET_TRY(Pyramid::describe(both, capacities, slots, description));
  return add_exported_maps(description);
}

/// Lets the pyramid list the pairs of each map from which the gradient of a weight follows.
llvm::Error Training::add_exported_maps(PyramidDescription& description) const {
  MINUET_ASSIGN(const std::shared_ptr<const Pyramid> pyramid, Pyramid::create(description));
  const Program& program = passes_->backward.program;
  for (const ParameterGradientUse& use : passes_->backward.parameters) {
    if (!use.reads_pairs() || program.maps[use.map].is_identity()) continue;
    MapSpec map = program.maps[use.map];
    if (program.levels[map.coarse].holds_items) continue;
    map.fine = pyramid->find_level(program, map.fine);
    map.coarse = pyramid->find_level(program, map.coarse);
    const i32 number = pyramid->find_map(map);
    if (!llvm::is_contained(description.exported_maps, number)) description.exported_maps.push_back(number);
  }
  return llvm::Error::success();
}

SourceList Training::kernels(llvm::StringRef arch) const {
  SourceList list;
  list.add(CopyParametersSpec{});
  for (const NormUse& norm : passes_->forward.norms) add_sources(list, norm.choice);
  for (const ParameterGradientUse& use : passes_->backward.parameters) add_sources(list, use.choice, arch);
  for (const AffineGradientUse& use : passes_->backward.affines) add_sources(list, use.choice);
  for (const GroupGradientUse& use : passes_->backward.groups) add_sources(list, use.choice);
  return list;
}

llvm::Expected<std::vector<KernelRequest>> Training::requests(llvm::StringRef arch) const {
  SourceList list = kernels(arch);
  std::vector<KernelRequest> requests = requests_of(list.take(), arch);
  for (const Pass* const pass : {&forward_, &backward_}) {
    MINUET_ASSIGN(const auto compiled, CompiledPlan::create(pass->store->plan(), arch));
    std::vector<KernelRequest> more = compiled->requests();
    std::move(more.begin(), more.end(), std::back_inserter(requests));
  }
  return requests;
}

llvm::Error Training::load(const std::shared_ptr<Device>& device) {
  // A forward pass asks which images the loaded backward pass reads, so the backward pass is loaded first.
  for (const Pass* const pass : {&backward_, &forward_}) {
    MINUET_TRY(pass->store->compile(device->info().arch).takeError());
    MINUET_TRY(pass->store->load(device));
  }
  return llvm::Error::success();
}

llvm::Expected<TrainingBytes> Training::bytes(const std::shared_ptr<Device>& device,
                                              const PyramidUse& use) const {
  const FindPlan find_plan = [store = backward_.store](const Device& of) {
    return plan_for(*store, of.info().arch);
  };
  MINUET_ASSIGN(const std::unique_ptr<Execution> forward,
                measured(*forward_.store, device, use, make_steps_of<ForwardSteps>(passes_, find_plan)));
  MINUET_ASSIGN(const std::unique_ptr<Execution> backward,
                measured(*backward_.store, device, use, make_steps_of<BackwardSteps>(passes_, find_plan)));
  if (forward->kept_bytes() != backward->kept_bytes()) {
    return make_error(StatusCode::Internal,
                      "the forward pass keeps {0} bytes, but the backward pass reads {1}",
                      forward->kept_bytes(), backward->kept_bytes());
  }
  return TrainingBytes{forward->kept_bytes(), forward->run_bytes(), backward->run_bytes()};
}

llvm::Error Training::check_values(const PassArguments& given) const {
  const std::size_t wanted = passes_->parameters.size();
  if (given.parameters.size() == wanted) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "{0} parameters are given, but the network has {1}",
                    given.parameters.size(), wanted);
}

llvm::Error Training::forward(const Device& device, const PyramidUse& use, PyramidRun run,
                              const ForwardArguments& given, void* stream) const {
  MINUET_TRY(check_values(given));
  MINUET_ASSIGN(const std::shared_ptr<const LoadedPlan> loaded, loaded_on(*forward_.store, device));
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    if (run.inputs[i].data != nullptr) continue;
    return make_error(StatusCode::InvalidArgument, "inputs[{0}] has no data, but the forward pass reads it",
                      i);
  }
  run.writes_kept = true;
  const auto give = [&](RunSteps& steps) { return static_cast<ForwardSteps&>(steps).take(given); };
  run.give_arguments = give;
  return forward_.runs->run(loaded, use, run, stream);
}

llvm::Error Training::backward(const Device& device, const PyramidUse& use, PyramidRun run,
                               const BackwardArguments& given, void* stream) const {
  MINUET_TRY(check_values(given));
  MINUET_ASSIGN(const std::shared_ptr<const LoadedPlan> loaded, loaded_on(*backward_.store, device));
  const BackwardPass& pass = passes_->backward;
  std::vector<GivenArray> inputs(pass.program.inputs.size()), outputs(pass.program.outputs.size());
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    if (pass.out_gradients[i] >= 0) inputs[pass.out_gradients[i]] = run.inputs[i];
  }
  for (std::size_t i = 0; i < run.outputs.size(); ++i) {
    if (pass.input_gradients[i] >= 0) outputs[pass.input_gradients[i]] = run.outputs[i];
  }
  run.inputs = inputs;
  run.outputs = outputs;
  const auto give = [&](RunSteps& steps) { return static_cast<BackwardSteps&>(steps).take(given); };
  run.give_arguments = give;
  return backward_.runs->run(loaded, use, run, stream);
}

}  // namespace minuet
