// The operations of the Map step that a device offers: coordinate sets, kernel maps and views of kernel maps
// (paper, section 5.1).
//
// Pointers are device pointers unless a name says host. All operations only enqueue work, between the
// engine's begin() and end().
#pragma once

#include "codegen/choose/choice.h"
#include "codegen/choose/offset_order.h"
#include "kernels_templates/shared/cell_index.h"
#include "llvm/ADT/ArrayRef.h"
#include "runtime/engine/cloud_layout.h"

namespace minuet {

/// A coordinate set on a device: keys in ascending order, and their number in device memory.
struct Coords {
  void* keys = nullptr;  // [capacity]
  i32* count = nullptr;  // device
  i64 capacity = 0;
  KeyType key = KeyType::U64;
  // The caller's row of each row. If set, ordered views name rows by it instead of by their own number.
  const i32* caller_row = nullptr;
};

/// State of a cloud on the device before its keys are made.
struct CloudState {
  u32* status = nullptr;  // one word of kStatus... bits
  i32* points = nullptr;  // one word: the number of coordinates; 0 if no key layout fits them
  i32* bounds = nullptr;  // [kBoundsWords] the bounds found; may be null if bounds are declared
  CloudLayout* layout = nullptr;
};

struct LayoutRequest {
  const i32* coordinates = nullptr;  // [most, 1 + ndim]
  const i32* given_count = nullptr;  // device; null: there are `most` coordinates
  i64 most = 0;
  const Bounds* declared = nullptr;  // null: the operation finds the bounds
  i64 guard[kMaxDim] = {}, period[kMaxDim] = {1, 1, 1, 1};
  i32 key_bits = 64;  // most bits that keys may have
  CloudState cloud;   // output
};

/// Lists, for each row of one side of a map (a query here), its neighbours on the other side.
struct NeighbourView {
  i32* rows = nullptr;   // [volume][queries] row of the other side, or -1; null: rows come from an index
  u32* masks = nullptr;  // [mask_words(volume)][queries] bit k % 32 of word k / 32: offset k has a row
  i32* order = nullptr;  // [queries] sorted by mask, full masks first, so similar masks are adjacent
  // Rows and masks in the sequence of `order`. Row entries are valid only for offsets that at least one place
  // of the same group of kPositionGroup places has (kernels_templates/shared/fused_kernels.h).
  i32* ordered_rows = nullptr;
  u32* ordered_masks = nullptr;
  // For blocks of consecutive places of `order`: the masks of blocks of the least height, and, for each
  // height in kBlockHeights, the order in which blocks start.
  u32* block_masks = nullptr;
  i32* block_orders = nullptr;
};

/// An index of the cells that coordinate sets occupy. Does not own its memory.
struct SetIndex {
  const CloudLayout* layout = nullptr;  // null: there is no index
  KeyType key = KeyType::U64;           // key type of all indexed sets
  CellIndex cells;
};

/// The index in which the rows of a map are looked up. Without an index, a table stores the rows.
struct IndexedSides : SetIndex {
  i32 source_level = 0, query_level = 0;
  const void *source_keys = nullptr, *query_keys = nullptr;
  bool fills_cells = false;  // the kernel's offsets fill a query's cell: each source is read by one query
};

/// One kernel map on a device with the views that ops read. Each view is made once, by its own operation, and
/// never overwritten. Sources are the rows of the finer side, queries those of the coarser side; a transposed
/// convolution reads the map in the other direction. All other views are made from the rows that search() or
/// search_index() finds; if no op reads these rows themselves, the operation that makes the orders looks them
/// up in the index.
struct MapView : NeighbourView {
  KernelGeometry geometry;
  IndexedSides index;
  i64 sources = 0;  // known to the host after the read-back
  i64 queries = 0;
  NeighbourView transposed;  // from the finer side to the coarser one
  /// Pairs by offset, then by query: the position of each entry of `rows`, and the number of pairs.
  i32* positions = nullptr;  // [volume * queries + 1] exclusive prefix sums of hits
  i32* counts = nullptr;     // [volume] pairs of each offset
};

/// Limits that MapOperations::begin() reserves workspace for.
struct MapLimits {
  i32 key_bits = 64;  // no key has a bit above these
  i64 capacity = 0;   // coordinates of the largest set
  i32 sets = 1;       // coordinate sets to be built
  i32 maps = 0;
  i32 max_volume = 1;  // largest volume of the maps
  // Number of sets indexed by their cells, and words of their index.
  i32 indexed_sets = 0;
  i64 index_words = 0;

