// Implements row_gradient.h: gradients of gathers of rows, and of groups of rows.
#include "include/minuet/row_gradient.h"
#include "runtime/abi/point_arguments.h"
#include "runtime/engine/arena.h"

namespace minuet {
namespace {

[[gnu::cold]] llvm::Expected<GroupGradientProblem> read_problem(const minuet_group_gradient_options& given) {
  GroupGradientProblem problem;
  MINUET_ASSIGN(problem.ndim, read_ndim(given.ndim));
  MINUET_ASSIGN(problem.dtype, read_dtype(given.dtype));
  problem.channels = given.channels;
  MINUET_TRY(check_choice(given.feature, MINUET_POINT_FEATURE_FIRST, "feature"));
  problem.reduction = static_cast<PointReduction>(given.feature);
  MINUET_TRY(check_flags({{given.rows_are_f32, "rows_are_f32"}}));
  problem.rows_are_f32 = given.rows_are_f32 != 0;
  MINUET_TRY(check_choice(given.reserved, 0, "reserved"));
  MINUET_TRY(validate(problem));
  return problem;
}

/// Returns OutOfRange if the points have more corners than a sort has keys.
llvm::Error check_corners(const DevoxelizeProblem& problem, i64 most) {
  MINUET_TRY(check_point_count(most, "most"));
  return check_point_count(most * problem.corners(), "the number of corners of all points");
}

llvm::Error devoxelize_gradient(const minuet_point_op& op, const DevoxelizeGradientChoice& choice,
                                const minuet_device& device, const minuet_devoxelize_arguments& given,
                                void* stream) {
  const DevoxelizeProblem& problem = choice.problem;
  DevoxelizeGradientRequest request;
  request.choice = &choice;
  MINUET_TRY(read_sources(problem, given, request));
  MINUET_TRY(check_corners(problem, given.most));
  MINUET_TRY(check_point_count(given.most_rows, "most_rows"));
  MINUET_TRY(check_alignment(given.row_count, kWordBytes, "row_count"));
  MINUET_TRY(check_array(given.features, given.most, "features", kVectorAlignment));
  MINUET_TRY(check_array(given.output, given.most_rows, "output", kVectorAlignment));
  const i64 row_bytes = i64{problem.channels} * dtype_bytes(storage_type(problem.dtype));
  return with_points(op, device, stream, [&](PointOperations& points) -> llvm::Error {
    const i64 bytes = points.workspace_bytes(choice, given.most, given.most_rows);
    MINUET_TRY(check_block("workspace", given.workspace, given.workspace_bytes, bytes));
    const NamedMemory written[] = {{"workspace", memory_of(given.workspace, bytes)},
                                   {"output", memory_of(given.output, given.most_rows * row_bytes)}};
    std::vector<NamedMemory> read = memory_of_sources(problem, given, request);
    read.push_back({"features", memory_of(given.features, given.most * row_bytes)});
    MINUET_TRY(check_apart(written, read));
    request.row_count = given.row_count;
    request.most_rows = given.most_rows;
    request.out_gradient = given.features;
    request.output = given.output;
    request.workspace = given.workspace;
    return points.devoxelize_gradient(request);
  });
}

/// Reads the arguments that only some ways of combining rows need.
llvm::Error read_optional(const GroupGradientProblem& problem, const minuet_group_gradient_arguments& given) {
  if (problem.reduction == PointReduction::Max) {
    MINUET_TRY(check_array(given.input, given.most_rows, "input",
                           static_cast<std::uintptr_t>(dtype_bytes(problem.row_type()))));
    if (given.input_ld < problem.channels || given.input_ld > kMostLd) {
      return make_error(StatusCode::InvalidArgument, "input_ld is {0}; it must be {1} to {2}", given.input_ld,
                        problem.channels, kMostLd);
    }
  } else if (given.input || given.input_ld != 0) {
    return make_error(StatusCode::InvalidArgument,
                      "input or input_ld is given, but only a maximum reads the rows: leave them null and 0");
  }
  if (problem.reduction != PointReduction::Mean && given.group_sizes) {
    return make_error(StatusCode::InvalidArgument,
                      "group_sizes is given, but only a mean reads it: leave it null");
  }
  return check_alignment(given.group_sizes, kWordBytes, "group_sizes");
}

llvm::Error group_gradient(const minuet_point_op& op, const GroupGradientChoice& choice,
                           const minuet_device& device, const minuet_group_gradient_arguments& given,
                           void* stream) {
  const GroupGradientProblem& problem = choice.problem;
  MINUET_TRY(check_point_count(given.most_rows, "most_rows"));
  MINUET_TRY(check_point_count(given.most_groups, "most_groups"));
  MINUET_TRY(check_array(given.groups, given.most_rows, "groups"));
  if (given.groups_ld < 1 || given.groups_ld > kMostLd) {
    return make_error(StatusCode::InvalidArgument, "groups_ld is {0}; it must be 1 to {1}", given.groups_ld,
                      kMostLd);
  }
  MINUET_TRY(check_alignment(given.row_count, kWordBytes, "row_count"));
  MINUET_TRY(check_alignment(given.group_count, kWordBytes, "group_count"));
  MINUET_TRY(read_optional(problem, given));
  MINUET_TRY(check_array(given.out_gradient, given.most_groups, "out_gradient", kVectorAlignment));
  MINUET_TRY(check_array(given.input_gradient, given.most_rows, "input_gradient", kVectorAlignment));
  const i64 bytes = given.group_sizes ? 0 : group_gradient_bytes(problem, given.most_groups);
  if (bytes > 0) MINUET_TRY(check_block("workspace", given.workspace, given.workspace_bytes, bytes));
  const i64 group_bytes = i64{problem.channels} * dtype_bytes(storage_type(problem.dtype));
  const i64 element = dtype_bytes(problem.row_type()), row_bytes = problem.channels * element;
  const NamedMemory written[] = {
      {"workspace", memory_of(given.workspace, bytes)},
      {"input_gradient", memory_of(given.input_gradient, given.most_rows * row_bytes)}};
  const NamedMemory read[] = {
      {"groups", MemoryRows{reinterpret_cast<std::uintptr_t>(given.groups), given.most_rows,
                            given.groups_ld * kWordBytes, kWordBytes}},
      optional_memory("row_count", given.row_count, kWordBytes),
      optional_memory("group_count", given.group_count, kWordBytes),
      optional_memory("group_sizes", given.group_sizes, given.most_groups * kWordBytes),
      {"input", MemoryRows{reinterpret_cast<std::uintptr_t>(given.input), given.input ? given.most_rows : 0,
                           given.input_ld * element, row_bytes}},
      {"out_gradient", memory_of(given.out_gradient, given.most_groups * group_bytes)}};
  MINUET_TRY(check_apart(written, read));
  GroupGradientRequest request;
  request.choice = &choice;
  request.workspace = given.workspace;
  GroupsParams& params = request.params;
  params.groups = given.groups;
  params.groups_ld = given.groups_ld;
  params.row_count = given.row_count;
  params.most_rows = given.most_rows;
  params.group_count = given.group_count;
  params.most_groups = given.most_groups;
  params.sizes = given.group_sizes;
  params.input = given.input;
  params.input_ld = given.input_ld;
  params.channels = problem.channels;
  params.out_gradient = given.out_gradient;
  params.output = given.input_gradient;
  return with_points(op, device, stream,
                     [&](PointOperations& points) { return points.group_gradient(request); });
}

}  // namespace
}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_devoxelize_gradient_create(minuet_context* context,
                                                const minuet_devoxelize_options* options,
                                                minuet_point_op** op) {
  return guarded("minuet_devoxelize_gradient_create", [&]() -> llvm::Error {
    return create_single_op(
        context, options, minuet_devoxelize_options(MINUET_DEVOXELIZE_OPTIONS_INIT),
        [](const minuet_devoxelize_options& given) -> llvm::Expected<DevoxelizeGradientChoice> {
          MINUET_ASSIGN(const DevoxelizeProblem problem, read_problem(given));
          return choose_devoxelize_gradient(problem);
        },
        op);
  });
}

