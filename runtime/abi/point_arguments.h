// Declares what the calls of points.h and row_gradient.h share.
#pragma once

#include <type_traits>
#include <variant>
#include <vector>

#include "runtime/abi/single_op.h"

namespace minuet {

/// Returns InvalidArgument unless the numbers of a field are 0 from axis `first` on.
llvm::Error check_unused(const float* numbers, i32 first, const char* name, const char* reason);
/// Reads and completes a grid, of which `has_range` is set. `high` is read with a range only.
llvm::Error read_grid(i32 ndim, const float* low, const float* high, const float* voxel_size,
                      PointGrid& grid);
llvm::Expected<DevoxelizeProblem> read_problem(const minuet_devoxelize_options& given);

/// Holds what an op does, and the function that makes such an op.
struct PointOpText {
  const char* does;
  const char* create;
};
/// Returns the texts of a choice.
template <class Choice>
PointOpText text_of(const Choice&) {
  if constexpr (std::is_same_v<Choice, VoxelizeChoice>) return {"voxelizes", "minuet_voxelize_create"};
  if constexpr (std::is_same_v<Choice, DevoxelizeChoice>) return {"devoxelizes", "minuet_devoxelize_create"};
  if constexpr (std::is_same_v<Choice, DevoxelizeGradientChoice>)
    return {"computes the gradient of a devoxelize", "minuet_devoxelize_gradient_create"};
  if constexpr (std::is_same_v<Choice, GroupGradientChoice>)
    return {"computes the gradient of groups", "minuet_group_gradient_create"};
}

/// Returns the choice of the op if it is of the kind that the call needs.
template <class Choice>
llvm::Expected<const Choice*> choice_of(const minuet_point_op* op) {
  MINUET_TRY(check_pointer(op, "op"));
  if (const auto* choice = std::get_if<Choice>(&op->choice)) return choice;
  return make_error(StatusCode::InvalidArgument, "the op {0}: make one with {1}",
                    std::visit([](const auto& choice) { return text_of(choice).does; }, op->choice),
                    text_of(Choice()).create);
}

/// Runs `work` with the operations of an engine of the device, in one call on `stream`.
llvm::Error with_points(const minuet_point_op& op, const minuet_device& device, void* stream,
                        llvm::function_ref<llvm::Error(PointOperations&)> work);

/// Reads the points of a call. `columns` is the least number of numbers of a point.
llvm::Expected<PointArray> read_points(const float* points, i64 points_ld, i64 most, const int32_t* batch,
                                       const int32_t* count, i32 columns);
/// Lists the memory of the points for check_apart(). A point has `columns` numbers, and the gap behind it is
/// not read.
std::vector<NamedMemory> memory_of_points(const PointArray& points, i32 columns);

/// Reads the arguments of which only the nearest voxel or only the voxels around a point have a use. Request
/// is DevoxelizeRequest or DevoxelizeGradientRequest.
template <class Request>
llvm::Error read_sources(const DevoxelizeProblem& problem, const minuet_devoxelize_arguments& given,
                         Request& request) {
  if (problem.blends()) {
    MINUET_ASSIGN(request.points, read_points(given.points, given.points_ld, given.most, given.batch,
                                              given.count, problem.ndim));
    MINUET_TRY(check_array(given.coordinates, given.most_rows, "coordinates"));
    request.coordinates = given.coordinates;
    if (!given.point_rows) return llvm::Error::success();
    return make_error(StatusCode::InvalidArgument,
                      "point_rows is given, but the op looks the voxels around a point up: leave it null");
  }
  if (given.points || given.points_ld != 0 || given.batch || given.coordinates) {
    return make_error(StatusCode::InvalidArgument,
                      "points, points_ld, batch or coordinates is given, but the nearest voxel is that of "
                      "point_rows: leave them null and 0");
  }
  MINUET_TRY(check_point_count(given.most, "most"));
  MINUET_TRY(check_array(given.point_rows, given.most, "point_rows"));
  MINUET_TRY(check_alignment(given.count, kWordBytes, "count"));
  request.points.count = given.count;
  request.points.most = given.most;
  request.rows = given.point_rows;
  return llvm::Error::success();
}
/// Lists what a call with these arguments reads for check_apart(), but for features and gradients.
template <class Request>
std::vector<NamedMemory> memory_of_sources(const DevoxelizeProblem& problem,
                                           const minuet_devoxelize_arguments& given, const Request& request) {
  std::vector<NamedMemory> read = memory_of_points(request.points, problem.ndim);
  const i64 coordinate_words = request.coordinates ? given.most_rows * (1 + problem.ndim) : 0;
  read.push_back(optional_memory("point_rows", request.rows, given.most * kWordBytes));
  read.push_back({"coordinates", memory_of(request.coordinates, coordinate_words * kWordBytes)});
  read.push_back(optional_memory("row_count", given.row_count, kWordBytes));
  return read;
}

}  // namespace minuet
