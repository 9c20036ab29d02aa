#include "runtime/cuda/point_step.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "runtime/engine/arena.h"

namespace minuet {
namespace {

/// Returns the least number that is larger than every row which a call may assign.
u32 past_key_of(const VoxelizeProblem& problem, i64 most_points) {
  const i64 voxels = problem.most_voxels > 0 ? problem.most_voxels : most_points;
  return static_cast<u32>(std::min(voxels, most_points));
}
i32 key_bits_of(u32 past_key) { return std::bit_width(past_key); }

/// Divides the workspace of voxelize().
struct VoxelizePlaces {
  // Before the sort, keys[1] holds the row of each first point.
  u32 *keys[2] = {}, *values[2] = {};
  i32 *table = nullptr, *slot_of = nullptr;
  u32 *place_of = nullptr, *begins = nullptr;
  i64 slots = 0;
  // Clearing sets the following words to 0, which follow one another.
  u32* zeros = nullptr;
  i64 zero_words = 0;
  i32 *point_count = nullptr, *sort_count = nullptr;
  u32 *points_in = nullptr, *tiles = nullptr, *begin_tiles = nullptr;
  SortMemory sort;
  i64 bytes = 0;

  VoxelizePlaces(const MapChoice& map32, const VoxelizeChoice& choice, i64 most_points, char* base) {
    // Earlier work may still use the memory, so the gaps between the parts are not poisoned.
    Placement parts(base, /*idle=*/false);
    for (i32 half = 0; half < 2; ++half) {
      keys[half] = parts.take<u32>(most_points);
      values[half] = parts.take<u32>(most_points);
    }
    slots = point_slots(most_points);
    table = parts.take<i32>(slots);
    slot_of = parts.take<i32>(most_points);
    place_of = parts.take<u32>(most_points);
    begins = parts.take<u32>(most_points + 1);
    const i64 tile_count = std::max<i64>(ceil_div(most_points, choice.number.threads), 1);
    const i32 passes = radix_passes(key_bits_of(past_key_of(choice.problem, most_points)));
    sort.tiles = most_radix_tiles(map32.radix_pass_rows, most_points);
    zero_words = 2 + slots + 2 * tile_count + sort_state_words(passes, sort.tiles);
    zeros = parts.take<u32>(zero_words);
    bytes = parts.bytes();
    if (zeros == nullptr) return;
    point_count = reinterpret_cast<i32*>(zeros);
    sort_count = point_count + 1;
    points_in = zeros + 2;
    tiles = points_in + slots;
    begin_tiles = tiles + tile_count;
    sort.state = divide_sort_state(begin_tiles + tile_count, passes);
    for (i32 half = 0; half < 2; ++half) sort.keys[half] = keys[half], sort.rows[half] = values[half];
  }
};

i64 limit_or_all(i64 limit) { return limit > 0 ? limit : std::numeric_limits<i64>::max(); }

VoxelizeParams params_of(const VoxelizeRequest& request, const VoxelizePlaces& places) {
  const VoxelizeProblem& problem = request.choice->problem;
  VoxelizeParams params = {};
  params.points = request.points;
  params.grid = problem.grid;
  params.batch_size = problem.batch_size;
  params.point_count = places.point_count;
  params.table = places.table;
  params.slots = static_cast<u32>(places.slots);
  params.points_in = places.points_in;
  params.slot_of = places.slot_of;
  params.place_of = places.place_of;
  params.tiles = places.tiles;
  params.begin_tiles = places.begin_tiles;
  params.first_rows = reinterpret_cast<i32*>(places.keys[1]);
  params.begins = places.begins;
  params.sort_count = places.sort_count;
  params.most_points = limit_or_all(problem.most_points_per_voxel);
  params.most_voxels = limit_or_all(problem.most_voxels);
  params.capacity = request.capacity;
  params.counts = request.counts;
  params.status = request.status;
  params.rows = request.rows;
  params.keys = places.keys[0];
  params.values = places.values[0];
  params.past_key = past_key_of(problem, request.points.most);
  // The sort, if there is one, leaves its result here.
  params.list = places.values[sorted_half(key_bits_of(params.past_key))];
  params.column = problem.column;
  params.channels = problem.channels;
  params.coordinates = request.coordinates;
  params.features = request.features;
  params.features_ld = request.features_ld;
  params.points_of = request.points_of;
  return params;
}

}  // namespace

CornerPlaces::CornerPlaces(const DevoxelizeProblem& problem, i64 most_points, i64 most_rows,
                           Placement& parts) {
  if (!problem.blends()) return;
  slots = point_slots(most_rows);
  table = parts.take<i32>(slots);
  rows = parts.take<i32>(problem.corners() * most_points);
  weights = parts.take<float>(problem.corners() * most_points);
}

i64 point_workspace_bytes(const MapChoice& map32, const VoxelizeChoice& choice, i64 most_points) {
  return VoxelizePlaces(map32, choice, most_points, nullptr).bytes;
}
i64 point_workspace_bytes(const DevoxelizeChoice& choice, i64 most_points, i64 most_rows) {
  Placement parts(nullptr, /*idle=*/false);
  const CornerPlaces places(choice.problem, most_points, most_rows, parts);
  return places.slots == 0 ? 0 : parts.bytes();
}

i64 PointStep::workspace_bytes(const VoxelizeChoice& choice, i64 most_points) const {
  return point_workspace_bytes(map32_.choice, choice, most_points);
}
i64 PointStep::workspace_bytes(const DevoxelizeChoice& choice, i64 most_points, i64 most_rows) const {
  return point_workspace_bytes(choice, most_points, most_rows);
}

llvm::Error PointStep::voxelize(const VoxelizeRequest& request) {
  MINUET_TRY(launcher_.mark(Stage::Map));
  const VoxelizeChoice& choice = *request.choice;
  const i64 points = request.points.most;
  const VoxelizePlaces places(map32_.choice, choice, points, static_cast<char*>(request.workspace));
  VoxelizeParams params = params_of(request, places);
  MINUET_TRY(clear_words(launcher_, clear_, choice.clear,
                         {{reinterpret_cast<u32*>(places.table), places.slots, static_cast<u32>(kFreeSlot)},
                          {places.zeros, places.zero_words, 0},
                          {reinterpret_cast<u32*>(request.counts), kPointCounts, 0},
                          {request.status, 1, 0}}));
  MINUET_ASSIGN(const Kernel<VoxelizeParams> insert, insert_.find(launcher_, choice.insert));
  MINUET_ASSIGN(const Kernel<VoxelizeParams> number, number_.find(launcher_, choice.number));
  MINUET_ASSIGN(const Kernel<VoxelizeParams> assign, assign_.find(launcher_, choice.assign));
  MINUET_ASSIGN(const Kernel<VoxelizeParams> reduce, reduce_.find(launcher_, choice.reduce));
  MINUET_TRY(launcher_.launch_stride(insert, points, params));
  MINUET_TRY(launcher_.launch(number, std::max<i64>(ceil_div(points, choice.number.threads), 1), params));
  MINUET_TRY(launcher_.launch_stride(assign, points, params));
  // The sort does nothing if sort_count is 0. Otherwise its last pass writes VoxelizeParams::list.
  const SortRange range{places.sort_count, points, 0, key_bits_of(params.past_key)};
  i32 half = 0;
  MINUET_TRY(enqueue_sort(launcher_, map32_.sort(/*rows=*/true, points), range, places.sort, half));
  const i64 groups = ceil_div(choice.problem.channels, kPointChannels);
  const i64 items = std::max(points * groups, request.capacity);
  return launcher_.launch_stride(reduce, items, params);
}

llvm::Error PointStep::devoxelize(const DevoxelizeRequest& request) {
  MINUET_TRY(launcher_.mark(Stage::Gather));
  const DevoxelizeChoice& choice = *request.choice;
  const DevoxelizeProblem& problem = choice.problem;
  const i64 points = request.points.most;
  if (points == 0) return llvm::Error::success();
  Placement parts(static_cast<char*>(request.workspace), /*idle=*/false);
  const CornerPlaces places(problem, points, request.most_rows, parts);
  if (problem.blends()) MINUET_TRY(find_corners(choice, request, places));
  MINUET_ASSIGN(const Kernel<DevoxelizeParams> kernel, devoxelize_.find(launcher_, choice.devoxelize));
  DevoxelizeParams params = {};
  params.input = request.features;
  params.input_ld = params.output_ld = problem.channels;
  params.input_count = request.row_count;
  params.input_rows = request.most_rows;
  params.rows = problem.blends() ? places.rows : request.rows;
  params.weights = places.weights;
  params.count = request.points.count;
  params.most = points;
  params.vectors = problem.channels * dtype_bytes(choice.devoxelize.io) / choice.devoxelize.vector_bytes;
  params.output = request.output;
  return launcher_.launch_stride(kernel, points * params.vectors, params);
}

}  // namespace minuet
