// Implements the functions of NetworkMaps that make sets and maps with an index of voxels
// (kernels_templates/shared/voxel_index.h).
#include <algorithm>

#include "runtime/engine/set_index.h"
#include "runtime/maps/coordinate_limits.h"
#include "runtime/maps/network_maps.h"

namespace minuet {

llvm::Error NetworkMaps::build_by_index(const i32* coordinates, i64 count) {
  if (!description_) MINUET_TRY(describe(bounds_to_index(program_.ndim, options_, reached_.sets())));
  for (;;) {
    MINUET_TRY(enqueue(coordinates, nullptr, count));
    MINUET_TRY(read_words());
    if ((static_cast<u32>(host_report_[0]) & kStatusOutsideKeys) == 0) return llvm::Error::success();
    MINUET_TRY(widen_index(coordinates, count));
  }
}

llvm::Error NetworkMaps::describe(const Bounds& bounds) {
  MINUET_ASSIGN(description_, describe_index(program_.ndim, bounds, reached_.sets()));
  return llvm::Error::success();
}

llvm::Error NetworkMaps::widen_index(const i32* coordinates, i64 count) {
  // The whole report must be initialized, because all of it is read back.
  MINUET_TRY(engine_.fill_words(report_, 0, report_words_));
  MINUET_TRY(engine_.maps().find_bounds(coordinates, count, state_));
  MINUET_TRY(read_words());
  const Bounds bounds = read_bounds(host_report_ + bounds_at());
  MINUET_TRY(check_limits(bounds));
  Bounds wide = widened(bounds, program_.ndim);
  if (options_.limits) wide = intersection(program_.ndim, wide, *options_.limits);
  if (!llvm::errorToBool(describe(wide))) return llvm::Error::success();
  return describe(bounds);
}

llvm::Error NetworkMaps::enqueue_indexed(const i32* coordinates, const i32* given_count, i64 most) {
  MapLimits limits = this->limits(1);
  limits.capacity = std::max<i64>(most, 1);
  std::vector<i64> capacities;
  std::vector<i32*> counts;
  for (std::size_t i = 0; i < sets(); ++i) {
    capacities.push_back(levels_[i].capacity);
    counts.push_back(levels_[i].count);
    limits.capacity = std::max(limits.capacity, levels_[i].capacity);
  }
  MINUET_TRY(engine_.maps().begin(limits, map_workspace_));
  if (options_.is_stateless) MINUET_TRY(clear_index(engine_, index_));
  IndexSetsRequest request;
  request.coordinates = coordinates;
  request.given_count = given_count;
  request.most = most;
  request.outside_status = options_.has_bounds ? kStatusOutOfBounds : kStatusOutsideKeys;
  // A coordinate outside the keys may also be outside the limits, on which the keys depend.
  if (options_.limits) request.outside_status |= kStatusOutOfBounds;
  request.refuses_duplicates = options_.has_capacities() && !options_.keep_first_duplicate;
  request.status = state_.status;
  request.points = state_.points;
  request.zeros = report_ + kLevelsAt;
  request.zero_words = cleared_words() - kLevelsAt;
  request.source_row = source_row_;
  request.row_of = row_of_;
  request.description = *description_;
  assign_memory(request.description, index_, capacities, declared_slots());
  request.memory = index_;
  request.counts = counts;
  request.sources = reached_.sources();
  // The number of batch items is written after the index is made, and must be 0 too if the cloud fails.
  const bool has_items = sets() < levels_.size();
  if (options_.has_capacities() && !has_items) {
    request.voided = state_.points;
    request.voided_words = 1 + static_cast<i64>(levels_.size());
  }
  MINUET_TRY(engine_.maps().index_sets(request));
  if (has_items) {
    MINUET_TRY(count_items());
    MINUET_TRY(void_failed());
  }
  return search_indexed();
}

llvm::Error NetworkMaps::search_indexed() {
  std::vector<IndexedSearch> searches;
  for (std::size_t i = 0; i < maps_.size(); ++i) {
    const MapSpec& spec = program_.maps[i];
    if (!spec.is_identity()) searches.push_back({levels_[spec.coarse], levels_[spec.fine], &maps_[i]});
  }
  return engine_.maps().search_index(searches);
}

llvm::Error NetworkMaps::count_superblocks(Device& device, llvm::MutableArrayRef<i64> counts) const {
  std::fill(counts.begin(), counts.end(), -1);
  if (!indexes()) return llvm::Error::success();
  std::vector<u32> taken(static_cast<std::size_t>(index_.slots / 32));
  MINUET_TRY(device.download(taken.data(), index_.taken, static_cast<i64>(taken.size() * sizeof(u32))));
  llvm::ArrayRef<u32> left(taken);
  for (std::size_t l = 0; l < sets(); ++l) {
    const i64 slots = level_slots(levels_[l].capacity, slots_declared_for(l, declared_slots()));
    const auto words = static_cast<std::size_t>(slots / 32);
    counts[l] = 0;
    for (const u32 word : left.take_front(words)) counts[l] += llvm::countPopulation(word);
    left = left.drop_front(words);
  }
  return llvm::Error::success();
}

}  // namespace minuet
