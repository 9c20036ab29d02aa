// Implements points.h: voxels from points, and features of voxels back to points.
#include "runtime/abi/point_arguments.h"
#include "runtime/engine/arena.h"

namespace minuet {
namespace {

static_assert(MINUET_POINT_FEATURE_MEAN == static_cast<int>(PointReduction::Mean) &&
              MINUET_POINT_FEATURE_MAX == static_cast<int>(PointReduction::Max) &&
              MINUET_POINT_FEATURE_SUM == static_cast<int>(PointReduction::Sum) &&
              MINUET_POINT_FEATURE_FIRST == static_cast<int>(PointReduction::First));
static_assert(MINUET_BLEND_NEAREST == static_cast<int>(PointBlend::Nearest) &&
              MINUET_BLEND_CENTRES == static_cast<int>(PointBlend::Centres) &&
              MINUET_BLEND_CORNERS == static_cast<int>(PointBlend::Corners));
static_assert(int{MINUET_VOXELIZE_VOXELS} == int{kCountVoxels} &&
              int{MINUET_VOXELIZE_KEPT} == int{kCountKept} &&
              int{MINUET_VOXELIZE_OUTSIDE} == int{kCountOutside} &&
              int{MINUET_VOXELIZE_NOT_FINITE} == int{kCountNotFinite} &&
              int{MINUET_VOXELIZE_PAST_POINTS} == int{kCountPastPoints} &&
              int{MINUET_VOXELIZE_PAST_VOXELS} == int{kCountPastVoxels} &&
              int{MINUET_VOXELIZE_COUNTS} == int{kPointCounts});

/// The end of the workspace holds the counts and the status that the caller does not ask for.
constexpr i64 kOwnWordsBytes = 32;
static_assert((kPointCounts + 1) * kWordBytes <= kOwnWordsBytes);

[[gnu::cold]] llvm::Expected<VoxelizeProblem> read_problem(const minuet_voxelize_options& given) {
  VoxelizeProblem problem;
  MINUET_ASSIGN(problem.ndim, read_ndim(given.ndim));
  MINUET_ASSIGN(problem.dtype, read_dtype(given.dtype));
  problem.column = given.first_column;
  problem.channels = given.channels;
  MINUET_TRY(check_choice(given.feature, MINUET_POINT_FEATURE_FIRST, "feature"));
  problem.reduction = static_cast<PointReduction>(given.feature);
  MINUET_TRY(check_flags({{given.has_range, "has_range"}}));
  problem.grid.has_range = given.has_range;
  if (!given.has_range) MINUET_TRY(check_unused(given.high, 0, "high", "has_range is 0"));
  MINUET_TRY(read_grid(problem.ndim, given.low, given.high, given.voxel_size, problem.grid));
  MINUET_ASSIGN(problem.batch_size, read_batch_size(given.batch_size));
  problem.most_points_per_voxel = given.most_points_per_voxel;
  problem.most_voxels = given.most_voxels;
  MINUET_TRY(validate(problem));
  return problem;
}

llvm::Error voxelize(const minuet_point_op& op, const VoxelizeChoice& choice, const minuet_device& device,
                     const minuet_voxelize_arguments& given, void* stream) {
  const VoxelizeProblem& problem = choice.problem;
  const i32 columns = std::max(problem.ndim, problem.column + problem.channels);
  VoxelizeRequest request;
  request.choice = &choice;
  MINUET_ASSIGN(request.points,
                read_points(given.points, given.points_ld, given.most, given.batch, given.count, columns));
  MINUET_TRY(check_point_count(given.capacity, "capacity"));
  const i64 element = dtype_bytes(storage_type(problem.dtype));
  MINUET_TRY(check_array(given.coordinates, given.capacity, "coordinates"));
  MINUET_TRY(check_array(given.features, given.capacity, "features"));
  const std::pair<const void*, const char*> words[] = {{given.voxel_points, "voxel_points"},
                                                       {given.point_rows, "point_rows"},
                                                       {given.counts, "counts"},
                                                       {given.status, "status"}};
  for (const auto& [pointer, name] : words) MINUET_TRY(check_alignment(pointer, kWordBytes, name));
  return with_points(op, device, stream, [&](PointOperations& points) -> llvm::Error {
    const i64 bytes = points.workspace_bytes(choice, given.most);
    MINUET_TRY(check_block("workspace", given.workspace, given.workspace_bytes, bytes + kOwnWordsBytes));
    const i64 rows = given.capacity;
    const NamedMemory written[] = {
        {"workspace", memory_of(given.workspace, bytes + kOwnWordsBytes)},
        {"coordinates", memory_of(given.coordinates, rows * (1 + problem.ndim) * kWordBytes)},
        {"features", memory_of(given.features, rows * problem.channels * element)},
        optional_memory("voxel_points", given.voxel_points, rows * kWordBytes),
        optional_memory("point_rows", given.point_rows, given.most * kWordBytes),
        optional_memory("counts", given.counts, kPointCounts * kWordBytes),
        optional_memory("status", given.status, kWordBytes)};
    MINUET_TRY(check_apart(written, memory_of_points(request.points, columns)));
    auto* const own = reinterpret_cast<i32*>(static_cast<char*>(given.workspace) + bytes);
    request.workspace = given.workspace;
    request.capacity = rows;
    request.coordinates = given.coordinates;
    request.features = given.features;
    request.features_ld = problem.channels;
    request.points_of = given.voxel_points;
    request.rows = given.point_rows;
    request.counts = given.counts ? given.counts : own;
    request.status = given.status ? given.status : reinterpret_cast<u32*>(own + kPointCounts);
    return points.voxelize(request);
  });
}

llvm::Error devoxelize(const minuet_point_op& op, const DevoxelizeChoice& choice, const minuet_device& device,
                       const minuet_devoxelize_arguments& given, void* stream) {
  const DevoxelizeProblem& problem = choice.problem;
  DevoxelizeRequest request;
  request.choice = &choice;
  MINUET_TRY(read_sources(problem, given, request));
  MINUET_TRY(check_point_count(given.most_rows, "most_rows"));
  MINUET_TRY(check_alignment(given.row_count, kWordBytes, "row_count"));
  MINUET_TRY(check_array(given.features, given.most_rows, "features", kVectorAlignment));
  MINUET_TRY(check_array(given.output, given.most, "output", kVectorAlignment));
  const i64 row_bytes = i64{problem.channels} * dtype_bytes(storage_type(problem.dtype));
  return with_points(op, device, stream, [&](PointOperations& points) -> llvm::Error {
    const i64 bytes = points.workspace_bytes(choice, given.most, given.most_rows);
    if (bytes > 0) MINUET_TRY(check_block("workspace", given.workspace, given.workspace_bytes, bytes));
    const NamedMemory written[] = {{"workspace", memory_of(given.workspace, bytes)},
                                   {"output", memory_of(given.output, given.most * row_bytes)}};
    std::vector<NamedMemory> read = memory_of_sources(problem, given, request);
    read.push_back({"features", memory_of(given.features, given.most_rows * row_bytes)});
    MINUET_TRY(check_apart(written, read));
    request.row_count = given.row_count;
    request.most_rows = given.most_rows;
    request.features = given.features;
    request.output = given.output;
    request.workspace = given.workspace;
    return points.devoxelize(request);
  });
}

}  // namespace
}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_voxelize_create(minuet_context* context, const minuet_voxelize_options* options,
                                     minuet_point_op** op) {
  return guarded("minuet_voxelize_create", [&]() -> llvm::Error {
    return create_single_op(
        context, options, minuet_voxelize_options(MINUET_VOXELIZE_OPTIONS_INIT),
        [](const minuet_voxelize_options& given) -> llvm::Expected<VoxelizeChoice> {
          MINUET_ASSIGN(const VoxelizeProblem problem, read_problem(given));
          return choose_voxelize(problem);
        },
        op);
  });
}

