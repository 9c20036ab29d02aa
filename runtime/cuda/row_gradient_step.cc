// Implements the gradients of PointStep.
#include <bit>

#include "runtime/cuda/point_step.h"

namespace minuet {
namespace {

/// Divides the workspace of devoxelize_gradient(). Every row number is less than past_key.
struct EntryPlaces {
  CornerPlaces corners;
  u32 past_key;
  u32 *keys[2] = {}, *values[2] = {}, *begins = nullptr;
  // Clearing sets the following words to 0, which follow one another.
  u32* zeros = nullptr;
  i64 zero_words = 0;
  SortMemory sort;

  EntryPlaces(const MapChoice& map32, const DevoxelizeProblem& problem, i64 most_points, i64 most_rows,
              Placement& parts)
      : corners(problem, most_points, most_rows, parts), past_key(static_cast<u32>(most_rows)) {
    const i64 entries = problem.corners() * most_points;
    for (i32 half = 0; half < 2; ++half) {
      sort.keys[half] = keys[half] = parts.take<u32>(entries);
      sort.rows[half] = values[half] = parts.take<u32>(entries);
    }
    begins = parts.take<u32>(most_rows + 1);
    const i32 passes = radix_passes(key_bits());
    sort.tiles = most_radix_tiles(map32.radix_pass_rows, entries);
    zero_words = 1 + sort_state_words(passes, sort.tiles);
    zeros = parts.take<u32>(zero_words);
    if (zeros != nullptr) sort.state = divide_sort_state(zeros + 1, passes);
  }
  i32 key_bits() const { return std::bit_width(past_key); }
  i32* sort_count() const { return reinterpret_cast<i32*>(zeros); }
};

}  // namespace

i64 point_workspace_bytes(const MapChoice& map32, const DevoxelizeGradientChoice& choice, i64 most_points,
                          i64 most_rows) {
  Placement parts(nullptr, /*idle=*/false);
  EntryPlaces(map32, choice.problem, most_points, most_rows, parts);
  return parts.bytes();
}

i64 PointStep::workspace_bytes(const DevoxelizeGradientChoice& choice, i64 most_points, i64 most_rows) const {
  return point_workspace_bytes(map32_.choice, choice, most_points, most_rows);
}

llvm::Error PointStep::devoxelize_gradient(const DevoxelizeGradientRequest& request) {
  MINUET_TRY(launcher_.mark(Stage::Scatter));
  if (request.most_rows == 0) return llvm::Error::success();
  const DevoxelizeGradientChoice& choice = *request.choice;
  const DevoxelizeProblem& problem = choice.problem;
  Placement parts(static_cast<char*>(request.workspace), /*idle=*/false);
  const EntryPlaces places(map32_.choice, problem, request.points.most, request.most_rows, parts);
  if (problem.blends()) MINUET_TRY(find_corners(choice, request, places.corners));
  EntriesParams params = {};
  params.rows = problem.blends() ? places.corners.rows : request.rows;
  params.weights = places.corners.weights;
  params.count = request.points.count;
  params.most = request.points.most;
  params.entries = problem.corners() * request.points.most;
  params.row_count = request.row_count;
  params.most_rows = request.most_rows;
  params.keys = places.keys[0];
  params.values = places.values[0];
  params.past_key = places.past_key;
  params.sort_count = places.sort_count();
  const i32 sorted = sorted_half(places.key_bits());
  params.sorted_keys = places.keys[sorted];
  params.list = places.values[sorted];
  params.begins = places.begins;
  params.out_gradient = request.out_gradient;
  params.vectors = problem.channels * dtype_bytes(choice.sum.io) / choice.sum.vector_bytes;
  params.output = request.output;
  MINUET_TRY(clear_words(launcher_, clear_, choice.clear, {{places.zeros, places.zero_words, 0}}));
  MINUET_ASSIGN(const Kernel<EntriesParams> key, key_.find(launcher_, choice.key));
  MINUET_ASSIGN(const Kernel<EntriesParams> find, find_.find(launcher_, choice.find));
  MINUET_ASSIGN(const Kernel<EntriesParams> sum, sum_.find(launcher_, choice.sum));
  MINUET_TRY(launcher_.launch_stride(key, params.entries, params));
  const SortRange range{params.sort_count, params.entries, 0, places.key_bits()};
  i32 half = 0;
  MINUET_TRY(enqueue_sort(launcher_, map32_.sort(/*rows=*/true, params.entries), range, places.sort, half));
  MINUET_TRY(launcher_.launch_stride(find, request.most_rows + 1, params));
  return launcher_.launch_stride(sum, request.most_rows * params.vectors, params);
}

llvm::Error PointStep::group_gradient(const GroupGradientRequest& request) {
  MINUET_TRY(launcher_.mark(Stage::Gather));
  const GroupGradientChoice& choice = *request.choice;
  const PointReduction reduction = choice.problem.reduction;
  GroupsParams params = request.params;
  if (params.most_rows == 0) return llvm::Error::success();
  const bool combines =
      reduction == PointReduction::Mean ? params.sizes == nullptr : reduction != PointReduction::Sum;
  if (combines) {
    auto* const words = static_cast<u32*>(request.workspace);
    const bool has_keys = reduction == PointReduction::Max;
    if (has_keys) {
      params.keys = static_cast<u64*>(request.workspace);
    } else {
      params.words = words;
    }
    const i64 count = group_gradient_bytes(choice.problem, params.most_groups) / sizeof(u32);
    const u32 preset = reduction == PointReduction::First ? kNoFirstRow : 0;
    MINUET_TRY(clear_words(launcher_, clear_, choice.clear, {{words, count, preset}}));
    MINUET_ASSIGN(const Kernel<GroupsParams> combine, combine_.find(launcher_, choice.combine));
    const i64 runs = (params.most_rows + kGroupRun - 1) / kGroupRun;
    MINUET_TRY(
        launcher_.launch_stride(combine, has_keys ? runs * params.channels : params.most_rows, params));
  }
  MINUET_ASSIGN(const Kernel<GroupsParams> spread, spread_.find(launcher_, choice.spread));
  params.vectors = params.channels * dtype_bytes(choice.spread.out) / choice.spread.vector_bytes;
  return launcher_.launch_stride(spread, params.most_rows * params.vectors, params);
}

}  // namespace minuet
