// The neighbours of a coordinate in an index, line by line: a kernel's offsets along the last axis, where
// these are cells that lie beside each other. A line is looked up at once.
#pragma once

#include "kernels_templates/map/cell_rows.h"

namespace minuet {

/// Lines that a block has at hand: their offsets are whole words of masks, however long a line is.
constexpr i32 kMostLines = 96;
/// Cells of a line at most; of a longer one, or one with gaps, each offset is a line.
constexpr i32 kLongestLine = 5;
/// Whose words are under way together.
constexpr i32 kLinesAtOnce = 3;
/// Of a multiprocessor, whose look-ups wait for each other: more would leave too few registers.
template <i32 Ndim>
constexpr i32 kLineThreads = Ndim < 4 ? 1152 : 1024;
static_assert(kMostLines % kWordBits == 0 && kMostLines % kLinesAtOnce == 0);

/// A field of the queries' keys.
struct KeyField {
  i32 shift;
  u32 mask;
};

/// Lines of one kernel, in shared memory.
template <i32 Ndim>
struct CellLines {
  KeyField fields[Ndim + 1];
  CellGrid grid;  // of the sources' level
  i32 length;     // of a line
  i32 count;      // of all lines
  i32 first;      // of those at hand
  i64 to[kMostLines + kLinesAtOnce -
         1];  // cells from a query's to a line's first; past the last line the last's
};

/// Offset k of a kernel in cells of a level.
template <i32 Ndim>
MINUET_DEVICE i64 offset_cells(const KernelGeometry& geometry, const CellGrid& grid, i32 k) {
  i64 cells = 0;
  MINUET_UNROLL
  for (i32 a = Ndim - 1; a >= 0; --a) {
    const i32 step = geometry.step[a] / grid.stride[a + 1];
    cells += axis_offset(geometry.kernel_size[a], step, k % geometry.kernel_size[a]) * grid.weight[a + 1];
    k /= geometry.kernel_size[a];
  }
  return cells;
}

/// From line `first` on. By whole blocks: all threads are past what they do with the lines before.
template <i32 Ndim, i32 Threads>
MINUET_DEVICE void make_lines(CellLines<Ndim>& lines, const KernelGeometry& geometry, const CellIndex& index,
                              i32 level, const CloudLayout& layout, i32 first) {
  __syncthreads();
  const CellGrid& grid = index.grids->levels[level];
  const i32 along = geometry.kernel_size[Ndim - 1];
  const bool is_whole = geometry.step[Ndim - 1] == grid.stride[Ndim] && along <= kLongestLine;
  const i32 length = is_whole ? along : 1, count = geometry.volume / length;
  for (i32 i = static_cast<i32>(threadIdx.x); i < kMostLines + kLinesAtOnce - 1; i += Threads) {
    const i32 line = first + i < count ? first + i : count - 1;
    lines.to[i] = offset_cells<Ndim>(geometry, grid, line * length);
  }
  // By many threads: what one of them holds between loads and stores takes registers from all the rest.
  static_assert(sizeof(CellGrid) % sizeof(u32) == 0 && Threads >= 32);
  MINUET_NO_UNROLL
  for (i32 i = static_cast<i32>(threadIdx.x); i < static_cast<i32>(sizeof(CellGrid) / sizeof(u32));
       i += Threads)
    store_vector<4>(&lines.grid, i * 4, load_vector_if<4, true>(true, &grid, i * 4));
  if (const i32 f = static_cast<i32>(threadIdx.x); f <= Ndim) {
    const i32 bits = layout.keys.bits[f];
    lines.fields[f] = {layout.keys.shift[f], bits < 32 ? (1u << bits) - 1 : ~0u};
  }
  if (threadIdx.x == 0) lines.length = length, lines.count = count, lines.first = first;
  __syncthreads();
}
template <i32 Ndim>
MINUET_DEVICE i32 lines_at_hand(const CellLines<Ndim>& lines) {
  const i32 left = lines.count - lines.first;
  return left < kMostLines ? left : kMostLines;
}

/// The cell of the sources' level that a query's coordinate lies in.
template <i32 Ndim, class Key>
MINUET_DEVICE i64 cell_of_key(const CellLines<Ndim>& lines, Key key) {
  u32 fields[Ndim + 1];
  MINUET_UNROLL
  for (i32 f = 0; f <= Ndim; ++f)
    fields[f] = static_cast<u32>(key >> lines.fields[f].shift) & lines.fields[f].mask;
  return cell_of(lines.grid, fields, Ndim + 1);
}

/// What there is of a line.
struct LineCells {
  u32 bits;  // bit i: its cell i has a coordinate
  i32 row;   // of the first that has; of those that follow it counts on
};

/// found[u] = what there is of the line that begins at cells[u], where asks[u] holds.
///
/// A line may go on in the next word, of the next run too: of both kinds of words all loads are under way
/// together.
template <i32 Ndim>
MINUET_DEVICE void find_lines(const CellIndex& index, const CellLines<Ndim>& lines,
                              const bool (&asks)[kLinesAtOnce], const i64 (&cells)[kLinesAtOnce],
                              LineCells (&found)[kLinesAtOnce]) {
  constexpr i32 kLastBit = kWordBits - 1;
  BitWord runs[kLinesAtOnce];
  u32 runs_behind[kLinesAtOnce];
  bool goes_on[kLinesAtOnce], leaves_run[kLinesAtOnce];
  MINUET_UNROLL
  for (i32 u = 0; u < kLinesAtOnce; ++u) {
    const RunPlace place = run_place(lines.grid, cells[u]);
    goes_on[u] = asks[u] && bit_of(cells[u]) + lines.length > kWordBits;
    leaves_run[u] = goes_on[u] && word_of(cells[u]) % kRunWords == kRunWords - 1;
    runs[u] = load_bits_if(asks[u], index.runs, place.word);
    runs_behind[u] = load_word_if(leaves_run[u] && place.bit == kLastBit, index.runs, place.word + 1);
  }
  BitWord words[kLinesAtOnce], words_behind[kLinesAtOnce];
  bool is_there[kLinesAtOnce];
  MINUET_UNROLL
  for (i32 u = 0; u < kLinesAtOnce; ++u) {
    const RunPlace place = run_place(lines.grid, cells[u]);
    is_there[u] = (runs[u].bits >> place.bit & 1u) != 0;
    const u32 word = cell_word(place, runs[u], cells[u]);
    const u32 next_run = place.bit == kLastBit ? runs_behind[u] : runs[u].bits >> (place.bit + 1) % 32;
    const bool is_behind = goes_on[u] && (leaves_run[u] ? (next_run & 1u) != 0 : is_there[u]);
    // The first word of the next run that has a coordinate lies behind this run's words, or in their place.
    const u32 word_behind = leaves_run[u] ? word - (kRunWords - 1) + (is_there[u] ? kRunWords : 0) : word + 1;
    words[u] = load_bits_if(is_there[u], index.cells, word);
    words_behind[u] = load_bits_if(is_behind, index.cells, word_behind);
  }
  MINUET_UNROLL
  for (i32 u = 0; u < kLinesAtOnce; ++u) {
    const i32 bit = bit_of(cells[u]);
    const u32 behind = goes_on[u] ? words_behind[u].bits << (kWordBits - bit) % 32 : 0;
    found[u].bits = (words[u].bits >> bit | behind) & ((1u << lines.length) - 1u);
    found[u].row = (is_there[u] ? words[u].before + ones_below(words[u].bits, bit) : words_behind[u].before) -
                   lines.grid.before;
  }
}

/// How many are taken together from `line` of those at hand on.
template <i32 Ndim>
MINUET_DEVICE i32 lines_together(const CellLines<Ndim>& lines, i32 line) {
  const i32 left = lines_at_hand(lines) - line;
  return left < kLinesAtOnce ? left : kLinesAtOnce;
}
/// Those of a query whose cell is `center`, which have a bit in `wanted` for each offset that may have a row:
/// where a line has none, nothing is looked up.
template <i32 Ndim>
MINUET_DEVICE void find_several(const CellIndex& index, const CellLines<Ndim>& lines, i32 line, u32 wanted,
                                i64 center, LineCells (&found)[kLinesAtOnce]) {
  i64 cells[kLinesAtOnce];
  bool asks[kLinesAtOnce];
  MINUET_UNROLL
  for (i32 u = 0; u < kLinesAtOnce; ++u) {
    cells[u] = center + lines.to[line + u];
    asks[u] = (wanted >> u * lines.length & ((1u << lines.length) - 1u)) != 0;
  }
  find_lines(index, lines, asks, cells, found);
}

/// Of several lines, one behind the other.
MINUET_DEVICE u32 bits_of(const LineCells (&found)[kLinesAtOnce], i32 length) {
  u32 bits = 0;
  MINUET_UNROLL
  for (i32 u = 0; u < kLinesAtOnce; ++u) bits |= found[u].bits << u * length;
  return bits;
}

}  // namespace minuet
