#include "tools/bench/study/bench.h"

#include <algorithm>
#include <cmath>

#include "codegen/base/arch.h"
#include "codegen/choose/tuned_config.h"
#include "codegen/tuning/tuned_kernels.h"
#include "codegen/tuning/tuning_store.h"
#include "llvm/Support/FileSystem.h"
#include "minuet/tuning.h"
#include "tests/support/clouds.h"
#include "tools/bench/study/gpu.h"
#include "tools/minuet/base/clock.h"
#include "tools/minuet/base/convert.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/cloud/bench_clouds.h"
#include "tools/minuet/cloud/input.h"
#include "tools/minuet/library/outputs.h"
#include "tools/minuet/library/voxelizer.h"

namespace minuet::tool {
namespace {

/// Returns narrow channel widths for the network, so that a test takes milliseconds instead of seconds.
std::vector<int32_t> narrow_widths(const std::string& network) {
  if (network == "minkunet42") return {4, 4, 8, 8, 8, 8, 8, 4, 4};
  return {4, 8, 8, 8};
}

bool is_description(const std::string& network) { return network.front() == '{'; }

/// Returns the cloud with `channels` features for each voxel. If the cloud has another number of features,
/// the new features are random numbers from -1 to 1.
VoxelCloud with_channels(const VoxelCloud& cloud, int32_t channels) {
  if (cloud.channels == channels) return cloud;
  VoxelCloud other;
  other.coordinates = cloud.coordinates;
  other.channels = channels;
  other.features.resize(static_cast<size_t>(cloud.count()) * static_cast<size_t>(channels));
  uint32_t state = 1;
  for (float& value : other.features) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 16) / 32768.0F - 1;
  }
  return other;
}

VoxelCloud cloud_of(std::vector<int32_t> coordinates) {
  Cloud drawn;
  drawn.is_voxels = true;
  drawn.voxels = std::move(coordinates);
  return features_from_centres(drawn, cubic(0.1));
}

/// Returns a tuning entry that makes the library choose `config`. The entry claims that `config` was measured
/// to be faster than the default.
TuningEntry forced_entry(const TuningEnvironment& environment, const TuningBucket& bucket,
                         const TuningConfig& config) {
  TuningConfig other = config;
  // These values stand for the default configuration if it is unknown. The library never chooses them,
  // because the tuning entry says that they are slower than `config`.
  for (auto& [name, value] : other) value = 1;
  TuningMeasurement chosen, fallback;
  chosen.config = config;
  chosen.median_ns = chosen.least_ns = 1;
  fallback.config =
      default_config_of(bucket, environment.compute_capability.empty()).value_or(std::move(other));
  fallback.median_ns = fallback.least_ns = 2;
  return with_kernels_of_this_build(make_entry(environment, bucket, fallback, {chosen}));
}

}  // namespace

NetworkCase paper_case(const std::string& network, minuet_dtype dtype) {
  return {network, dtype, MINUET_DATAFLOW_GATHER_GEMM_SCATTER, MINUET_MAPS_SORTED};
}

std::string one_layer(int32_t in_channels, int32_t out_channels) {
  return llvm::formatv(R"({{"name": "layer", "ndim": 3, "in_channels": {0}, "channels": [{1}],)"
                       R"( "layers": [{{"op": "block", "name": "layer", "width": 0, "kernel_size": 3}]})",
                       in_channels, out_channels)
      .str();
}

int64_t LayerSamples::volume() const {
  if (info.offset_count > 0) return info.offset_count;
  int64_t volume = 1;
  for (const int32_t edge : info.kernel_size) volume *= std::max(edge, 1);
  return volume;
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return values.empty() ? 0 : std::exp(sum / static_cast<double>(values.size()));
}

