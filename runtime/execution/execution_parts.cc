// Defines the parts of an execution's memory and places them.
#include <algorithm>

#include "llvm/ADT/ScopeExit.h"
#include "runtime/execution/execution.h"

namespace minuet {

/// Adds all parts of the execution's memory to memory_. They are placed in the order in which this function
/// adds them.
void Execution::add_memory() {
  const Owner work = options_.queue ? Owner::QueueScratch : Owner::Arena;
  memory_.add({Phase::Maps, Phase::Run}, Owner::Arena, [this](Placement& parts) { place_kept(parts); });
  memory_.add({Phase::Maps, Phase::Views}, Owner::Arena, [this](Placement& parts) {
    if (network_maps_) network_maps_->place_workspace(parts);
  });
  memory_.add({Phase::Views, Phase::Views}, work, [this](Placement& parts) {
    for (const Work& work : works_) work.work->place_workspace(parts);
    views_->place_workspace(parts);
  });
  memory_.add({Phase::Run, Phase::Run}, work, [this](Placement& parts) {
    place_storages(parts);
    for (const Work& work : works_) work.work->place_buffers(parts);
  });
  memory_.add({Phase::Views, Phase::Run}, Owner::Arena, [this](Placement& parts) {
    for (const Work& work : works_)
      work.work->place_tables(parts, network_maps_ ? network_maps_->identity() : nullptr);
    views_->place_views(parts);
  });
}

void Execution::place_kept(Placement& parts) {
  for (const Work& work : works_) work.work->place_fixed(parts);
  engine_workspace_ = parts.take<char>(engine_->workspace_bytes());
  if (!options_.queue) engine_scratch_ = parts.take<char>(engine_->scratch_bytes());
  if (network_maps_) {
    network_maps_->place(parts);
    overflow_ = network_maps_->layer_words();
  } else {
    overflow_ = parts.take<u32>(layer_count());
  }
}

std::vector<bool> Execution::storages_in_place() const {
  std::vector<bool> in_place(program_.storages.size());
  for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
    if (is_input_in_place(i)) in_place[program_.tensors[program_.inputs[i]].storage] = true;
  }
  for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
    if (is_output_in_place(i)) in_place[program_.tensors[program_.outputs[i]].storage] = true;
  }
  return in_place;
}

/// Returns the size of a storage, which is a whole number of words.
i64 Execution::storage_bytes(i32 number) const {
  const StorageSpec& storage = program_.storages[number];
  const i64 elements = storage.item_elements > 0 ? options_.cloud.batch_size * storage.item_elements
                                                 : levels_[storage.level].rows * storage.ld;
  return (elements * element_bytes(program_, storage) + kWordBytes - 1) / kWordBytes * kWordBytes;
}

/// Places each storage of the program behind the storages that are below it (StorageSpec::below). Storages in
/// the caller's memory get no other memory.
void Execution::place_storages(Placement& parts) {
  const std::vector<bool> in_place = storages_in_place();
  i64 bytes = 0;
  for (const i32 number : program_.stack) {
    const StorageSpec& storage = program_.storages[number];
    i64 begin = kSharesMemory ? 0 : bytes;
    for (const i32 below : storage.below) begin = std::max(begin, tops_[below]);
    Placement part = parts.from(begin);
    storages_[number] = in_place[number] ? nullptr : part.take<char>(storage_bytes(number));
    tops_[number] = begin + part.bytes();
    bytes = std::max(bytes, tops_[number]);
  }
  parts.skip(bytes);
}

/// Places the storages that outlive the run.
void Execution::place_kept_storages(Placement& kept) {
  for (const i32 number : program_.kept) storages_[number] = kept.take<char>(storage_bytes(number));
}

/// Makes the arena large enough for everything that memory_ has measured. After a failure nothing is placed,
/// and the next prepare starts over.
llvm::Error Execution::reserve(i64 slack, bool& idle) {
  if (memory_.fits()) return llvm::Error::success();
  llvm::Error error = check_has_memory();
  if (!error) error = memory_.grow(*engine_, slack, idle);
  if (!error) error = fill_arena();
  if (!error) return error;
  memory_.displace();
  if (network_maps_) network_maps_->set_capacity(0);
  return error;
}

