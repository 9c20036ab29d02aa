#include "codegen/tuning/search_space.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "codegen/choose/ops/convolution_fused.h"
#include "codegen/choose/ops/fused_limits.h"
#include "codegen/choose/tuned_config.h"

namespace minuet {
namespace {

bool fits(const TuningBucket& bucket, const TuningConfig& config) {
  return !llvm::errorToBool(validate_config(bucket, config));
}

// The following functions make the TuningTasks for the kernels of the gather-GEMM-scatter dataflow.

[[gnu::cold]] TuningTask tile_task(const TuningBucket& bucket, i32 default_tile) {
  TuningTask task{bucket, tile_config(default_tile), {}};
  std::vector<i32> tiles;
  for (i32 tile = 1; tile <= bucket.channels; ++tile) {
    if (bucket.channels % tile == 0 && tile != default_tile) tiles.push_back(tile);
  }
  // The tiles are sorted by how many times larger or smaller than the default they are. Of two equal ratios,
  // the wider tile comes first.
  const auto distance = [&](i32 tile) {
    return std::tuple(std::max(tile, default_tile) / static_cast<double>(std::min(tile, default_tile)),
                      -tile);
  };
  std::sort(tiles.begin(), tiles.end(), [&](i32 a, i32 b) { return distance(a) < distance(b); });
  for (const i32 tile : tiles) {
    if (fits(bucket, tile_config(tile))) task.candidates.push_back(tile_config(tile));
  }
  return task;
}

[[gnu::cold]] TuningTask gemm_task(const TuningBucket& bucket) {
  TuningTask task{bucket, config_of(GemmChoice{}), {}};
  for (i32 algorithm = 1; algorithm < kMostGemmAlgorithms; ++algorithm) {
    task.candidates.push_back(config_of(GemmChoice{algorithm}));
  }
  return task;
}

// The following code combines the values of several fields, for tasks whose result holds for a whole network.

/// Names a field and lists its values other than the default, in order of expected gain.
using FieldValues = std::pair<const char*, std::vector<i64>>;

/// Adds to the task's candidates all combinations of the field values for which fits() is true. Those that
/// differ from the default in the fewest fields come first.
[[gnu::cold]] void add_combinations(TuningTask& task, llvm::ArrayRef<FieldValues> fields) {
  std::vector<TuningConfig> combined{task.default_config};
  for (const auto& [name, values] : fields) {
    const std::vector<TuningConfig> before = combined;
    for (const i64 value : values) {
      for (TuningConfig config : before) {
        config[name] = value;
        combined.push_back(std::move(config));
      }
    }
  }
  const auto differing = [&](const TuningConfig& config) {
    std::size_t fields_changed = 0;
    for (const auto& [name, value] : config) fields_changed += task.default_config.at(name) != value ? 1 : 0;
    return fields_changed;
  };
  for (std::size_t changed = 1; changed <= fields.size(); ++changed) {
    for (const TuningConfig& config : combined) {
      if (differing(config) == changed && fits(task.bucket, config)) task.candidates.push_back(config);
    }
  }
}

// The following code makes the FusedSpecs, which are the template arguments of the fused kernel, that are
// worth measuring.

/// Sets one field of a FusedSpec.
using Change = std::function<void(FusedSpec&)>;
/// Holds changes that exclude each other, because they set the same field.
using Axis = std::vector<Change>;

template <class Field>
Axis values_of(Field FusedSpec::*field, const std::vector<Field>& values) {
  Axis axis;
  for (const Field value : values) axis.push_back([=](FusedSpec& spec) { spec.*field = value; });
  return axis;
}

/// Returns values for FusedSpec::step that divide the input channels into 1 to 6 equal parts. If a step
/// covers several kernel offsets, returns half and twice the present value instead.
std::vector<i32> steps_of(const FusedSpec& spec) {
  if (folds_offsets(spec.io, spec.in_channels)) return {spec.step / 2, spec.step * 2};
  const i32 unit = step_granule(spec);
  std::set<i32, std::greater<>> steps;
  for (i32 parts = 1; parts <= 6; ++parts) {
    steps.insert((spec.in_channels + parts * unit - 1) / (parts * unit) * unit);
  }
  return {steps.begin(), steps.end()};
}

std::vector<i32> columns_of(const FusedSpec& spec) {
  std::set<i32, std::greater<>> columns;
  for (const i32 most : {32, 48, 64, 96, 128}) columns.insert(equal_parts(spec.out_channels, 16, most));
  return {columns.begin(), columns.end()};
}

/// Returns the changes of each field, with the fields in order of their observed effect: those that set the
/// work of a block come first, then those for the warps and blocks that share it, then those for its loads.
[[gnu::cold]] std::vector<Axis> axes_of(const FusedSpec& spec) {
  const bool is_warpgroup = spec.unit == MmaUnit::Warpgroup;
  const std::vector<i32> warps = is_warpgroup ? std::vector<i32>{4, 8, 12, 16} : std::vector<i32>{2, 4, 8};
  std::vector<Axis> axes{values_of(&FusedSpec::columns, columns_of(spec)),
                         values_of(&FusedSpec::step, steps_of(spec)), values_of(&FusedSpec::warps, warps),
                         values_of(&FusedSpec::cluster, {1, 2, 4}),
                         values_of(&FusedSpec::prefetch, {1, 2, 3})};
  FusedSpec staged = spec;
  staged.staged_rows = true;
  if (fused_stages_rows(staged)) axes.push_back(values_of(&FusedSpec::staged_rows, {false, true}));
  if (is_warpgroup) {
    axes.push_back(values_of(&FusedSpec::early_loads, {false, true}));
    // A warp that only copies weights costs the others too many registers unless there is one warpgroup.
    axes.push_back({[](FusedSpec& changed) {
                      changed.weights = WeightRoad::BulkCopy;
                      changed.warps = 4;
                    },
                    [](FusedSpec& changed) { changed.weights = WeightRoad::BulkRefill; }});
  } else {
    axes.push_back(values_of(&FusedSpec::row_tiles, {1, 2, 4}));
    axes.push_back(values_of(&FusedSpec::split, {1, 2, 4}));
    axes.push_back(values_of(&FusedSpec::weights, {WeightRoad::BulkCopy, WeightRoad::BulkRefill,
                                                   WeightRoad::AsyncCopy, WeightRoad::Cached}));
  }
  return axes;
}

/// Appends FusedSpecs to the candidates of a task, in the order of the calls. Leaves out those that the
/// architecture cannot run, that are invalid (fits()), or that the task already has.
class SpecList {
 public:
  SpecList(TuningTask& task, llvm::StringRef arch) : task_(task), arch_(arch) {
    known_.insert(task.default_config);
  }
  void add(const FusedSpec& spec) {
    const TuningConfig config = config_of(spec);
    if (!runs_on(spec, arch_) || !fits(task_.bucket, config) || !known_.insert(config).second) return;
    task_.candidates.push_back(config);
  }
  void add_changed(FusedSpec spec, llvm::ArrayRef<const Change*> changes) {
    for (const Change* const change : changes) (*change)(spec);
    if (spec.step < 1) return;
    fit_stages_and_blocks(spec);
    add(spec);
  }

