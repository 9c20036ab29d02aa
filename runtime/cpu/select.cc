#include "runtime/cpu/select.h"

#include <algorithm>
#include <utility>

#include "kernels_templates/shared/elements.h"
#include "kernels_templates/shared/map_kernels.h"
#include "runtime/cpu/dispatch.h"
#include "runtime/cpu/radix_sort.h"
#include "runtime/engine/arena.h"

namespace minuet {
namespace {

constexpr i64 kCandidatesPerTask = 4096;
i64 candidate_tasks(i64 candidates) { return (candidates + kCandidatesPerTask - 1) / kCandidatesPerTask; }

/// Divides the workspace of select().
struct CpuSelectPlaces {
  i32* starts = nullptr;  // Holds the number of candidates that are kept before each task.
  // The following arrays are for SelectRule::Best.
  u64* keys[2] = {};
  u32 *values[2] = {}, *bins = nullptr;
  unsigned char* marks = nullptr;
  i64 bytes = 0;

  CpuSelectPlaces(const SelectProblem& problem, i64 candidates, char* base) {
    Placement parts(base, /*idle=*/false);
    starts = parts.take<i32>(candidate_tasks(candidates) + 1);
    if (problem.rule == SelectRule::Best) {
      for (i32 half = 0; half < 2; ++half) {
        keys[half] = parts.take<u64>(candidates);
        values[half] = parts.take<u32>(candidates);
      }
      bins = parts.take<u32>(radix_bins_bytes(candidates) / static_cast<i64>(sizeof(u32)));
      marks = parts.take<unsigned char>(candidates);
    }
    bytes = parts.bytes();
  }
};

/// Selects with one rule among candidates of one kind.
template <DType T, i32 Ndim>
class Selection {
 public:
  Selection(ThreadPool& pool, const SelectRequest& request)
      : pool_(pool),
        request_(request),
        problem_(request.choice->problem),
        params_(make_select_params(problem_, request.most_rows, request.batch_size)),
        places_(problem_, params_.candidates.most, static_cast<char*>(request.workspace)),
        mask_(problem_.rule == SelectRule::Best ? places_.marks : request.mask) {}

  void run() {
    *request_.status = 0;
    const i64 count = count_candidates(), tasks = candidate_tasks(count);
    if (problem_.rule == SelectRule::Best) mark_best(count);
    // First each task counts what it keeps, and then it knows where to write.
    for_candidates(count, [&](i64 task, i64 begin, i64 end) {
      i32 kept = 0;
      for (i64 i = begin; i < end; ++i) kept += keeps(i) ? 1 : 0;
      places_.starts[task + 1] = kept;
    });
    places_.starts[0] = 0;
    for (i64 task = 0; task < tasks; ++task) places_.starts[task + 1] += places_.starts[task];
    const i64 total = places_.starts[tasks];
    if (total > request_.capacity) *request_.status |= kStatusPastCapacity;
    for_candidates(count, [&](i64 task, i64 begin, i64 end) { store(places_.starts[task], begin, end); });
    const bool is_valid = *request_.status == 0;
    *request_.count = is_valid ? static_cast<i32>(total) : 0;
    pad(is_valid ? count : 0);
  }

 private:
  using Stored = typename Element<T>::Stored;

  i64 count_candidates() const {
    if (problem_.source == SelectSource::Cells || !request_.row_count) return params_.candidates.most;
    const i64 rows = *request_.row_count;
    if (rows >= 0 && rows <= request_.most_rows) return rows * params_.candidates.children;
    *request_.status |= kStatusPastCapacity;
    return 0;
  }

  /// Calls body(task, begin, end) for each task.
  template <class Body>
  void for_candidates(i64 count, const Body& body) const {
    pool_.run(candidate_tasks(count), [&](i64 task, i32) {
      body(task, task * kCandidatesPerTask, std::min(count, (task + 1) * kCandidatesPerTask));
    });
  }

  void set_status(u32 bits) const { __atomic_fetch_or(request_.status, bits, __ATOMIC_RELAXED); }
  bool of_cells() const { return problem_.source == SelectSource::Cells; }
  /// Returns the row of a child and the number of the child, or the number of a cell and 0.
  std::pair<i64, i64> row_and_child(i64 candidate) const {
    if (of_cells()) return {candidate, 0};
    const i64 row = candidate / params_.candidates.children;
    return {row, candidate - row * params_.candidates.children};
  }
  Stored score_of(i64 candidate) const {
    const auto [row, child] = row_and_child(candidate);
    return static_cast<const Stored*>(request_.scores)[row * request_.scores_ld + child];
  }

  bool keeps(i64 candidate) const {
    switch (problem_.rule) {
      case SelectRule::All:
        return true;
      case SelectRule::Mask:
      case SelectRule::Best:
        return mask_[candidate] != 0;
      case SelectRule::Above:
        return is_above(bits_of(Element<T>::load(score_of(candidate))), bits_of(problem_.threshold));
      case SelectRule::NonZero:
        return has_nonzero(candidate);
    }
    __builtin_unreachable();
  }
  const Stored* first_channel(i64 candidate) const {
    i32 coordinate[1 + Ndim];
    const i64 cell =
        find_cell_of_grid<Ndim>(params_.candidates.grid, static_cast<i32>(candidate), coordinate);
    return static_cast<const Stored*>(request_.dense) + coordinate[0] * params_.item_step +
           cell * params_.cell_step;
  }
  bool has_nonzero(i64 candidate) const {
    const Stored* const first = first_channel(candidate);
    for (i64 c = 0; c < params_.channels; ++c) {
      if (is_not_zero<T>(bits_of(first[c * params_.channel_step]))) return true;
    }
    return false;
  }
  static u32 bits_of(float value) { return __builtin_bit_cast(u32, value); }
  static u32 bits_of(u16 stored) { return stored; }

