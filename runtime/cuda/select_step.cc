#include "runtime/cuda/select_step.h"

#include <algorithm>

#include "runtime/engine/alignment.h"
#include "runtime/engine/arena.h"

namespace minuet {
namespace {

/// Divides the workspace of select().
struct SelectPlaces {
  // These four arrays are for SelectRule::Best.
  char* keys[2] = {};
  u32* values[2] = {};
  unsigned char* marks = nullptr;
  i32 key_bits = 0;
  // Clearing sets the following words to 0, which follow one another.
  u32* zeros = nullptr;
  i64 zero_words = 0;
  i32 *total = nullptr, *sort_count = nullptr;
  u32 *overflow = nullptr, *tiles = nullptr;
  SortMemory sort;
  i64 bytes = 0;

  SelectPlaces(const MapChoice& map32, const MapChoice& map64, const SelectChoice& choice, i64 most_rows,
               i64 batch_size, char* base) {
    // Earlier work may still use the memory, so the gaps between the parts are not poisoned.
    Placement parts(base, /*idle=*/false);
    const i64 candidates = choice.problem.candidates(most_rows, batch_size);
    i32 passes = 0;
    if (choice.problem.rule == SelectRule::Best) {
      key_bits = score_key_bits(choice.problem, batch_size);
      const bool is_wide = key_bits > 32;
      for (i32 half = 0; half < 2; ++half) {
        keys[half] = parts.take<char>(candidates * (is_wide ? 8 : 4));
        values[half] = parts.take<u32>(candidates);
      }
      marks = parts.take<unsigned char>(candidates);
      passes = radix_passes(key_bits);
      sort.tiles = most_radix_tiles((is_wide ? map64 : map32).radix_pass_rows, candidates);
    }
    constexpr i64 kSingleWords = 3;
    const i64 state_words = passes > 0 ? sort_state_words(passes, sort.tiles) : 0;
    zero_words = kSingleWords + state_words + tile_count(choice, candidates);
    zeros = parts.take<u32>(zero_words);
    bytes = parts.bytes();
    if (zeros == nullptr) return;
    total = reinterpret_cast<i32*>(zeros);
    sort_count = total + 1;
    overflow = zeros + 2;
    sort.state = divide_sort_state(zeros + kSingleWords, passes);
    tiles = zeros + kSingleWords + state_words;
    for (i32 half = 0; half < 2; ++half) sort.keys[half] = keys[half], sort.rows[half] = values[half];
  }
  static i64 tile_count(const SelectChoice& choice, i64 candidates) {
    return std::max<i64>(ceil_div(candidates, choice.list.threads), 1);
  }
};

SelectParams params_of(const SelectRequest& request, const SelectPlaces& places) {
  SelectParams params = make_select_params(request.choice->problem, request.most_rows, request.batch_size);
  params.candidates.coordinates = request.coordinates;
  params.candidates.row_count = request.row_count;
  params.mask = request.mask;
  params.scores = request.scores;
  params.scores_ld = request.scores_ld;
  params.dense = request.dense;
  params.sort_count = places.sort_count;
  params.keys = places.keys[0];
  params.values = places.values[0];
  params.marks = places.marks;
  params.tiles = places.tiles;
  params.total = places.total;
  params.capacity = request.capacity;
  params.selected = request.selected;
  params.sources = request.sources;
  params.parents = request.parents;
  params.places = request.places;
  params.count = request.count;
  params.status = request.status;
  return params;
}

}  // namespace

i64 select_workspace_bytes(const MapChoice& map32, const MapChoice& map64, const SelectChoice& choice,
                           i64 most_rows, i64 batch_size) {
  return SelectPlaces(map32, map64, choice, most_rows, batch_size, nullptr).bytes;
}

i64 SelectStep::workspace_bytes(const SelectChoice& choice, i64 most_rows, i64 batch_size) const {
  return select_workspace_bytes(map32_.choice, map64_.choice, choice, most_rows, batch_size);
}

llvm::Error SelectStep::mark_best(const SelectChoice& choice, const SortMemory& memory, i32 key_bits,
                                  SelectParams& params) {
  MINUET_ASSIGN(const Kernel<SelectParams> keys, keys_.find(launcher_, choice.keys));
  MINUET_ASSIGN(const Kernel<SelectParams> mark, mark_.find(launcher_, choice.mark));
  const i64 candidates = params.candidates.most;
  MINUET_TRY(launcher_.launch_stride(keys, candidates, params));
  const MapKernels& map = params.key_bytes == 8 ? map64_ : map32_;
  i32 half = 0;
  MINUET_TRY(enqueue_sort(launcher_, map.sort(/*rows=*/true, candidates),
                          {params.sort_count, candidates, 0, key_bits}, memory, half));
  params.sorted_keys = memory.keys[half];
  params.sorted_values = memory.rows[half];
  params.mask = params.marks;
  return launcher_.launch_stride(mark, candidates, params);
}

llvm::Error SelectStep::gather_cells(const SelectRequest& request, const SelectParams& params,
                                     u32* overflow) {
  const FromDenseSpec& spec = request.choice->features;
  MINUET_ASSIGN(const Kernel<FromDenseParams> kernel, features_.find(launcher_, spec));
  FromDenseParams cells = {};
  cells.input = request.dense;
  cells.is_aligned = is_multiple(request.dense, static_cast<std::uintptr_t>(spec.vector_bytes)) ? 1 : 0;
  cells.coordinates = request.selected;
  cells.output_count = request.count;
  cells.output_rows = request.capacity;
  cells.pads_output = 1;
  cells.grid = params.candidates.grid;
  cells.output = request.features;
  cells.output_ld = spec.channels;
  cells.overflow = overflow;  // Nothing reads it.
  const i64 vectors = spec.channels * dtype_bytes(spec.io) / spec.vector_bytes;
  return launcher_.launch_stride(kernel, request.capacity * vectors, cells);
}

llvm::Error SelectStep::select(const SelectRequest& request) {
  MINUET_TRY(launcher_.mark(Stage::Map));
  const SelectChoice& choice = *request.choice;
  const SelectPlaces places(map32_.choice, map64_.choice, choice, request.most_rows, request.batch_size,
                            static_cast<char*>(request.workspace));
  SelectParams params = params_of(request, places);
  MINUET_TRY(clear_words(launcher_, clear_, choice.clear,
                         {{places.zeros, places.zero_words, 0}, {request.status, 1, 0}}));
  if (choice.problem.rule == SelectRule::Best) {
    MINUET_TRY(mark_best(choice, places.sort, places.key_bits, params));
  }
  MINUET_ASSIGN(const Kernel<SelectParams> list, list_.find(launcher_, choice.list));
  MINUET_ASSIGN(const Kernel<SelectParams> finish, finish_.find(launcher_, choice.finish));
  const i64 candidates = params.candidates.most;
  MINUET_TRY(launcher_.launch(list, SelectPlaces::tile_count(choice, candidates), params));
  MINUET_TRY(launcher_.launch_stride(finish, std::max(request.capacity, candidates), params));
  if (request.features == nullptr || request.capacity == 0) return llvm::Error::success();
  return gather_cells(request, params, places.overflow);
}

}  // namespace minuet
