// Represents one caller's use of a loaded plan. The caller prepares a cloud or kernel maps, and then calls
// run() with features.
//
// For a network, prepare() builds every coordinate set and kernel map on the device and reads all counts back
// in one copy. For a single op, prepare_maps() takes the caller's kernel maps. Both functions select the
// candidate (candidates.h) that computes each layer, and make the views of the maps that the selected
// candidates read. run() only enqueues work. All device memory is in one arena (arena.h), except for memory
// that comes from a queue. If a cloud needs more memory, the arena grows and prepare starts over. A prepare
// call that finds enough memory allocates nothing. The class is not thread-safe. A program with several
// stages has an execution for each of them (staged_execution.h).
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/execution/execution_memory.h"
#include "runtime/execution/plan_execution.h"
#include "runtime/execution/run_steps.h"
#include "runtime/plan/prepared_parameters.h"

namespace minuet {

/// Returns the number of rows that are expected where there is room for `capacity`.
inline i64 likely_rows_within(i64 capacity) { return std::max<i64>(capacity * 3 / 4, 1); }

/// Holds the arguments of a run on a pyramid (Execution::run_on()).
struct PyramidRun {
  // Holds the buffer that PlacedPyramid::build() has filled, or a copy of it.
  void* buffer = nullptr;
  i64 buffer_bytes = 0;
  void* workspace = nullptr;
  i64 workspace_bytes = 0;
  llvm::ArrayRef<GivenArray> inputs, outputs;
  // Both pointers are null if the plan's own values are used, and one of them is in any case.
  // `prepared` holds the block that prepare_parameters() has filled, or a copy of it.
  std::shared_ptr<ParameterSet> parameters;
  const void* prepared = nullptr;
  i64 prepared_bytes = 0;
  // Holds the storages of Program::kept, and what RunSteps keep. `writes_kept` says whether the run writes
  // it.
  void* kept = nullptr;
  i64 kept_bytes = 0;
  bool writes_kept = false;
  /// Gives the RunSteps of the execution the arguments of this run. It is null if there are no RunSteps.
  llvm::function_ref<llvm::Error(RunSteps&)> give_arguments = nullptr;
  /// If it is not null, the run is timed. It then waits for its own end, and stores its times here.
  RunTimes* times = nullptr;
};

class Execution final : public PlanExecution {
 public:
  static llvm::Expected<std::unique_ptr<Execution>> create(std::shared_ptr<const LoadedPlan> loaded,
                                                           const ExecutionOptions& options);

  /// Checks that the execution has values of the plan's parameters from exactly one place.
  static llvm::Error check_parameters(const LoadedPlan& loaded, const ExecutionOptions& options);

  /// Returns an execution that keeps no state between its runs, which all memory of a run is given to
  /// (run_on()). `use.pyramid` must not be null. Returns InvalidArgument if the pyramid lacks a level or a
  /// map that the plan needs. `make_steps` is empty if the ops of the program do all work.
  static llvm::Expected<std::unique_ptr<Execution>> create_on(std::shared_ptr<const LoadedPlan> loaded,
                                                              const PyramidUse& use,
                                                              const MakeRunSteps& make_steps = {});
  /// Returns the size of PyramidRun::workspace in bytes.
  i64 run_bytes() const { return run_bytes_; }
  /// Returns the size of PyramidRun::kept in bytes.
  i64 kept_bytes() const { return kept_bytes_; }

  // The next functions are for RunSteps.

