#include "runtime/plan/compiled_plan.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "codegen/base/arch.h"
#include "codegen/base/parallel.h"
#include "codegen/base/trace.h"
#include "runtime/engine/arena.h"
#include "runtime/program/ops/convolution.h"
#include "runtime/weights/rounding.h"
#include "runtime/weights/weight_image.h"

namespace minuet {

namespace {

/// Returns true if the error means that a kernel was missing and could not be compiled on this machine.
bool is_miss(const StatusError& status) {
  return status.code() == StatusCode::FailedPrecondition || status.code() == StatusCode::Unavailable;
}

}  // namespace

// The following functions compile a plan for an architecture.

llvm::Expected<BinaryList> PlanStore::compile(llvm::StringRef arch, const CancelToken* cancel) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = compiled_.find(arch.str());
    if (found != compiled_.end()) return found->second.binaries;
  }
  const Trace::Span span(cache_->trace(), "plan", ("compile for " + arch_name(arch)).str());
  MINUET_ASSIGN(std::shared_ptr<const CompiledPlan> chosen, CompiledPlan::create(*plan_, arch));
  llvm::Expected<BinaryList> found =
      arch.empty() ? BinaryList{} : cache_->get_or_compile_all(chosen->requests(), cancel);
  if (!found && plan_->tuning) {
    StatusError why = take_status(found.takeError());
    if (!is_miss(why)) return llvm::make_error<StatusError>(std::move(why));
    MINUET_ASSIGN(chosen, CompiledPlan::create(plan_->program, arch, nullptr));
    found = compile_untuned(*chosen, std::move(why), cancel);
  }
  MINUET_ASSIGN(BinaryList binaries, std::move(found));
  const std::lock_guard<std::mutex> lock(mutex_);
  compiled_.emplace(arch.str(), Compiled{std::move(chosen), binaries});
  return binaries;
}

[[gnu::cold]] llvm::Expected<BinaryList> PlanStore::compile_untuned(const CompiledPlan& untuned,
                                                                    StatusError why,
                                                                    const CancelToken* cancel) {
  const Trace::Span span(cache_->trace(), "plan", "the default in place of tuning results");
  llvm::Expected<BinaryList> found = cache_->get_or_compile_all(untuned.requests(), cancel);
  if (!found) {
    StatusError again = take_status(found.takeError());
    return llvm::make_error<StatusError>(std::move(is_miss(again) ? why : again));
  }
  cache_->warn(llvm::formatv(
                   "tuning results are not used because kernels that they choose are missing, so the default "
                   "kernels run; `minuet precompile --tuned` adds tuned kernels to bundles ({0})",
                   why.message())
                   .str());
  return found;
}

namespace {

/// Returns the first of the convolutions with the largest kernel, or null if there is no convolution.
const ProgramLayer* find_largest_convolution(const Program& program) {
  const ProgramLayer* largest = nullptr;
  for (const ProgramLayer& layer : program.layers) {
    if (convolution_of(layer) == nullptr) continue;
    if (!largest || kernel_volume(*layer.window()) > kernel_volume(*largest->window())) largest = &layer;
  }
  return largest;
}

}  // namespace

const WindowProblem* largest_convolution(const Program& program) {
  const ProgramLayer* const largest = find_largest_convolution(program);
  return largest ? largest->window() : nullptr;
}

std::vector<TuningBucket> buckets_of_network(const Program& program) {
  std::vector<TuningBucket> buckets;
  if (const WindowProblem* const largest = largest_convolution(program)) {
    const i64 volume = kernel_volume(*largest);
    buckets = {grouping_bucket(largest->dtype, volume, 0), order_bucket(largest->dtype, volume, 0)};
  }
  if (const i64 volume = largest_volume(program)) {
    for (const KeyType key : {KeyType::U32, KeyType::U64}) {
      buckets.push_back(search_bucket(key, program.ndim, volume, 0));
    }
  }
  return buckets;
}

