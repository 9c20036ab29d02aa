#include "runtime/execution/execution_memory.h"

#include <algorithm>

namespace minuet {

ExecutionMemory::ExecutionMemory(std::shared_ptr<MemorySource> source, MemoryOptions options)
    : options_(std::move(options)), arena_(std::move(source)) {}

void ExecutionMemory::use_workspace(void* workspace, i64 bytes) {
  displace();
  least_arena_bytes_ = 0;
  arena_.use_workspace(workspace, bytes);
}

void ExecutionMemory::add(Lifetime lifetime, Owner owner, std::function<void(Placement&)> place) {
  parts_.push_back({{0, lifetime, owner}, std::move(place)});
}

void ExecutionMemory::measure(Part& part) {
  Placement pieces(nullptr);
  part.place(pieces);
  part.bytes = pieces.bytes();
}

void ExecutionMemory::plan() {
  const std::vector<ArenaPart> parts(parts_.begin(), parts_.end());
  plan_ = plan_arena(parts, kSharesMemory);
}

void ExecutionMemory::measure_capacity() {
  for (Part& part : parts_) {
    part.bytes = 0;
    if (part.is_of_capacity()) measure(part);
  }
  plan();
}

void ExecutionMemory::measure_cloud() {
  for (Part& part : parts_) {
    if (!part.is_of_capacity()) measure(part);
  }
  plan();
}

void ExecutionMemory::place_stand_ins() {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (!parts_[i].is_of_capacity()) continue;
    Placement pieces = Placement::of_stand_ins(plan_.offsets[i]);
    parts_[i].place(pieces);
  }
}

i64 ExecutionMemory::cloud_slack() const {
  i64 kept = 0;
  for (const Part& part : parts_) {
    if (part.lifetime.first == Phase::Maps && part.lifetime.last == Phase::Run) kept += part.bytes;
  }
  return slack_of(plan_.arena_bytes - kept);
}

llvm::Error ExecutionMemory::grow(Engine& engine, i64 slack, bool& idle) {
  const bool was_used = state_ != State::New;
  state_ = State::Displaced;
  // The queue's stream orders new work after earlier uses of a block. Only a copy from the host, which is not
  // on that stream, needs a wait.
  const bool must_wait = options_.queue ? options_.is_filled_by_host : was_used;
  llvm::Error error = must_wait ? engine.wait() : llvm::Error::success();
  idle = options_.is_filled_by_host || !options_.queue;
  if (!error) error = arena_.reserve(std::max(plan_.arena_bytes, least_arena_bytes_), slack);
  // Memory of the caller's allocator may be ready only for work on the queue's stream.
  const bool is_callers = options_.queue && !options_.queue->device()->release_waits();
  if (!error && must_wait && is_callers) error = engine.wait();
  if (error) return error;
  place(/*of_capacity=*/true, idle);
  state_ = State::Placed;
  return llvm::Error::success();
}

llvm::Error ExecutionMemory::take_queue_blocks(i64 engine_scratch_bytes) {
  if (!options_.queue) return llvm::Error::success();
  // The execution gives up its reference first, so that Queue::scratch() can free the block before it
  // allocates a larger one.
  queue_scratch_.reset();
  MINUET_ASSIGN(queue_engine_, options_.queue->engine_scratch(engine_scratch_bytes));
  MINUET_ASSIGN(queue_scratch_, options_.queue->scratch(plan_.scratch_bytes));
  return llvm::Error::success();
}

void ExecutionMemory::place_cloud(bool idle) { place(/*of_capacity=*/false, idle); }

void ExecutionMemory::place(bool of_capacity, bool idle) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    if (part.is_of_capacity() != of_capacity) continue;
    const bool is_own = part.owner == Owner::Arena;
    // Work of other executions may still use the queue's block, so it is never treated as idle.
    Placement pieces((is_own ? arena_.data() : queue_scratch_->data()) + plan_.offsets[i], idle && is_own);
    part.place(pieces);
  }
}

RunMemory ExecutionMemory::retire() {
  least_arena_bytes_ = arena_.bytes();
  displace();
  return {arena_.retire(), queue_scratch_, queue_engine_, {}};
}

}  // namespace minuet
