#include "codegen/choose/ops/dense.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "codegen/choose/choice.h"

namespace minuet {
i64 cells_of(i32 ndim, const DenseLayout& layout) {
  i64 cells = 1;
  // A shape with too many cells is refused, so the exact number does not matter then.
  for (i32 a = 0; a < ndim; ++a) cells = std::min(cells * layout.shape[a], i64{1} << 32);
  return cells;
}

CellGrid make_grid(i32 ndim, const DenseLayout& layout, i32 batch) {
  CellGrid grid = {};
  i32 step = 1;
  for (i32 i = ndim; i-- > 0;) {
    const i32 axis = layout.order[i];
    grid.tensor_stride[axis] = layout.tensor_stride[axis];
    grid.shape[axis] = layout.shape[axis];
    grid.step[axis] = step;
    step *= layout.shape[axis];
  }
  grid.cells = step;
  grid.batch = batch;
  return grid;
}

llvm::Error validate(const DenseProblem& problem) {
  if (problem.ndim < 1 || problem.ndim > kMaxDim) {
    return make_error(StatusCode::InvalidArgument,
                      "the level has {0} axes, of which a dense tensor can have 1 to {1}", problem.ndim,
                      kMaxDim);
  }
  if (problem.channels < 1 || problem.channels > kMostChannels) {
    return make_error(StatusCode::InvalidArgument, "channels are {0}; they must be 1 to {1}",
                      problem.channels, kMostChannels);
  }
  u32 axes = 0;
  for (i32 a = 0; a < problem.ndim; ++a) {
    if (problem.layout.shape[a] < 1 || problem.layout.tensor_stride[a] < 1) {
      return make_error(StatusCode::InvalidArgument,
                        "axis {0} has {1} cells and tensor stride {2}; both must be 1 or more", a,
                        problem.layout.shape[a], problem.layout.tensor_stride[a]);
    }
    const i32 axis = problem.layout.order[a];
    if (axis >= 0 && axis < problem.ndim) axes |= 1u << axis;
  }
  if (axes != (1u << problem.ndim) - 1) {
    return make_error(StatusCode::InvalidArgument, "the order of the axes must name each of the {0} once",
                      problem.ndim);
  }
  const i64 cells = cells_of(problem.ndim, problem.layout);
  if (cells <= std::numeric_limits<i32>::max()) return llvm::Error::success();
  return make_error(StatusCode::OutOfRange,
                    "a batch item has more than the 2^31 - 1 cells that a dense tensor can have: use larger "
                    "voxels or a smaller shape");
}

ToDenseChoice choose_to_dense(const ToDenseProblem& problem) {
  ToDenseChoice choice{problem, {}, {}};
  choice.list.ndim = problem.ndim;
  choice.kernel.io = storage_type(problem.dtype);  // Nothing is multiplied, so nothing is rounded to tf32.
  choice.kernel.channels = problem.channels;
  choice.kernel.channels_last = problem.layout.channels_last;
  const i32 element = dtype_bytes(choice.kernel.io);
  choice.kernel.vector_bytes = widest_vector(element, problem.channels, {problem.features});
  // A valid layout has at most 2^31 - 1 cells.
  const auto cells = static_cast<i32>(cells_of(problem.ndim, problem.layout));
  choice.kernel.store_bytes =
      problem.layout.channels_last ? choice.kernel.vector_bytes : widest_vector(element, cells, {});
  return choice;
}

FromDenseChoice choose_from_dense(const FromDenseProblem& problem) {
  FromDenseChoice choice{problem, {}};
  choice.kernel.io = storage_type(problem.dtype);
  choice.kernel.ndim = problem.ndim;
  choice.kernel.channels = problem.channels;
  choice.kernel.channels_last = problem.layout.channels_last;
  choice.kernel.vector_bytes =
      widest_vector(dtype_bytes(choice.kernel.io), problem.channels, {problem.features});
  return choice;
}

void add_sources(SourceList& list, const ToDenseChoice& choice) {
  list.add(choice.list);
  list.add(choice.kernel);
}

void add_sources(SourceList& list, const FromDenseChoice& choice) { list.add(choice.kernel); }

// The functions make_op_kind() and make_op_family() find the following functions by argument-dependent
// lookup, which does not search unnamed namespaces.
static llvm::Expected<std::vector<Candidate>> candidates(const ToDenseProblem& problem,
                                                         const CandidateOptions& options) {
  const ToDenseChoice choice = choose_to_dense(problem);
  Candidate candidate{choice, {"one pass over the cells"}};
  if (!options.arch.empty()) candidate.kernel = display_name(choice.kernel);
  return std::vector<Candidate>{std::move(candidate)};
}

static llvm::Expected<std::vector<Candidate>> candidates(const FromDenseProblem& problem,
                                                         const CandidateOptions& options) {
  const FromDenseChoice choice = choose_from_dense(problem);
  Candidate candidate{choice, {"one pass over the rows"}};
  if (!options.arch.empty()) candidate.kernel = display_name(choice.kernel);
  return std::vector<Candidate>{std::move(candidate)};
}

static const WindowProblem* window(const DenseProblem&) { return nullptr; }

static OperandShape shape(const DenseProblem& problem) {
  return {.in_channels = problem.channels, .out_channels = problem.channels};
}

static ToDenseProblem at_columns(ToDenseProblem problem, const OperandColumns& columns) {
  problem.features = columns.input;
  return problem;
}

static FromDenseProblem at_columns(FromDenseProblem problem, const OperandColumns& columns) {
  problem.features = columns.output;
  return problem;
}

static bool is_same(const ToDenseChoice& a, const ToDenseChoice& b) { return a.kernel == b.kernel; }
static bool is_same(const FromDenseChoice& a, const FromDenseChoice& b) { return a.kernel == b.kernel; }

const OpFamily ToDenseChoice::kKind = make_op_family<ToDenseChoice>("to_dense");
const OpFamily FromDenseChoice::kKind = make_op_family<FromDenseChoice>("from_dense");
const OpKind ToDenseProblem::kKind =
    make_op_kind<ToDenseProblem>("to_dense", [](llvm::StringRef) { return ViewForm::None; });
const OpKind FromDenseProblem::kKind =
    make_op_kind<FromDenseProblem>("from_dense", [](llvm::StringRef) { return ViewForm::None; });

}  // namespace minuet