llvm::Expected<std::unique_ptr<StudyBench>> StudyBench::open(const StudyOptions& options) {
  std::unique_ptr<StudyBench> bench(new StudyBench);
  bench->data_ = bench_data_folder(options.data);
  bench->commit_ = options.commit;
  MINUET_ASSIGN(bench->session_,
                open_session({options.cache, /*trace=*/false, /*must_jit=*/true}, options.device));
  const bool is_cpu = bench->session_.facts.is_cpu();
  MINUET_ASSIGN(bench->dtype_, dtype_for(options.dtype, is_cpu));
  bench->size_ = options.size == "tiny"    ? StudySize::Tiny
                 : options.size == "small" ? StudySize::Small
                 : options.size == "full"  ? StudySize::Full
                 : is_cpu                  ? StudySize::Small
                                           : StudySize::Full;
  MINUET_TRY(bench->find_environment());
  return bench;
}

llvm::Error StudyBench::find_environment() {
  MINUET_ASSIGN(const minuet_system_info system, query_system());
  driver_ = system.driver;
  toolkit_ = system.nvrtc;
  environment_.gpu = session_.facts.description;
  if (!session_.facts.is_cpu()) {
    const int number = capability(session_.facts.arch);
    environment_.compute_capability = llvm::formatv("{0}.{1}", number / 10, number % 10).str();
    environment_.toolkit = toolkit_;
    MINUET_ASSIGN(const std::unique_ptr<Gpu> gpu, Gpu::open(session_.facts));
    environment_.multiprocessors = gpu->multiprocessors();
    environment_.l2_bytes = gpu->l2_bytes();
  }
  return llvm::Error::success();
}

std::string StudyBench::cache_text() const {
  return llvm::formatv("the L2 cache has {0} MB here, and 6 MB on the paper's RTX 3090",
                       environment_.l2_bytes >> 20)
      .str();
}

llvm::json::Object StudyBench::machine() const {
  llvm::json::Object machine{{"device", session_.facts.description},
                             {"arch", session_.facts.arch},
                             {"driver", driver_},
                             {"toolkit", toolkit_},
                             {"version", version_text()},
                             {"dtype", dtype_name(dtype_)}};
  if (!commit_.empty()) machine["commit"] = commit_;
  return machine;
}

llvm::Expected<StudyFolder> StudyFolder::create() {
  llvm::SmallString<128> path;
  if (const std::error_code error = llvm::sys::fs::createUniqueDirectory("minuet-study", path))
    return broken("cannot create a temporary folder: " + system_text(error));
  StudyFolder folder;
  folder.path_.reset(new std::string(path.str()));
  return folder;
}

void StudyFolder::Remove::operator()(const std::string* path) const {
  static_cast<void>(llvm::sys::fs::remove_directories(*path));
  delete path;
}

llvm::Error StudyBench::force(const TuningConfigs& configs) {
  MINUET_ASSIGN(const StudyFolder folder, StudyFolder::create());
  TuningStore store(folder.path(), "", process_policy(process_environment()), real_file_system());
  for (const auto& [bucket, config] : configs) {
    llvm::Error error = store.publish(forced_entry(environment_, bucket, config));
    if (error) return broken(take_status(std::move(error)).message());
  }
  int64_t results = 0;
  MINUET_TRY(check(minuet_context_load_tuning(session_.context.get(), session_.device.get(),
                                              folder.path().c_str(), &results)));
  if (results >= static_cast<int64_t>(configs.size())) return llvm::Error::success();
  return broken(llvm::formatv("the library loaded only {0} of the {1} configurations that the study stored",
                              results, configs.size())
                    .str());
}

// The following functions make the point clouds on which the studies time networks and kernel maps.

llvm::Expected<const std::vector<StudyCloud>*> StudyBench::clouds() {
  if (clouds_) return &*clouds_;
  std::vector<BenchCloud> scenes;
  if (size_ == StudySize::Full) {
    MINUET_ASSIGN(scenes, open_bench_clouds({}, {data_, "", {}}));
  } else {
    for (const auto& [kind, voxel_size] : {std::pair("lidar", 0.1), {"room", 0.02}, {"object", 0.01}}) {
      InputOptions input;
      input.synthetic = kind;
      input.points = by_size(300, 2000, 0);
      BenchCloud scene;
      scene.name = std::string(kind) + "_" + digits(voxel_size);
      scene.voxel_size = cubic(voxel_size);
      MINUET_ASSIGN(scene.points, synthetic_points(input));
      scenes.push_back(std::move(scene));
      if (size_ == StudySize::Tiny) break;
    }
  }
  const Voxelizer voxelizer = voxelizer_of(session_);
  std::vector<StudyCloud> clouds;
  for (const BenchCloud& scene : scenes) {
    if (scene.is_missing || scene.random_voxels > 0) continue;
    StudyCloud cloud{scene.name, {}};
    for (int i = 0; i < by_size(1, 2, 3); ++i) {
      MINUET_ASSIGN(VoxelCloud variant, make_variant(scene, i, /*thin=*/false, voxelizer));
      cloud.variants.push_back(std::move(variant));
    }
    clouds.push_back(std::move(cloud));
  }
  clouds_ = std::move(clouds);
  return &*clouds_;
}

