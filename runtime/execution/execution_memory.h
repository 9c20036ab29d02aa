// The device memory of an execution: its arena, the blocks that it takes of its queue, and the memory that
// graphs go on to read.
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

/// Memory that a run reads. A graph that holds the run goes on to read it after the next prepare.
struct RunMemory {
  DeviceMemory arena;
  std::shared_ptr<const DeviceMemory> scratch, engine_scratch;  // the queue's, or null
  std::vector<std::shared_ptr<const KernelMap>> maps;           // the caller's, if any
};

/// The runs of an execution that graphs hold.
class CapturedRuns {
 public:
  /// A run for what is prepared was captured.
  void add() { holds_prepared_ = true; }
  bool holds_prepared() const { return holds_prepared_; }
  /// Something else will be prepared, in other memory: `memory` is kept for the graphs.
  void keep(RunMemory memory) {
    kept_.push_back(std::move(memory));
    holds_prepared_ = false;
  }
  /// The caller replays the graphs no more.
  void release() {
    kept_.clear();
    holds_prepared_ = false;
  }

 private:
  std::vector<RunMemory> kept_;
  bool holds_prepared_ = false;
};

/// What an execution takes of its caller for its memory.
struct MemoryOptions {
  void* workspace = nullptr;  // the caller's arena, or null for one of the execution's own
  i64 workspace_bytes = 0;
  std::shared_ptr<Queue> queue;  // may be null
  /// The host fills a part of the arena by a copy that no stream orders.
  bool is_filled_by_host = false;
};

/// Measures and places what an execution keeps on the device. A call keeps a local `idle`: whether the device
/// has finished with the arena. Calls come from one thread at a time, inside the engine's begin() and end().
class ExecutionMemory {
 public:
  ExecutionMemory(std::shared_ptr<MemorySource> source, MemoryOptions options);

  /// Adds a part. `place` takes the part's pieces of a Placement. It is called with a null base to measure,
  /// and later again with memory.
  void add(Lifetime lifetime, Owner owner, std::function<void(Placement&)> place);

  /// Measures the parts that are in use from Phase::Maps on. Their sizes follow from a capacity; those of the
  /// others follow from a cloud and are 0 until measure_cloud().
  void measure_capacity();
  void measure_cloud();
  i64 arena_bytes() const { return plan_.arena_bytes; }

  /// Whether the parts of the capacity lie in the arena.
  bool is_placed() const { return state_ == State::Placed; }
  /// The same, and whether the arena is large enough for all that was measured.
  bool fits() const { return is_placed() && plan_.arena_bytes <= arena_.bytes(); }
  /// The parts of the capacity change their sizes: they have to be placed again.
  void displace() { state_ = state_ == State::New ? State::New : State::Displaced; }
  /// Makes the arena large enough for what was measured, with `slack` more where that is to be had, and
  /// places the parts of the capacity. Waits for earlier work that may still use the memory.
  llvm::Error grow(Engine& engine, i64 slack, bool& idle);
  /// Room for the next, slightly larger cloud, of which the parts that are in use throughout need nothing.
  i64 cloud_slack() const;
  /// Takes the queue's blocks, for an engine whose ops need so much scratch.
  llvm::Error take_queue_blocks(i64 engine_scratch_bytes);
  /// Places the parts of a cloud, as they were measured last.
  void place_cloud(bool idle);

  /// Scratch of the queue for the engine's ops; null where there is no queue.
  void* queue_engine_scratch() const { return queue_engine_ ? queue_engine_->data() : nullptr; }
  /// Gives away what a run of the prepared cloud reads; the arena begins anew, as large. Not for the caller's
  /// workspace.
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
  i64 least_arena_bytes_ = 0;  // what was retired
};

}  // namespace minuet
