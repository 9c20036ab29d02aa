// Manages the device memory of an execution. This memory consists of the arena, the blocks that the execution
// takes from its queue, and the memory that captured graphs still read.
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

/// Holds the memory that a run reads. A graph that contains the run still reads this memory after the next
/// prepare.
struct RunMemory {
  DeviceMemory arena;
  // These blocks belong to the queue. They are null if there is no queue.
  std::shared_ptr<const DeviceMemory> scratch, engine_scratch;
  // Holds the caller's maps. It is empty for a network.
  std::vector<std::shared_ptr<const KernelMap>> maps;
};

/// Keeps track of the runs of an execution, and of its other calls that use its memory, which were captured
/// into CUDA graphs.
class CapturedRuns {
 public:
  /// Notes that a call which uses the memory of the prepared state was captured.
  void add() { holds_prepared_ = true; }
  bool holds_prepared() const { return holds_prepared_; }
  /// Undoes add() for a call that was refused before it enqueued work.
  void forget_prepared() { holds_prepared_ = false; }
  /// Keeps `memory` alive for the graphs. The caller must then prepare the next cloud or map in other memory.
  void keep(RunMemory memory) {
    kept_.push_back(std::move(memory));
    holds_prepared_ = false;
  }
  /// Frees all memory that keep() received. The caller must not replay the graphs afterwards.
  void release() {
    kept_.clear();
    holds_prepared_ = false;
  }

 private:
  std::vector<RunMemory> kept_;
  bool holds_prepared_ = false;
};

/// Holds the options of an execution that concern its memory.
struct MemoryOptions {
  // The pointer is null if the execution uses no queue.
  std::shared_ptr<Queue> queue;
  /// The flag is true if the host fills a part of the arena by a copy that is not ordered by a stream.
  bool is_filled_by_host = false;
};

/// Measures and places the device memory of an execution. During a call, the caller keeps a local variable
/// `idle`, which is true if the device is known to have finished its work on the arena. This class is not
/// thread-safe.
class ExecutionMemory {
 public:
  ExecutionMemory(std::shared_ptr<MemorySource> source, MemoryOptions options);

  /// Replaces the arena's memory by a workspace of the caller (Arena::use_workspace()). No work in progress
  /// may use the old memory.
  void use_workspace(void* workspace, i64 bytes);
  /// Returns true if the caller is to give a workspace and has not given it yet.
  bool awaits_workspace() const { return arena_.is_callers() && !arena_.data(); }
  /// Adds a part of the memory. `place` takes the arrays of the part from a Placement. It is called with a
  /// Placement of a null base to measure the part, and later with one of allocated memory to place it.
  void add(Lifetime lifetime, Owner owner, std::function<void(Placement&)> place);

  /// Measures the parts that are in use from Phase::Maps on. Their sizes depend on the capacity, which is the
  /// number of coordinates that memory is reserved for. The sizes of the other parts depend on the cloud, and
  /// count as 0 until measure_cloud().
  void measure_capacity();
  void measure_cloud();
  /// Gives the parts that depend on the capacity addresses that stand for memory (Placement::of_stand_ins()),
  /// so that the other parts can be measured before there is memory. Call it after measure_capacity().
  void place_stand_ins();
  i64 arena_bytes() const { return plan_.arena_bytes; }

  /// Returns true if the parts that depend on the capacity are placed in the arena.
  bool is_placed() const { return state_ == State::Placed; }
  /// Returns true if is_placed() and the arena is large enough for everything that was measured.
  bool fits() const { return is_placed() && plan_.arena_bytes <= arena_.bytes(); }
  /// Marks the parts that depend on the capacity as not placed. It must be called when their sizes change.
  void displace() { state_ = state_ == State::New ? State::New : State::Displaced; }
  /// Makes the arena large enough for what was measured, with `slack` bytes more if they are available, and
  /// places the parts that depend on the capacity. Waits for earlier work that may still use the memory. The
  /// caller must have called begin() of the engine.
  llvm::Error grow(Engine& engine, i64 slack, bool& idle);
  /// Returns the number of bytes to reserve in addition, so that a slightly larger cloud fits too. The parts
  /// that are in use in all phases need no additional bytes, because their sizes do not depend on the cloud.
  i64 cloud_slack() const;
  /// Takes two blocks of scratch memory from the queue, if there is one. The ops of the engine need
  /// `engine_scratch_bytes` bytes of scratch memory.
  llvm::Error take_queue_blocks(i64 engine_scratch_bytes);
  /// Places the parts that depend on the cloud, with the sizes measured last.
  void place_cloud(bool idle);

  /// Returns the queue's scratch memory for the ops of the engine, or null if there is no queue.
  void* queue_engine_scratch() const { return queue_engine_ ? queue_engine_->data() : nullptr; }
  /// Returns the memory that a run of the prepared state reads. The arena becomes empty, and grow() allocates
  /// it again with the same size or more. The arena must not be the caller's workspace.
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
  // Holds the size of the retired arena, which is the least size of the next one.
  i64 least_arena_bytes_ = 0;
};

}  // namespace minuet