namespace {

/// Returns true if kernels of an earlier layer compute layer `number` too. If `always` is false, one
/// candidate of an earlier layer with such a kernel suffices. If `always` is true, all candidates of an
/// earlier layer must have such a kernel, and no layer may compute that earlier layer.
bool is_covered(const std::vector<std::vector<Candidate>>& candidates, std::size_t number, bool always) {
  for (std::size_t ahead = 1; ahead <= static_cast<std::size_t>(kMostCovered) && ahead <= number; ++ahead) {
    const std::vector<Candidate>& before = candidates[number - ahead];
    const auto covers = [&](const Candidate& candidate) {
      return candidate.covers >= static_cast<i32>(ahead);
    };
    if (!always && llvm::any_of(before, covers)) return true;
    if (always && !before.empty() && llvm::all_of(before, covers) &&
        !is_covered(candidates, number - ahead, false)) {
      return true;
    }
  }
  return false;
}

}  // namespace

llvm::Expected<std::shared_ptr<const CompiledPlan>> CompiledPlan::create(const Program& program,
                                                                         llvm::StringRef arch,
                                                                         const TuningSnapshot* tuning) {
  if (tuning != nullptr && !tuning->serves(arch)) tuning = nullptr;
  auto compiled = std::make_shared<CompiledPlan>();
  compiled->arch = arch.str();
  compiled->candidates = std::vector<std::vector<Candidate>>(program.layers.size());
  for (std::size_t i = 0; i < program.layers.size(); ++i) {
    const ProgramLayer& layer = program.layers[i];
    llvm::Expected<std::vector<Candidate>> candidates = choose_candidates(layer.problem, {arch, tuning});
    if (!candidates) return annotate(candidates.takeError(), layer.name);
    if (is_covered(compiled->candidates, i, /*always=*/true)) continue;
    compiled->candidates[i] = std::move(*candidates);
    if (layer.covered_steps.empty()) continue;
    for (Candidate& candidate : compiled->candidates[i]) {
      candidate.reasons.push_back("the epilogue computes steps of the chain behind the convolution: " +
                                  layer.covered_steps);
    }
  }
  compiled->engine = choose_engine(program.ndim, largest_volume(program), tuning);
  if (const ProgramLayer* const largest = find_largest_convolution(program)) {
    // The reasons for the grouping of GEMMs and the order of rows are added to the first candidate of the
    // largest convolution. If another convolution always computes it too, it has no candidate, and the
    // reasons are dropped.
    std::vector<std::string> not_shown;
    std::vector<Candidate>& of_largest = compiled->candidates[largest - program.layers.data()];
    std::vector<std::string>& reasons = of_largest.empty() ? not_shown : of_largest.front().reasons;
    compiled->grouping = choose_grouping(*largest->window(), tuning, 0, reasons);
    // The plan chooses the row order only for a network's own maps, because executions of many plans share
    // the views of the caller's maps.
    if (!program.takes_maps) compiled->order = choose_order(*largest->window(), tuning, 0, reasons);
  }
  for (const ProgramLayer& layer : program.layers) {
    for (const AffineNames& affine : layer.affines) {
      compiled->weight_bytes = dtype_bytes(program.dtype);
      compiled->folds_parameters |= !affine.batch_norm.empty();
    }
    if (convolution_of(layer) == nullptr) continue;
    compiled->weight_bytes = dtype_bytes(program.dtype);
    // A single convolution is given its scale and shift as they are.
    compiled->folds_parameters |= convolution_of(layer)->scale_shift && !program.takes_maps;
  }
  for (const std::vector<Candidate>& layer : compiled->candidates) {
    for (const Candidate& candidate : layer) {
      for (const ParameterImage& image : parameter_images(candidate.choice, program.dtype, arch)) {
        compiled->has_images |= image.weight.fused.has_value();
      }
    }
  }
  if (has_stages(program)) {
    compiled->add_stages(program);
  } else {
    compiled->choose_permutes(program);
  }
  return compiled;
}

void CompiledPlan::choose_permutes(const Program& program) {
  const auto permute = [&](i32 tensor, bool in) {
    const i32 channels = program.tensors[tensor].channels;
    const Columns stored = columns_of(program, tensor), given{channels, 0};
    // Row numbers are copied as words of 32 bits.
    const bool holds_integers = program.storages[program.tensors[tensor].storage].holds_integers;
    const DType dtype = holds_integers ? DType::F32 : program.dtype;
    return choose_permute_rows(dtype, channels, in ? given : stored, in ? stored : given);
  };
  for (const i32 input : program.inputs) permute_inputs.push_back(permute(input, true));
  for (const i32 output : program.outputs) permute_outputs.push_back(permute(output, false));
  permute_coordinates = choose_permute_coordinates(program.ndim);
  for (const i32 output : program.outputs) {
    if (program.levels[program.tensors[output].level].dropped_axes == 0) continue;
    copy_axis = choose_permute_coordinates(/*ndim=*/0);
  }
}

