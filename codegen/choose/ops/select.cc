#include "codegen/choose/ops/select.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "codegen/base/number_text.h"

namespace minuet {
namespace {

constexpr i64 kMostCandidates = (i64{1} << 30) - 1;  // A scan or a sort has fewer than 2^30 items.
constexpr i32 kMostChildren = 1 << 20;

llvm::Error check_children(const SelectProblem& problem) {
  for (i32 a = 0; a < problem.ndim; ++a) {
    const i32 children = problem.children[a], step = problem.child_step[a];
    if (children < 1 || children > kMostChildren) {
      return make_error(StatusCode::InvalidArgument,
                        "a row has {0} children on axis {1}; it can have 1 to {2}", children, a,
                        kMostChildren);
    }
    if (step < 1 || step > kMostCells) {
      return make_error(StatusCode::InvalidArgument,
                        "the children of a row are {0} apart on axis {1}; that must be 1 to {2}", step, a,
                        kMostCells);
    }
  }
  if (problem.children_of_row() <= kMostChildren) return llvm::Error::success();
  return make_error(StatusCode::InvalidArgument, "a row has more than the {0} children that it can have",
                    kMostChildren);
}

llvm::Error check_cells(const SelectProblem& problem) {
  DenseProblem dense;
  dense.ndim = problem.ndim;
  dense.channels = problem.rule == SelectRule::NonZero ? problem.channels : 1;
  dense.layout = problem.layout;
  MINUET_TRY(validate(dense));
  for (i32 a = 0; a < problem.ndim; ++a) {
    const i64 last = i64{problem.layout.shape[a] - 1} * problem.layout.tensor_stride[a];
    if (last <= std::numeric_limits<i32>::max()) continue;
    return make_error(StatusCode::OutOfRange,
                      "the coordinate of the last of {0} cells of axis {1}, whose tensor stride is {2}, is "
                      "more than int32 can hold",
                      problem.layout.shape[a], a, problem.layout.tensor_stride[a]);
  }
  return llvm::Error::success();
}

}  // namespace

i64 SelectProblem::children_of_row() const {
  i64 product = 1;
  for (i32 a = 0; a < ndim; ++a) product = std::min(product * children[a], i64{1} << 32);
  return product;
}

i64 SelectProblem::candidates(i64 most_rows, i64 batch_size) const {
  return source == SelectSource::Cells ? batch_size * cells_of(ndim, layout) : most_rows * children_of_row();
}

llvm::Error validate(const SelectProblem& problem) {
  if (problem.ndim < 1 || problem.ndim > kMaxDim) {
    return make_error(StatusCode::InvalidArgument, "the candidates have {0} axes; they must have 1 to {1}",
                      problem.ndim, kMaxDim);
  }
  const bool of_cells = problem.source == SelectSource::Cells;
  if (problem.rule == SelectRule::NonZero && !of_cells) {
    return make_error(StatusCode::InvalidArgument,
                      "rows cannot be selected by the numbers of a dense tensor, which only has cells");
  }
  if (problem.rule == SelectRule::Above && std::isnan(problem.threshold)) {
    return make_error(StatusCode::InvalidArgument, "the threshold is NaN, and no score is above it");
  }
  if (problem.rule == SelectRule::Best && problem.best < 1) {
    return make_error(StatusCode::InvalidArgument,
                      "{0} of the best candidates of each batch item are to be kept; it must be 1 or more",
                      problem.best);
  }
  return of_cells ? check_cells(problem) : check_children(problem);
}

llvm::Error check_candidates(const SelectProblem& problem, i64 most_rows, i64 batch_size) {
  const i64 least_batch = problem.source == SelectSource::Cells ? 1 : 0;
  if (batch_size < least_batch || batch_size > std::numeric_limits<i32>::max()) {
    return make_error(StatusCode::OutOfRange, "batch_size is {0}; it must be {1} to 2^31 - 1", batch_size,
                      least_batch);
  }
  if (problem.source == SelectSource::Rows) MINUET_TRY(check_point_count(most_rows, "most_rows"));
  const i64 candidates = problem.candidates(most_rows, batch_size);
  if (candidates <= kMostCandidates) return llvm::Error::success();
  return make_error(StatusCode::OutOfRange, "there are {0} candidates; there can be {1}", candidates,
                    kMostCandidates);
}

[[gnu::cold]] SelectChoice choose_select(const SelectProblem& problem) {
  SelectChoice choice{problem, {}, {}, {}, {}, {}, {}};
  const DType io = storage_type(problem.dtype);  // Nothing is multiplied, so nothing is rounded to tf32.
  choice.keys.io = io;
  choice.keys.ndim = choice.list.ndim = choice.finish.ndim = problem.ndim;
  choice.keys.source = choice.list.source = problem.source;
  // The kernels mark the best candidates in a mask.
  choice.list.rule = problem.rule == SelectRule::Best ? SelectRule::Mask : problem.rule;
  const bool reads_numbers = problem.rule == SelectRule::Above || problem.rule == SelectRule::NonZero;
  if (reads_numbers) choice.list.io = io;
  if (problem.rule != SelectRule::NonZero) return choice;
  FromDenseProblem dense;
  dense.ndim = problem.ndim;
  dense.dtype = problem.dtype;
  dense.channels = problem.channels;
  dense.layout = problem.layout;
  dense.features = {problem.channels, 0};
  choice.features = choose_from_dense(dense).kernel;
  return choice;
}

[[gnu::cold]] void add_sources(SourceList& list, const SelectChoice& choice) {
  list.add(choice.clear);
  if (choice.problem.rule == SelectRule::Best) {
    list.add(choice.keys);
    list.add(choice.mark);
  }
  list.add(choice.list);
  list.add(choice.finish);
  if (choice.problem.rule == SelectRule::NonZero) list.add(choice.features);
}

i32 score_bits(const SelectProblem& problem) { return 8 * dtype_bytes(storage_type(problem.dtype)); }

i32 score_key_bits(const SelectProblem& problem, i64 batch_size) {
  const i64 largest = batch_size > 0 ? batch_size - 1 : std::numeric_limits<i32>::max();
  return score_bits(problem) + static_cast<i32>(std::bit_width(static_cast<u64>(largest)));
}

SelectParams make_select_params(const SelectProblem& problem, i64 most_rows, i64 batch_size) {
  SelectParams params = {};
  Candidates& candidates = params.candidates;
  candidates.most = problem.candidates(most_rows, batch_size);
  if (problem.source == SelectSource::Cells) {
    candidates.grid = make_grid(problem.ndim, problem.layout, static_cast<i32>(batch_size));
    params.channels = problem.channels;
    const i64 cells = candidates.grid.cells;
    params.channel_step = problem.layout.channels_last ? 1 : cells;
    params.cell_step = problem.layout.channels_last ? problem.channels : 1;
    params.item_step = cells * problem.channels;
  } else {
    candidates.most_rows = most_rows;
    candidates.children = static_cast<i32>(problem.children_of_row());
    std::copy(problem.children.begin(), problem.children.end(), candidates.children_on_axis);
    std::copy(problem.child_step.begin(), problem.child_step.end(), candidates.child_step);
  }
  params.threshold = problem.threshold;
  params.best = problem.best;
  params.batch_size = batch_size;
  params.score_bits = score_bits(problem);
  params.key_bytes = score_key_bits(problem, batch_size) <= 32 ? 4 : 8;
  return params;
}

}  // namespace minuet
