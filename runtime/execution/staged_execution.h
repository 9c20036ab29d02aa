// Represents one caller's use of a loaded plan whose program has several stages (runtime/program/stages.h).
// Each stage has an Execution of its own. A run goes through the stages in order: it makes the root of the
// stage and brings tensors onto it (leading_op.h), prepares the stage's execution with the coordinates of the
// root, and runs it.
//
// In exact mode, a run waits for the device at these times: once for the number of rows of each root that it
// makes, as often as Execution::prepare() waits for each stage that it prepares, which is once if the
// memory suffices, and before it replaces memory that has become too small, because earlier work may still
// use it. In capacity mode, create() reserves all memory, so that a run never needs more, and only enqueues
// work.
//
// What a run has made is valid until the next run or prepare begins. If that fails, nothing is valid, with
// three exceptions. A run that fails because outputs of a stage have too few rows leaves the numbers that
// they need. The state of the cloud (capacity mode) stays what the last prepare or run wrote. After a
// captured run, which may be replayed without a call, queries answer with what the device holds, until
// release_captures(). The class is not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/execution/execution.h"
#include "runtime/execution/leading_op.h"

namespace minuet {

class StagedExecution final : public PlanExecution {
 public:
  static llvm::Expected<std::unique_ptr<StagedExecution>> create(std::shared_ptr<const LoadedPlan> loaded,
                                                                 const ExecutionOptions& options);

  const LoadedPlan& loaded() const override { return *loaded_; }
  const ExecutionOptions& options() const override { return options_; }
  llvm::Error invalidate(bool for_maps) override;
  llvm::Error check_takes(bool maps) const override;
  llvm::Error prepare(const i32* coordinates, i64 count, void* stream) override;
  llvm::Error prepare_within(const i32* coordinates, const i32* given_count, i64 most, void* stream) override;
  llvm::Error run(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<Tensor> outputs, void* stream) override;
  llvm::Error run_arrays(llvm::ArrayRef<GivenArray> inputs, llvm::ArrayRef<GivenArray> outputs,
                         void* stream) override;
  llvm::Error check_output(std::size_t output) const override;
  i64 output_rows(std::size_t output = 0) const override {
    const auto needed = needed_rows_.find(output);
    if (needed != needed_rows_.end()) return needed->second;
    return level(program_.output_level(output)).caller_rows;
  }
  llvm::Error output_coordinates(std::size_t output, i32* coordinates, void* stream) override;
  llvm::Expected<i32> find_overflow(void* stream) override;
  llvm::Error read_points(llvm::MutableArrayRef<i32> counts, void* stream) override;

  void set_trace(Trace* trace) override;
  llvm::Error suggest_capacities(double factor, llvm::MutableArrayRef<i64> rows) const override;
  llvm::Error count_superblocks(llvm::MutableArrayRef<i64> counts, void* stream) override;
  llvm::Error copy_cloud(u32* status, llvm::MutableArrayRef<i32> counts, void* stream) override;
  llvm::Error read_cloud(void* stream, u32& status, llvm::MutableArrayRef<i32> counts) override;
  CloudWords cloud_state() const override {
    return {reinterpret_cast<const u32*>(cloud_words()), cloud_words() + 1};
  }

  const Level& level(i32 level) const override;
  bool knows_level(i32 level) const override;
  std::optional<MapMethod> find_map_method() const override;
  llvm::Expected<i64> layer_pairs(i32 layer) override;
  llvm::Expected<StageTimes> query_times() override;
  StageTimes layer_times(i32 layer) const override;
  const Candidate* selected(i32 layer) const override;
  OpReport layer_report(i32 layer) const override;

  llvm::Error set_workspace(void* workspace, i64 bytes, void* stream) override;
  MemoryRows callers_workspace() const override { return {}; }
  llvm::Error check_has_memory() const override { return llvm::Error::success(); }
  void release_captures() override;
  i64 workspace_bytes() const override;
  i64 needed_bytes() const override;
  bool can_capture_run() const override { return has_capacities() && engine_->can_be_captured(); }
  bool can_capture_prepare() const override { return can_capture_run() && !program_.takes_points(); }
  void set_profiling(bool on) override;
  EngineCounters counters() const override;
  void reset_counters() override;

 private:
  static constexpr i64 kWordBytes = sizeof(i32);
  // Each stage has kPointCounts words of counts, of which the first is the number of rows of its root, and a
  // status.
  static constexpr i64 kStageWords = kPointCounts + 1;

  /// Describes a layer that leads to a stage.
  struct Leading {
    i32 layer = 0;
    const OpChoice* choice = nullptr;
    const LeadingFamily* family = nullptr;
    i32 permute = -1;
    Tensor output;
  };
  /// Describes a tensor of a stage that layers between stages read.
  struct Left {
    i32 tensor = 0;          // Is a tensor of the whole program.
    std::size_t output = 0;  // Is the number of an output of the stage's program.
    LeadingInput value;
    bool needs_coordinates = false;
    i32* coordinates = nullptr;
  };
  struct Stage {
    explicit Stage(std::shared_ptr<MemorySource> source)
        : made(source), loaded(source), left_memory(source) {}
    const ProgramStage* spec = nullptr;
    std::unique_ptr<Execution> execution;
    std::vector<Leading> leading;
    std::vector<Left> left;
    RootRows root;
    // Says which arrays of `root` layers read.
    RootArrays read;
    // Holds the memory of the root's rows, of the outputs of `leading` and of `left`.
    Arena made, loaded, left_memory;
  };
  /// Holds the arrays of a run as matrices.
  struct Given {
    std::vector<Tensor> inputs, outputs;
    PointArray points = {};
    std::vector<ParameterValue> parameters;
    MemoryList read, written;
  };
  /// Numbers a level or layer within its stage.
  struct Place {
    i32 stage = -1, number = 0;
  };