void CompiledPlan::add_stages(const Program& program) {
  for (ProgramStage& stage : stages_of(program)) {
    auto compiled = std::make_shared<CompiledPlan>(*this);
    compiled->stages.clear();
    compiled->candidates.clear();
    for (const i32 layer : stage.layers) compiled->candidates.push_back(candidates[layer]);
    compiled->choose_permutes(stage.program);
    stages.push_back({std::move(stage), std::move(compiled)});
  }
}

bool CompiledPlan::has(ViewForm form, std::size_t layer) const {
  return std::any_of(candidates[layer].begin(), candidates[layer].end(),
                     [&](const Candidate& candidate) { return candidate.form == form; });
}

std::vector<KernelRequest> CompiledPlan::requests() const {
  SourceList list;
  // The overloads of add_sources() for the Map step are in codegen/choose/choice.cc, and those for ops are in
  // codegen/choose/ops.
  add_sources(list, engine.map32);
  add_sources(list, engine.map64);
  for (const std::vector<Candidate>& layer : candidates) {
    for (const Candidate& candidate : layer) add_sources(list, candidate.choice);
  }
  if (stages.empty()) add_permutes(list);
  for (const CompiledStage& stage : stages) stage.compiled->add_permutes(list);
  if (!stages.empty()) list.add(JoinWordsSpec{});
  if (weight_bytes > 0) list.add(CopyParametersSpec{});
  if (has_images) list.add(MakeWeightImagesSpec{.element_bytes = weight_bytes});
  if (folds_parameters) list.add(FoldBatchNormsSpec{});
  return requests_of(list.take(), arch);
}

void CompiledPlan::add_permutes(SourceList& list) const {
  for (const PermuteRowsSpec& permute : permute_inputs) list.add(permute);
  for (const PermuteRowsSpec& permute : permute_outputs) list.add(permute);
  list.add(permute_coordinates);
  if (copy_axis) list.add(*copy_axis);
}

[[gnu::cold]] llvm::Expected<std::vector<KernelRequest>> requests_ahead(
    const Plan& plan, llvm::StringRef arch, const std::vector<TuningEntry>& results) {
  MINUET_ASSIGN(const auto compiled, CompiledPlan::create(plan, arch));
  std::vector<KernelRequest> requests = compiled->requests();
  // Adds the kernels that run if tuned kernels are missing.
  if (plan.tuning && !results.empty()) {
    MINUET_ASSIGN(const auto standard, CompiledPlan::create(plan.program, arch, nullptr));
    std::vector<KernelRequest> more = standard->requests();
    std::move(more.begin(), more.end(), std::back_inserter(requests));
  }
  std::vector<TuningLayer> layers(1);
  layers[0].entries = results;
  for (const TuningEnvironment* const gpu : environments_of(results)) {
    const TuningSnapshot snapshot(*gpu, layers);
    MINUET_ASSIGN(const auto tuned, CompiledPlan::create(plan.program, arch, &snapshot));
    std::vector<KernelRequest> more = tuned->requests();
    std::move(more.begin(), more.end(), std::back_inserter(requests));
  }
  return requests;
}

// The following functions load a compiled plan on a device.

llvm::Error PlanStore::load(std::shared_ptr<Device> device) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (loaded_.count(device.get())) return llvm::Error::success();
  }
  MINUET_ASSIGN(const auto found, runnable_on(device->info()));
  const std::string& arch = found.first;
  const Compiled& compiled = found.second;
  const Reload again = [&](const Binary& refused) { return reload(arch, *compiled.plan, refused); };
  MINUET_ASSIGN(std::shared_ptr<const LoadedPlan> loaded,
                LoadedPlan::create(plan_, compiled.plan, compiled.binaries, device, again, cache_->trace()));
  const std::lock_guard<std::mutex> lock(mutex_);
  loaded_.emplace(device.get(), std::move(loaded));
  return llvm::Error::success();
}