llvm::Expected<std::vector<const StudyCloud*>> StudyBench::clouds_named(
    const std::vector<std::string>& names) {
  MINUET_ASSIGN(const auto* scenes, clouds());
  std::vector<const StudyCloud*> named;
  for (const StudyCloud& scene : *scenes) {
    if (std::find(names.begin(), names.end(), scene.name) != names.end()) named.push_back(&scene);
  }
  if (named.empty()) named.push_back(&scenes->front());
  return named;
}

StudyCloud StudyBench::random_cloud(int64_t voxels, int32_t extent) const {
  StudyCloud cloud{llvm::formatv("random_{0}", voxels).str(), {}};
  VoxelOptions options;
  options.count = voxels;
  options.least = -extent / 2;
  options.extent = extent;
  for (int i = 0; i < by_size(1, 2, 2); ++i) {
    options.seed = 1000 + static_cast<uint64_t>(i);
    cloud.variants.push_back(cloud_of(make_voxels(options)));
  }
  return cloud;
}

StudyCloud StudyBench::shell_cloud(int32_t resolution) const {
  return {llvm::formatv("shell_{0}", resolution).str(), {cloud_of(make_shell(resolution, 1000))}};
}

// The following functions create networks and time them.

namespace {

/// Holds one network on one device with its inputs, ready to be timed.
struct Ready {
  PlanHandle plan;
  minuet_plan_info info = {};
  ExecutionHandle execution;
  std::vector<DeviceCloud> inputs;
  std::optional<Outputs> outputs;
};

llvm::Error open_case(const StudyBench& bench, const NetworkCase& wanted, Ready& ready) {
  MINUET_ASSIGN(ready.plan, bench.create_plan(wanted));
  minuet_plan* const plan = ready.plan.get();
  ready.info.struct_size = sizeof(ready.info);
  MINUET_TRY(check(minuet_plan_query(plan, &ready.info)));
  MINUET_TRY(check(minuet_plan_compile(plan, bench.facts().arch.c_str(), nullptr, nullptr)));
  return check(minuet_plan_load(plan, bench.device()));
}

llvm::Error upload_case(const StudyBench& bench, const NetworkCase& wanted, const StudyCloud& cloud,
                        Ready& ready) {
  int64_t most = 0;
  for (const VoxelCloud& variant : cloud.variants) {
    MINUET_ASSIGN(DeviceCloud input,
                  upload_cloud(bench.device(), with_channels(variant, ready.info.in_channels), wanted.dtype));
    ready.inputs.push_back(std::move(input));
    most = std::max(most, variant.count());
  }
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.max_points = most;
  options.map_method = wanted.maps;
  minuet_execution* execution = nullptr;
  MINUET_TRY(check(minuet_execution_create(ready.plan.get(), bench.device(), &options, &execution)));
  ready.execution.reset(execution);
  MINUET_ASSIGN(Outputs outputs, Outputs::create(ready.plan.get(), bench.device(), /*batch_size=*/0));
  ready.outputs.emplace(std::move(outputs));
  return llvm::Error::success();
}

llvm::Error infer_variant(const StudyBench& bench, Ready& ready, size_t run) {
  const DeviceCloud& input = ready.inputs[run % ready.inputs.size()];
  return infer(ready.execution.get(), bench.device(), input, *ready.outputs);
}

llvm::Error take_stages(Ready& ready, NetworkSamples& samples) {
  minuet_execution* const execution = ready.execution.get();
  minuet_stage_times stages = MINUET_STAGE_TIMES_INIT;
  MINUET_TRY(check(minuet_execution_query_stages(execution, &stages)));
  samples.sort.push_back(stages.sort);
  samples.map.push_back(stages.map);
  samples.gather.push_back(stages.gather);
  samples.gemm.push_back(stages.gemm);
  samples.scatter.push_back(stages.scatter);
  samples.other.push_back(stages.other);
  samples.gmas.push_back(stages.gather + stages.gemm + stages.scatter);
  samples.sort_map.push_back(stages.sort + stages.map);
  samples.layers.resize(static_cast<size_t>(ready.info.layers));
  for (int32_t i = 0; i < ready.info.layers; ++i) {
    minuet_layer_info info = {};
    info.struct_size = sizeof(info);
    MINUET_TRY(check(minuet_execution_query_layer(execution, i, &info)));
    LayerSamples& layer = samples.layers[static_cast<size_t>(i)];
    layer.gather.push_back(info.gather);
    layer.gemm.push_back(info.gemm);
    layer.scatter.push_back(info.scatter);
    layer.name = info.name;
    layer.kernel = info.kernel;
    layer.info = info;
    layer.info.name = layer.info.kernel = nullptr;
  }
  return llvm::Error::success();
}

}  // namespace