  StagedExecution(std::shared_ptr<const LoadedPlan> loaded, const ExecutionOptions& options);
  llvm::Error add_stages();
  llvm::Error add_leading(Stage& stage);
  void add_left(Stage& stage);
  void find_read_arrays();
  Tensor dense_matrix(llvm::ArrayRef<i64> dims) const;
  ExecutionOptions options_of(const ProgramStage& stage) const;
  llvm::Error make_room();
  i32* cloud_words() const;
  i32* words_of(std::size_t stage) const;
  i32 stage_of(i32 tensor) const { return level_places_[program_.tensors[tensor].level].stage; }
  const Left& left_of(i32 tensor) const;

  llvm::Error call(void* stream, Timed timed, llvm::function_ref<llvm::Error()> work);
  llvm::Error prepare_first(void* stream, llvm::function_ref<llvm::Error(Execution&)> prepare);
  llvm::Error reserve(Arena& arena, llvm::function_ref<void(Placement&)> place);
  bool reads_points(const Leading& leading) const;
  bool makes_root(const Stage& stage, const Leading& leading) const;
  LeadingSizes sizes_of(const Stage& stage, const Leading& leading) const;
  llvm::Error reserve_root(Stage& stage);
  llvm::Error reserve_loaded(Stage& stage);
  llvm::Error reserve_left(Stage& stage);
  llvm::Error reserve_scratch(const Stage& stage);
  LeadingRequest request_of(const Stage& stage, const Leading& leading) const;
  llvm::Error lead_to(std::size_t number);
  llvm::Error make_root(Stage& stage);
  llvm::Error count_points(std::size_t number);
  llvm::Error prepare_stage(Stage& stage, void* stream);
  llvm::Error run_stage(Stage& stage, const Given& given, void* stream);
  llvm::Error join_clouds(std::size_t first_stages);
  llvm::Error check_has_state() const;
  llvm::Error check_has_run() const;
  /// Returns true if the caller prepares the stage. Each run prepares the others.
  bool is_callers(std::size_t stage) const { return stage == 0 && !program_.takes_points(); }
  bool is_callers_level(i32 level) const {
    return is_callers(static_cast<std::size_t>(level_places_[level].stage));
  }
  llvm::Error forget_run();
  llvm::Error enqueue_stages(const Given& given, void* stream);
  llvm::Error enqueue(const Given& given, void* stream);
  llvm::Error check_counts(std::size_t inputs, std::size_t outputs) const;
  llvm::Expected<Given> read_arrays(llvm::ArrayRef<GivenArray> inputs,
                                    llvm::ArrayRef<GivenArray> outputs) const;
  llvm::Error read_input(std::size_t number, const GivenArray& array, Given& given) const;
  llvm::Error read_words(const std::string& what, const GivenArray& array, i64 words, const i32*& read) const;
  llvm::Error check_mask_rows(std::size_t number, const Tensor& mask, i32 tensor) const;
  llvm::Error check_given(const Given& given) const;

  const std::shared_ptr<const LoadedPlan> loaded_;
  const Program& program_;
  const CompiledPlan& compiled_;
  const ExecutionOptions options_;
  const std::shared_ptr<MemorySource> memory_;
  // Holds the parameters that run() takes as inputs, or that the caller gives. It is null if the plan's own
  // values are used.
  std::shared_ptr<ParameterSet> parameter_set_;
  // The stages have memory that the work of the engine uses, so the engine is destroyed first.
  std::vector<std::unique_ptr<Stage>> stages_;
  DeviceMemory words_;
  Arena scratch_;
  i32* host_words_ = nullptr;
  std::unique_ptr<Engine> engine_;
  std::vector<Place> level_places_, layer_places_;
  // These hold the points and the masks of the current run. A key of masks_ is a tensor of the whole program.
  PointArray points_ = {};
  std::map<i32, Tensor> masks_;
  // Says whether the last run has made all levels, since the last prepare.
  bool has_run_ = false;
  // Says whether a run was captured, so that replays may make all levels at any time.
  bool may_replay_ = false;
  // Holds the rows that outputs need which have fewer in the last run, so that it failed. A caller can then
  // give enough.
  std::map<std::size_t, i64> needed_rows_;
  // Says whether a run has begun, so that work may use the memory.
  bool is_used_ = false;
  // Says whether any prepare or run has written cloud_words() (capacity mode). Replays of a graph may
  // continue to write them after a call that failed, so they can then still be read.
  bool has_state_ = false;
};

}  // namespace minuet
