// The device memory of an execution: its arena, the blocks that it takes from its queue, and the memory that
// captured graphs still read.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/engine/arena.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/queue.h"
#include "runtime/execution/arena_plan.h"

namespace minuet {

class KernelMap;

/// Memory that a run reads. A graph that contains the run still reads it after the next prepare.
struct RunMemory {
  DeviceMemory arena;
  std::shared_ptr<const DeviceMemory> scratch, engine_scratch;  // of the queue, or null
  std::vector<std::shared_ptr<const KernelMap>> maps;           // the caller's maps, if any
};

/// Keeps track of the runs of an execution that graphs contain.
class CapturedRuns {
 public:
  /// Notes that a run of the prepared state was captured.
  void add() { holds_prepared_ = true; }
  bool holds_prepared() const { return holds_prepared_; }
  /// Keeps `memory` for the graphs, before another cloud or map is prepared in other memory.
  void keep(RunMemory memory) {
    kept_.push_back(std::move(memory));
    holds_prepared_ = false;
  }
  /// Frees everything; the caller no longer replays the graphs.
  void release() {
    kept_.clear();
    holds_prepared_ = false;
  }

 private:
  std::vector<RunMemory> kept_;
  bool holds_prepared_ = false;
};

/// Options of an execution that concern its memory.
struct MemoryOptions {
  void* workspace = nullptr;  // the caller's arena; null: the execution has its own
  i64 workspace_bytes = 0;
  std::shared_ptr<Queue> queue;  // may be null
  /// True if the host fills part of the arena by a copy that is not ordered by a stream.
  bool is_filled_by_host = false;
};

/// Measures and places the device memory of an execution. During a call, the caller keeps a local `idle`,
/// which is true if the device has finished with the arena. Not thread-safe; functions are called between the
/// engine's begin() and end().
class ExecutionMemory {
 public:
  ExecutionMemory(std::shared_ptr<MemorySource> source, MemoryOptions options);

  /// Adds a part. `place` takes the part's pieces from a Placement. It is called with a null base to measure,
  /// and again later with memory.
  void add(Lifetime lifetime, Owner owner, std::function<void(Placement&)> place);

  /// measure_capacity() measures the parts in use from Phase::Maps on, whose sizes depend on the capacity.
  /// The sizes of the other parts depend on the cloud; they are 0 until measure_cloud().
  void measure_capacity();
  void measure_cloud();
  i64 arena_bytes() const { return plan_.arena_bytes; }

  /// Returns true if the parts that depend on the capacity are placed in the arena.
  bool is_placed() const { return state_ == State::Placed; }
  /// Returns true if is_placed() and the arena is large enough for everything that was measured.
  bool fits() const { return is_placed() && plan_.arena_bytes <= arena_.bytes(); }
  /// Marks the parts that depend on the capacity as not placed, because their sizes change.
  void displace() { state_ = state_ == State::New ? State::New : State::Displaced; }
  /// Makes the arena large enough for what was measured, with `slack` bytes more if they are available, and
  /// places the parts that depend on the capacity. Waits for earlier work that may still use the memory.
  llvm::Error grow(Engine& engine, i64 slack, bool& idle);
  /// Returns the slack for the next, slightly larger cloud. Parts in use in all phases need none.
  i64 cloud_slack() const;
  /// Takes the queue's blocks; the engine's ops need `engine_scratch_bytes` of scratch.
  llvm::Error take_queue_blocks(i64 engine_scratch_bytes);
  /// Places the parts that depend on the cloud, with the sizes measured last.
  void place_cloud(bool idle);

  /// Returns the queue's scratch for the engine's ops; null if there is no queue.
  void* queue_engine_scratch() const { return queue_engine_ ? queue_engine_->data() : nullptr; }
  /// Returns the memory that a run of the prepared state reads. The arena becomes empty and will be allocated
  /// again at the same size or larger. Not for the caller's workspace.
  RunMemory retire();

  const Arena& arena() const { return arena_; }
  void reset_growths() { arena_.reset_growths(); }

 private:
  enum class State : i32 { New, Displaced, Placed };
  struct Part : ArenaPart {
    std::function<void(Placement&)> place;
    bool is_of_capacity() const { return lifetime.first == Phase::Maps; }
  };

  void measure(Part& part);
  void place(bool of_capacity, bool idle);
  void plan();

  const MemoryOptions options_;
  Arena arena_;
  std::shared_ptr<const DeviceMemory> queue_scratch_, queue_engine_;
  std::vector<Part> parts_;
  ArenaPlan plan_;
  State state_ = State::New;
  i64 least_arena_bytes_ = 0;  // size of the retired arena
};

}  // namespace minuet