minuet_status minuet_devoxelize_create(minuet_context* context, const minuet_devoxelize_options* options,
                                       minuet_point_op** op) {
  return guarded("minuet_devoxelize_create", [&]() -> llvm::Error {
    return create_single_op(
        context, options, minuet_devoxelize_options(MINUET_DEVOXELIZE_OPTIONS_INIT),
        [](const minuet_devoxelize_options& given) -> llvm::Expected<DevoxelizeChoice> {
          MINUET_ASSIGN(const DevoxelizeProblem problem, read_problem(given));
          return choose_devoxelize(problem);
        },
        op);
  });
}

void minuet_point_op_destroy(minuet_point_op* op) { delete op; }

minuet_status minuet_point_op_load(minuet_point_op* op, minuet_device* device) {
  return guarded("minuet_point_op_load", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(op, "op"));
    SourceList kernels;
    std::visit([&](const auto& choice) { add_sources(kernels, choice); }, op->choice);
    return load_single_op(device, op->ndim(), kernels);
  });
}

minuet_status minuet_voxelize_bytes(minuet_point_op* op, const char* arch, int64_t most,
                                    int64_t* workspace_bytes) {
  return guarded("minuet_voxelize_bytes", [&]() -> llvm::Error {
    MINUET_ASSIGN(const VoxelizeChoice* const choice, choice_of<VoxelizeChoice>(op));
    MINUET_TRY(check_pointer(workspace_bytes, "workspace_bytes"));
    MINUET_TRY(check_point_count(most, "most"));
    return with_measured_engine(*op->context, op->ndim(), arch, [&](Engine& engine) {
      *workspace_bytes = engine.points().workspace_bytes(*choice, most) + kOwnWordsBytes;
    });
  });
}

