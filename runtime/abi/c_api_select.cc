// Implements select.h: levels of rows, children or cells that a rule keeps.
#include <string>

#include "codegen/base/number_text.h"
#include "runtime/abi/single_op.h"
#include "runtime/engine/arena.h"

namespace minuet {
namespace {

static_assert(MINUET_SELECT_ROWS == static_cast<int>(SelectSource::Rows) &&
              MINUET_SELECT_CELLS == static_cast<int>(SelectSource::Cells));
static_assert(MINUET_SELECT_ALL == static_cast<int>(SelectRule::All) &&
              MINUET_SELECT_MASK == static_cast<int>(SelectRule::Mask) &&
              MINUET_SELECT_ABOVE == static_cast<int>(SelectRule::Above) &&
              MINUET_SELECT_BEST == static_cast<int>(SelectRule::Best) &&
              MINUET_SELECT_NONZERO == static_cast<int>(SelectRule::NonZero));

/// The end of the workspace holds the status if the caller does not ask for it.
constexpr i64 kOwnStatusBytes = 16;

llvm::Error not_for(const char* name, const std::string& value, const char* reason) {
  return make_error(StatusCode::InvalidArgument, "{0} is {1}, but {2}: leave it 0", name, value, reason);
}
llvm::Error check_zeros(const int32_t* numbers, const char* name, const char* reason) {
  for (i32 a = 0; a < kMaxDim; ++a) {
    if (numbers[a] != 0) return not_for(name, std::to_string(numbers[a]), reason);
  }
  return llvm::Error::success();
}

/// Checks that the options that the rule has no use for are 0.
llvm::Error check_unused_by_rule(const minuet_select_options& given) {
  if (given.rule != MINUET_SELECT_ABOVE && given.threshold != 0)
    return not_for("threshold", general_text(given.threshold, 9), "the rule compares no score with it");
  if (given.rule != MINUET_SELECT_BEST && given.best != 0)
    return not_for("best", std::to_string(given.best), "the rule does not look for the best scores");
  if (given.rule == MINUET_SELECT_NONZERO) return llvm::Error::success();
  constexpr const char* kReason = "the rule reads no dense tensor";
  if (given.channels != 0) return not_for("channels", std::to_string(given.channels), kReason);
  if (given.channels_last != 0) return not_for("channels_last", std::to_string(given.channels_last), kReason);
  return check_zeros(given.axis_order, "axis_order", kReason);
}

/// Reads the cells of a dense tensor and the order in which it stores them.
llvm::Error read_layout(const minuet_select_options& given, SelectProblem& problem) {
  MINUET_TRY(check_zeros(given.children, "children", "cells have none"));
  MINUET_ASSIGN(const AxisArray shape, read_cells(given.shape, problem.ndim, "shape"));
  MINUET_ASSIGN(problem.layout.tensor_stride, read_axes(given.tensor_stride, problem.ndim, "tensor_stride"));
  std::copy_n(shape.begin(), problem.ndim, problem.layout.shape.begin());
  problem.channels = given.channels;
  MINUET_TRY(check_flags({{given.channels_last, "channels_last"}}));
  problem.layout.channels_last = given.channels_last != 0;
  constexpr auto kIsGiven = [](int32_t axis) { return axis != 0; };
  if (std::none_of(given.axis_order, given.axis_order + kMaxDim, kIsGiven)) return llvm::Error::success();
  // validate() refuses axes that are not there, or that are named twice.
  std::copy_n(given.axis_order, kMaxDim, problem.layout.order.begin());
  return llvm::Error::success();
}

[[gnu::cold]] llvm::Expected<minuet_select_op::Selection> read_selection(const minuet_select_options& given) {
  SelectProblem problem;
  MINUET_ASSIGN(problem.ndim, read_ndim(given.ndim));
  MINUET_ASSIGN(problem.dtype, read_dtype(given.dtype));
  MINUET_TRY(check_choice(given.source, MINUET_SELECT_CELLS, "source"));
  MINUET_TRY(check_choice(given.rule, MINUET_SELECT_NONZERO, "rule"));
  problem.source = static_cast<SelectSource>(given.source);
  problem.rule = static_cast<SelectRule>(given.rule);
  problem.threshold = given.threshold;
  problem.best = given.best;
  MINUET_TRY(check_unused_by_rule(given));
  MINUET_ASSIGN(const i32 batch_size, read_batch_size(given.batch_size));
  const bool of_cells = problem.source == SelectSource::Cells;
  if (of_cells) {
    MINUET_TRY(read_layout(given, problem));
  } else {
    MINUET_TRY(check_zeros(given.shape, "shape", "rows are not the cells of a dense tensor"));
    MINUET_ASSIGN(problem.children, read_axes(given.children, problem.ndim, "children"));
    MINUET_ASSIGN(problem.child_step, read_axes(given.tensor_stride, problem.ndim, "tensor_stride"));
    if (problem.rule != SelectRule::Best && batch_size != 0)
      return not_for("batch_size", std::to_string(batch_size), "the rule does not depend on batch items");
  }
  MINUET_TRY(validate(problem));
  if (of_cells) MINUET_TRY(check_candidates(problem, 0, batch_size));
  return minuet_select_op::Selection{choose_select(problem), batch_size};
}

llvm::Error check_rows(const SelectProblem& problem, i64 most_rows, i64 batch_size) {
  if (problem.source == SelectSource::Rows) return check_candidates(problem, most_rows, batch_size);
  if (most_rows == 0) return llvm::Error::success();
  return not_for("most_rows", std::to_string(most_rows), "the candidates are cells");
}

/// Checks an array that only some ops read or write.
llvm::Error check_used(bool is_used, const void* pointer, i64 elements, const char* name,
                       std::uintptr_t alignment = kWordBytes) {
  if (is_used) return check_array(pointer, elements, name, alignment);
  if (!pointer) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "{0} is given, but this op has no use for it: leave it null",
                    name);
}

/// Holds the sizes of a call's arrays.
struct SelectSizes {
  i64 candidates, each, word;
  bool of_rows, has_scores, has_dense;
  SelectSizes(const minuet_select_op::Selection& selection, i64 most_rows) {
    const SelectProblem& problem = selection.choice.problem;
    candidates = problem.candidates(most_rows, selection.batch_size);
    of_rows = problem.source == SelectSource::Rows;
    each = of_rows ? problem.children_of_row() : 1;
    word = dtype_bytes(storage_type(problem.dtype));
    has_scores = problem.rule == SelectRule::Above || problem.rule == SelectRule::Best;
    has_dense = problem.rule == SelectRule::NonZero;
  }
};

llvm::Error check_inputs(const SelectProblem& problem, const SelectSizes& sizes,
                         const minuet_select_arguments& given) {
  MINUET_TRY(check_used(sizes.of_rows, given.coordinates, given.most_rows, "coordinates"));
  MINUET_TRY(check_used(sizes.of_rows, given.row_count, 0, "row_count"));
  MINUET_TRY(check_used(problem.rule == SelectRule::Mask, given.mask, sizes.candidates, "mask", 1));
  const auto element = static_cast<std::uintptr_t>(sizes.word);
  MINUET_TRY(check_used(sizes.has_scores, given.scores, sizes.candidates, "scores", element));
  MINUET_TRY(check_used(sizes.has_dense, given.dense, sizes.candidates, "dense", element));
  const i64 least = sizes.has_scores ? sizes.each : 0, most = sizes.has_scores ? kMostLd : 0;
  if (given.scores_ld >= least && given.scores_ld <= most) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "scores_ld is {0}; it must be {1} to {2}", given.scores_ld,
                    least, most);
}

