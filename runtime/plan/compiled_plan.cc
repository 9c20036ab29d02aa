#include "runtime/plan/compiled_plan.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

#include "codegen/base/arch.h"
#include "codegen/base/parallel.h"
#include "codegen/base/trace.h"
#include "runtime/engine/arena.h"
#include "runtime/weights/rounding.h"
#include "runtime/weights/weight_image.h"

namespace minuet {

// ---- compiled for an architecture ----------------------------------------------------------------------

llvm::Expected<BinaryList> PlanResidence::compile(llvm::StringRef arch, const CancelToken* cancel) {
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
    MINUET_ASSIGN(chosen, CompiledPlan::without_missing(*plan_, *chosen, *cache_, cancel, found.takeError()));
    found = cache_->get_or_compile_all(chosen->requests(), cancel);
  }
  MINUET_ASSIGN(BinaryList binaries, std::move(found));
  const std::lock_guard<std::mutex> lock(mutex_);
  compiled_.emplace(arch.str(), Compiled{std::move(chosen), binaries});
  return binaries;
}

namespace {

/// The first of those with the largest kernel.
std::vector<ProgramLayer>::const_iterator find_largest(const Program& program) {
  return std::max_element(program.layers.begin(), program.layers.end(),
                          [](const ProgramLayer& a, const ProgramLayer& b) {
                            return kernel_volume(a.convolution()) < kernel_volume(b.convolution());
                          });
}

}  // namespace

const ConvolutionProblem* largest_kernel(const Program& program) {
  const auto largest = find_largest(program);
  return largest == program.layers.end() ? nullptr : &largest->convolution();
}

std::vector<TuningBucket> buckets_of_network(const Program& program) {
  const ConvolutionProblem* const largest = largest_kernel(program);
  if (largest == nullptr) return {};
  const i64 volume = kernel_volume(*largest);
  return {grouping_bucket(largest->dtype, volume, 0), order_bucket(largest->dtype, volume, 0),
          search_bucket(KeyType::U32, program.ndim, volume, 0),
          search_bucket(KeyType::U64, program.ndim, volume, 0)};
}

namespace {

bool always_computes_shortcut(const std::vector<Candidate>& candidates) {
  return std::all_of(candidates.begin(), candidates.end(),
                     [](const Candidate& candidate) { return has_shortcut(candidate.choice); });
}

}  // namespace

llvm::Expected<std::shared_ptr<const CompiledPlan>> CompiledPlan::create(const Plan& plan,
                                                                         llvm::StringRef arch) {
  return create(plan, arch, plan.tuning.get(), plan.dataflow);
}

llvm::Expected<std::shared_ptr<const CompiledPlan>> CompiledPlan::create(const Plan& plan,
                                                                         llvm::StringRef arch,
                                                                         const TuningSnapshot* tuning,
                                                                         std::optional<Dataflow> dataflow) {
  const Program& program = plan.program;
  if (tuning != nullptr && !tuning->serves(arch)) tuning = nullptr;
  auto compiled = std::make_shared<CompiledPlan>();
  compiled->arch = arch.str();
  compiled->candidates = std::vector<std::vector<Candidate>>(program.layers.size());
  for (std::size_t i = 0; i < program.layers.size(); ++i) {
    const ProgramLayer& layer = program.layers[i];
    llvm::Expected<std::vector<Candidate>> candidates =
        choose_candidates(layer.problem, arch, tuning, dataflow);
    if (!candidates) return annotate(candidates.takeError(), layer.name);
    if (layer.is_shortcut && always_computes_shortcut(compiled->candidates[i - 1])) continue;
    compiled->candidates[i] = std::move(*candidates);
  }
  const auto largest = find_largest(program);
  if (largest == program.layers.end()) {
    compiled->engine = choose_engine(program.ndim);
  } else {
    const ConvolutionProblem& problem = largest->convolution();
    compiled->engine = choose_engine(program.ndim, kernel_volume(problem), tuning);
    OpChoice& shown = compiled->candidates[largest - program.layers.begin()].front().choice;
    compiled->grouping = choose_grouping(problem, tuning, 0, reasons_of(shown));
    // Views of the caller's maps are shared by executions of many plans.
    if (!program.takes_maps) compiled->order = choose_order(problem, tuning, 0, reasons_of(shown));
  }
  const auto permute = [&](i32 tensor, bool in) {
    const i32 channels = program.tensors[tensor].channels;
    const Columns stored = columns_of(program, tensor), given{channels, 0};
    return choose_permute_rows(program.dtype, channels, in ? given : stored, in ? stored : given);
  };
  for (const i32 input : program.inputs) compiled->permute_inputs.push_back(permute(input, true));
  compiled->permute_output = permute(program.output, false);
  compiled->permute_coordinates = choose_permute_coordinates(program.ndim);
  return compiled;
}

