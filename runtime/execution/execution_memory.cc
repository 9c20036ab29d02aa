// Where an execution's memory lies: its arena, and what it has of its queue.
#include <algorithm>

#include "runtime/execution/execution.h"

namespace minuet {

i64 Execution::place_fixed(char* base) {
  Placement parts(base);
  for (const Work& work : works_) work.work->place_fixed(parts);
  engine_workspace_ = parts.take<char>(engine_->workspace_bytes());
  if (!options_.queue) engine_scratch_ = parts.take<char>(engine_->scratch_bytes());
  if (cloud_) {
    cloud_->place(parts);
    overflow_ = cloud_->layer_words();
  } else {
    overflow_ = parts.take<u32>(layer_count());
  }
  return parts.bytes();
}

i64 Execution::place_maps(char* base) {
  Placement parts(base);
  if (cloud_) cloud_->place_workspace(parts);
  return parts.bytes();
}

i64 Execution::place_tables(char* base) {
  Placement parts(base, idle_);
  for (const Work& work : works_) work.work->place_tables(parts, cloud_ ? cloud_->identity() : nullptr);
  views_->place_views(parts);
  return parts.bytes();
}

/// The maps are placed and made, for views to be made of them.
i64 Execution::place_work(char* base) {
  // Other executions' work may be under way where the queue's is.
  Placement parts(base, idle_ && !options_.queue);
  parts.share(
      [&](Placement& prepare) {
        if (!options_.queue) prepare.skip(maps_bytes_);
        for (const Work& work : works_) work.work->place_workspace(prepare);
        views_->place_workspace(prepare);
      },
      [&](Placement& run) {
        place_storages(run);
        for (const Work& work : works_) work.work->place_buffers(run);
      });
  return parts.bytes();
}

/// Each on top of what lies below it. The caller's tensors, used in place, have no memory.
void Execution::place_storages(Placement& parts) {
  const i64 element = dtype_bytes(program_.dtype);
  i64 bytes = 0;
  for (const i32 number : program_.stack) {
    const StorageSpec& storage = program_.storages[number];
    const Level& level = levels_[storage.level];
    i64 begin = kSharesMemory ? 0 : bytes;
    for (const i32 below : storage.below) begin = std::max(begin, tops_[below]);
    Placement part = parts.from(begin);
    storages_[number] = program_.takes_maps && !level.source_row
                            ? nullptr
                            : part.take<char>(level.rows * storage.ld * element);
    tops_[number] = begin + part.bytes();
    bytes = std::max(bytes, tops_[number]);
  }
  parts.skip(bytes);
}

void Execution::measure_fixed() {
  fixed_bytes_ = place_fixed(nullptr);
  maps_bytes_ = place_maps(nullptr);
}

/// What the cloud, or the maps, need of the arena, which must hold it before it is placed.
i64 Execution::needed_bytes() {
  const i64 work = options_.queue ? maps_bytes_ : place_work(nullptr);
  return fixed_bytes_ + work + place_tables(nullptr);
}

llvm::Error Execution::place_cloud() {
  if (options_.queue) {
    Queue& queue = *options_.queue;
    queue_scratch_.reset();  // so that a larger one may take its place
    MINUET_ASSIGN(queue_engine_, queue.engine_scratch(engine_->scratch_bytes()));
    MINUET_ASSIGN(queue_scratch_, queue.scratch(place_work(nullptr)));
    engine_scratch_ = queue_engine_->data();
  }
  place_parts();
  return llvm::Error::success();
}

/// What place_fixed() and place_maps() leave to the cloud.
void Execution::place_parts() {
  char* const work = arena_.data() + fixed_bytes_;
  if (options_.queue) {
    place_work(queue_scratch_->data());
    place_tables(work + maps_bytes_);
  } else {
    place_tables(work + place_work(work));
  }
}

/// Grows the arena where that is needed and places the fixed part anew. Work of an earlier call may
/// still use the memory, so it is waited for first; but not where there was none, or where whoever gets it
/// next is ordered behind it by the queue. A failure leaves nothing placed.
llvm::Error Execution::reserve(i64 bytes, i64 slack) {
  if (bytes <= arena_.bytes() && placed_) return llvm::Error::success();
  placed_ = false;
  llvm::Error error = llvm::Error::success();
  // A network's arena is filled by a copy that no stream orders: what the pool gives must be idle.
  if (options_.queue ? cloud_.has_value() : was_placed_) error = engine_->wait();
  idle_ = cloud_ || !options_.queue;
  if (!error) error = arena_.reserve(std::max(bytes, least_arena_bytes_), slack);
  if (!error) error = place_anew();
  placed_ = !error;
  was_placed_ = true;
  if (error && cloud_) cloud_->set_capacity(0);
  return error;
}

/// With slack for the next cloud.
llvm::Error Execution::reserve_for_cloud(i64 needed) {
  return reserve(needed, slack_of(needed - fixed_bytes_));
}

llvm::Error Execution::place_anew() {
  place_maps(arena_.data() + place_fixed(arena_.data()));
  overflow_mark_ = 0;
  MINUET_TRY(engine_->set_workspace(engine_workspace_));
  return cloud_ ? cloud_->fill(*loaded_->device) : llvm::Error::success();
}

/// Room for `count` coordinates; a growing arena of ours gets some slack for the next, larger cloud.
llvm::Error Execution::ensure_capacity(i64 count) {
  const i64 capacity = cloud_->capacity();
  if (count <= capacity && placed_) return llvm::Error::success();
  const bool exact = capacity == 0 || options_.workspace;
  if (count > capacity) {
    cloud_->set_capacity(exact ? count : std::min(count + slack_of(count), cloud_->most_coordinates()));
  }
  placed_ = false;
  measure_fixed();
  return reserve(fixed_bytes_ + maps_bytes_);
}

/// A graph that holds a run goes on to read this memory: what is prepared next gets other.
llvm::Error Execution::leave_captured() {
  if (!in_graph_) return llvm::Error::success();
  if (options_.workspace) {
    return make_error(
        StatusCode::FailedPrecondition,
        "a graph holds runs for what is prepared in the caller's workspace: release the captures "
        "once it is replayed no more");
  }
  least_arena_bytes_ = arena_.bytes();
  captured_.push_back({arena_.retire(), queue_scratch_, queue_engine_, std::move(given_)});
  in_graph_ = placed_ = false;
  return llvm::Error::success();
}

void Execution::release_captures() {
  captured_.clear();
  in_graph_ = false;
}

}  // namespace minuet