minuet_status minuet_devoxelize_bytes(minuet_point_op* op, const char* arch, int64_t most, int64_t most_rows,
                                      int64_t* workspace_bytes) {
  return guarded("minuet_devoxelize_bytes", [&]() -> llvm::Error {
    MINUET_ASSIGN(const DevoxelizeChoice* const choice, choice_of<DevoxelizeChoice>(op));
    MINUET_TRY(check_pointer(workspace_bytes, "workspace_bytes"));
    MINUET_TRY(check_point_count(most, "most"));
    MINUET_TRY(check_point_count(most_rows, "most_rows"));
    return with_measured_engine(*op->context, op->ndim(), arch, [&](Engine& engine) {
      *workspace_bytes = engine.points().workspace_bytes(*choice, most, most_rows);
    });
  });
}

minuet_status minuet_voxelize(minuet_point_op* op, minuet_device* device,
                              const minuet_voxelize_arguments* arguments, void* stream) {
  return guarded("minuet_voxelize", [&]() -> llvm::Error {
    MINUET_ASSIGN(const VoxelizeChoice* const choice, choice_of<VoxelizeChoice>(op));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(arguments, "arguments"));
    MINUET_ASSIGN(const minuet_voxelize_arguments given,
                  read_options(arguments, minuet_voxelize_arguments(MINUET_VOXELIZE_ARGUMENTS_INIT)));
    const Trace::Span span(device->open->trace(), "run", "voxelize");
    return voxelize(*op, *choice, *device, given, stream);
  });
}

minuet_status minuet_devoxelize(minuet_point_op* op, minuet_device* device,
                                const minuet_devoxelize_arguments* arguments, void* stream) {
  return guarded("minuet_devoxelize", [&]() -> llvm::Error {
    MINUET_ASSIGN(const DevoxelizeChoice* const choice, choice_of<DevoxelizeChoice>(op));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(arguments, "arguments"));
    MINUET_ASSIGN(const minuet_devoxelize_arguments given,
                  read_options(arguments, minuet_devoxelize_arguments(MINUET_DEVOXELIZE_ARGUMENTS_INIT)));
    const Trace::Span span(device->open->trace(), "run", "devoxelize");
    return devoxelize(*op, *choice, *device, given, stream);
  });
}

}  // extern "C"