namespace {

/// Whether nothing could be compiled, so that a kernel is there or is not.
bool is_miss(const StatusError& status) {
  return status.code() == StatusCode::FailedPrecondition || status.code() == StatusCode::Unavailable;
}

/// Names of those that only `tuned` asks for and that cannot be had, ascending.
[[gnu::cold]] std::set<std::string> find_missing(const CompiledPlan& tuned, const CompiledPlan& standard,
                                                 KernelCache& cache, const CancelToken* cancel) {
  std::set<std::string> needed, missing;
  for (const KernelRequest& request : standard.requests()) needed.insert(request.key);
  for (const KernelRequest& request : tuned.requests()) {
    if (needed.count(request.key) != 0) continue;
    llvm::Expected<std::shared_ptr<const Binary>> binary = cache.get_or_compile(request, {cancel});
    if (binary) continue;
    if (is_miss(take_status(binary.takeError()))) missing.insert(request.source.display_name);
  }
  return missing;
}

template <class Choice>
bool lacks(const Choice& choice, const std::set<std::string>& missing) {
  SourceList list;
  add_sources(list, choice);
  const std::vector<KernelSource> sources = list.take();
  return std::any_of(sources.begin(), sources.end(),
                     [&](const KernelSource& source) { return missing.count(source.display_name) != 0; });
}

}  // namespace

[[gnu::cold]] llvm::Expected<std::shared_ptr<const CompiledPlan>> CompiledPlan::without_missing(
    const Plan& plan, const CompiledPlan& tuned, KernelCache& cache, const CancelToken* cancel,
    llvm::Error none) {
  StatusError why = take_status(std::move(none));
  if (!is_miss(why)) return llvm::make_error<StatusError>(std::move(why));
  MINUET_ASSIGN(const auto standard, create(plan, tuned.arch, nullptr, plan.dataflow));
  const std::set<std::string> missing = find_missing(tuned, *standard, cache, cancel);
  if (missing.empty()) return llvm::make_error<StatusError>(std::move(why));
  auto there = std::make_shared<CompiledPlan>(tuned);
  const auto is_missing = [&](const Candidate& candidate) { return lacks(candidate.choice, missing); };
  for (std::size_t i = 0; i < there->candidates.size(); ++i) {
    there->candidates[i] = replace_missing(tuned.candidates[i], standard->candidates[i], is_missing);
    if (!plan.program.layers[i].is_shortcut) continue;
    // Who computes it is decided for both: one of them may have none.
    const auto lacks_some = [&](std::size_t layer) {
      return std::any_of(tuned.candidates[layer].begin(), tuned.candidates[layer].end(), is_missing);
    };
    if (!lacks_some(i - 1) && !lacks_some(i)) continue;
    for (const std::size_t layer : {i - 1, i}) there->candidates[layer] = standard->candidates[layer];
  }
  if (lacks(tuned.engine.map32, missing)) there->engine.map32 = standard->engine.map32;
  if (lacks(tuned.engine.map64, missing)) there->engine.map64 = standard->engine.map64;
  for (const std::string& name : missing) {
    const Trace::Span span(cache.trace(), "plan", "the default in place of tuned " + name);
  }
  cache.warn(llvm::formatv("tuning results are not used where their kernels are missing ({0} of them, the "
                           "first {1}): the default runs there; `minuet precompile --tuned` puts them into "
                           "bundles ({2})",
                           missing.size(), *missing.begin(), why.message())
                 .str());
  return there;
}

