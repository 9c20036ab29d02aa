// Implements executions in capacity mode. In this mode prepare only enqueues work, because only the device
// knows the sizes of the cloud.
#include <algorithm>
#include <cmath>

#include "runtime/execution/execution.h"

namespace minuet {
namespace {

// Suggested capacities are multiples of this number.
constexpr i64 kCapacityStep = 256;
constexpr double kMostCapacityFactor = 1024;
// If only the device knows the number of coordinates, the check of their memory covers this many rows.
constexpr i64 kLeastRowsOnDevice = 1;

}  // namespace

llvm::Error check_capacity_factor(double factor) {
  if (factor >= 1 && factor <= kMostCapacityFactor) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "the factor is {0}; it must be 1 to {1}", factor,
                    kMostCapacityFactor);
}

/// Measures all memory that a cloud within the capacities may need.
llvm::Error Execution::measure_room() {
  const std::vector<i64>& rows = options_.cloud.level_capacity;
  network_maps_->set_capacity(*std::max_element(rows.begin(), rows.end()));
  MINUET_TRY(network_maps_->find_limits());
  memory_.measure_capacity();
  memory_.place_stand_ins();
  return measure_within_capacities();
}

/// Reserves all memory that a cloud within the capacities may need.
llvm::Error Execution::make_room() {
  MINUET_TRY(measure_room());
  if (memory_.awaits_workspace()) return llvm::Error::success();
  bool idle = false;
  MINUET_TRY(reserve(0, idle));
  // The sizes are the same as before, but the parts that depend on the capacity now have their places.
  MINUET_TRY(measure_within_capacities());
  if (!memory_.fits()) {
    return make_error(StatusCode::Internal, "the memory of an execution depends on where it lies");
  }
  return place_cloud(idle);
}

llvm::Error Execution::measure_within_capacities() {
  take_capacities();
  MINUET_TRY(select_within_capacities());
  MINUET_TRY(add_work());
  memory_.measure_cloud();
  return llvm::Error::success();
}

void Execution::take_capacities() {
  const std::vector<i64>& rows = options_.cloud.level_capacity;
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    levels_[i] = {rows[i], rows[i], network_maps_->count(static_cast<i32>(i)), nullptr,
                  nullptr, nullptr, program_.levels[i].tensor_stride};
  }
  take_callers_rows();
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    maps_[i] = network_maps_->map(static_cast<i32>(i));
    maps_[i].sources = rows[program_.maps[i].fine];
    maps_[i].queries = rows[program_.maps[i].coarse];
  }
}

/// Selects the kernel of each layer (Candidate) by the capacities only, because a graph runs the same kernels
/// for every cloud.
llvm::Error Execution::select_within_capacities() {
  MINUET_TRY(select_candidates());
  for (i32 i = 0; i < layer_count(); ++i) {
    const std::string& why = candidate_of(i).needs_counts;
    if (!why.empty())
      return make_error(StatusCode::FailedPrecondition, "layer {0} {1}", program_.layers[i].name, why);
  }
  return llvm::Error::success();
}

llvm::Error Execution::prepare_within(const i32* coordinates, const i32* given_count, i64 most,
                                      void* stream) {
  if (!has_capacities()) {
    return make_error(
        StatusCode::FailedPrecondition,
        "a count on the device needs fixed capacities: create the execution with level_capacity");
  }
  const i64 capacity = options_.cloud.level_capacity[0];
  if (most > capacity) {
    return make_error(StatusCode::OutOfRange,
                      "{0} coordinates are more than level_capacity[0], which is {1}: create the execution "
                      "with a larger one",
                      most, capacity);
  }
  MINUET_TRY(check_coordinate_count(most));
  MINUET_TRY(check_has_memory());
  MINUET_TRY(check_coordinates(coordinates, given_count ? kLeastRowsOnDevice : most, program_.ndim));
  if (given_count) MINUET_TRY(check_apart_from_state("count", given_count, kWordBytes));
  MINUET_TRY(call(stream, Timed::Prepare, [&]() -> llvm::Error {
    MINUET_TRY(network_maps_->enqueue(coordinates, given_count, given_count ? capacity : most));
    MINUET_TRY(add_work());
    // The parts of the memory get the places that make_room() has chosen.
    memory_.place_cloud(/*idle=*/false);
    MINUET_TRY(prepare_layers());
    return views_->make_views();
  }));
  prepared_ = Prepared::Ready;
  return llvm::Error::success();
}

llvm::Error Execution::suggest_capacities(double factor, llvm::MutableArrayRef<i64> rows) const {
  MINUET_TRY(check_prepared());
  if (!network_maps_ || has_capacities()) {
    return make_error(
        StatusCode::FailedPrecondition,
        "this execution cannot suggest capacities: use a network's execution that was created without "
        "level_capacity");
  }
  MINUET_TRY(check_capacity_factor(factor));
  if (rows.size() != levels_.size()) {
    return make_error(StatusCode::InvalidArgument,
                      "level_count is {0}, but the plan has {1} levels: give memory for {1} capacities",
                      rows.size(), levels_.size());
  }
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    const double wanted = factor * static_cast<double>(std::max(levels_[i].rows, levels_[i].caller_rows));
    const i64 steps = static_cast<i64>(std::ceil(wanted / kCapacityStep));
    rows[i] = std::clamp<i64>(steps * kCapacityStep, kCapacityStep, network_maps_->most_coordinates());
  }
  return llvm::Error::success();
}

llvm::Error Execution::count_superblocks(llvm::MutableArrayRef<i64> counts, void* stream) {
  if (!network_maps_) {
    return make_error(StatusCode::FailedPrecondition,
                      "this is the execution of a single op, which has no sets of its own: use that of a "
                      "network");
  }
  MINUET_TRY(check_has_state());
  return call(stream, Timed::Nothing, [&]() -> llvm::Error {
    MINUET_TRY(refuse_capture());
    MINUET_TRY(engine_->wait());
    return network_maps_->count_superblocks(*loaded_->device, counts);
  });
}

/// Returns FailedPrecondition if no prepare has written the state of a cloud. Replays of a graph may continue
/// after a prepare call was refused, so the state of the last cloud can still be read then.
llvm::Error Execution::check_has_state() const {
  return has_capacities() && prepared_ != Prepared::Nothing ? llvm::Error::success() : check_prepared();
}

llvm::Error Execution::copy_cloud(u32* status, llvm::MutableArrayRef<i32> counts, void* stream) {
  MINUET_TRY(check_has_state());
  const i64 bytes = static_cast<i64>(counts.size()) * kWordBytes;
  MINUET_TRY(check_apart_from_state("status", status, kWordBytes));
  MINUET_TRY(check_apart_from_state("counts", counts.data(), bytes));
  return call(stream, Timed::Nothing, [&]() -> llvm::Error {
    MINUET_TRY(engine_->copy(status, network_maps_->status(), kWordBytes));
    return engine_->copy(counts.data(), network_maps_->counts(), bytes);
  });
}

llvm::Error Execution::read_cloud(void* stream, u32& status, llvm::MutableArrayRef<i32> counts) {
  MINUET_TRY(check_has_state());
  return call(stream, Timed::Nothing, [&] { return network_maps_->read_state(status, counts); });
}

}  // namespace minuet
