// Implements index.h, the memory of an index of voxels.
#include "runtime/abi/c_api_internal.h"
#include "runtime/engine/set_index.h"

namespace minuet {

llvm::Error check_indexed_levels(int32_t level_count) {
  if (level_count >= 1 && level_count <= kMostIndexedLevels) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "level_count is {0}; it must be 1 to {1}", level_count,
                    kMostIndexedLevels);
}

llvm::Expected<std::vector<i64>> read_slots(const int64_t* level_slots, i32 levels) {
  if (!level_slots) return std::vector<i64>();
  for (i32 i = 0; i < levels; ++i)
    MINUET_TRY(annotate(check_slots(level_slots[i]), "level_slots[" + std::to_string(i) + "]"));
  return std::vector<i64>(level_slots, level_slots + levels);
}

namespace {

llvm::Expected<std::vector<i64>> read_index_capacities(const minuet_index_options& given) {
  MINUET_TRY(check_pointer(given.level_capacity, "level_capacity"));
  MINUET_TRY(check_indexed_levels(given.level_count));
  MINUET_TRY(check_reserved(given.reserved));
  for (i32 i = 0; i < given.level_count; ++i) {
    const std::string name = "level_capacity[" + std::to_string(i) + "]";
    if (given.level_capacity[i] < 1) {
      return make_error(StatusCode::InvalidArgument, "{0} is {1}; it must be 1 or more", name,
                        given.level_capacity[i]);
    }
    MINUET_TRY(annotate(check_coordinate_count(given.level_capacity[i]), name));
  }
  return std::vector<i64>(given.level_capacity, given.level_capacity + given.level_count);
}

/// Returns the bytes of the two arrays that say which row each coordinate of the caller has, and back.
i64 bytes_of_points(i64 points) {
  Placement parts(nullptr);
  parts.take<i32>(points);
  parts.take<i32>(points);
  return parts.bytes();
}

/// Returns the slots of a level for clouds with `factor` times as many superblocks as this one, or 0 if the
/// level has no index.
i64 suggest_slots(double factor, i64 superblocks) {
  if (superblocks < 0) return 0;
  return default_level_slots(static_cast<i64>(std::ceil(factor * static_cast<double>(superblocks))));
}

}  // namespace
}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_index_bytes(const minuet_index_options* options, minuet_index_sizes* sizes) {
  return guarded("minuet_index_bytes", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(options, "options"));
    MINUET_ASSIGN(const minuet_index_options given,
                  read_options(options, minuet_index_options(MINUET_INDEX_OPTIONS_INIT)));
    MINUET_ASSIGN(const std::vector<i64> capacities, read_index_capacities(given));
    MINUET_ASSIGN(const std::vector<i64> slots, read_slots(given.level_slots, given.level_count));
    const IndexSizes measured = measure_index(capacities, slots);
    minuet_index_sizes answer = MINUET_INDEX_SIZES_INIT;
    answer.slots = measured.slots;
    answer.table = measured.table;
    answer.rows = measured.rows;
    answer.points = bytes_of_points(capacities.front());
    return write_info(answer, sizes, "sizes");
  });
}

minuet_status minuet_execution_suggest_slots(minuet_execution* execution, double factor, int64_t* level_slots,
                                             int32_t level_count, void* stream) {
  return in_execution("minuet_execution_suggest_slots", execution, [&](PlanExecution& own) -> llvm::Error {
    MINUET_TRY(check_pointer(level_slots, "level_slots"));
    MINUET_TRY(check_level_count(level_count, static_cast<i32>(own.plan().program.levels.size())));
    MINUET_TRY(check_capacity_factor(factor));
    std::vector<i64> superblocks(static_cast<std::size_t>(level_count));
    MINUET_TRY(own.count_superblocks(superblocks, stream));
    if (llvm::all_of(superblocks, [](i64 count) { return count < 0; })) {
      return make_error(StatusCode::FailedPrecondition,
                        "the maps are sorted, so that there is no index: choose MINUET_MAPS_INDEXED");
    }
    for (i32 l = 0; l < level_count; ++l) level_slots[l] = suggest_slots(factor, superblocks[l]);
    return llvm::Error::success();
  });
}

}  // extern "C"
