#include "runtime/abi/point_arguments.h"

#include "codegen/base/number_text.h"

namespace minuet {

llvm::Error check_unused(const float* numbers, i32 first, const char* name, const char* reason) {
  for (i32 a = first; a < kMaxDim; ++a) {
    if (numbers[a] == 0) continue;
    return make_error(StatusCode::InvalidArgument, "{0} of axis {1} is {2}, but {3}: leave it 0", name, a,
                      general_text(numbers[a], 9), reason);
  }
  return llvm::Error::success();
}

llvm::Error read_grid(i32 ndim, const float* low, const float* high, const float* voxel_size,
                      PointGrid& grid) {
  constexpr const char* kReason = "the points do not have this axis";
  MINUET_TRY(check_unused(low, ndim, "low", kReason));
  MINUET_TRY(check_unused(voxel_size, ndim, "voxel_size", kReason));
  std::copy_n(low, kMaxDim, grid.low);
  std::copy_n(voxel_size, kMaxDim, grid.size);
  if (grid.has_range != 0) {
    MINUET_TRY(check_unused(high, ndim, "high", kReason));
    std::copy_n(high, kMaxDim, grid.high);
  }
  return complete_grid(ndim, grid);
}

[[gnu::cold]] llvm::Expected<DevoxelizeProblem> read_problem(const minuet_devoxelize_options& given) {
  DevoxelizeProblem problem;
  MINUET_ASSIGN(problem.ndim, read_ndim(given.ndim));
  MINUET_ASSIGN(problem.dtype, read_dtype(given.dtype));
  problem.channels = given.channels;
  MINUET_TRY(check_choice(given.blend, MINUET_BLEND_CORNERS, "blend"));
  problem.blend = static_cast<PointBlend>(given.blend);
  MINUET_ASSIGN(problem.tensor_stride, read_axes(given.tensor_stride, problem.ndim, "tensor_stride"));
  if (problem.blends()) {
    MINUET_TRY(read_grid(problem.ndim, given.low, nullptr, given.voxel_size, problem.grid));
  } else {
    constexpr const char* kReason = "the nearest voxel is that of point_rows";
    MINUET_TRY(check_unused(given.low, 0, "low", kReason));
    MINUET_TRY(check_unused(given.voxel_size, 0, "voxel_size", kReason));
  }
  MINUET_TRY(validate(problem));
  return problem;
}

llvm::Error with_points(const minuet_point_op& op, const minuet_device& device, void* stream,
                        llvm::function_ref<llvm::Error(PointOperations&)> work) {
  return with_loaded_engine(device, op.ndim(), "minuet_point_op_load", stream,
                            [&](Engine& engine) { return work(engine.points()); });
}

llvm::Expected<PointArray> read_points(const float* points, i64 points_ld, i64 most, const int32_t* batch,
                                       const int32_t* count, i32 columns) {
  MINUET_TRY(check_point_count(most, "most"));
  MINUET_TRY(check_array(points, most, "points"));
  if (points_ld < columns || points_ld > kMostLd) {
    return make_error(StatusCode::InvalidArgument, "points_ld is {0}; it must be {1} to {2}", points_ld,
                      columns, kMostLd);
  }
  MINUET_TRY(check_alignment(batch, kWordBytes, "batch"));
  MINUET_TRY(check_alignment(count, kWordBytes, "count"));
  return PointArray{points, points_ld, batch, count, most};
}

std::vector<NamedMemory> memory_of_points(const PointArray& points, i32 columns) {
  const MemoryRows rows{reinterpret_cast<std::uintptr_t>(points.points), points.points ? points.most : 0,
                        points.ld * kWordBytes, columns * kWordBytes};
  return {{"points", rows},
          optional_memory("batch", points.batch, points.most * kWordBytes),
          optional_memory("count", points.count, kWordBytes)};
}

}  // namespace minuet
