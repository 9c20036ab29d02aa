// One caller's use of a loaded plan: prepare for a cloud or for kernel maps, then run(features).
//
// For a network, prepare(coordinates) builds every coordinate set and kernel map on the device and reads all
// counts back in one copy; a single op takes the caller's kernel maps in prepare_maps(). Both select each
// layer's candidate and make the views of the maps that the selected candidates read; run() only enqueues.
// All device memory is one arena. It grows if a cloud exceeds it, and prepare then starts over; a warm
// prepare allocates nothing. Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "codegen/base/trace.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "runtime/engine/tensor.h"
#include "runtime/execution/execution_memory.h"
#include "runtime/execution/op_work.h"
#include "runtime/maps/network_maps.h"

namespace minuet {

struct ExecutionOptions {
  i64 max_points = 0;
  NetworkMapOptions cloud;
  void* workspace = nullptr;  // the caller's arena; null: the execution allocates one
  i64 workspace_bytes = 0;
  i64 scratch_bytes = 0;         // limit for the buffers of a layer; 0: depends on the size of the cloud
  std::shared_ptr<Queue> queue;  // may be null
};

class Execution {
 public:
  static llvm::Expected<std::unique_ptr<Execution>> create(std::shared_ptr<const LoadedPlan> loaded,
                                                           const ExecutionOptions& options);

  /// Returns a sufficient workspace for clouds of `points` coordinates with `neighbours` pairs per output row
  /// in each map.
  static llvm::Expected<i64> workspace_bound(std::shared_ptr<const LoadedPlan> loaded, i64 points,
                                             double neighbours);

  /// Invalidates the prepared state. Every prepare calls this before it checks its arguments, so a failed
  /// prepare never leaves old maps in use. Returns FailedPrecondition, and invalidates nothing, if the plan
  /// requires the other kind of prepare.
  llvm::Error invalidate(bool for_maps);
  llvm::Error check_takes(bool maps) const;
  llvm::Error prepare(const i32* coordinates, i64 count, void* stream);
  /// Prepares in capacity mode; may be captured. `given_count` is on the device; if it is null, there are
  /// `most` coordinates.
  llvm::Error prepare_within(const i32* coordinates, const i32* given_count, i64 most, void* stream);
  llvm::Error prepare_maps(std::vector<std::shared_ptr<const KernelMap>> maps, void* stream);
  /// Prepares executions of one queue, the i-th for maps[i], and makes their views together.
  static llvm::Error prepare_together(llvm::ArrayRef<Execution*> executions,
                                      llvm::ArrayRef<std::shared_ptr<const KernelMap>> maps, void* stream);
  llvm::Error run(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<Tensor> outputs, void* stream);
  llvm::Error output_coordinates(i32* coordinates, void* stream);
  /// Returns the first layer that wrote an infinite or NaN value since the last prepare, or -1. Waits.
  llvm::Expected<i32> find_overflow(void* stream);

  /// Sets the trace that gets a span for each layer of a run; null turns it off.
  void set_trace(Trace* trace) { trace_ = trace; }
  bool has_capacities() const { return options_.cloud.has_capacities(); }
  /// Writes one capacity for each level: `factor` times the prepared rows.
  llvm::Error suggest_capacities(double factor, llvm::MutableArrayRef<i64> rows) const;
  /// Reads the state of a cloud in capacity mode: kStatus... bits, the caller's rows and the rows of each
  /// level. Waits.
  llvm::Error read_cloud(void* stream, u32& status, llvm::MutableArrayRef<i32> counts);
  const NetworkMaps* network_maps() const { return network_maps_ ? &*network_maps_ : nullptr; }

