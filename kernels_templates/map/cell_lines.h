// This file looks up the neighbours of a coordinate in an index, line by line. A line consists of the offsets
// of a kernel along the last axis, if they are adjacent cells. It is looked up as a whole.
#pragma once

#include "kernels_templates/map/cell_rows.h"

namespace minuet {

/// Gives the number of lines that a block stores at once. Their offsets fill whole words of masks, whatever
/// the length of a line.
constexpr i32 kMostLines = 96;
/// Limits the number of cells per line. If a line would be longer or have gaps, each offset is a line of its
/// own.
constexpr i32 kLongestLine = 5;
/// Gives the number of lines whose words are loaded together.
constexpr i32 kLinesAtOnce = 3;
/// Gives the target number of threads per multiprocessor, for launch bounds. The loads of a look-up depend on
/// each other, so many threads are needed to hide their latency, but more threads would leave too few
/// registers.
template <i32 Ndim>
constexpr i32 kLineThreads = Ndim < 4 ? 1152 : 1024;
static_assert(kMostLines % kWordBits == 0 && kMostLines % kLinesAtOnce == 0);

/// Gives the position of a field in the queries' keys.
struct KeyField {
  i32 shift;
  u32 mask;
};

/// Holds the lines of one kernel, in shared memory.
template <i32 Ndim>
struct CellLines {
  KeyField fields[Ndim + 1];
  CellGrid grid;  // Describes the cells of the sources' level.
  i32 length;     // Gives the number of cells per line.
  i32 count;      // Gives the number of lines of the convolution kernel.
  i32 first;      // Gives the number of the first stored line.
  /// Gives the distance in cells from a query's cell to the first cell of each line. Entries past the last
  /// line repeat it.
  i64 to[kMostLines + kLinesAtOnce - 1];
};

/// Returns offset k of a kernel as a distance in cells of a level.
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

/// Stores the lines from number `first` on. All threads of a block must call it. The barrier at its start
/// protects earlier lines that are still in use.
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
  // Many threads copy the grid, because a copy by one thread would raise the register count of all.
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
MINUET_DEVICE i32 stored_line_count(const CellLines<Ndim>& lines) {
  const i32 left = lines.count - lines.first;
  return left < kMostLines ? left : kMostLines;
}

/// Returns the cell of the sources' level that contains a query's coordinate.
template <i32 Ndim, class Key>
MINUET_DEVICE i64 cell_of_key(const CellLines<Ndim>& lines, Key key) {
  u32 fields[Ndim + 1];
  MINUET_UNROLL
  for (i32 f = 0; f <= Ndim; ++f)
    fields[f] = static_cast<u32>(key >> lines.fields[f].shift) & lines.fields[f].mask;
  return cell_of(lines.grid, fields, Ndim + 1);
}

/// Describes the coordinates found in a line.
struct LineCells {
  u32 bits;  // Bit i is set if cell i of the line holds a coordinate.
  /// Gives the row of the first cell that holds a coordinate. The rows of the following ones are consecutive.
  i32 row;
};

/// Sets found[u] for the line that begins at cells[u], if asks[u].
///
/// A line may continue in the next word, which may belong to the next run. All loads of each kind of word are
/// issued together, so that they overlap.
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
    // Only occupied runs have words of cell bits. The first word of the next occupied run follows this run's
    // words, or is in their place if this run is empty.
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

/// Returns the number of lines to process together, beginning with stored line `line`.
template <i32 Ndim>
MINUET_DEVICE i32 lines_together(const CellLines<Ndim>& lines, i32 line) {
  const i32 left = stored_line_count(lines) - line;
  return left < kLinesAtOnce ? left : kLinesAtOnce;
}
/// Looks up several lines, beginning with stored line `line`, for a query whose cell is `center`. `wanted`
/// has a bit for each offset that may have a row. Lines without such an offset are not looked up.
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

/// Returns the concatenated bits of several lines, each of which has `length` bits.
MINUET_DEVICE u32 bits_of(const LineCells (&found)[kLinesAtOnce], i32 length) {
  u32 bits = 0;
  MINUET_UNROLL
  for (i32 u = 0; u < kLinesAtOnce; ++u) bits |= found[u].bits << u * length;
  return bits;
}

}  // namespace minuet