  /// Returns the batch item of a candidate. A batch index that no item has sets the status.
  u64 item_of(i64 candidate) const {
    if (of_cells()) return static_cast<u64>(candidate / params_.candidates.grid.cells);
    const i32 item = request_.coordinates[row_and_child(candidate).first * (1 + Ndim)];
    const bool is_past = request_.batch_size > 0 && item >= request_.batch_size;
    if (item < 0 || is_past) set_status(item < 0 ? kStatusNegativeBatch : kStatusOutOfBounds);
    return item < 0 || is_past ? 0 : static_cast<u64>(item);
  }

  void mark_best(i64 count) const {
    const i32 bits = params_.score_bits;
    PingPong<u64> keys{places_.keys[0], places_.keys[1]};
    PingPong<u32> values{places_.values[0], places_.values[1]};
    for_candidates(count, [&](i64, i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) {
        keys.now[i] = item_of(i) << bits | score_key<T>(bits_of(score_of(i)));
        values.now[i] = static_cast<u32>(i);
      }
    });
    radix_sort(pool_, count, score_key_bits(problem_, request_.batch_size), keys, values, places_.bins);
    for_candidates(count, [&](i64, i64 begin, i64 end) {
      for (i64 i = begin; i < end; ++i) {
        const u64 key = keys.now[i];
        const bool is_past = i >= problem_.best && keys.now[i - problem_.best] >> bits == key >> bits;
        places_.marks[values.now[i]] = is_past || is_key_of_nan(key, bits) ? 0 : 1;
      }
    });
  }

  /// Stores the candidates of one task that are kept, the first one in row `row`.
  void store(i64 row, i64 begin, i64 end) const {
    for (i64 i = begin; i < end; ++i) {
      const bool is_kept = keeps(i);
      if (request_.places) request_.places[i] = is_kept ? static_cast<i32>(row) : -1;
      if (is_kept) store_row(i, row++);
    }
  }
  /// Stores one candidate, unless its row is past the capacity.
  void store_row(i64 candidate, i64 row) const {
    if (row >= request_.capacity) return;
    if (!find_coordinate(candidate, request_.selected + row * (1 + Ndim))) set_status(kStatusTooFar);
    if (request_.sources) request_.sources[row] = static_cast<i32>(candidate);
    if (request_.parents) request_.parents[row] = static_cast<i32>(row_and_child(candidate).first);
    if (request_.features) copy_features(candidate, row);
  }
  bool find_coordinate(i64 candidate, i32* coordinate) const {
    if (of_cells()) {
      find_cell_of_grid<Ndim>(params_.candidates.grid, static_cast<i32>(candidate), coordinate);
      return true;
    }
    const auto [row, child] = row_and_child(candidate);
    return find_child<Ndim>(params_.candidates, request_.coordinates + row * (1 + Ndim),
                            static_cast<i32>(child), coordinate);
  }
  void copy_features(i64 candidate, i64 row) const {
    const Stored* const first = first_channel(candidate);
    auto* const features = static_cast<Stored*>(request_.features) + row * params_.channels;
    for (i64 c = 0; c < params_.channels; ++c) features[c] = first[c * params_.channel_step];
  }

  /// Fills the new rows behind the kept candidates, and the places of candidates from number `count` on.
  void pad(i64 count) const {
    const i64 rows = *request_.count, padding = request_.capacity - rows;
    std::fill_n(request_.selected + rows * (1 + Ndim), padding * (1 + Ndim), 0);
    if (request_.sources) std::fill_n(request_.sources + rows, padding, -1);
    if (request_.parents) std::fill_n(request_.parents + rows, padding, -1);
    if (request_.places) std::fill_n(request_.places + count, params_.candidates.most - count, -1);
    if (!request_.features) return;
    auto* const features = static_cast<Stored*>(request_.features);
    std::fill_n(features + rows * params_.channels, padding * params_.channels, Stored{});
  }

  ThreadPool& pool_;
  const SelectRequest& request_;
  const SelectProblem& problem_;
  const SelectParams params_;
  const CpuSelectPlaces places_;
  const unsigned char* const mask_;
};

}  // namespace

i64 CpuSelections::workspace_bytes(const SelectChoice& choice, i64 most_rows, i64 batch_size) const {
  return CpuSelectPlaces(choice.problem, choice.problem.candidates(most_rows, batch_size), nullptr).bytes;
}

llvm::Error CpuSelections::select(const SelectRequest& request) {
  const SelectProblem& problem = request.choice->problem;
  with_storage(problem.dtype, [&]<DType T>() {
    with_axes(problem.ndim, [&]<i32 Ndim>() { Selection<T, Ndim>(pool_, request).run(); });
  });
  return llvm::Error::success();
}

}  // namespace minuet