  Engine& engine() const { return *engine_; }
  const Candidate& selected_candidate(i32 layer) const { return candidate_of(layer); }
  /// Returns where a tensor is during the current run, with as many rows as its level may have.
  Tensor tensor_at(i32 tensor) const;
  PlacedPyramid& placed_pyramid() { return *placed_; }
  const Pyramid& pyramid() const { return *options_.on.pyramid; }
  /// Returns the pyramid's number of a map of the program, or -1 for one between batch items.
  i32 pyramid_map(i32 map) const { return pyramid_maps_[map]; }
  /// Returns the pyramid's coordinates of the rows of a level (LevelSpec::keeps_coordinates), in a run.
  const i32* coordinates_on(i32 level) const { return placed_->coordinates(pyramid_levels_[level]); }
  const MapView& map(i32 map) const { return maps_[map]; }
  /// Returns the number by which the engine times this step (RunTimes::steps). Layers have the numbers below.
  i32 timed_step(i32 step) const { return op_count_ + step; }
  /// Makes what the first run with these parameters, which may be null, would make. It allocates memory and
  /// waits.
  llvm::Error prepare_on(const std::shared_ptr<ParameterSet>& parameters);
  /// Returns the size of PyramidRun::prepared in bytes.
  i64 prepared_bytes() { return prepared_parameters().bytes(); }
  /// Enqueues the work that writes a block for PyramidRun::prepared.
  llvm::Error prepare_parameters(llvm::ArrayRef<GivenArray> values, WeightsOrder order, void* block,
                                 i64 bytes, void* stream);
  /// Enqueues a run. Work of an earlier run, on another stream and with other memory, may still be in
  /// progress.
  llvm::Error run_on(const PyramidRun& run, void* stream);

  // The following functions tell the size of a workspace. They make no execution that could run, so they
  // allocate no device memory, and LoadedPlan::device may be a measured_gpu().

  /// Returns the size of a workspace that suffices for clouds of at most `points` coordinates if each map has
  /// at most `neighbours` pairs per output row. The options must not give capacities.
  static llvm::Expected<i64> workspace_bound(std::shared_ptr<const LoadedPlan> loaded,
                                             const ExecutionOptions& options, i64 points, double neighbours);
  /// Returns needed_bytes() of an execution with these options, which must give capacities.
  static llvm::Expected<i64> workspace_within_capacities(std::shared_ptr<const LoadedPlan> loaded,
                                                         const ExecutionOptions& options);

  llvm::Error invalidate(bool for_maps) override;
  llvm::Error check_takes(bool maps) const override;
  llvm::Error prepare(const i32* coordinates, i64 count, void* stream) override;
  llvm::Error prepare_within(const i32* coordinates, const i32* given_count, i64 most, void* stream) override;
  llvm::Error prepare_maps(std::vector<std::shared_ptr<const KernelMap>> maps, void* stream);
  /// Prepares executions that share one queue, and makes the views of all their maps (MapViews) together.
  /// Execution i takes maps[i].
  static llvm::Error prepare_together(llvm::ArrayRef<Execution*> executions,
                                      llvm::ArrayRef<std::shared_ptr<const KernelMap>> maps, void* stream);
  llvm::Error run(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<Tensor> outputs, void* stream) override;
  llvm::Error run_arrays(llvm::ArrayRef<GivenArray> inputs, llvm::ArrayRef<GivenArray> outputs,
                         void* stream) override;
  /// Runs a stage of a program with matrices that are checked already.
  llvm::Error run_stage(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<Tensor> outputs, void* stream);
  llvm::Error output_coordinates(std::size_t output, i32* coordinates, void* stream) override;
  llvm::Expected<i32> find_overflow(void* stream) override;
  llvm::Error read_points(llvm::MutableArrayRef<i32> counts, void* stream) override;

  void set_trace(Trace* trace) override { trace_ = trace; }
  llvm::Error suggest_capacities(double factor, llvm::MutableArrayRef<i64> rows) const override;
  llvm::Error count_superblocks(llvm::MutableArrayRef<i64> counts, void* stream) override;
  llvm::Error copy_cloud(u32* status, llvm::MutableArrayRef<i32> counts, void* stream) override;
  llvm::Error read_cloud(void* stream, u32& status, llvm::MutableArrayRef<i32> counts) override;
  CloudWords cloud_state() const override { return {network_maps_->status(), network_maps_->counts()}; }
  const NetworkMaps* network_maps() const { return network_maps_ ? &*network_maps_ : nullptr; }