 private:
  TuningTask& task_;
  const llvm::StringRef arch_;
  std::set<TuningConfig> known_;
};

void add_neighbours(SpecList& list, const FusedSpec& base) {
  for (const Axis& axis : axes_of(base)) {
    for (const Change& change : axis) list.add_changed(base, {&change});
  }
  // In the Specs above, the numbers of blocks and stages follow from the other fields. Here, only one of them
  // changes.
  for (const i32 more : {1, -1}) {
    FusedSpec blocks = base, stages = base;
    blocks.blocks += more;
    stages.stages += more * base.split;
    list.add(blocks);
    list.add(stages);
  }
}

void add_second_neighbours(SpecList& list, const FusedSpec& base) {
  const std::vector<Axis> axes = axes_of(base);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    for (std::size_t j = i + 1; j < axes.size(); ++j) {
      for (const Change& first : axes[i]) {
        for (const Change& second : axes[j]) list.add_changed(base, {&first, &second});
      }
    }
  }
}

/// Appends Specs of persistent blocks (FusedSpec::persistent), with a ring of weights and with weights that
/// stay in shared memory. They are few, because they were faster for few layers.
void add_persistent(SpecList& list, const FusedSpec& base) {
  if (base.unit != MmaUnit::Warpgroup) return;
  FusedSpec spec = base;
  spec.persistent = spec.staged_rows = spec.early_loads = true;
  spec.cluster = spec.prefetch = 1;
  spec.weights = WeightRoad::BulkRefill;
  spec.warps = 4;
  fit_stages_and_blocks(spec);
  list.add(spec);
  spec.weights = WeightRoad::Resident;
  spec.columns = equal_parts(spec.out_channels, 16, spec.out_channels);
  spec.warps = 16;
  spec.blocks = spec.stages = 1;
  spec.prefetch = 2;
  list.add(spec);
}

/// Returns a Spec like one that stages row numbers (FusedSpec::staged_rows), but does not, with what suits
/// it.
FusedSpec without_staged_rows(FusedSpec spec) {
  const bool is_warpgroup = spec.unit == MmaUnit::Warpgroup;
  spec.staged_rows = spec.persistent = false;
  spec.prefetch = is_warpgroup ? 1 : 2;
  if (is_warpgroup) spec.weights = WeightRoad::BulkRefill;
  fit_stages_and_blocks(spec);
  return spec;
}

[[gnu::cold]] TuningTask fused_task(const ConvolutionProblem& problem, llvm::StringRef arch,
                                    const FusedSpec& chosen, i64 rows, std::optional<double> density) {
  TuningTask task{layer_bucket(Operation::Fused, problem, rows, density), config_of(chosen), {}};
  std::vector<FusedSpec> bases{chosen};
  if (chosen.unit == MmaUnit::Warpgroup) {
    bases.push_back(choose_fused(problem, arch, rows, {.warpgroups = false}).fused);
  } else if (const std::optional<FusedSpec> other = by_warpgroups(problem, arch, rows)) {
    bases.push_back(*other);
  }
  SpecList list(task, arch);
  const FusedSpec unstaged = without_staged_rows(chosen);
  for (const FusedSpec& base : bases) list.add(base);
  if (chosen.staged_rows) list.add(unstaged);
  for (const FusedSpec& base : bases) {
    if (rows >= kVeryManyRows) add_persistent(list, base);
  }
  for (const FusedSpec& base : bases) add_neighbours(list, base);
  if (chosen.staged_rows) add_neighbours(list, unstaged);
  for (const FusedSpec& base : bases) add_second_neighbours(list, base);
  return task;
}

}  // namespace

