#include "runtime/plan.h"

#include <algorithm>
#include <set>

#include "codegen/trace.h"
#include "runtime/arena.h"
#include "runtime/rounding.h"

namespace minuet {
namespace {

llvm::Error override_description(NetworkProblem& problem) {
  NetworkDescription& description = problem.description;
  if (!problem.channels.empty()) {
    if (problem.channels.size() != description.channels.size()) {
      return make_error(StatusCode::InvalidArgument,
                        "the option channels has {0} widths, but the description of {1} lists {2}",
                        problem.channels.size(), description.name, description.channels.size());
    }
    for (i32 width : problem.channels) {
      if (width < 1 || width > (1 << 16)) {
        return make_error(StatusCode::InvalidArgument,
                          "the option channels has a width of {0}; each must be 1 to 65536", width);
      }
    }
    description.channels = problem.channels;
  }
  if (problem.ndim != 0 && problem.ndim != description.ndim) {
    return make_error(StatusCode::InvalidArgument, "{0} is described for {1} axes, not {2}", description.name,
                      description.ndim, problem.ndim);
  }
  return llvm::Error::success();
}

Columns dense(i32 channels) { return {channels, 0}; }

/// Where one layer's parameters lie; -1 where it has none.
struct ParameterOffsets {
  i64 weight = 0, scale = -1, shift = -1;
};

}  // namespace

EngineChoice choose_engine(i32 ndim, i64 volume, const TuningSnapshot* tuning) {
  const std::vector<SearchProblem> searches{{volume, 0}};
  return {ndim, choose_map(KeyType::U32, ndim, searches, tuning),
          choose_map(KeyType::U64, ndim, searches, tuning)};
}

void Plan::choose_shared(i32 ndim, const TuningSnapshot* tuning) {
  const auto by_volume = [](const PlanLayer& a, const PlanLayer& b) {
    return kernel_volume(a.choice.problem) < kernel_volume(b.choice.problem);
  };
  const auto largest = std::max_element(layers.begin(), layers.end(), by_volume);
  if (largest == layers.end()) {
    engine = choose_engine(ndim);
    return;
  }
  engine = choose_engine(ndim, kernel_volume(largest->choice.problem), tuning);
  grouping = choose_grouping(largest->choice.problem, tuning, 0, largest->choice.reasons);
}

std::vector<KernelSource> Plan::sources() const {
  std::vector<KernelSource> all;
  std::set<std::string> seen;
  auto add = [&](std::vector<KernelSource> sources) {
    for (KernelSource& source : sources) {
      if (seen.insert(source.display_name).second) all.push_back(std::move(source));
    }
  };
  add(sources_of(engine.map32));
  add(sources_of(engine.map64));
  for (const PlanLayer& layer : layers) add(sources_of(layer.choice));
  add({emit(permute_input), emit(permute_output), emit(permute_coordinates)});
  return all;
}

std::vector<KernelSource> Plan::sources(const TuningSnapshot& tuning) const {
  Plan tuned;
  for (const PlanLayer& layer : layers) {
    tuned.layers.push_back({llvm::cantFail(choose_convolution(layer.choice.problem, &tuning)), {}});
  }
  tuned.choose_shared(engine.ndim, &tuning);
  tuned.permute_input = permute_input;
  tuned.permute_output = permute_output;
  tuned.permute_coordinates = permute_coordinates;
  return tuned.sources();
}

llvm::Expected<NetworkProgram> make_program(NetworkProblem& problem, const ParameterSource& source) {
  MINUET_TRY(override_description(problem));
  const auto head_channels = [&](const std::string& head, i32 in_channels) {
    return source.head_channels(head, in_channels);
  };
  MINUET_ASSIGN(NetworkProgram program, build_program(problem.description, problem.dtype, head_channels));
  MINUET_TRY(source.check(program));
  return program;
}

llvm::Expected<std::shared_ptr<const NetworkPlan>> NetworkPlan::create(NetworkProblem problem,
                                                                       const ParameterSource& source,
                                                                       const TuningSnapshot* tuning) {
  auto plan = std::make_shared<NetworkPlan>();
  MINUET_ASSIGN(plan->program, make_program(problem, source));
  const NetworkProgram& program = plan->program;
  for (const ProgramLayer& layer : program.layers) {
    llvm::Expected<ConvolutionChoice> choice = choose_convolution(layer.problem, tuning);
    if (!choice) return annotate(choice.takeError(), layer.name);
    MINUET_ASSIGN(LayerParameters parameters, source.layer(layer));
    plan->parameter_count += static_cast<i64>(parameters.weight.size() + parameters.scale.size() * 2);
    plan->layers.push_back({std::move(*choice), std::move(parameters)});
  }
  plan->choose_shared(program.ndim, tuning);
  const TensorSpec& input = program.tensors[program.input];
  const TensorSpec& output = program.tensors[program.output];
  plan->permute_input = choose_permute_rows(program.dtype, input.channels, dense(input.channels),
                                            {program.storages[input.storage].ld, input.column});
  plan->permute_output =
      choose_permute_rows(program.dtype, output.channels,
                          {program.storages[output.storage].ld, output.column}, dense(output.channels));
  plan->permute_coordinates = choose_permute_coordinates(program.ndim);
  return plan;
}

llvm::Expected<std::shared_ptr<const ConvolutionPlan>> ConvolutionPlan::create(ConvolutionProblem problem,
                                                                               LayerParameters parameters,
                                                                               const TuningSnapshot* tuning) {
  problem.input = dense(problem.in_channels);
  problem.output = problem.residual_input = dense(problem.out_channels);
  auto plan = std::make_shared<ConvolutionPlan>();
  plan->problem = problem;
  MINUET_ASSIGN(ConvolutionChoice choice, choose_convolution(problem, tuning));
  round_values(problem.dtype, parameters.weight.data(), parameters.weight.size());
  plan->layers.push_back({std::move(choice), std::move(parameters)});
  plan->choose_shared(problem.ndim, tuning);
  plan->permute_input = choose_permute_rows(problem.dtype, problem.in_channels, problem.input, problem.input);
  plan->permute_output =
      choose_permute_rows(problem.dtype, problem.out_channels, problem.output, problem.output);
  plan->permute_coordinates = choose_permute_coordinates(problem.ndim);
  return plan;
}

llvm::Expected<std::shared_ptr<const Binary>> recompile(KernelCache& cache,
                                                        const std::vector<KernelSource>& sources,
                                                        llvm::StringRef arch, const Binary& refused) {
  for (const KernelSource& source : sources) {
    if (source.display_name == refused.display_name) return cache.replace(source, arch, refused);
  }
  return make_error(StatusCode::Internal, "kernel {0} is none of this plan's", refused.display_name);
}

llvm::Expected<BinaryList> PlanResidence::compile(llvm::StringRef arch, const CancelToken* cancel) {
  if (arch.empty()) return BinaryList{};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = compiled_.find(arch.str());
    if (found != compiled_.end()) return found->second;
  }
  const Trace::Span span(cache_->trace(), "plan", ("compile for " + arch).str());
  MINUET_ASSIGN(BinaryList binaries, compile_list(*cache_, plan_->sources(), arch, cancel));
  const std::lock_guard<std::mutex> lock(mutex_);
  compiled_.emplace(arch.str(), binaries);
  return binaries;
}