  const LoadedPlan& loaded() const override { return *loaded_; }
  Execution* single_op() override { return program_.takes_maps ? this : nullptr; }
  bool is_prepared() const { return prepared_ == Prepared::Ready; }
  /// Returns FailedPrecondition if nothing is prepared.
  llvm::Error check_prepared() const;
  llvm::Error check_output(std::size_t /*output*/) const override { return check_prepared(); }
  i64 output_rows(std::size_t output = 0) const override {
    return levels_[program_.output_level(output)].caller_rows;
  }
  const Level& level(i32 level) const override { return levels_[level]; }
  bool knows_level(i32 /*level*/) const override { return is_prepared(); }
  std::optional<MapMethod> find_map_method() const override {
    return network_maps_ ? std::optional(network_maps_->method()) : std::nullopt;
  }
  llvm::Expected<i64> layer_pairs(i32 layer) override;
  llvm::Expected<StageTimes> query_times() override;
  StageTimes layer_times(i32 layer) const override;
  const Candidate* selected(i32 layer) const override {
    return is_prepared() ? &candidate_of(layer) : nullptr;
  }
  OpReport layer_report(i32 layer) const override;
  llvm::Error set_workspace(void* workspace, i64 bytes, void* stream) override;
  MemoryRows callers_workspace() const override;
  llvm::Error check_has_memory() const override;
  void release_captures() override;
  const ExecutionOptions& options() const override { return options_; }
  i64 workspace_bytes() const override { return memory_.arena().bytes(); }
  i64 needed_bytes() const override { return memory_.arena_bytes(); }
  bool can_capture_run() const override { return engine_->can_be_captured(); }
  bool can_capture_prepare() const override { return has_capacities() && can_capture_run(); }
  void set_profiling(bool on) override { engine_->set_profiling(on); }
  EngineCounters counters() const override;
  void reset_counters() override;

 private:
  static constexpr i64 kWordBytes = sizeof(i32);
  // Tensors of integers (StorageSpec::holds_integers) are handled as words of 32 bits.
  static constexpr DType kIntegerWords = DType::F32;
  /// Describes where a storage of the program (StorageSpec) is during the current run.
  struct Place {
    char* base = nullptr;
    i64 ld = 0;
  };

  Execution(std::shared_ptr<const LoadedPlan> loaded, const ExecutionOptions& options);
  static llvm::Expected<std::unique_ptr<Execution>> create_unplaced(std::shared_ptr<const LoadedPlan> loaded,
                                                                    const ExecutionOptions& options);
  llvm::Error check_item_capacity() const;
  llvm::Error check_capacities() const;
  llvm::Error add_layers();
  llvm::Error bound_layer(i32 layer, double neighbours);
  i64 layer_count() const { return static_cast<i64>(program_.layers.size()); }
  llvm::Error call(void* stream, Timed timed, llvm::function_ref<llvm::Error()> work);