  const Plan& plan() const { return *loaded_->plan; }
  bool is_prepared() const { return prepared_ == Prepared::Ready; }
  llvm::Error check_prepared() const;  // FailedPrecondition if nothing is prepared
  i64 output_rows() const { return levels_[program_.tensors[program_.output].level].caller_rows; }
  /// The rows of one level in the prepared state; 0 before the first prepare.
  struct Level {
    i64 rows = 0;                       // of the coordinate set
    i64 caller_rows = 0;                // of the caller's tensors on this level
    i32* count = nullptr;               // device: rows of the set
    const i32* caller_count = nullptr;  // device: the caller's rows; null: all caller_rows
    const i32* source_row = nullptr;    // null: the caller's order is the set's order
    const i32* row_of = nullptr;
    AxisArray tensor_stride{};
    // Set if views name rows in the caller's order, so that tensors need no permutation.
    const i32* caller_row = nullptr;
  };
  const Level& level(i32 level) const { return levels_[level]; }
  /// Returns the method that made the prepared maps.
  MapMethod map_method() const { return network_maps_ ? network_maps_->method() : MapMethod::Sorted; }
  /// Returns the pairs of a layer's map; 0 before prepare and in capacity mode. Waits if the map is the
  /// caller's and its pairs have not been read back yet.
  llvm::Expected<i64> layer_pairs(i32 layer);
  /// Returns the times of the last profiled pass, and keeps those of the layers. Waits.
  llvm::Expected<StageTimes> query_times();
  /// Returns the layer's times that query_times() found, if the layer still runs the same candidate; else
  /// zeros.
  StageTimes layer_times(i32 layer) const;
  /// Returns the candidate that computes a layer; null before prepare.
  const Candidate* selected(i32 layer) const { return is_prepared() ? &candidate_of(layer) : nullptr; }
  /// Returns zeros before prepare.
  OpReport layer_report(i32 layer) const;
  /// Frees the memory of captured runs. The caller must no longer replay graphs that contain runs of this
  /// execution.
  void release_captures();
  const ExecutionOptions& options() const { return options_; }
  const std::shared_ptr<Queue>& queue() const { return options_.queue; }
  Engine& engine() { return *engine_; }
  i64 workspace_bytes() const { return memory_.arena().bytes(); }
  /// Returns the number of allocations of the arena since reset_growths().
  i64 growths() const { return memory_.arena().growths(); }
  void reset_growths() { memory_.reset_growths(); }
  /// Returns how often the host waited for the pairs of maps since reset_map_waits(). The engine counts all
  /// other waits.
  i64 map_waits() const { return map_waits_; }
  void reset_map_waits() { map_waits_ = 0; }

 private:
  /// The memory of a storage in the current run.
  struct Place {
    char* base = nullptr;
    i64 ld = 0;
  };

  Execution(std::shared_ptr<const LoadedPlan> loaded, const ExecutionOptions& options);
  static llvm::Expected<std::unique_ptr<Execution>> create_unplaced(std::shared_ptr<const LoadedPlan> loaded,
                                                                    const ExecutionOptions& options);
  llvm::Error add_steps();
  llvm::Error check_made_levels() const;
  llvm::Error add_layers();
  llvm::Error bound_layer(i32 layer, i64 rows, double neighbours);
  i64 layer_count() const { return static_cast<i64>(program_.layers.size()); }
  llvm::Error call(void* stream, Timed timed, llvm::function_ref<llvm::Error()> work);

  void add_memory();
  void place_kept(Placement& parts);
  void place_storages(Placement& parts);
  // `idle` is true if the device has finished with the arena. Every call starts with false.
  llvm::Error ensure_capacity(i64 count, bool& idle);
  llvm::Error reserve(i64 slack, bool& idle);
  llvm::Error fill_arena();
  llvm::Error place_cloud(bool idle);
  llvm::Error make_room();
  void take_capacities();
  void take_callers_rows();
  llvm::Error select_within_capacities();
  void take_cloud(i64 count);
  llvm::Error use_maps(std::vector<std::shared_ptr<const KernelMap>> maps);
  llvm::Error place_maps();
  llvm::Error take_maps();
  void keep_callers_order();
  i64 rows_of(i32 tensor) const { return levels_[program_.tensors[tensor].level].rows; }
  i64 likely_rows(i32 tensor) const;
  i64 most_rows() const;
  std::vector<ViewNeed> view_needs() const;
  llvm::Expected<const i32*> counts_of(i32 map);
  llvm::Expected<i64> pairs_of(i32 map);
  llvm::Error select_candidates();
  /// Returns true if the candidate of an earlier layer computes this layer too.
  bool is_covered(i32 layer) const { return runner_of(layer) != layer; }
  /// Returns the layer whose candidate computes this one: itself or an earlier one.
  i32 runner_of(i32 layer) const { return runners_[layer]; }
  void find_runners();
  const Candidate& candidate_of(i32 layer) const {
    const i32 runs = runner_of(layer);
    return compiled_.candidates[runs][selected_[runs]];
  }
  OpWork& work_of(const Candidate& candidate) const;
  llvm::Error make_works();
  MapUse map_use(i32 layer) const;
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