llvm::Expected<std::pair<std::string, PlanStore::Compiled>> PlanStore::runnable_on(
    const DeviceInfo& device) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::vector<std::string> archs =
      device.arch.empty() ? std::vector{device.arch} : runnable_archs(device.arch);
  for (const std::string& arch : archs) {
    const auto found = compiled_.find(arch);
    if (found != compiled_.end()) return std::pair{arch, found->second};
  }
  return make_error(StatusCode::FailedPrecondition,
                    "the plan is not compiled for arch {0}, which device {1} needs: call minuet_plan_compile "
                    "first",
                    arch_name(device.arch), device.name);
}

namespace {

/// Converts a plan's parameters to the device's types and to the layouts that candidates read
/// (ParameterImage), and uploads them in one copy.
llvm::Error upload_parameters(LoadedPlan& loaded);

}  // namespace

llvm::Expected<std::shared_ptr<const LoadedPlan>> LoadedPlan::create(
    std::shared_ptr<const Plan> plan, std::shared_ptr<const CompiledPlan> compiled,
    const BinaryList& binaries, std::shared_ptr<Device> device, const Reload& reload, Trace* trace) {
  auto loaded = std::make_shared<LoadedPlan>();
  loaded->plan = std::move(plan);
  loaded->compiled = std::move(compiled);
  loaded->device = std::move(device);
  const auto load_kernels = [&] {
    const Trace::Span span(trace, "plan", "load kernels");
    return loaded->device->load(binaries, reload);
  };
  const auto load_parameters = [&] {
    const Trace::Span span(trace, "plan", "convert and upload parameters");
    return upload_parameters(*loaded);
  };
  std::vector<std::function<llvm::Error()>> jobs{load_kernels, load_parameters};
  for (const std::vector<Candidate>& layer : loaded->compiled->candidates) {
    if (!loaded->device->needs_warm_up(layer)) continue;
    jobs.push_back([&] {
      const Trace::Span span(trace, "plan", "load GEMMs");
      return loaded->device->warm_up(layer);
    });
  }
  MINUET_TRY(in_parallel(static_cast<i64>(jobs.size()), [&](i64 i) { return jobs[i](); }));
  return loaded;
}

std::shared_ptr<const LoadedPlan> LoadedPlan::of_stage(std::shared_ptr<const LoadedPlan> whole,
                                                       std::size_t stage) {
  const CompiledStage& compiled = whole->compiled->stages[stage];
  auto plan = std::make_shared<Plan>();
  plan->program = compiled.stage.program;
  plan->parameters.resize(plan->program.layers.size());
  plan->has_values = whole->plan->has_values;
  auto loaded = std::make_shared<LoadedPlan>();
  loaded->plan = std::move(plan);
  loaded->compiled = compiled.compiled;
  loaded->device = whole->device;
  loaded->layers = compiled.stage.layers;
  for (const i32 layer : loaded->layers) loaded->weights.push_back(whole->weights[layer]);
  loaded->whole = std::move(whole);
  return loaded;
}

i64 image_bytes(const ProgramLayer& layer, const ParameterImage& image) {
  const ParameterCounts counts = parameter_counts(layer);
  switch (image.part) {
    case ParameterPart::Weight:
      return image.weight.bytes();
    case ParameterPart::Scale:
      return counts.scale * i64{sizeof(float)};
    case ParameterPart::Shift:
      return counts.shift * i64{sizeof(float)};
    case ParameterPart::ResidualFactor:
      return counts.residual_factor * i64{sizeof(float)};
  }
  return 0;
}

void write_image(const LayerParameters& layer, const ParameterImage& image, char* target) {
  if (image.part == ParameterPart::Weight) return image.weight.write(layer.weight, target);
  const std::vector<float>& values = image.part == ParameterPart::Scale   ? layer.scale
                                     : image.part == ParameterPart::Shift ? layer.shift
                                                                          : layer.residual_factor;
  store_values(DType::F32, values.data(), values.size(), target);
}