  KeyType key() const { return key_type_of(key_bits); }
};

struct BuildCoordsRequest {
  const i32* coordinates = nullptr;  // [*count, 1 + ndim], in the caller's order
  const i32* count = nullptr;        // device
  i64 most = 0;                      // upper bound of *count
  const CloudLayout* layout = nullptr;
  bool refuses_duplicates = false;  // reported as kStatusDuplicate
  Coords coords;                    // output: unique and sorted
  i32* source_row = nullptr;        // output [unique]: the first of the caller's rows with that coordinate
  i32* row_of = nullptr;            // output [*count]: the unique row of each of the caller's rows
  u32* status = nullptr;            // bits are or-ed in
};

struct DownsampleRequest {
  Coords fine;
  const CloudLayout* layout = nullptr;
  AxisArray stride{1, 1, 1, 1};  // tensor stride of the coarser set
  Coords coarse;                 // output
  u32* status = nullptr;         // bits are or-ed in
};

/// Builds all coordinate sets of a cloud by the cells that they occupy, without a sort.
struct IndexSetsRequest {
  BuildCoordsRequest finest;  // the first level
  i32* points = nullptr;      // the number of coordinates; set to 0 if the index has too few words
  CellIndex cells;            // output, with memory for the whole index
  struct Level {
    AxisArray stride{1, 1, 1, 1};  // tensor stride
    Coords coords;                 // output
  };
  llvm::ArrayRef<Level> levels;  // MapLimits::indexed_sets of them
};

/// A map whose sources are indexed. The search writes its masks, adds to its counts, which must be 0 before,
/// and writes its rows if they have memory.
struct IndexedSearch {
  Coords queries;
  const MapView* map = nullptr;
};

struct SearchRequest {
  Coords sources;
  Coords queries;
  const CloudLayout* layout = nullptr;
  MapView* map = nullptr;  // output: rows
};

/// One direction of a kernel map whose rows are known, and the views to make of it.
struct ViewRequest {
  const MapView* map = nullptr;
  Coords sources, queries;  // the finer side, the coarser side
  bool transposed = false;  // finer side to coarser side; makes its rows if they are in a table
  bool has_masks = false;   // true if the masks are already made
  // How the order sorts. With it, the view gets masks, an order, and ordered rows and masks; null: no order.
  const OffsetOrder* offsets = nullptr;

  const NeighbourView& view() const { return transposed ? map->transposed : *map; }
  const Coords& output_coords() const { return transposed ? sources : queries; }
  const Coords& others() const { return transposed ? queries : sources; }
  /// Returns where the view's rows come from: a table, possibly one to transpose, or an index.
  RowSource row_source() const {
    if (map->rows || !map->index.layout) return RowSource::Table;
    return transposed ? RowSource::Parents : RowSource::Cells;
  }
  /// Returns true if the rows can be found: in a table, or in an index. Looking up forward rows requires
  /// masks, and looking up transposed rows requires filled cells.
  bool is_found() const {
    return row_source() == RowSource::Table || (transposed ? map->index.fills_cells : has_masks);
  }
};

/// Implemented by MapStep (runtime/cuda/map_step.h) and CpuEngine (runtime/cpu/cpu_engine.h).
class MapOperations {
 public:
  virtual ~MapOperations() = default;

  /// Finds the count, bounds and key layout of a cloud, and initializes its status.
  virtual llvm::Error find_layout(const LayoutRequest& request) = 0;
  virtual i64 workspace_bytes(const MapLimits& limits) const = 0;
  /// Starts the Map step. `workspace` has workspace_bytes(limits) bytes and is in use until the last search.
  virtual llvm::Error begin(const MapLimits& limits, void* workspace) = 0;
  virtual llvm::Error build_coords(const BuildCoordsRequest& request) = 0;
  virtual llvm::Error downsample(const DownsampleRequest& request) = 0;
  virtual llvm::Error search(const SearchRequest& request) = 0;
  /// Returns true if the engine can index sets by cells. Only then may the next two functions be called.
  virtual bool has_cell_index() const { return false; }
  virtual llvm::Error index_sets(const IndexSetsRequest&) { return no_cell_index(); }
  /// Searches maps that share one index. begin() is not required.
  virtual llvm::Error search_index(llvm::ArrayRef<IndexedSearch>) { return no_cell_index(); }
  /// Writes positions and counts of a map whose rows were searched after begin(). `queries` is the coarser
  /// side.
  virtual llvm::Error count_pairs(const Coords& queries, const MapView& map) = 0;
  /// Writes the masks of a view whose rows are made, and adds the pairs of each offset to `counts` [volume].
  virtual llvm::Error make_masks(const Coords& queries, i32 volume, const NeighbourView& view,
                                 i32* counts) = 0;
  /// Returns the workspace that make_views() needs for `requests`, whose views may not have memory yet.
  virtual i64 view_workspace_bytes(llvm::ArrayRef<ViewRequest> requests) const = 0;
  /// Makes many views at once. begin() is not required. `workspace` is in use until all views are made.
  virtual llvm::Error make_views(llvm::ArrayRef<ViewRequest> requests, void* workspace) = 0;
  /// Unpacks keys to `coordinates`, [*coords.count, 1 + ndim], in engine order.
  virtual llvm::Error unpack(const Coords& coords, const CloudLayout* layout, i32* coordinates) = 0;
  /// Sets the `counts` words at `words` to 0 if the status has any bit set, so that later operations process
  /// no rows.
  virtual llvm::Error void_failed(const u32* status, i32* words, i64 counts) = 0;
  /// Writes sources and targets, [pairs] each, ordered by offset, then by query.
  virtual llvm::Error compact_pairs(const MapView& map, i32* sources, i32* targets) = 0;

 private:
  static llvm::Error no_cell_index() {
    return make_error(StatusCode::Internal, "this engine cannot index coordinate sets by their cells");
  }
};

}  // namespace minuet
