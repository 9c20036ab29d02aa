// Times the index of voxels by what a caller declares: bounds, capacities and slots.
#include <algorithm>

#include "codegen/base/json_text.h"
#include "minuet/index.h"
#include "tools/bench/study/map_step.h"
#include "tools/bench/study/studies.h"
#include "tools/minuet/base/error.h"
#include "tools/minuet/pages/documents.h"

namespace minuet::tool {
namespace {

constexpr int32_t kLevels = 5;
constexpr int32_t kFields = 4;

using Numbers = std::vector<int64_t>;

/// Describes a network with the first `levels` coordinate sets of MinkUNet42 and the kernel maps between and
/// within them. All its layers have the same channels, so that few kernels must be compiled.
std::string maps_network(int32_t levels) {
  llvm::json::Array layers;
  const auto add = [&](const char* op, const std::string& name, int32_t kernel_size, int32_t stride) {
    layers.push_back(llvm::json::Object{
        {"op", op}, {"name", name}, {"width", 0}, {"kernel_size", kernel_size}, {"stride", stride}});
    return layers.back().getAsObject();
  };
  for (int32_t level = 0; level < levels; ++level) {
    const std::string number = std::to_string(level);
    if (level > 0) add("block", "down" + number, 2, 2);
    llvm::json::Object& within = *add("block", "within" + number, 3, 1);
    if (level + 1 < levels) within["save"] = number;
  }
  for (int32_t level = levels - 1; level-- > 0;) {
    const std::string number = std::to_string(level);
    (*add("up", "up" + number, 2, 2))["onto"] = number;
  }
  return json_text(llvm::json::Object{{"name", "maps"},
                                      {"ndim", 3},
                                      {"in_channels", 16},
                                      {"channels", llvm::json::Array{16}},
                                      {"layers", std::move(layers)}});
}

/// Holds what a caller declares. Without slots and bounds, those are the default.
struct Declared {
  Numbers capacities, slots;
  bool has_bounds = false;
  int32_t least[kFields] = {}, greatest[kFields] = {};
};

/// Holds a cloud on the device, and what suits it.
struct IndexedCloud {
  const StudyCloud* cloud;
  DeviceBuffer coordinates;
  Declared tight;     // Declares capacities with room for 1.25 times the voxels, and the bounds of the cloud.
  Numbers suggested;  // Has the slots for 1.25 times the superblocks.
  int64_t voxels() const { return cloud->voxels(); }
};

llvm::Expected<ExecutionHandle> create(const StudyBench& bench, const PlanHandle& plan,
                                       const Declared& declared) {
  minuet_execution_options options = MINUET_EXECUTION_OPTIONS_INIT;
  options.map_method = MINUET_MAPS_INDEXED;
  if (!declared.capacities.empty()) {
    options.level_capacity = declared.capacities.data();
    options.level_count = static_cast<int32_t>(declared.capacities.size());
  }
  if (!declared.slots.empty()) options.level_slots = declared.slots.data();
  options.has_bounds = declared.has_bounds ? 1 : 0;
  if (declared.has_bounds) {
    std::copy_n(declared.least, kFields, options.least);
    std::copy_n(declared.greatest, kFields, options.greatest);
  }
  minuet_execution* execution = nullptr;
  MINUET_TRY(check(minuet_execution_create(plan.get(), bench.device(), &options, &execution)));
  return ExecutionHandle(execution);
}

llvm::Error prepare(const ExecutionHandle& execution, const IndexedCloud& cloud) {
  return check(minuet_execution_prepare(execution.get(), static_cast<const int32_t*>(cloud.coordinates.get()),
                                        cloud.voxels(), nullptr));
}

/// Returns the times to make all sets and maps in capacity mode, in milliseconds. There are none if the cloud
/// does not fit.
llvm::Expected<std::vector<double>> time_maps(const StudyBench& bench, const PlanHandle& plan,
                                              const IndexedCloud& cloud, const Declared& declared) {
  MINUET_ASSIGN(const ExecutionHandle execution, create(bench, plan, declared));
  MINUET_TRY(prepare(execution, cloud));
  uint32_t status = 0;
  MINUET_TRY(check(minuet_execution_read_cloud(execution.get(), &status, nullptr, 0, nullptr)));
  std::vector<double> samples;
  if (status != 0) return samples;
  MINUET_TRY(check(minuet_execution_set_profiling(execution.get(), 1)));
  const int warm_up = bench.by_size(1, 1, 5), repeats = bench.by_size(3, 5, 30);
  for (int i = -warm_up; i < repeats; ++i) {
    MINUET_TRY(prepare(execution, cloud));
    minuet_stage_times stages = MINUET_STAGE_TIMES_INIT;
    MINUET_TRY(check(minuet_execution_query_stages(execution.get(), &stages)));
    if (i >= 0) samples.push_back(stages.sort + stages.map + stages.other);
  }
  return samples;
}

llvm::Expected<IndexedCloud> make_cloud(const StudyBench& bench, const PlanHandle& plan,
                                        const StudyCloud& cloud) {
  constexpr double kRoom = 1.25;
  const VoxelCloud& voxels = cloud.variants.front();
  MINUET_ASSIGN(DeviceBuffer coordinates, upload_coordinates(bench.device(), voxels));
  IndexedCloud made{&cloud, std::move(coordinates), {}, {}};
  MINUET_ASSIGN(const ExecutionHandle exact, create(bench, plan, {}));
  MINUET_TRY(prepare(exact, made));
  made.tight.capacities.resize(kLevels);
  made.suggested.resize(kLevels);
  MINUET_TRY(
      check(minuet_execution_suggest_capacities(exact.get(), kRoom, made.tight.capacities.data(), kLevels)));
  MINUET_TRY(
      check(minuet_execution_suggest_slots(exact.get(), kRoom, made.suggested.data(), kLevels, nullptr)));
  made.tight.has_bounds = true;
  for (size_t f = 0; f < kFields; ++f) {
    int32_t least = INT32_MAX, greatest = INT32_MIN;
    for (size_t i = f; i < voxels.coordinates.size(); i += kFields) {
      least = std::min(least, voxels.coordinates[i]);
      greatest = std::max(greatest, voxels.coordinates[i]);
    }
    made.tight.least[f] = least, made.tight.greatest[f] = greatest;
  }
  return made;
}

Declared without_bounds(const IndexedCloud& cloud) {
  Declared declared = cloud.tight;
  declared.has_bounds = false;
  return declared;
}

/// Measures wider and wider bounds.
llvm::Error time_bounds(const StudyBench& bench, const PlanHandle& plan, const IndexedCloud& cloud,
                        StudyPlot& plot) {
  const auto measure = [&](const char* name, const Declared& declared) -> llvm::Error {
    MINUET_ASSIGN(const std::vector<double> samples, time_maps(bench, plan, cloud, declared));
    if (!samples.empty()) plot.add(cloud.cloud->name, name, samples);
    return llvm::Error::success();
  };
  MINUET_TRY(measure("tight", cloud.tight));
  Declared wide = cloud.tight;
  for (size_t f = 1; f < kFields; ++f) wide.least[f] *= 4, wide.greatest[f] *= 4;
  MINUET_TRY(measure("4 times", wide));
  for (size_t f = 1; f < kFields; ++f) wide.least[f] = -(1 << 20), wide.greatest[f] = (1 << 20) - 17;
  MINUET_TRY(measure("2^20", wide));
  return measure("none", without_bounds(cloud));
}

/// Measures larger and larger capacities, with the default slots and with those for the cloud's superblocks.
llvm::Error time_capacities(const StudyBench& bench, const PlanHandle& plan, const IndexedCloud& cloud,
                            StudyPlot& plot) {
  for (const int64_t factor : bench.by_size(Numbers{1, 4}, {1, 4}, {1, 2, 4, 8})) {
    Declared declared = without_bounds(cloud);
    for (int64_t& capacity : declared.capacities) capacity *= factor;
    for (const bool is_default : {true, false}) {
      if (!is_default) declared.slots = cloud.suggested;
      MINUET_ASSIGN(const std::vector<double> samples, time_maps(bench, plan, cloud, declared));
      const std::string series = cloud.cloud->name + (is_default ? ", default slots" : ", suggested slots");
      if (!samples.empty()) plot.add(series, factor, samples);
    }
  }
  return llvm::Error::success();
}

/// Measures numbers of slots for each voxel of the capacities. A cloud that does not fit has no point.
llvm::Error time_slots(const StudyBench& bench, const PlanHandle& plan, const IndexedCloud& cloud,
                       StudyPlot& plot) {
  for (const double slots_of_voxel : {0.25, 0.5, 1.0, 2.0, 4.0}) {
    Declared declared = without_bounds(cloud);
    for (const int64_t capacity : declared.capacities)
      declared.slots.push_back(static_cast<int64_t>(slots_of_voxel * static_cast<double>(capacity)) + 1);
    MINUET_ASSIGN(const std::vector<double> samples, time_maps(bench, plan, cloud, declared));
    if (!samples.empty()) plot.add(cloud.cloud->name, slots_of_voxel, samples);
  }
  return llvm::Error::success();
}

/// Measures networks of fewer levels.
llvm::Error time_levels(const StudyBench& bench, const std::vector<PlanHandle>& plans,
                        const IndexedCloud& cloud, StudyPlot& plot) {
  for (size_t levels = 1; levels <= kLevels; ++levels) {
    Declared declared = without_bounds(cloud);
    declared.capacities.resize(levels);
    MINUET_ASSIGN(const std::vector<double> samples, time_maps(bench, plans[levels - 1], cloud, declared));
    if (!samples.empty()) plot.add(cloud.cloud->name, static_cast<int64_t>(levels), samples);
  }
  return llvm::Error::success();
}

llvm::Expected<minuet_index_sizes> sizes_of(const Numbers& capacities, const Numbers& slots) {
  minuet_index_options options = MINUET_INDEX_OPTIONS_INIT;
  options.level_capacity = capacities.data();
  options.level_slots = slots.empty() ? nullptr : slots.data();
  options.level_count = kLevels;
  minuet_index_sizes sizes = MINUET_INDEX_SIZES_INIT;
  MINUET_TRY(check(minuet_index_bytes(&options, &sizes)));
  return sizes;
}

llvm::Expected<llvm::json::Array> memory_row(const IndexedCloud& cloud) {
  llvm::json::Array row{cloud.cloud->name, cloud.voxels()};
  for (const Numbers& slots : {Numbers(), cloud.suggested}) {
    MINUET_ASSIGN(const minuet_index_sizes sizes, sizes_of(cloud.tight.capacities, slots));
    row.push_back(sizes.slots);
    row.push_back(static_cast<double>(sizes.table + sizes.rows) / 1e6);
  }
  return row;
}

llvm::Expected<PlanHandle> load_network(const StudyBench& bench, int32_t levels) {
  MINUET_ASSIGN(PlanHandle plan,
                bench.create_plan({maps_network(levels), bench.dtype(), MINUET_DATAFLOW_FUSED}));
  MINUET_TRY(check(minuet_plan_compile(plan.get(), bench.facts().arch.c_str(), nullptr, nullptr)));
  MINUET_TRY(check(minuet_plan_load(plan.get(), bench.device())));
  return plan;
}

llvm::Expected<std::vector<StudyCloud>> index_clouds(StudyBench& bench) {
  std::vector<StudyCloud> clouds;
  MINUET_ASSIGN(const std::vector<const StudyCloud*> scenes, bench.clouds_named({"os1_0.1", "os1_0.05"}));
  clouds.reserve(scenes.size() + 2);
  for (const StudyCloud* scene : scenes) clouds.push_back(*scene);
  if (bench.size() != StudySize::Tiny) {
    clouds.push_back(bench.random_cloud(bench.by_size(0, 3000, 1000000), bench.by_size(1, 100, 400)));
  }
  // Nearly every voxel has a superblock of its own.
  clouds.push_back(bench.random_cloud(bench.by_size(200, 2000, 300000), bench.by_size(1000, 2000, 4000)));
  clouds.back().name += "_sparse";
  return clouds;
}

}  // namespace

llvm::Error study_index(StudyBench& bench, StudyDocument& document) {
  document.note("The Minuet paper has no index of voxels, so there is no figure or table to compare with.");
  document.note(
      std::string("The times are those of all sets and maps of MinkUNet42 in capacity mode, ") +
      clock_text(bench) +
      ": the stages `sort`, `map` and `other` of profiled calls of prepare. Where nothing else is said, the "
      "capacities are 1.25 times the voxels of each level, and there are no bounds and the default slots, "
      "which are two for each voxel of a capacity.");
  document.note(
      "Suggested slots are those of minuet_execution_suggest_slots with a factor of 1.25. A cloud whose "
      "superblocks find no slot has no point in a plot. The cloud whose name ends in \"sparse\" has nearly "
      "as "
      "many superblocks as voxels. The plot of levels shows how much of the time the coarser levels take: it "
      "could pass beside the layers of the finest level.");
  std::vector<PlanHandle> plans;
  for (int32_t levels = 1; levels <= kLevels; ++levels) {
    MINUET_ASSIGN(PlanHandle loaded, load_network(bench, levels));
    plans.push_back(std::move(loaded));
  }
  const PlanHandle& plan = plans.back();
  MINUET_ASSIGN(const std::vector<StudyCloud> clouds, index_clouds(bench));
  StudyPlot bounds("Declared bounds", "bar", axis(""), axis("ms"));
  StudyPlot capacities("Declared capacities", "line", axis("times what the cloud needs", true), axis("ms"));
  StudyPlot slots("Slots for each voxel", "line", axis("slots for each voxel of the capacities", true),
                  axis("ms", true));
  StudyPlot levels("Levels", "line", axis("levels"), axis("ms"));
  llvm::json::Array memory;
  StudySteps steps(bench, clouds.size());
  for (const StudyCloud& cloud : clouds) {
    MINUET_ASSIGN(const IndexedCloud indexed, make_cloud(bench, plan, cloud));
    MINUET_TRY(time_bounds(bench, plan, indexed, bounds));
    MINUET_TRY(time_capacities(bench, plan, indexed, capacities));
    MINUET_TRY(time_slots(bench, plan, indexed, slots));
    MINUET_TRY(time_levels(bench, plans, indexed, levels));
    MINUET_ASSIGN(llvm::json::Array row, memory_row(indexed));
    memory.push_back(std::move(row));
    steps.count();
  }
  document.add(std::move(bounds));
  document.add(std::move(capacities));
  document.add(std::move(slots));
  document.add(std::move(levels));
  document.add_table("Memory of the index",
                     {"cloud", "voxels", "default slots", "MB", "suggested slots", "MB"}, std::move(memory));
  return llvm::Error::success();
}

}  // namespace minuet::tool