bool CompiledPlan::has(Dataflow dataflow, std::size_t layer) const {
  return std::any_of(candidates[layer].begin(), candidates[layer].end(),
                     [&](const Candidate& candidate) { return dataflow_of(candidate.choice) == dataflow; });
}

std::vector<KernelRequest> CompiledPlan::requests() const {
  SourceList list;
  // That of the Map step is in codegen/choose/choice.cc, that of an op's choice in
  // codegen/choose/candidates.cc.
  add_sources(list, engine.map32);
  add_sources(list, engine.map64);
  for (const std::vector<Candidate>& layer : candidates) {
    for (const Candidate& candidate : layer) add_sources(list, candidate.choice);
  }
  for (const PermuteRowsSpec& permute : permute_inputs) list.add(permute);
  list.add(permute_output);
  list.add(permute_coordinates);
  return requests_of(list.take(), arch);
}

[[gnu::cold]] llvm::Expected<std::vector<KernelRequest>> requests_ahead(
    const Plan& plan, llvm::StringRef arch, const std::vector<TuningEntry>& results) {
  MINUET_ASSIGN(const auto compiled, CompiledPlan::create(plan, arch));
  std::vector<KernelRequest> requests = compiled->requests();
  if (plan.tuning && !results.empty()) {  // the default takes the place of what is missing
    MINUET_ASSIGN(const auto standard, CompiledPlan::create(plan, arch, nullptr, plan.dataflow));
    std::vector<KernelRequest> more = standard->requests();
    std::move(more.begin(), more.end(), std::back_inserter(requests));
  }
  std::vector<TuningLayer> layers(1);
  layers[0].entries = results;
  for (const TuningEnvironment* const gpu : environments_of(results)) {
    const TuningSnapshot snapshot(*gpu, layers);
    MINUET_ASSIGN(const auto tuned, CompiledPlan::create(plan, arch, &snapshot, plan.dataflow));
    std::vector<KernelRequest> more = tuned->requests();
    std::move(more.begin(), more.end(), std::back_inserter(requests));
  }
  return requests;
}

// ---- loaded on a device --------------------------------------------------------------------------------

