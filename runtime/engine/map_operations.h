// The operations of the Map step that a device offers: coordinate sets, kernel maps and the views of these
// (paper 5.1).
//
// Pointers are device pointers unless a name says host. Operations only enqueue, between the engine's begin()
// and end().
#pragma once

#include "codegen/choose/choice.h"
#include "codegen/choose/offset_order.h"
#include "kernels_templates/shared/cell_index.h"
#include "llvm/ADT/ArrayRef.h"
#include "runtime/engine/cloud_layout.h"

namespace minuet {

/// A coordinate set on a device: keys in ascending order, their number in device memory.
struct Coords {
  void* keys = nullptr;  // [capacity]
  i32* count = nullptr;  // device
  i64 capacity = 0;
  KeyType key = KeyType::U64;
  const i32* caller_row = nullptr;  // of each row, which ordered views name by it; null: by its number
};

/// What the device knows of a cloud before its keys are made.
struct CloudState {
  u32* status = nullptr;  // one word, kStatus... bits
  i32* points = nullptr;  // one word: coordinates; none where no layout holds them
  i32* bounds = nullptr;  // [kBoundsWords] as found; may be null where they are declared
  CloudLayout* layout = nullptr;
};

struct LayoutRequest {
  const i32* coordinates = nullptr;  // [most, 1 + ndim]
  const i32* given_count = nullptr;  // device; null: there are `most` coordinates
  i64 most = 0;
  const Bounds* declared = nullptr;  // null: they are found
  i64 guard[kMaxDim] = {}, period[kMaxDim] = {1, 1, 1, 1};
  i32 key_bits = 64;  // that keys may take
  CloudState cloud;   // out
};

/// What the rows of one side find on the other: `queries` are the side that asks.
struct NeighbourView {
  i32* rows = nullptr;   // [volume][queries] row of the other side, or -1; null where they are looked up
  u32* masks = nullptr;  // [mask_words(volume)][queries] bit k % 32 of word k / 32: rows[k] is a row
  i32* order = nullptr;  // [queries] by mask: those of like masks near each other, full masks first
  // Rows and masks, with a column for each place of the order: of rows at least the entries of offsets that
  // one of the places has that read together (kRowsTogether in kernels_templates/shared/fused_kernels.h).
  i32* ordered_rows = nullptr;
  u32* ordered_masks = nullptr;
  // Of blocks of its places (kernels_templates/shared/fused_kernels.h): masks of the least ones, and the
  // order of those of each height.
  u32* block_masks = nullptr;
  i32* block_orders = nullptr;
};

/// An index of the cells that sets occupy, in memory of whoever had it made.
struct SetIndex {
  const CloudLayout* layout = nullptr;  // null: there is none
  KeyType key = KeyType::U64;           // of all of its sets
  CellIndex cells;
};

/// The index that a map's rows are looked up in; without one they lie in a table.
struct IndexedSides : SetIndex {
  i32 source_level = 0, query_level = 0;
  const void *source_keys = nullptr, *query_keys = nullptr;
  bool fills_cells = false;  // the kernel's offsets are the places of a query's cell: a source asks one query
};

/// One kernel map on a device, and those of its views that somebody asks for: each is made once, by an
/// operation of its own, and never written over. Sources are the finer side's rows, queries the coarser
/// side's; a transposed convolution reads it backwards. All other views are made of the rows that are found
/// by search(), or search_index(); where nobody else reads these, orders look them up in the index.
struct MapView : NeighbourView {
  KernelGeometry geometry;
  IndexedSides index;
  i64 sources = 0;  // known to the host after the read-back
  i64 queries = 0;
  NeighbourView transposed;  // the finer side asks
  /// Pairs: where each entry's is, in order of offset and query, and how many there are.
  i32* positions = nullptr;  // [volume * queries + 1] exclusive sums of hits
  i32* counts = nullptr;     // [volume] pairs per offset
};

/// What MapOperations::begin() has to make room for.
struct MapLimits {
  i32 key_bits = 64;  // of all keys: none has a bit above
  i64 capacity = 0;   // coordinates of the largest set
  i32 sets = 1;       // coordinate sets built from here on
  i32 maps = 0;
  i32 max_volume = 1;  // of the maps
  // Sets that are indexed by their cells, and words of those.
  i32 indexed_sets = 0;
  i64 index_words = 0;

