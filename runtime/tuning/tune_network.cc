#include "runtime/tuning/tune_network.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "llvm/ADT/ScopeExit.h"
#include "runtime/program/ops/convolution.h"
#include "runtime/tuning/map_groups.h"
#include "runtime/tuning/training_meter.h"

namespace minuet {
namespace {

// Unless tuning is exhaustive, a task (TuningTask) tries at most kMostTried configurations. A task that
// serves all layers tries at most kMostTriedForAll, because no other task can be measured at the same time.
constexpr i64 kMostTried = 40, kMostTriedForAll = 12;

i64 median(std::vector<i64> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class NetworkTuner {
 public:
  NetworkTuner(const Plan& plan, const Device& device, TuningEnvironment environment, TuningStore& store,
               const TuneOptions& options, NetworkMeter& meter, TrainingMeter* training, double begun)
      : plan_(plan),
        device_(device),
        environment_(std::move(environment)),
        store_(store),
        options_(options),
        meter_(meter),
        training_(training),
        last_(options.exhaustive ? std::numeric_limits<double>::infinity() : begun + options.budget_seconds),
        end_(last_ - time_for_comparisons()) {}

  [[gnu::cold]] llvm::Expected<TuneSummary> run() {
    MINUET_TRY(load_previous());
    const std::vector<Step> steps = make_steps();
    double weights = 0;
    for (const Step& step : steps) weights += step.weight;
    for (const Step& step : steps) {
      if (summary_.stopped) break;
      const double now = meter_.seconds();
      deadline_ = now + std::max(0.0, end_ - now) * step.weight / weights;
      weights -= step.weight;
      if (deadline_ > now) MINUET_TRY(step.work());
    }
    if (!summary_.stopped && won_at_inference_ > 0) MINUET_TRY(unless_stopped(compare()));
    return summary_;
  }

 private:
  struct Step {
    double weight;  // Holds the step's share of the time, relative to the other steps.
    std::function<llvm::Error()> work;
  };

  /// Returns the seconds that are reserved for measuring the whole network, once with the dataflows that won
  /// and once with all results. They are at most a quarter of the time that is left, even if fewer passes fit
  /// into it.
  double time_for_comparisons() const {
    if (options_.exhaustive || options_.scope == TuneScope::Gradients) return 0;
    return std::min((wanted_ ? 1 : 2) * meter_.network_seconds(), (last_ - meter_.seconds()) / 4);
  }

  std::vector<Step> make_steps() {
    std::vector<Step> steps;
    const bool tunes_network = options_.scope != TuneScope::Gradients;
    if (tunes_network) add_kernel_steps(steps);
    if (training_ != nullptr) {
      steps.push_back({4, [this] { return tune_gradients("weight gradients", GradientKind::Weights); }});
      steps.push_back({3, [this] { return tune_gradients("input gradients", GradientKind::Inputs); }});
    }
    if (tunes_network) add_setting_steps(steps);
    return steps;
  }

  void add_kernel_steps(std::vector<Step>& steps) {
    std::vector<Dataflow> dataflows;
    if (wanted_) {
      dataflows = {*wanted_};
    } else if (count_fused() * 2 >= count_convolutions()) {
      dataflows = {Dataflow::Fused, Dataflow::GatherGemmScatter};
    } else {
      dataflows = {Dataflow::GatherGemmScatter, Dataflow::Fused};
    }
    double weight = 5;
    for (const Dataflow dataflow : dataflows) {
      steps.push_back({weight, [this, dataflow] { return tune_kernels(dataflow); }});
      weight = 2;
    }
  }

  void add_setting_steps(std::vector<Step>& steps) {
    if (wanted_ != Dataflow::Fused) steps.push_back({1, [this] { return tune_grouping(); }});
    steps.push_back({1, [this] { return tune_search(); }});
    if (wanted_ != Dataflow::GatherGemmScatter) steps.push_back({1, [this] { return tune_order(); }});
    if (!wanted_) steps.push_back({2, [this] { return tune_dataflows(); }});
  }

  std::size_t count_convolutions() const {
    const auto& layers = plan_.program.layers;
    return std::count_if(layers.begin(), layers.end(),
                         [](const ProgramLayer& layer) { return convolution_of(layer) != nullptr; });
  }

  std::size_t count_fused() const {
    const auto& layers = plan_.program.layers;
    return std::count_if(layers.begin(), layers.end(), [&](const ProgramLayer& layer) {
      const ConvolutionProblem* const problem = convolution_of(layer);
      return problem != nullptr && choose_dataflow(*problem, device_.info().arch) == Dataflow::Fused;
    });
  }

  using LayerSize = NetworkMeter::LayerSize;

  /// Returns true if the fused kernel of the previous layer computes this layer too, so that this layer has
  /// no time of its own. Layers run `dataflow`, or their default if it is empty.
  bool is_fused_shortcut(std::size_t layer, i64 rows, std::optional<Dataflow> dataflow) const {
    if (!plan_.program.layers[layer].may_join_last) return false;
    const ConvolutionProblem& before = *convolution_of(plan_.program.layers[layer - 1]);
    const std::string& arch = device_.info().arch;
    return dataflow.value_or(choose_dataflow(before, arch)) == Dataflow::Fused &&
           choose_fused(before, arch, rows).fused.shortcut;
  }

  /// Returns the tasks of all layers in all clouds, with one task per bucket (TuningBucket). `tasks_of`
  /// returns the tasks of a layer with this problem and this size. Layers run `dataflow`, or their default if
  /// it is empty.
  std::vector<TuningTask> collect(
      std::optional<Dataflow> dataflow,
      llvm::function_ref<std::vector<TuningTask>(const ConvolutionProblem&, const LayerSize&)> tasks_of)
      const {
    std::map<TuningBucket, TuningTask> tasks;
    for (const std::vector<LayerSize>& sizes : meter_.sizes()) {
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const ConvolutionProblem* const problem = convolution_of(plan_.program.layers[i]);
        if (sizes[i].rows < 1 || problem == nullptr || !is_tunable(*problem)) continue;
        if (is_fused_shortcut(i, sizes[i].rows, dataflow)) continue;
        for (TuningTask& task : tasks_of(*problem, sizes[i])) {
          tasks.try_emplace(task.bucket, std::move(task));
        }
      }
    }
    std::vector<TuningTask> all;
    all.reserve(tasks.size());
    for (auto& [bucket, task] : tasks) all.push_back(std::move(task));
    return all;
  }

  /// Returns true if every convolution can run this dataflow.
  bool can_run_by(Dataflow dataflow) const {
    const auto& layers = plan_.program.layers;
    return std::all_of(layers.begin(), layers.end(), [&](const ProgramLayer& layer) {
      const ConvolutionProblem* const problem = convolution_of(layer);
      return problem == nullptr || !llvm::errorToBool(check_dataflow(*problem, dataflow));
    });
  }

  llvm::Error tune_kernels(Dataflow dataflow) {
    std::vector<TuningTask> tasks =
        collect(dataflow, [&](const ConvolutionProblem& problem, const LayerSize& size) {
          return kernel_tasks(problem, device_.info().arch, dataflow, size.rows, size.density);
        });
    if (tasks.empty() || !can_run_by(dataflow)) return llvm::Error::success();
    return search(dataflow == Dataflow::Fused ? "fused kernels" : "tiles and GEMMs", tasks, dataflow);
  }

  /// Returns the rows of the largest coordinate set of the clouds whose maps have this key type, or 0 if
  /// there is no such cloud.
  i64 most_rows(std::optional<KeyType> key = {}) const {
    i64 most = 0;
    for (std::size_t cloud = 0; cloud < meter_.sizes().size(); ++cloud) {
      if (key && meter_.keys()[cloud] != *key) continue;
      for (const LayerSize& size : meter_.sizes()[cloud]) most = std::max(most, size.rows);
    }
    return most;
  }

  bool is_cpu() const { return device_.info().arch.empty(); }

  llvm::Error tune_grouping() {
    const WindowProblem* const largest = largest_convolution(plan_.program);
    if (is_cpu() || largest == nullptr || most_rows() == 0) return llvm::Error::success();
    if (!can_run_by(Dataflow::GatherGemmScatter)) return llvm::Error::success();
    std::vector<TuningTask> tasks;
    tasks.push_back(grouping_task(*largest, most_rows()));
    return search("groups of GEMMs", tasks, Dataflow::GatherGemmScatter);
  }

  llvm::Error tune_search() {
    const i64 volume = largest_volume(plan_.program);
    if (is_cpu() || volume == 0) return llvm::Error::success();
    std::vector<TuningTask> tasks;
    for (const KeyType key : {KeyType::U32, KeyType::U64}) {
      const i64 rows = most_rows(key);
      if (rows > 0) tasks.push_back(search_task(key, plan_.program.ndim, volume, rows));
    }
    if (tasks.empty()) return llvm::Error::success();
    return search("sorted maps", tasks, wanted_, MapMethod::Sorted);
  }

  llvm::Error tune_order() {
    const WindowProblem* const largest = largest_convolution(plan_.program);
    const bool runs_fused = wanted_ == Dataflow::Fused || count_fused() > 0;
    if (is_cpu() || largest == nullptr || most_rows() == 0 || !runs_fused) return llvm::Error::success();
    std::vector<TuningTask> tasks;
    tasks.push_back(order_task(*largest, most_rows()));
    return search("row order", tasks, wanted_);
  }

  llvm::Error tune_dataflows() {
    std::vector<TuningTask> tasks =
        collect({}, [&](const ConvolutionProblem& problem, const LayerSize& size) {
          std::vector<TuningTask> of_layer;
          if (has_tunable_dataflow(problem))
            of_layer.push_back(dataflow_task(problem, device_.info().arch, size.rows, size.density));
          return of_layer;
        });
    if (tasks.empty()) return llvm::Error::success();
    choosing_dataflows_ = true;
    return search("dataflows", tasks, {});
  }

  llvm::Error tune_gradients(const char* step, GradientKind kind) {
    std::vector<TuningTask> tasks = training_->tasks(kind);
    if (tasks.empty()) return llvm::Error::success();
    tunes_gradients_ = true;
    auto done = llvm::make_scope_exit([&] { tunes_gradients_ = false; });
    return search(step, tasks, *training_, training_->round_seconds(),
                  [&](TuningConfigs fallback) { return training_->set_default(std::move(fallback)); });
  }

  /// Loads the entries that the store has before this tuning adds any.
  llvm::Error load_previous() {
    MINUET_ASSIGN(TuningFolder there, store_.load(environment_hash(environment_)));
    for (TuningEntry& entry : there.entries) before_.emplace(entry.bucket, std::move(entry));
    return llvm::Error::success();
  }

  /// Moves the candidate that won an earlier tuning to the front of each task, so that a short tuning does
  /// not lose the results of a long one.
  void put_winners_first(std::vector<TuningTask>& tasks) const {
    for (TuningTask& task : tasks) {
      const auto known = before_.find(task.bucket);
      if (known == before_.end() || known->second.measurements.empty()) continue;
      const auto best = std::find(task.candidates.begin(), task.candidates.end(),
                                  known->second.measurements.front().config);
      if (best == task.candidates.end()) continue;  // The default won the earlier tuning and is no candidate.
      std::rotate(task.candidates.begin(), best, best + 1);
      task.has_favourite = true;
    }
  }

  /// Returns the progress to report while the default configuration is compiled.
  TuningProgress before_the_first(const std::vector<TuningTask>& tasks, const TunerOptions& tuner) const {
    i64 most = 0;
    for (const TuningTask& task : tasks) most = std::max(most, static_cast<i64>(task.candidates.size()));
    // Adds 1 for the measurement that confirms the winners.
    most = (tuner.most_tried == 0 ? most : std::min(most, tuner.most_tried)) + 1;
    const double rounds = static_cast<double>(most) * tuner.round_seconds;
    return {0, most, std::max(0.0, std::min(rounds, tuner.deadline - meter_.seconds()))};
  }

  llvm::Error search(const char* step, std::vector<TuningTask>& tasks, std::optional<Dataflow> dataflow,
                     MapMethod maps = MapMethod::Indexed) {
    return search(step, tasks, meter_, meter_.round_seconds(), [&](TuningConfigs fallback) {
      return meter_.set_default(std::move(fallback), dataflow, maps);
    });
  }

  /// Searches with a meter. set_default(configs) sets its default configurations.
  [[gnu::cold]] llvm::Error search(const char* step, std::vector<TuningTask>& tasks, TuningMeter& meter,
                                   double round_seconds,
                                   llvm::function_ref<llvm::Error(TuningConfigs)> set_default) {
    put_winners_first(tasks);
    TunerOptions tuner;
    tuner.deadline = deadline_;
    tuner.round_seconds = round_seconds;
    tuner.most_tried = options_.exhaustive                             ? 0
                       : is_of_network(tasks.front().bucket.operation) ? kMostTriedForAll
                                                                       : kMostTried;
    tuner.skipped = options_.skipped;
    if (options_.progress) {
      tuner.progress = [&](const TuningProgress& progress) { options_.progress({step, progress}); };
      tuner.progress(before_the_first(tasks, tuner));
    }
    TuningConfigs fallback = decided_;
    for (const TuningTask& task : tasks) fallback.try_emplace(task.bucket, task.default_config);
    MINUET_TRY(unless_stopped(set_default(std::move(fallback))));
    if (summary_.stopped) return llvm::Error::success();
    TuningOutcome outcome = search_configs(tasks, meter, tuner);
    summary_.tried += outcome.tried;
    summary_.skipped += outcome.skipped;
    summary_.stopped = outcome.stopped;
    if (choosing_dataflows_) MINUET_TRY(settle_dataflows(outcome));
    MINUET_TRY(keep(outcome.decisions));
    if (outcome.failure) return llvm::make_error<StatusError>(std::move(*outcome.failure));
    return llvm::Error::success();
  }

  /// Returns pairs of a map's number and a bucket of `moved` whose layers read the map. The maps of different
  /// clouds have different numbers.
  std::vector<std::pair<i64, TuningBucket>> maps_of(const TuningConfigs& moved) const {
    const Program& program = plan_.program;
    std::vector<std::pair<i64, TuningBucket>> read;
    for (std::size_t cloud = 0; cloud < meter_.sizes().size(); ++cloud) {
      for (std::size_t i = 0; i < program.layers.size(); ++i) {
        const ProgramLayer& layer = program.layers[i];
        const LayerSize& size = meter_.sizes()[cloud][i];
        const ConvolutionProblem* const problem = convolution_of(layer);
        if (problem == nullptr || !has_tunable_dataflow(*problem)) continue;
        const TuningBucket bucket = layer_bucket(Operation::Dataflow, *problem, size.rows, size.density);
        if (moved.count(bucket) != 0) read.emplace_back(cloud * program.maps.size() + layer.map, bucket);
      }
    }
    return read;
  }

  /// Selects, from the dataflows that won for single layers, those that make the whole network faster. The
  /// time that layers save must exceed the cost of additional views of their maps. The function first
  /// measures all of these dataflows together. If the network is not faster with them, the function measures
  /// each group of layers that share maps, while time permits. It returns nullopt if there is no time to
  /// measure.
  [[gnu::cold]] llvm::Expected<std::optional<TuningConfigs>> winning_moves(
      const std::vector<TuningDecision>& decisions) {
    TuningConfigs moved, winners;
    for (const TuningDecision& decision : decisions) {
      if (decision.winner) moved[decision.bucket] = decision.winner->config;
    }
    if (moved.empty()) return winners;
    if (!has_time_for_network()) return std::nullopt;
    report_network_step();
    // Leaves half of the time for compare(), which measures the gain of the whole network but decides
    // nothing.
    const double half = (last_ - meter_.seconds()) / 2;
    MINUET_ASSIGN(const TuningSamples together,
                  meter_.measure_network(moved, std::max(half, meter_.least_network_seconds())));
    if (median(together.trial) < median(together.fallback)) return moved;
    const std::vector<std::set<TuningBucket>> groups = group_by_map(maps_of(moved));
    for (const std::set<TuningBucket>& group : groups) {
      // Reserves time for compare().
      const double left = last_ - meter_.seconds() - meter_.network_seconds();
      if (groups.size() == 1 || left < meter_.network_seconds()) break;
      TuningConfigs some;
      for (const TuningBucket& bucket : group) some.emplace(bucket, moved.at(bucket));
      MINUET_ASSIGN(const TuningSamples samples, meter_.measure_network(some, left));
      if (beats(samples)) winners.merge(some);
    }
    return winners;
  }
  /// Drops the winning dataflows that do not make the whole network faster. If that could not be measured, no
  /// decision about a dataflow is left.
  llvm::Error settle_dataflows(TuningOutcome& outcome) {
    std::vector<TuningDecision> decisions = std::exchange(outcome.decisions, {});
    if (outcome.stopped || outcome.failure) return llvm::Error::success();
    llvm::Expected<std::optional<TuningConfigs>> moves = winning_moves(decisions);
    if (!moves) return unless_stopped(moves.takeError());
    if (!*moves) return llvm::Error::success();
    const TuningConfigs& winners = **moves;
    for (TuningDecision& decision : decisions) {
      if (!decision.winner || winners.count(decision.bucket) != 0) continue;
      decision.winner.reset();
      // Drops these measurements too, because they may be faster than the default, which is now the result.
      decision.others.clear();
    }
    outcome.decisions = std::move(decisions);
    return llvm::Error::success();
  }

  /// Publishes decisions to the store. They replace the entries that the same buckets (TuningBucket) had
  /// before this tuning began, because times are sums over the clouds of one tuning and cannot be compared
  /// with times of another one. Results that other processes have published since then are merged.
  [[gnu::cold]] llvm::Error keep(const std::vector<TuningDecision>& decisions) {
    std::vector<TuningEntry> entries;
    for (const TuningDecision& decision : decisions) {
      TuningEntry& entry = entries.emplace_back(entry_of(environment_, decision));
      for (TuningMeasurement& measurement : entry.measurements) measurement.driver = device_.info().driver;
    }
    const auto join = [&](const TuningEntry& mine, const TuningEntry& there) {
      const auto before = before_.find(mine.bucket);
      const bool is_old = before != before_.end() && before->second == there;
      return is_old ? mine : merge_runs(mine, there);
    };
    MINUET_TRY(store_.publish_joined(entries, join, options_.meter.cancelled));
    for (const TuningDecision& decision : decisions) {
      ++summary_.decided;
      summary_.won += decision.winner ? 1 : 0;
      won_at_inference_ += decision.winner && !tunes_gradients_ ? 1 : 0;
      decided_[decision.bucket] = (decision.winner ? *decision.winner : decision.fallback).config;
    }
    return llvm::Error::success();
  }

  bool has_time_for_network() const { return last_ - meter_.seconds() >= meter_.least_network_seconds(); }

  /// Reports that the whole network is measured next.
  void report_network_step() const {
    if (options_.progress) options_.progress({"the whole network", {0, 1, meter_.network_seconds()}});
  }

  llvm::Error compare() {
    if (!has_time_for_network()) return llvm::Error::success();
    report_network_step();
    MINUET_TRY(meter_.set_default({}, wanted_));
    MINUET_ASSIGN(const TuningSamples samples, meter_.measure_network(decided_, last_ - meter_.seconds()));
    summary_.untuned_ns = median(samples.fallback);
    summary_.tuned_ns = median(samples.trial);
    return llvm::Error::success();
  }

  /// Returns success if tuning was cancelled, because the decisions made so far remain valid.
  llvm::Error unless_stopped(llvm::Error error) {
    if (!error) return llvm::Error::success();
    StatusError status = take_status(std::move(error));
    if (status.code() != StatusCode::Cancelled) return llvm::make_error<StatusError>(std::move(status));
    summary_.stopped = true;
    return llvm::Error::success();
  }

  const Plan& plan_;
  const std::optional<Dataflow> wanted_ = wanted_dataflow(plan_.program);
  const Device& device_;
  const TuningEnvironment environment_;
  TuningStore& store_;
  const TuneOptions& options_;
  NetworkMeter& meter_;
  TrainingMeter* const training_;  // Is null if no training is tuned.
  const double last_;              // Everything must be finished at this time of the meter's clock.
  /// The measurements of all steps must be finished at this time. The time after it is for measuring the
  /// whole network.
  const double end_;
  double deadline_ = 0;  // The measurements of the current step must end by this time.
  bool choosing_dataflows_ = false, tunes_gradients_ = false;
  i64 won_at_inference_ = 0;                    // Counts what won, without the kernels of gradients.
  std::map<TuningBucket, TuningEntry> before_;  // Holds the entries of the store when tuning began.
  TuningConfigs decided_;
  TuneSummary summary_;
};

}  // namespace

[[gnu::cold]] llvm::Expected<TuneSummary> tune_network(const std::shared_ptr<const Plan>& plan,
                                                       const std::shared_ptr<KernelCache>& cache,
                                                       TuningEnvironment environment,
                                                       const std::shared_ptr<Device>& device,
                                                       TuningStore& store, const TuneOptions& options) {
  if (plan->program.takes_maps) {
    return make_error(StatusCode::Unimplemented,
                      "a single op cannot be tuned: tune a network that has it as a layer");
  }
  if (has_stages(plan->program)) {
    return make_error(
        StatusCode::Unimplemented,
        "an op of the network makes a level in each run, and such a network cannot be tuned: tune "
        "a network that begins with the coordinates of this level; its results serve both");
  }
  if (llvm::Error error = store.check_writable(environment_hash(environment))) {
    return annotate(std::move(error), "the tuning results cannot be saved");
  }
  const double begun = NetworkMeter::now();
  const auto stopped = [](llvm::Error error) -> llvm::Expected<TuneSummary> {
    StatusError status = take_status(std::move(error));
    if (status.code() != StatusCode::Cancelled) return llvm::make_error<StatusError>(std::move(status));
    TuneSummary summary;
    summary.stopped = true;
    return summary;
  };
  llvm::Expected<std::unique_ptr<NetworkMeter>> meter =
      NetworkMeter::create(plan, cache, device, environment, options.meter);
  if (!meter) return stopped(meter.takeError());
  std::unique_ptr<TrainingMeter> training;
  // On the CPU no kernel of a training step is specialized, so there is nothing to choose.
  if (options.scope != TuneScope::Network && !device->info().arch.empty()) {
    llvm::Expected<std::unique_ptr<TrainingMeter>> made =
        TrainingMeter::create(plan, cache, device, environment, **meter);
    if (!made) return stopped(annotate(made.takeError(), "the training step of the network"));
    training = std::move(*made);
  }
  NetworkTuner tuner(*plan, *device, std::move(environment), store, options, **meter, training.get(), begun);
  return tuner.run();
}

}  // namespace minuet