llvm::Expected<PlanHandle> StudyBench::create_plan(const NetworkCase& wanted) const {
  minuet_network_options options = MINUET_NETWORK_OPTIONS_INIT;
  const bool described = is_description(wanted.network);
  (described ? options.description : options.name) = wanted.network.c_str();
  options.dtype = wanted.dtype;
  options.dataflow = wanted.dataflow;
  std::vector<int32_t> widths;
  if (!described && size_ == StudySize::Tiny) {
    widths = narrow_widths(wanted.network);
    options.channels = widths.data();
    options.channel_count = static_cast<int32_t>(widths.size());
  }
  minuet_plan* plan = nullptr;
  MINUET_TRY(check(minuet_plan_create_network(session_.context.get(), &options, &plan)));
  return PlanHandle(plan);
}

llvm::Expected<NetworkSamples> StudyBench::time_network(const NetworkCase& network, const StudyCloud& cloud) {
  Ready ready;
  MINUET_TRY(open_case(*this, network, ready));
  MINUET_TRY(upload_case(*this, network, cloud, ready));
  minuet_execution* const execution = ready.execution.get();
  const size_t runs = ready.inputs.size() * static_cast<size_t>(repeats());
  // A GPU needs several runs until its clock frequencies have risen, and the network must have run once on
  // each variant of the cloud so that no timed run allocates memory.
  const size_t warm_up = ready.inputs.size() * (session_.facts.is_cpu() || size_ == StudySize::Tiny ? 1 : 4);
  NetworkSamples samples;
  for (size_t i = 0; i < warm_up; ++i) MINUET_TRY(infer_variant(*this, ready, i));
  for (size_t i = 0; i < runs; ++i) {
    MINUET_TRY(check(minuet_execution_reset_counters(execution)));
    const Clock::time_point start = Clock::now();
    MINUET_TRY(infer_variant(*this, ready, i));
    samples.wall.push_back(milliseconds_since(start));
  }
  MINUET_TRY(check(minuet_execution_query_counters(execution, &samples.counters)));
  MINUET_TRY(check(minuet_execution_set_profiling(execution, 1)));
  // The first profiled run creates the events that time the stages, so the times of this run are not
  // recorded.
  MINUET_TRY(infer_variant(*this, ready, 0));
  for (size_t i = 0; i < runs; ++i) {
    // The last run has the cloud's first variant, so that the levels and layers that are queried afterwards
    // have the shapes of the variant whose voxels StudyCloud::voxels() counts.
    MINUET_TRY(infer_variant(*this, ready, runs - 1 - i));
    MINUET_TRY(take_stages(ready, samples));
  }
  for (int32_t i = 0; i < ready.info.levels; ++i) {
    minuet_level_info level = {};
    level.struct_size = sizeof(level);
    MINUET_TRY(check(minuet_execution_query_level(execution, i, &level)));
    samples.levels.push_back(level);
  }
  return samples;
}

}  // namespace minuet::tool