  KeyType key() const { return key_type_of(key_bits); }
};

struct BuildCoordsRequest {
  const i32* coordinates = nullptr;  // [*count, 1 + ndim], the caller's order
  const i32* count = nullptr;        // device
  i64 most = 0;                      // that *count may be
  const CloudLayout* layout = nullptr;
  bool refuses_duplicates = false;  // by kStatusDuplicate
  Coords coords;                    // out: unique and sorted
  i32* source_row = nullptr;        // out [unique]: the first caller's row of each
  i32* row_of = nullptr;            // out [*count]: the unique row of each caller's row
  u32* status = nullptr;            // bits are or-ed in
};

struct DownsampleRequest {
  Coords fine;
  const CloudLayout* layout = nullptr;
  AxisArray stride{1, 1, 1, 1};  // tensor stride of the coarser set
  Coords coarse;                 // out
  u32* status = nullptr;         // bits are or-ed in
};

/// All sets of a cloud, by the cells that they occupy: no sort.
struct IndexSetsRequest {
  BuildCoordsRequest finest;  // the first level's
  i32* points = nullptr;  // its count, which becomes 0 where the cloud has more cells than index_words hold
  CellIndex cells;        // out, with room for all of it
  struct Level {
    AxisArray stride{1, 1, 1, 1};  // tensor stride
    Coords coords;                 // out
  };
  llvm::ArrayRef<Level> levels;  // as many as MapLimits::indexed_sets
};

/// A map whose sources are in an index: its masks; its counts, which are 0 before, and its rows, where it has
/// memory for them.
struct IndexedSearch {
  Coords queries;
  const MapView* map = nullptr;
};

struct SearchRequest {
  Coords sources;
  Coords queries;
  const CloudLayout* layout = nullptr;
  MapView* map = nullptr;  // out: rows
};

/// One direction of a kernel map whose rows are found, and what is to be made of it.
struct ViewRequest {
  const MapView* map = nullptr;
  Coords sources, queries;               // the finer side, the coarser one
  bool transposed = false;               // that direction, and where rows lie in a table they are made
  bool has_masks = false;                // they are there
  const OffsetOrder* offsets = nullptr;  // what orders go by: masks, order, and rows and masks by it; or null

  const NeighbourView& view() const { return transposed ? map->transposed : *map; }
  const Coords& output_coords() const { return transposed ? sources : queries; }
  const Coords& others() const { return transposed ? queries : sources; }
  /// Where its rows come from: a table where there is one, or one to be transposed.
  RowSource row_source() const {
    if (map->rows || !map->index.layout) return RowSource::Table;
    return transposed ? RowSource::Parents : RowSource::Cells;
  }
  /// Of what is looked up an index tells forward rows, whose masks are there, and those of cells that are
  /// filled.
  bool is_found() const {
    return row_source() == RowSource::Table || (transposed ? map->index.fills_cells : has_masks);
  }
};

class MapOperations {
 public:
  virtual ~MapOperations() = default;

  /// The count, bounds and key layout of a cloud; its status begins here.
  virtual llvm::Error find_layout(const LayoutRequest& request) = 0;
  virtual i64 workspace_bytes(const MapLimits& limits) const = 0;
  /// Starts the Map step: `workspace` of workspace_bytes(limits), in use until the last search.
  virtual llvm::Error begin(const MapLimits& limits, void* workspace) = 0;
  virtual llvm::Error build_coords(const BuildCoordsRequest& request) = 0;
  virtual llvm::Error downsample(const DownsampleRequest& request) = 0;
  virtual llvm::Error search(const SearchRequest& request) = 0;
  /// Whether sets may be indexed by their cells, and so the next two be called.
  virtual bool has_cell_index() const { return false; }
  virtual llvm::Error index_sets(const IndexSetsRequest&) { return no_cell_index(); }
  /// Of maps of one index; a Map step need not have begun.
  virtual llvm::Error search_index(llvm::ArrayRef<IndexedSearch>) { return no_cell_index(); }
  /// Positions and counts of a map whose rows were searched since begin(); `queries` are the coarser
  /// side's.
  virtual llvm::Error count_pairs(const Coords& queries, const MapView& map) = 0;
  /// Those of a view whose rows are there. `counts` [volume]: the pairs of each offset are added.
  virtual llvm::Error make_masks(const Coords& queries, i32 volume, const NeighbourView& view,
                                 i32* counts) = 0;
  /// Of make_views for these, which may still have no memory.
  virtual i64 view_workspace_bytes(llvm::ArrayRef<ViewRequest> requests) const = 0;
  /// Many views at once; a Map step need not have begun. `workspace` is in use until the last is made.
  virtual llvm::Error make_views(llvm::ArrayRef<ViewRequest> requests, void* workspace) = 0;
  /// coordinates: [*coords.count, 1 + ndim], engine order.
  virtual llvm::Error unpack(const Coords& coords, const CloudLayout* layout, i32* coordinates) = 0;
  /// Where the status has a bit, the `counts` words become 0: what follows works on nothing.
  virtual llvm::Error void_failed(const u32* status, i32* words, i64 counts) = 0;
  /// sources, targets: [pairs], ordered by offset, then by query.
  virtual llvm::Error compact_pairs(const MapView& map, i32* sources, i32* targets) = 0;

 private:
  static llvm::Error no_cell_index() {
    return make_error(StatusCode::Internal, "this engine does not index sets by their cells");
  }
};

}  // namespace minuet
