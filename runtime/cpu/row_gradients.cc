// Implements the gradients of CpuPoints.
#include <algorithm>

#include "kernels_templates/shared/elements.h"
#include "runtime/cpu/corners.h"
#include "runtime/cpu/dispatch.h"
#include "runtime/cpu/points.h"
#include "runtime/engine/arena.h"

namespace minuet {
namespace {

/// A task of a thread pool handles this many channels of all rows.
constexpr i32 kMaximaPerTask = 16;

/// Divides the workspace of devoxelize_gradient(). Afterwards the entries of row r are those from ends[r] to
/// ends[r + 1] of `listed`.
struct EntryPlaces {
  i32 *slots = nullptr, *rows = nullptr, *ends, *next, *listed;
  float* weights = nullptr;
  double* sums;
  i64 bytes;
  EntryPlaces(const DevoxelizeProblem& problem, i64 points, i64 most_rows, i64 threads, char* base) {
    Placement parts(base, /*idle=*/false);
    const i64 entries = problem.corners() * points;
    if (problem.blends()) {
      slots = parts.take<i32>(point_slots(most_rows));
      rows = parts.take<i32>(entries);
      weights = parts.take<float>(entries);
    }
    ends = parts.take<i32>(most_rows + 1);
    next = parts.take<i32>(most_rows);
    listed = parts.take<i32>(entries);
    sums = parts.take<double>(threads * problem.channels);
    bytes = parts.bytes();
  }
};

/// Finds the row and the weight of each corner k of each point i, at k * most + i.
void find_entries(const DevoxelizeGradientRequest& request, i64 points, i64 rows, ThreadPool& pool,
                  const EntryPlaces& places) {
  const DevoxelizeProblem& problem = request.choice->problem;
  with_axes(problem.ndim, [&]<i32 Ndim>() {
    RowTable<Ndim> table(places.slots, point_slots(request.most_rows), request.coordinates);
    table.clear();
    table.add_rows(rows);
    pool.run((points + kPointRowsPerTask - 1) / kPointRowsPerTask, [&](i64 task, i32) {
      Corners corners;
      for (i64 i = task * kPointRowsPerTask; i < std::min(points, (task + 1) * kPointRowsPerTask); ++i) {
        find_corners<Ndim>(problem, request.points, table, i, corners);
        for (i32 k = 0; k < problem.corners(); ++k) {
          places.rows[k * request.points.most + i] = corners.rows[k];
          places.weights[k * request.points.most + i] = corners.weights[k];
        }
      }
    });
  });
}

/// Lists the entries of each row in ascending order.
void list_entries(const DevoxelizeGradientRequest& request, i64 points, i64 rows, const EntryPlaces& places) {
  const i32* const row_of = request.choice->problem.blends() ? places.rows : request.rows;
  const auto for_each_entry = [&](auto visit) {
    for (i32 k = 0; k < request.choice->problem.corners(); ++k) {
      for (i64 i = 0; i < points; ++i) {
        const i64 entry = k * request.points.most + i;
        if (row_of[entry] >= 0 && row_of[entry] < rows) visit(row_of[entry], static_cast<i32>(entry));
      }
    }
  };
  std::fill_n(places.ends, request.most_rows + 1, 0);
  for_each_entry([&](i32 row, i32) { ++places.ends[row + 1]; });
  for (i64 row = 0; row < request.most_rows; ++row) places.ends[row + 1] += places.ends[row];
  std::copy_n(places.ends, request.most_rows, places.next);
  for_each_entry([&](i32 row, i32 entry) { places.listed[places.next[row]++] = entry; });
}

template <DType T>
void sum_row(const DevoxelizeGradientRequest& request, const EntryPlaces& places, i64 row, double* sums) {
  using Type = Element<T>;
  using Stored = typename Type::Stored;
  const i64 channels = request.choice->problem.channels;
  std::fill_n(sums, channels, 0.0);
  for (i32 at = places.ends[row]; at < places.ends[row + 1]; ++at) {
    const i32 entry = places.listed[at];
    const i64 point = entry % request.points.most;
    const double weight = places.weights ? static_cast<double>(places.weights[entry]) : 1;
    const auto* const from = static_cast<const Stored*>(request.out_gradient) + point * channels;
    for (i64 c = 0; c < channels; ++c) sums[c] += weight * static_cast<double>(Type::load(from[c]));
  }
  auto* const target = static_cast<Stored*>(request.output) + row * channels;
  for (i64 c = 0; c < channels; ++c) target[c] = Type::store(static_cast<float>(sums[c]));
}

i64 group_of_row(const GroupsParams& params, i64 row, i64 groups) {
  const i64 group = params.groups[row * params.groups_ld];
  return group >= 0 && group < groups ? group : -1;
}

/// Finds the row that has the maximum of each group, for the channels from `first` to `end`.
template <DType T>
void find_maxima(const GroupsParams& params, i64 rows, i64 groups, i32 first, i32 end) {
  for (i64 row = 0; row < rows; ++row) {
    const i64 group = group_of_row(params, row, groups);
    if (group < 0) continue;
    const auto* const from =
        static_cast<const typename Element<T>::Stored*>(params.input) + row * params.input_ld;
    for (i32 c = first; c < end; ++c) {
      u64& key = params.keys[group * params.channels + c];
      key = std::max(key, row_key(Element<T>::load(from[c]), row));
    }
  }
}

/// Writes the gradient of a row. `group` is -1 if it has none.
template <DType From, DType To>
void spread_row(const GroupsParams& params, PointReduction reduction, i64 row, i64 group) {
  auto* const target = static_cast<typename Element<To>::Stored*>(params.output) + row * params.channels;
  const auto* const from = static_cast<const typename Element<From>::Stored*>(params.out_gradient) +
                           std::max<i64>(group, 0) * params.channels;
  for (i32 c = 0; c < params.channels; ++c) {
    float value = group < 0 ? 0 : Element<From>::load(from[c]);
    if (group >= 0 && reduction == PointReduction::Mean) {
      value = rounded_quotient(value, params.sizes ? static_cast<float>(params.sizes[group])
                                                   : static_cast<float>(params.words[group]));
    } else if (group >= 0 && reduction == PointReduction::First) {
      if (params.words[group] != row) value = 0;
    } else if (group >= 0 && reduction == PointReduction::Max) {
      if (row_of_key(params.keys[group * params.channels + c]) != row) value = 0;
    }
    target[c] = Element<To>::store(value);
  }
}

}  // namespace

i64 CpuPoints::workspace_bytes(const DevoxelizeGradientChoice& choice, i64 most_points, i64 most_rows) const {
  return EntryPlaces(choice.problem, most_points, most_rows, pool_.threads(), nullptr).bytes;
}

llvm::Error CpuPoints::devoxelize_gradient(const DevoxelizeGradientRequest& request) {
  const DevoxelizeProblem& problem = request.choice->problem;
  const i64 points = count_within(request.points.count, request.points.most);
  const i64 rows = count_within(request.row_count, request.most_rows);
  const EntryPlaces places(problem, request.points.most, request.most_rows, pool_.threads(),
                           static_cast<char*>(request.workspace));
  if (problem.blends()) find_entries(request, points, rows, pool_, places);
  list_entries(request, points, rows, places);
  pool_.run((request.most_rows + kPointRowsPerTask - 1) / kPointRowsPerTask, [&](i64 task, i32 thread) {
    double* const sums = places.sums + i64{thread} * problem.channels;
    const i64 end = std::min(request.most_rows, (task + 1) * kPointRowsPerTask);
    with_storage(problem.dtype, [&]<DType T>() {
      for (i64 row = task * kPointRowsPerTask; row < end; ++row) sum_row<T>(request, places, row, sums);
    });
  });
  return llvm::Error::success();
}

llvm::Error CpuPoints::group_gradient(const GroupGradientRequest& request) {
  const GroupGradientProblem& problem = request.choice->problem;
  const PointReduction reduction = problem.reduction;
  GroupsParams params = request.params;
  params.words = static_cast<u32*>(request.workspace);
  params.keys = static_cast<u64*>(request.workspace);
  const i64 rows = count_within(params.row_count, params.most_rows);
  const i64 groups = count_within(params.group_count, params.most_groups);
  if (reduction == PointReduction::Max) {
    std::fill_n(params.keys, params.most_groups * params.channels, u64{0});
    pool_.run((params.channels + kMaximaPerTask - 1) / kMaximaPerTask, [&](i64 task, i32) {
      const auto first = static_cast<i32>(task) * kMaximaPerTask;
      with_storage(problem.row_type(), [&]<DType T>() {
        find_maxima<T>(params, rows, groups, first, std::min(params.channels, first + kMaximaPerTask));
      });
    });
  } else if (reduction == PointReduction::First || (reduction == PointReduction::Mean && !params.sizes)) {
    const bool counts = reduction == PointReduction::Mean;
    std::fill_n(params.words, params.most_groups, counts ? 0 : kNoFirstRow);
    for (i64 row = 0; row < rows; ++row) {
      const i64 group = group_of_row(params, row, groups);
      if (group < 0) continue;
      u32& word = params.words[group];
      word = counts ? word + 1 : std::min(word, static_cast<u32>(row));
    }
  }
  pool_.run((params.most_rows + kPointRowsPerTask - 1) / kPointRowsPerTask, [&](i64 task, i32) {
    const i64 end = std::min(params.most_rows, (task + 1) * kPointRowsPerTask);
    with_storage(problem.dtype, [&]<DType From>() {
      with_storage(problem.row_type(), [&]<DType To>() {
        for (i64 row = task * kPointRowsPerTask; row < end; ++row)
          spread_row<From, To>(params, reduction, row, row < rows ? group_of_row(params, row, groups) : -1);
      });
    });
  });
  return llvm::Error::success();
}

}  // namespace minuet