  void add_memory();
  void place_kept(Placement& parts);
  void place_storages(Placement& parts);
  void place_kept_storages(Placement& kept);
  i64 storage_bytes(i32 number) const;
  // In the following functions, `idle` says whether the device is known to have finished its work on the
  // arena. It is false when a call begins.
  llvm::Error ensure_capacity(i64 count, bool& idle);
  llvm::Error renew_capacity(bool& idle);
  llvm::Error reserve(i64 slack, bool& idle);
  llvm::Error fill_arena();
  llvm::Error place_cloud(bool idle);
  llvm::Error take_memory();
  llvm::Error make_room();
  llvm::Error measure_room();
  void take_capacities();
  llvm::Error measure_within_capacities();
  void take_callers_rows();
  llvm::Error select_within_capacities();
  void take_cloud(i64 count);
  llvm::Error use_maps(std::vector<std::shared_ptr<const KernelMap>> maps);
  llvm::Error place_maps();
  llvm::Error take_maps();
  void keep_callers_order();
  bool holds_integers(i32 tensor) const {
    return program_.storages[program_.tensors[tensor].storage].holds_integers;
  }
  i64 rows_of(i32 tensor) const { return levels_[program_.tensors[tensor].level].rows; }
  i64 likely_rows(i32 tensor) const;
  i64 most_rows() const;
  std::vector<ViewNeed> view_needs() const;
  llvm::Expected<const i32*> counts_of(i32 map);
  llvm::Expected<i64> pairs_of(i32 map);
  llvm::Error select_candidates();
  std::vector<CandidateSelection> selections() const;
  PreparedParameters& prepared_parameters();
  llvm::Error take_parameters();
  Tensor wanted_parameter(std::size_t parameter, DType dtype) const;
  llvm::Error check_parameter_inputs(llvm::ArrayRef<Tensor> values) const;
  std::vector<ParameterValue> read_parameters(llvm::ArrayRef<Tensor> matrices) const;
  /// Returns true if the kernel of an earlier layer computes this layer too (Candidate::covers).
  bool is_covered(i32 layer) const { return runner_of(layer) != layer; }
  /// Returns the layer whose kernel computes this layer, which is this layer or an earlier one.
  i32 runner_of(i32 layer) const { return runners_[layer]; }
  void find_runners();
  const Candidate& candidate_of(i32 layer) const {
    const i32 runs = runner_of(layer);
    return compiled_.candidates[runs][selected_[runs]];
  }
  /// Returns false if the candidate needs counts on the host, but only the device knows them. The execution
  /// makes nothing for such a candidate, because it would need memory and never run.
  bool may_run(const Candidate& candidate) const {
    return !has_capacities() || candidate.needs_counts.empty();
  }
  /// Returns the engine's number of the op of the layer's selected candidate.
  i32 op_of(i32 layer) const { return ops_[layer][selected_[layer]]; }
  OpWork& work_of(const Candidate& candidate) const;
  llvm::Error make_works();
  MapUse map_use(i32 layer) const;
  llvm::Error add_op(i32 number);
  const i32* coordinates_of(i32 layer) const;
  llvm::Error take_map(i32 layer, ViewForm form);
  Coords coords_of(i32 level) const {
    const Level& at = levels_[level];
    return {nullptr, at.count, at.rows, KeyType::U64, at.caller_row};
  }
  llvm::Error add_work();
  llvm::Error keep_captured();
  llvm::Error refuse_capture() const;
  llvm::Error begin_overflow();
  llvm::Error prepare_layers();