  bool is_in_place(i32 tensor) const;
  Tensor wanted(i32 tensor) const;
  llvm::Error check_tensors(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<Tensor> outputs) const;
  /// Returns InvalidArgument with `name` if the caller's memory overlaps the caller's workspace.
  llvm::Error check_outside_workspace(const char* name, const void* data, i64 bytes) const;
  llvm::Error check_coordinates(const void* coordinates, i64 rows) const;
  llvm::Error check_count_on_device(const i32* count) const;
  void reset_places();
  void* address_of(i32 tensor) const;
  i64 ld_of(i32 tensor) const { return places_[program_.tensors[tensor].storage].ld; }
  llvm::Error load_inputs(llvm::ArrayRef<Tensor> inputs);
  llvm::Error run_layers(llvm::ArrayRef<Tensor> inputs, const Tensor& output);
  OpRequest request_of(i32 layer) const;
  /// Calls `enqueue` with the request of the layer's family.
  llvm::Error with_request(i32 layer, llvm::function_ref<llvm::Error(const OpRequest&)> enqueue) const {
    return work_of(candidate_of(layer)).with_request(candidate_of(layer), layer, request_of(layer), enqueue);
  }

  std::shared_ptr<const LoadedPlan> loaded_;
  const Program& program_;
  const CompiledPlan& compiled_;
  const ExecutionOptions options_;
  // Destroyed after the engine, which waits for work that uses them.
  ExecutionMemory memory_;
  CapturedRuns captured_;
  std::unique_ptr<Engine> engine_;
  std::optional<NetworkMaps> network_maps_;  // builds the maps; empty if the caller gives them
  std::optional<MapViews> views_;
  struct Work {
    const OpFamily* family = nullptr;
    std::unique_ptr<OpWork> work;
  };
  std::vector<Work> works_;  // of the families that have a candidate
  std::vector<Step> schedule_;
  std::vector<i32> ops_;  // by layer: the engine's number of its first candidate
  std::vector<i32> permute_inputs_;
  i32 permute_output_ = 0, permute_coordinates_ = 0;

  // The prepared state.
  Trace* trace_ = nullptr;
  enum class Prepared : i32 {
    Nothing,
    Outdated,  // the last prepare failed; in capacity mode the words of an earlier cloud remain
    Ready,
  };
  Prepared prepared_ = Prepared::Nothing;
  std::vector<std::shared_ptr<const KernelMap>> caller_maps_;
  std::vector<Level> levels_;
  std::vector<MapView> maps_;
  // Candidate by layer; -1 before the first prepare and for layers without candidates.
  std::vector<i32> selected_;
  std::vector<i32> runners_;  // by layer: the layer whose candidate computes it
  std::vector<char*> storages_;
  std::vector<i64> tops_;             // by storage: where it ends
  std::vector<Place> places_;         // by storage
  std::vector<StageTimes> op_times_;  // by the engine's op numbers

  i64 map_waits_ = 0;
  u32 *overflow_ = nullptr, *host_overflow_ = nullptr;  // one word for each layer, and its host copy
  u32 overflow_mark_ = 0;  // of the last prepare, 1 for a cloud; 0: the words are undefined
  void* engine_workspace_ = nullptr;
  void* engine_scratch_ = nullptr;  // used by runs
};

}  // namespace minuet