minuet_status minuet_devoxelize_gradient_bytes(minuet_point_op* op, const char* arch, int64_t most,
                                               int64_t most_rows, int64_t* workspace_bytes) {
  return guarded("minuet_devoxelize_gradient_bytes", [&]() -> llvm::Error {
    MINUET_ASSIGN(const DevoxelizeGradientChoice* const choice, choice_of<DevoxelizeGradientChoice>(op));
    MINUET_TRY(check_pointer(workspace_bytes, "workspace_bytes"));
    MINUET_TRY(check_corners(choice->problem, most));
    MINUET_TRY(check_point_count(most_rows, "most_rows"));
    return with_measured_engine(*op->context, op->ndim(), arch, [&](Engine& engine) {
      *workspace_bytes = engine.points().workspace_bytes(*choice, most, most_rows);
    });
  });
}

minuet_status minuet_devoxelize_gradient(minuet_point_op* op, minuet_device* device,
                                         const minuet_devoxelize_arguments* arguments, void* stream) {
  return guarded("minuet_devoxelize_gradient", [&]() -> llvm::Error {
    MINUET_ASSIGN(const DevoxelizeGradientChoice* const choice, choice_of<DevoxelizeGradientChoice>(op));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(arguments, "arguments"));
    MINUET_ASSIGN(const minuet_devoxelize_arguments given,
                  read_options(arguments, minuet_devoxelize_arguments(MINUET_DEVOXELIZE_ARGUMENTS_INIT)));
    const Trace::Span span(device->open->trace(), "run", "devoxelize gradient");
    return devoxelize_gradient(*op, *choice, *device, given, stream);
  });
}