  bool has_storage_order(i32 tensor) const;
  bool is_in_set_order(i32 tensor) const;
  /// Returns true if the caller's memory serves as the storage of the input's or output's tensor. If the
  /// tensor has parts of a concatenation, these are in the caller's memory too. In a training pass only a
  /// dense output does, because steps between the layers write rows without gaps; load_inputs() places dense
  /// inputs.
  bool is_input_in_place(std::size_t number) const {
    return !program_.is_training_pass && is_whole_input(program_, number) &&
           has_storage_order(program_.inputs[number]);
  }
  bool is_output_in_place(std::size_t number) const {
    const i32 output = program_.outputs[number];
    return (!program_.is_training_pass || program_.tensors[output].is_dense()) &&
           is_whole_output(program_, number) && has_storage_order(output) &&
           !llvm::is_contained(program_.kept, program_.tensors[output].storage);
  }
  /// Returns, for each storage, whether it is in the caller's memory, so that it needs no other memory.
  std::vector<bool> storages_in_place() const;
  // Only the program of a single op takes a residual from the caller, as its second input.
  bool takes_residual() const { return program_.takes_maps && program_.layers.front().residual >= 0; }
  Tensor wanted(i32 tensor) const;
  llvm::Error check_counts(std::size_t inputs, std::size_t outputs) const;
  /// Return the names of an input and of an output in messages.
  std::string name_of_input(std::size_t number) const;
  std::string name_of_output(std::size_t number) const;
  /// Holds the arrays of a run. `read` and `written` are the memory of all inputs and of all outputs.
  struct RunArrays {
    llvm::SmallVector<Tensor, 2> features, results;
    std::vector<ParameterValue> parameters;
    MemoryList read, written;
  };
  /// Reads and checks the arrays of a run, except whether they overlap.
  llvm::Expected<RunArrays> read_arrays(llvm::ArrayRef<GivenArray> inputs,
                                        llvm::ArrayRef<GivenArray> outputs) const;
  llvm::Error add_to_pyramid(const MakeRunSteps& make_steps);
  void take_pyramid_levels();
  void take_pyramid_maps();
  llvm::Error place_run(Placement& parts, Placement& kept);
  llvm::Error place_at(const PyramidRun& run);
  llvm::Error enqueue_on(const PyramidRun& run, const RunArrays& arrays);
  llvm::Error take_times(RunTimes& times);
  llvm::Error count_items();
  llvm::Error with_parameters(const std::shared_ptr<ParameterSet>& parameters,
                              llvm::function_ref<llvm::Error()> work);
  llvm::Error check_run_memory(const PyramidRun& run, const RunArrays& arrays);
  llvm::Error check_tensors(llvm::ArrayRef<Tensor> features, llvm::ArrayRef<Tensor> outputs) const;
  llvm::Error give_fewer_axes(i32 level, i32* coordinates);
  /// Returns InvalidArgument if the memory at `data` overlaps the caller's workspace. The message calls it
  /// `name`.
  llvm::Error check_outside_workspace(const char* name, const void* data, i64 bytes) const;
  llvm::Error check_coordinates(const void* coordinates, i64 rows, i32 axes) const;
  llvm::Error check_apart_from_state(const char* name, const void* data, i64 bytes) const;
  llvm::Error check_has_state() const;
  void reset_places();
  void* address_of(i32 tensor) const;
  i64 ld_of(i32 tensor) const { return places_[program_.tensors[tensor].storage].ld; }
  llvm::Error load_inputs(llvm::ArrayRef<Tensor> inputs);
  /// Sets the parameters if run() takes them as inputs, and enqueues the ops. Everything is checked already.
  llvm::Error enqueue_run(llvm::ArrayRef<Tensor> features, llvm::ArrayRef<Tensor> outputs,
                          llvm::ArrayRef<ParameterValue> parameters, void* stream);
  void take_outputs(llvm::ArrayRef<Tensor> outputs);
  llvm::Error give_output(std::size_t number, const Tensor& given);
  llvm::Error run_layers(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<Tensor> outputs);
  OpRequest request_of(i32 layer) const;
  /// Calls `enqueue` with the request that the OpWork of the layer's candidate makes.
  llvm::Error with_request(i32 layer, llvm::function_ref<llvm::Error(const OpRequest&)> enqueue) const {
    return work_of(candidate_of(layer)).with_request(candidate_of(layer), layer, request_of(layer), enqueue);
  }