namespace {

/// Describes one block of a layer's parameters, and its place in the memory of all parameters.
struct ParameterBlock {
  ParameterImage image;  // The member image.ahead is 0, because each layer lists only its own blocks.
  i64 bytes = 0, offset = 0;
};

llvm::Error upload_parameters(LoadedPlan& loaded) {
  const Plan& plan = *loaded.plan;
  if (!plan.has_values) {
    loaded.weights.resize(plan.parameters.size());
    return llvm::Error::success();
  }
  const DType type = loaded.device->weight_type(plan.program.dtype);
  const std::string& arch = loaded.device->info().arch;
  ArenaLayout layout;
  // Lists the blocks of each layer. A block that several candidates read is listed once.
  std::vector<std::vector<ParameterBlock>> blocks(plan.parameters.size());
  // Holds the numbers of a layer and of one of its blocks.
  using Place = std::pair<std::size_t, std::size_t>;
  const auto place_of = [&](std::size_t layer, ParameterImage image) -> Place {
    layer += static_cast<std::size_t>(std::exchange(image.ahead, 0));
    std::vector<ParameterBlock>& known = blocks[layer];
    const auto found =
        llvm::find_if(known, [&](const ParameterBlock& block) { return block.image == image; });
    const Place place{layer, static_cast<std::size_t>(found - known.begin())};
    if (found != known.end()) return place;
    const i64 bytes = image_bytes(plan.program.layers[layer], image);
    known.push_back({image, bytes, bytes > 0 ? layout.add(bytes) : 0});
    return place;
  };
  // Lists, for each candidate of each layer, the blocks that the candidate reads.
  std::vector<std::vector<std::vector<Place>>> places(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (const Candidate& candidate : loaded.compiled->candidates[i]) {
      std::vector<Place>& read = places[i].emplace_back();
      for (const ParameterImage& image : parameter_images(candidate.choice, type, arch)) {
        read.push_back(place_of(i, image));
      }
    }
  }
  MINUET_ASSIGN(loaded.parameters, DeviceMemory::create(loaded.device, layout.bytes()));
  char* const base = loaded.parameters.data();
  loaded.weights.resize(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (const std::vector<Place>& of_candidate : places[i]) {
      std::vector<const void*>& read = loaded.weights[i].emplace_back();
      for (const auto& [layer, number] : of_candidate) {
        const ParameterBlock& block = blocks[layer][number];
        read.push_back(block.bytes > 0 ? base + block.offset : nullptr);
      }
    }
  }
  const auto host = std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(layout.bytes()));
  MINUET_TRY(in_parallel(static_cast<i64>(blocks.size()), [&](i64 i) {
    for (const ParameterBlock& block : blocks[i]) {
      if (block.bytes > 0) write_image(plan.parameters[i], block.image, host.get() + block.offset);
    }
    return llvm::Error::success();
  }));
  return loaded.device->upload(base, host.get(), layout.bytes());
}

}  // namespace

llvm::Expected<std::shared_ptr<const Binary>> PlanStore::reload(const std::string& arch,
                                                                const CompiledPlan& compiled,
                                                                const Binary& refused) {
  MINUET_ASSIGN(std::shared_ptr<const Binary> made, cache_->replace(compiled.requests(), refused));
  // Replaces the old binary here too, because the next device of this architecture would also refuse it.
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::shared_ptr<const Binary>& binary : compiled_[arch].binaries) {
    if (binary->display_name == refused.display_name) binary = made;
  }
  return made;
}

llvm::Expected<std::shared_ptr<const LoadedPlan>> PlanStore::loaded_on(const Device& device) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = loaded_.find(&device);
  if (found == loaded_.end()) {
    return make_error(StatusCode::FailedPrecondition, "the plan is not loaded on {0}: load it first",
                      device.info().name);
  }
  return found->second;
}

llvm::Expected<PlanStore::Compiled> PlanStore::compiled_for(llvm::StringRef arch) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = compiled_.find(arch.str());
  if (found == compiled_.end()) {
    return make_error(StatusCode::FailedPrecondition,
                      "the plan is not compiled for arch {0}: call minuet_plan_compile first",
                      arch_name(arch));
  }
  return found->second;
}

llvm::Expected<std::shared_ptr<const LoadedPlan>> PlanStore::measured_on(
    std::shared_ptr<Device> device) const {
  auto measured = std::make_shared<LoadedPlan>();
  MINUET_ASSIGN(const Compiled compiled, compiled_for(device->info().arch));
  measured->compiled = compiled.plan;
  measured->plan = plan_;
  measured->weights.resize(plan_->parameters.size());
  measured->device = std::move(device);
  return measured;
}

}  // namespace minuet