llvm::Error PlanResidence::load(std::shared_ptr<Device> device) {
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

llvm::Expected<std::pair<std::string, PlanResidence::Compiled>> PlanResidence::runnable_on(
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

/// A plan's parameters in a device's types and the forms that candidates read, one after the other; uploaded
/// in one copy.
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
  const auto load_gemms = [&](const GmasChoice& choice) {
    const Trace::Span span(trace, "plan", "load GEMMs");
    return loaded->device->load_gemms(choice);
  };
  std::vector<std::function<llvm::Error()>> jobs{load_kernels, load_parameters};
  for (const std::vector<Candidate>& layer : loaded->compiled->candidates) {
    std::set<i32> algorithms;  // candidates differ in nothing else that GEMMs know
    for (const Candidate& candidate : layer) {
      const auto* const gmas = std::get_if<GmasChoice>(&candidate.choice);
      if (gmas == nullptr || !algorithms.insert(gmas->gemm.algorithm).second) continue;
      jobs.push_back([&, gmas] { return load_gemms(*gmas); });
    }
  }
  MINUET_TRY(in_parallel(static_cast<i64>(jobs.size()), [&](i64 i) { return jobs[i](); }));
  return loaded;
}

namespace {

llvm::Error upload_parameters(LoadedPlan& loaded) {
  /// Where one layer's parameters lie; -1 where it has none.
  struct Offsets {
    std::vector<std::pair<WeightImage, i64>> images;  // each once
    i64 scale = -1, shift = -1;
  };
  const Plan& plan = *loaded.plan;
  const DType type = loaded.device->weight_type(plan.program.dtype);
  const std::string& arch = loaded.device->info().arch;
  ArenaLayout layout;
  std::vector<Offsets> offsets(plan.parameters.size());
  const auto offset_of = [](const Offsets& at, const WeightImage& image) {
    const auto found = std::find_if(at.images.begin(), at.images.end(),
                                    [&](const auto& known) { return known.first == image; });
    return found == at.images.end() ? -1 : found->second;
  };
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const LayerParameters& layer = plan.parameters[i];
    Offsets& at = offsets[i];
    const auto add = [&](Offsets& to, const WeightImage& image) {
      if (offset_of(to, image) < 0) to.images.emplace_back(image, layout.add(image.bytes()));
    };
    for (const Candidate& candidate : loaded.compiled->candidates[i]) {
      add(at, weight_image(candidate.choice, type, arch));
      if (has_shortcut(candidate.choice)) add(offsets[i + 1], shortcut_image(candidate.choice, type));
    }
    if (layer.scale.empty()) continue;
    at.scale = layout.add(static_cast<i64>(layer.scale.size() * sizeof(float)));
    at.shift = layout.add(static_cast<i64>(layer.shift.size() * sizeof(float)));
  }
  MINUET_ASSIGN(loaded.parameters, DeviceMemory::create(loaded.device, layout.bytes()));
  char* const base = loaded.parameters.data();
  const auto host = std::make_unique_for_overwrite<char[]>(static_cast<std::size_t>(layout.bytes()));
  loaded.weights.resize(offsets.size());
  MINUET_TRY(in_parallel(static_cast<i64>(offsets.size()), [&](i64 i) {
    const LayerParameters& layer = plan.parameters[i];
    const Offsets& at = offsets[i];
    const auto store = [&](const std::vector<float>& values, i64 offset) {
      if (offset >= 0) store_values(DType::F32, values.data(), values.size(), host.get() + offset);
    };
    const auto floats_at = [&](i64 offset) {
      return offset >= 0 ? reinterpret_cast<const float*>(base + offset) : nullptr;
    };
    store(layer.scale, at.scale);
    store(layer.shift, at.shift);
    for (const auto& [image, offset] : at.images) image.write(layer.weight, host.get() + offset);
    for (const Candidate& candidate : loaded.compiled->candidates[i]) {
      ConvolutionWeights weights{base + offset_of(at, weight_image(candidate.choice, type, arch)),
                                 floats_at(at.scale), floats_at(at.shift)};
      if (has_shortcut(candidate.choice)) {
        const Offsets& next = offsets[i + 1];
        weights.shortcut_weight = base + offset_of(next, shortcut_image(candidate.choice, type));
        weights.shortcut_scale = floats_at(next.scale);
        weights.shortcut_shift = floats_at(next.shift);
      }
      loaded.weights[i].push_back(weights);
    }
    return llvm::Error::success();
  }));
  return loaded.device->upload(base, host.get(), layout.bytes());
}

}  // namespace

llvm::Expected<std::shared_ptr<const Binary>> PlanResidence::reload(const std::string& arch,
                                                                    const CompiledPlan& compiled,
                                                                    const Binary& refused) {
  MINUET_ASSIGN(std::shared_ptr<const Binary> made, cache_->replace(compiled.requests(), refused));
  // For the next device of that architecture: it would be refused there too.
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::shared_ptr<const Binary>& binary : compiled_[arch].binaries) {
    if (binary->display_name == refused.display_name) binary = made;
  }
  return made;
}

llvm::Expected<std::shared_ptr<const LoadedPlan>> PlanResidence::loaded_on(const Device& device) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = loaded_.find(&device);
  if (found == loaded_.end()) {
    return make_error(StatusCode::FailedPrecondition, "the plan is not loaded on {0}: load it first",
                      device.info().name);
  }
  return found->second;
}

}  // namespace minuet