llvm::Error check_outputs(const SelectSizes& sizes, const minuet_select_arguments& given) {
  MINUET_TRY(check_point_count(given.capacity, "capacity"));
  MINUET_TRY(check_array(given.selected, given.capacity, "selected"));
  MINUET_TRY(check_alignment(given.sources, kWordBytes, "sources"));
  MINUET_TRY(check_used(sizes.of_rows, given.parents, 0, "parents"));
  MINUET_TRY(check_used(sizes.has_dense, given.features, 0, "features", kVectorAlignment));
  MINUET_TRY(check_alignment(given.places, kWordBytes, "places"));
  MINUET_TRY(check_array(given.count, 1, "count"));
  return check_alignment(given.status, kWordBytes, "status");
}

llvm::Error check_memory(const SelectProblem& problem, const SelectSizes& sizes,
                         const minuet_select_arguments& given, i64 workspace_bytes) {
  const i64 rows = given.capacity, coordinate = (1 + problem.ndim) * kWordBytes;
  const NamedMemory written[] = {
      {"workspace", memory_of(given.workspace, workspace_bytes)},
      {"selected", memory_of(given.selected, rows * coordinate)},
      optional_memory("sources", given.sources, rows * kWordBytes),
      optional_memory("parents", given.parents, rows * kWordBytes),
      optional_memory("features", given.features, rows * problem.channels * sizes.word),
      optional_memory("places", given.places, sizes.candidates * kWordBytes),
      {"count", memory_of(given.count, kWordBytes)},
      optional_memory("status", given.status, kWordBytes)};
  const MemoryRows scores{reinterpret_cast<std::uintptr_t>(given.scores),
                          given.scores ? sizes.candidates / sizes.each : 0, given.scores_ld * sizes.word,
                          sizes.each * sizes.word};
  const NamedMemory read[] = {
      optional_memory("coordinates", given.coordinates, given.most_rows * coordinate),
      optional_memory("row_count", given.row_count, kWordBytes),
      optional_memory("mask", given.mask, sizes.candidates),
      {"scores", scores},
      optional_memory("dense", given.dense, sizes.candidates * problem.channels * sizes.word)};
  return check_apart(written, read);
}