llvm::Error Execution::fill_arena() {
  overflow_mark_ = 0;
  MINUET_TRY(engine_->set_workspace(engine_workspace_));
  return network_maps_ ? network_maps_->fill(*loaded_->device) : llvm::Error::success();
}

/// Makes the arena large enough for `count` coordinates. A growing arena gets some slack for the next cloud,
/// which may be larger.
llvm::Error Execution::ensure_capacity(i64 count, bool& idle) {
  const i64 capacity = network_maps_->capacity();
  if (count <= capacity && memory_.is_placed()) return llvm::Error::success();
  const bool exact = capacity == 0 || memory_.arena().is_callers();
  if (count > capacity) {
    network_maps_->set_capacity(exact ? count
                                      : std::min(count + slack_of(count), network_maps_->most_coordinates()));
  }
  return renew_capacity(idle);
}

/// Places the parts of the memory whose sizes depend on the capacity again.
llvm::Error Execution::renew_capacity(bool& idle) {
  memory_.displace();
  memory_.measure_capacity();
  return reserve(0, idle);
}

/// Places the parts of the memory whose sizes depend on the cloud. The arena must be large enough for
/// everything that memory_ has measured.
llvm::Error Execution::place_cloud(bool idle) {
  MINUET_TRY(memory_.take_queue_blocks(engine_->scratch_bytes()));
  if (options_.queue) engine_scratch_ = memory_.queue_engine_scratch();
  memory_.place_cloud(idle);
  return llvm::Error::success();
}

/// Sets the memory of the prepared state aside if graphs contain runs that read it, so that the next prepare
/// uses other memory.
llvm::Error Execution::keep_captured() {
  if (!captured_.holds_prepared()) return llvm::Error::success();
  if (memory_.arena().is_callers()) {
    return make_error(StatusCode::FailedPrecondition,
                      "prepare would overwrite the caller's workspace, which a captured graph uses: call "
                      "minuet_execution_release_captures when the graph is no longer replayed");
  }
  RunMemory memory = memory_.retire();
  memory.maps = std::move(caller_maps_);
  captured_.keep(std::move(memory));
  return llvm::Error::success();
}

/// Returns FailedPrecondition if the caller is to give a workspace and has not given it yet.
llvm::Error Execution::check_has_memory() const {
  if (!memory_.awaits_workspace()) return llvm::Error::success();
  return make_error(StatusCode::FailedPrecondition,
                    "the execution has no workspace, and needs one of at least {0} bytes: call "
                    "minuet_execution_set_workspace first",
                    needed_bytes());
}

/// Takes the memory that the execution needs before the first cloud. If the caller has not given a workspace
/// yet, the function only measures how many bytes that is.
llvm::Error Execution::take_memory() {
  if (has_capacities()) return make_room();
  if (network_maps_) network_maps_->set_capacity(std::max<i64>(options_.max_points, 1));
  memory_.measure_capacity();
  if (!network_maps_ || memory_.awaits_workspace()) return llvm::Error::success();
  bool idle = false;
  return reserve(0, idle);
}

llvm::Error Execution::set_workspace(void* workspace, i64 bytes, void* stream) {
  if (captured_.holds_prepared()) {
    return make_error(StatusCode::FailedPrecondition,
                      "a captured graph uses the memory of this execution: call "
                      "minuet_execution_release_captures when the graph is no longer replayed");
  }
  bool is_replaced = false;
  // If the call fails or throws after the replacement, the execution must not use the new memory either,
  // because the caller may free it.
  auto drop = llvm::make_scope_exit([&] {
    if (is_replaced) memory_.use_workspace(nullptr, 0);
  });
  llvm::Error error = call(stream, Timed::Nothing, [&]() -> llvm::Error {
    if (engine_->was_captured()) {
      return make_error(StatusCode::FailedPrecondition,
                        "the stream is being captured: set the workspace before the capture");
    }
    MINUET_TRY(engine_->wait());
    is_replaced = true;
    prepared_ = Prepared::Nothing;
    memory_.use_workspace(workspace, bytes);
    return take_memory();
  });
  if (engine_->was_captured()) captured_.forget_prepared();
  if (!error) drop.release();
  return error;
}

MemoryRows Execution::callers_workspace() const {
  const Arena& arena = memory_.arena();
  return arena.is_callers() ? memory_of(arena.data(), arena.bytes()) : MemoryRows{};
}

void Execution::release_captures() { captured_.release(); }

}  // namespace minuet