minuet_status minuet_group_gradient_create(minuet_context* context,
                                           const minuet_group_gradient_options* options,
                                           minuet_point_op** op) {
  return guarded("minuet_group_gradient_create", [&]() -> llvm::Error {
    return create_single_op(
        context, options, minuet_group_gradient_options(MINUET_GROUP_GRADIENT_OPTIONS_INIT),
        [](const minuet_group_gradient_options& given) -> llvm::Expected<GroupGradientChoice> {
          MINUET_ASSIGN(const GroupGradientProblem problem, read_problem(given));
          return choose_group_gradient(problem);
        },
        op);
  });
}

minuet_status minuet_group_gradient_bytes(minuet_point_op* op, const char* arch, int64_t most_groups,
                                          int64_t* workspace_bytes) {
  return guarded("minuet_group_gradient_bytes", [&]() -> llvm::Error {
    MINUET_ASSIGN(const GroupGradientChoice* const choice, choice_of<GroupGradientChoice>(op));
    MINUET_TRY(check_pointer(workspace_bytes, "workspace_bytes"));
    MINUET_TRY(check_point_count(most_groups, "most_groups"));
    return with_measured_engine(*op->context, op->ndim(), arch, [&](Engine&) {
      *workspace_bytes = group_gradient_bytes(choice->problem, most_groups);
    });
  });
}

minuet_status minuet_group_gradient(minuet_point_op* op, minuet_device* device,
                                    const minuet_group_gradient_arguments* arguments, void* stream) {
  return guarded("minuet_group_gradient", [&]() -> llvm::Error {
    MINUET_ASSIGN(const GroupGradientChoice* const choice, choice_of<GroupGradientChoice>(op));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(arguments, "arguments"));
    MINUET_ASSIGN(
        const minuet_group_gradient_arguments given,
        read_options(arguments, minuet_group_gradient_arguments(MINUET_GROUP_GRADIENT_ARGUMENTS_INIT)));
    const Trace::Span span(device->open->trace(), "run", "group gradient");
    return group_gradient(*op, *choice, *device, given, stream);
  });
}

}  // extern "C"