llvm::Error select(const minuet_select_op::Selection& selection, const minuet_device& device,
                   const minuet_select_arguments& given, void* stream) {
  const SelectProblem& problem = selection.choice.problem;
  MINUET_TRY(check_rows(problem, given.most_rows, selection.batch_size));
  const SelectSizes sizes(selection, given.most_rows);
  MINUET_TRY(check_inputs(problem, sizes, given));
  MINUET_TRY(check_outputs(sizes, given));
  const auto work = [&](Engine& engine) -> llvm::Error {
    SelectOperations& selections = engine.selections();
    const i64 bytes = selections.workspace_bytes(selection.choice, given.most_rows, selection.batch_size);
    MINUET_TRY(check_block("workspace", given.workspace, given.workspace_bytes, bytes + kOwnStatusBytes));
    MINUET_TRY(check_memory(problem, sizes, given, bytes + kOwnStatusBytes));
    SelectRequest request;
    request.choice = &selection.choice;
    request.coordinates = given.coordinates;
    request.row_count = given.row_count;
    request.most_rows = given.most_rows;
    request.batch_size = selection.batch_size;
    request.mask = given.mask;
    request.scores = given.scores;
    request.scores_ld = given.scores_ld;
    request.dense = given.dense;
    request.workspace = given.workspace;
    request.capacity = given.capacity;
    request.selected = given.selected;
    request.sources = given.sources;
    request.parents = given.parents;
    request.places = given.places;
    request.features = given.features;
    request.count = given.count;
    char* const own_status = static_cast<char*>(given.workspace) + bytes;
    request.status = given.status ? given.status : reinterpret_cast<u32*>(own_status);
    return selections.select(request);
  };
  return with_loaded_engine(device, problem.ndim, "minuet_select_op_load", stream, work);
}

}  // namespace
}  // namespace minuet

using namespace minuet;  // NOLINT: The functions of the ABI are global and use the names of this namespace.

extern "C" {

minuet_status minuet_select_create(minuet_context* context, const minuet_select_options* options,
                                   minuet_select_op** op) {
  return guarded("minuet_select_create", [&]() -> llvm::Error {
    return create_single_op(context, options, minuet_select_options(MINUET_SELECT_OPTIONS_INIT),
                            read_selection, op);
  });
}

void minuet_select_op_destroy(minuet_select_op* op) { delete op; }

minuet_status minuet_select_op_load(minuet_select_op* op, minuet_device* device) {
  return guarded("minuet_select_op_load", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(op, "op"));
    SourceList kernels;
    add_sources(kernels, op->selection.choice);
    return load_single_op(device, op->selection.choice.problem.ndim, kernels);
  });
}

minuet_status minuet_select_bytes(minuet_select_op* op, const char* arch, int64_t most_rows,
                                  int64_t* workspace_bytes) {
  return guarded("minuet_select_bytes", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(op, "op"));
    MINUET_TRY(check_pointer(workspace_bytes, "workspace_bytes"));
    const auto& [choice, batch_size] = op->selection;
    MINUET_TRY(check_rows(choice.problem, most_rows, batch_size));
    return with_measured_engine(*op->context, choice.problem.ndim, arch, [&](Engine& engine) {
      *workspace_bytes =
          engine.selections().workspace_bytes(op->selection.choice, most_rows, op->selection.batch_size) +
          kOwnStatusBytes;
    });
  });
}

minuet_status minuet_select(minuet_select_op* op, minuet_device* device,
                            const minuet_select_arguments* arguments, void* stream) {
  return guarded("minuet_select", [&]() -> llvm::Error {
    MINUET_TRY(check_pointer(op, "op"));
    MINUET_TRY(check_pointer(device, "device"));
    MINUET_TRY(check_pointer(arguments, "arguments"));
    MINUET_ASSIGN(const minuet_select_arguments given,
                  read_options(arguments, minuet_select_arguments(MINUET_SELECT_ARGUMENTS_INIT)));
    const Trace::Span span(device->open->trace(), "run", "select");
    return select(op->selection, *device, given, stream);
  });
}

}  // extern "C"