namespace {

/// A plan's parameters in a device's types, one after the other; uploaded in one copy.
llvm::Expected<std::shared_ptr<LoadedPlan>> upload_parameters(const Plan& plan,
                                                              std::shared_ptr<Device> device) {
  ArenaLayout layout;
  std::vector<ParameterOffsets> offsets;
  for (const PlanLayer& layer : plan.layers) {
    const i64 element = dtype_bytes(device->weight_type(layer.choice.problem.dtype));
    ParameterOffsets at;
    at.weight = layout.add(static_cast<i64>(layer.parameters.weight.size()) * element);
    if (!layer.parameters.scale.empty()) {
      at.scale = layout.add(static_cast<i64>(layer.parameters.scale.size() * sizeof(float)));
      at.shift = layout.add(static_cast<i64>(layer.parameters.shift.size() * sizeof(float)));
    }
    offsets.push_back(at);
  }
  auto loaded = std::make_shared<LoadedPlan>();
  loaded->device = device;
  MINUET_ASSIGN(loaded->parameters, DeviceMemory::create(device, layout.bytes()));
  char* const base = loaded->parameters.data();
  std::vector<char> host(static_cast<std::size_t>(layout.bytes()));
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const LayerParameters& parameters = plan.layers[i].parameters;
    const DType type = device->weight_type(plan.layers[i].choice.problem.dtype);
    store_values(type, parameters.weight.data(), parameters.weight.size(), host.data() + offsets[i].weight);
    ConvolutionWeights weights{base + offsets[i].weight, nullptr, nullptr};
    if (offsets[i].scale >= 0) {
      store_values(DType::F32, parameters.scale.data(), parameters.scale.size(),
                   host.data() + offsets[i].scale);
      store_values(DType::F32, parameters.shift.data(), parameters.shift.size(),
                   host.data() + offsets[i].shift);
      weights.scale = reinterpret_cast<const float*>(base + offsets[i].scale);
      weights.shift = reinterpret_cast<const float*>(base + offsets[i].shift);
    }
    loaded->weights.push_back(weights);
  }
  MINUET_TRY(device->upload(base, host.data(), layout.bytes()));
  return loaded;
}

}  // namespace

llvm::Error PlanResidence::load(std::shared_ptr<Device> device) {
  const std::string& arch = device->info().arch;
  BinaryList binaries;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (loaded_.count(device.get())) return llvm::Error::success();
    if (!arch.empty()) {
      const auto found = compiled_.find(arch);
      if (found == compiled_.end()) {
        return make_error(StatusCode::FailedPrecondition,
                          "the plan is not compiled for {0}, which {1} needs: compile it first", arch,
                          device->info().name);
      }
      binaries = found->second;
    }
  }
  MINUET_TRY(device->load(binaries, [&](const Binary& refused) { return reload(arch, refused); }));
  MINUET_ASSIGN(std::shared_ptr<LoadedPlan> loaded, upload_parameters(*plan_, device));
  const std::lock_guard<std::mutex> lock(mutex_);
  loaded_.emplace(device.get(), std::move(loaded));
  return llvm::Error::success();
}

llvm::Expected<std::shared_ptr<const Binary>> PlanResidence::reload(llvm::StringRef arch,
                                                                    const Binary& refused) {
  MINUET_ASSIGN(std::shared_ptr<const Binary> made, recompile(*cache_, plan_->sources(), arch, refused));
  // For the next device of that architecture: it would be refused there too.
  const std::lock_guard<std::mutex> lock(mutex_);
  for (std::shared_ptr<const Binary>& binary : compiled_[arch.str()]) {
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