[[gnu::cold]] std::vector<TuningTask> kernel_tasks(const ConvolutionProblem& problem, llvm::StringRef arch,
                                                   Dataflow dataflow, i64 rows,
                                                   std::optional<double> density) {
  if (arch.empty()) return {};
  llvm::Expected<std::vector<Candidate>> candidates =
      convolution_candidates(problem, arch, nullptr, dataflow);
  if (!candidates) {
    llvm::consumeError(candidates.takeError());  // This dataflow cannot run the problem, so it has no tasks.
    return {};
  }
  const OpChoice& chosen = select(*candidates, rows, {}).choice;
  if (const auto* const fused = chosen.get_if<FusedChoice>()) {
    return {fused_task(problem, arch, fused->fused, rows, density)};
  }
  const GmasChoice& gmas = chosen.get<GmasChoice>();
  const i64 volume = kernel_volume(problem);
  return {tile_task(gather_bucket(problem.dtype, problem.in_channels, volume, rows), gmas.gather.tile),
          tile_task(scatter_bucket(problem.dtype, problem.out_channels, volume, rows), gmas.scatter.tile),
          gemm_task(gemm_bucket(problem.dtype, problem.in_channels, problem.out_channels, volume, rows))};
}

TuningTask search_task(KeyType key, i32 ndim, i64 volume, i64 rows) {
  TuningTask task{search_bucket(key, ndim, volume, rows), config_of(SearchChoice{}), {}};
  add_combinations(task, {{"query_block", {1024, 256, 2048, 128}},
                          {"source_block", {512, 128, 1024, 64, 32}},
                          {"threads", {256, 64, 512}}});
  return task;
}

TuningTask grouping_task(const WindowProblem& problem, i64 rows) {
  TuningTask task{
      grouping_bucket(problem.dtype, kernel_volume(problem), rows), config_of(GroupingChoice{}), {}};
  add_combinations(task, {{"padding_percent", {15, 40, 10, 60, 5, 100, 0}},
                          {"height_step", {128, 32, 256, 16}},
                          {"streams", {1}}});
  return task;
}

[[gnu::cold]] TuningTask order_task(const WindowProblem& problem, i64 rows) {
  TuningTask task{order_bucket(problem.dtype, kernel_volume(problem), rows), config_of(OrderChoice{}), {}};
  for (const RowOrder order : {RowOrder::ByMask, RowOrder::AsTheyCome}) {
    task.candidates.push_back(config_of(OrderChoice{order}));
  }
  return task;
}

TuningTask dataflow_task(const ConvolutionProblem& problem, llvm::StringRef arch, i64 rows,
                         std::optional<double> density) {
  const Dataflow chosen = choose_dataflow(problem, arch);
  const Dataflow other = chosen == Dataflow::Fused ? Dataflow::GatherGemmScatter : Dataflow::Fused;
  TuningTask task{layer_bucket(Operation::Dataflow, problem, rows, density), config_of(chosen), {}};
  if (fits(task.bucket, config_of(other))) task.candidates.push_back(config_of(other));
  return task;
}

}  // namespace minuet