  std::shared_ptr<const LoadedPlan> loaded_;
  const Program& program_;
  const CompiledPlan& compiled_;
  const ExecutionOptions options_;
  // Holds the values that the caller gives. The pointer is null if the plan's own values are used.
  std::shared_ptr<ParameterSet> parameter_set_;
  // Says what is in the block of the caller (PyramidRun::prepared), whose address during a run is the next
  // member. Otherwise that is null.
  std::optional<PreparedParameters> prepared_parameters_;
  const char* prepared_block_ = nullptr;
  // Is the block whose addresses are in set_pointers_, or null if they are those of parameter_set_.
  const char* placed_prepared_ = nullptr;
  // Holds, for each layer, pointers to the parameters of the selected candidate, if there is a
  // parameter_set_ or a prepared_block_.
  std::vector<std::vector<const void*>> set_pointers_;
  // Owns all images of weights that the execution has ever selected, because captured runs may read them.
  std::vector<std::shared_ptr<const void>> set_images_;
  // Holds the names of the inputs that are parameters, for messages.
  std::vector<std::string> parameter_names_;
  // The next three members are destroyed after the engine, whose destructor waits for the work that uses
  // their memory.
  ExecutionMemory memory_;
  CapturedRuns captured_;
  std::vector<std::shared_ptr<const KernelMap>> caller_maps_;
  std::unique_ptr<Engine> engine_;
  // Builds the maps of a network. It is empty if the caller gives the maps.
  std::optional<NetworkMaps> network_maps_;
  std::optional<MapViews> views_;
  // Holds the sets and maps in the caller's buffer, and the pyramid's level or map for each one of the
  // program. It is empty if the execution runs on no pyramid.
  std::optional<PlacedPyramid> placed_;
  std::vector<i32> pyramid_levels_, pyramid_maps_;
  // Hold the sizes of the pyramid's buffer, of the workspace of a run on it, and of the memory that outlives
  // the run.
  i64 pyramid_bytes_ = 0, run_bytes_ = 0, kept_bytes_ = 0;
  // Hold the memory of the last run on the pyramid, whose addresses the execution has.
  void *placed_buffer_ = nullptr, *placed_workspace_ = nullptr, *placed_kept_ = nullptr;
  // The pointer is null if the ops of the program do all work of a run.
  std::unique_ptr<RunSteps> steps_;
  struct Work {
    const OpFamily* family = nullptr;
    std::unique_ptr<OpWork> work;
  };
  // Holds one element for each family of ops (OpFamily) to which a candidate that may run belongs.
  std::vector<Work> works_;
  // Holds, for each candidate of each layer (CompiledPlan::candidates), the number that Engine::add_op()
  // returned. It is -1 if the candidate may not run.
  std::vector<std::vector<i32>> ops_;
  i32 op_count_ = 0;  // Counts the engine's ops.
  std::vector<i32> permute_inputs_;
  std::vector<i32> permute_outputs_;
  i32 permute_coordinates_ = 0;
  i32 copy_axis_ = -1;

  Trace* trace_ = nullptr;
  enum class Prepared : i32 {
    Nothing,
    // The last prepare failed. If the options give capacities, the status and the counts of an earlier cloud
    // can still be read.
    Outdated,
    Ready,
  };
  Prepared prepared_ = Prepared::Nothing;
  std::vector<Level> levels_;
  std::vector<MapView> maps_;
  // Holds, for each layer, the index of the selected candidate (CompiledPlan::candidates). It is -1 before
  // the first prepare and for layers without candidates.
  std::vector<i32> selected_;
  // Holds, for each layer, the layer whose kernel computes it (Candidate::covers).
  std::vector<i32> runners_;
  std::vector<char*> storages_;
  // Holds the offset at which each storage (StorageSpec) ends, in bytes.
  std::vector<i64> tops_;
  // Holds, for each storage (StorageSpec), whether an output has columns in it.
  std::vector<bool> holds_output_;
  // Holds the current address and row stride of each storage (StorageSpec).
  std::vector<Place> places_;
  // Holds the times of each op, indexed by the engine's op numbers.
  std::vector<StageTimes> op_times_;

  i64 map_waits_ = 0;
  // Both arrays have one word for each layer, which tells whether the layer computed an infinite or NaN
  // value. overflow_ is on the device, and host_overflow_ receives a copy.
  u32 *overflow_ = nullptr, *host_overflow_ = nullptr;
  // Holds the value that ops write to overflow_, which the last prepare chose. A network always uses 1. The
  // value 0 means that the words of overflow_ are undefined.
  u32 overflow_mark_ = 0;
  void* engine_workspace_ = nullptr;
  // Points to the scratch memory of the ops (Engine::scratch_bytes()).
  void* engine_scratch_ = nullptr;
};

}  // namespace minuet
