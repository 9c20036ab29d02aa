// Declares the operations of the Map step that a device offers. They make coordinate sets, kernel maps and
// views of kernel maps (Minuet paper, section 5.1).
//
// All pointers to data are device pointers. All operations only enqueue work, and are called between the
// engine's begin() and end().
#pragma once

#include "codegen/choose/choice.h"
#include "codegen/choose/offset_order.h"
#include "kernels_templates/shared/word_kernels.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/engine/set_index.h"

namespace minuet {

/// Describes a coordinate set on a device. Its coordinates are either packed keys (key_layout.h), in
/// ascending order, or a level of an index (voxel_index.h).
struct Coords {
  void* keys = nullptr;  // Points to memory for `capacity` keys. It is null for a set in an index.
  i32* count = nullptr;  // Points to the number of rows, which is in device memory.
  i64 capacity = 0;
  KeyType key = KeyType::U64;
  /// Holds, for each row of the set, the number of the caller's row with the same coordinate. If this pointer
  /// is not null, ordered views (NeighbourView::order) contain the caller's row numbers instead of the set's.
  const i32* caller_row = nullptr;
  IndexSide side{};  // Names the level of an index that has the set. Without one, `side.index` is null.
};

/// Holds the state of a cloud on the device before its keys are made.
struct CloudState {
  u32* status = nullptr;  // Points to one word of kStatus... bits (map_kernels.h).
  i32* points = nullptr;  // Points to the number of coordinates, which is 0 if no key layout fits them.
  /// Points to the kBoundsWords words of the bounds. It may be null if the caller declares the bounds.
  i32* bounds = nullptr;
  CloudLayout* layout = nullptr;
};

struct LayoutRequest {
  const i32* coordinates = nullptr;  // The shape is [most, 1 + ndim].
  const i32* given_count = nullptr;  // Points to the number of coordinates. Null means that it is `most`.
  i64 most = 0;
  /// Points to bounds in host memory that the caller declares. If it is null, the operation finds the bounds.
  const Bounds* declared = nullptr;
  /// Points to limits in host memory that the coordinates of the cloud must not exceed. It may be null. It is
  /// not read if `declared` is not null, because those bounds are inside the limits.
  const Bounds* limits = nullptr;
  i64 guard[kMaxDim] = {}, period[kMaxDim] = {1, 1, 1, 1};
  i32 key_bits = 64;  // Limits the number of bits of a key.
  CloudState cloud;   // Points to the memory that receives the results.
};

/// Lists, for each row of one side of a kernel map, the matching rows of the other side. In the comments
/// below, a query is a row of the first side.
struct NeighbourView {
  /// Holds, for each kernel offset and each query, the matching row, or -1 if there is none. The shape is
  /// [volume][queries]. If this pointer is null, rows are looked up in an index (IndexedSides).
  i32* rows = nullptr;
  /// Holds [mask_words(volume)][queries] words. Bit k % 32 of word k / 32 of a query is set if the query has
  /// a matching row at offset k.
  u32* masks = nullptr;
  /// Holds the [queries] queries, sorted so that queries with similar masks are adjacent.
  i32* order = nullptr;
  /// These two arrays hold the columns of `rows` and `masks` in the sequence of `order`. Their rows are
  /// ordered_row_stride() elements apart. A row entry is valid only if at least one column in its group of
  /// kPositionGroup columns has a row at the same offset (kernels_templates/shared/fused_kernels.h).
  i32* ordered_rows = nullptr;
  u32* ordered_masks = nullptr;
  /// The next two arrays describe blocks of consecutive queries in `order`. `block_masks` holds the union of
  /// the masks in each block of kLeastBlockHeight queries. `block_orders` holds, for each block height in
  /// kBlockHeights, the order in which a kernel processes the blocks.
  u32* block_masks = nullptr;
  i32* block_orders = nullptr;
};

/// Describes the two coordinate sets of a map in an index, in which the rows of the map can be looked up. If
/// there is no index, a table stores the rows.
struct IndexedSides {
  const VoxelIndex* index = nullptr;  // Points to an index of both sides. Null means that there is none.
  i32 source_level = 0, query_level = 0;
  /// If these are not null, the kernel's offsets lead from a coarser voxel to the finer voxels in it
  /// (fills_voxels() in set_index.h). `children` receives, for each of the [queries] queries, the number
  /// of the block (VoxelBlock) that contains all its sources. `parents` receives, for each of the
  /// [sources] sources, the query whose voxel contains it.
  i32* children = nullptr;
  i32* parents = nullptr;
};

/// Holds one kernel map on a device, with the views that ops read. Each view is made once, by its own
/// operation, and never overwritten. Sources are the rows of the finer side, and queries are those of the
/// coarser side; a transposed convolution reads the map in the other direction. All other views are made from
/// the rows that search() or search_index() finds. If an index exists and no op reads these rows themselves,
/// they are not stored, and make_views() looks them up in the index.
struct MapView : NeighbourView {
  KernelGeometry geometry;
  /// Lists the kernel's offsets, in units of KernelGeometry::step, if they are not those of a box. The list
  /// is in host memory and outlives the view. Such a map always has a table of rows.
  llvm::ArrayRef<AxisArray> offsets;
  IndexedSides index;
  /// These numbers count the rows of the two sides. The host knows them only after the counts were read back
  /// from the device.
  i64 sources = 0;
  i64 queries = 0;
  NeighbourView transposed;  // Lists the neighbours of the finer side's rows on the coarser side.
  /// Holds the number of pairs before each entry of `rows`, and then the number of all pairs: [volume *
  /// queries + 1] exclusive prefix sums. Each sum is the position of the entry's pair if pairs are ordered by
  /// offset and then by query.
  i32* positions = nullptr;
  i32* counts = nullptr;  // Holds the number of pairs of each of the [volume] offsets.

  /// Returns true if the kernel has no offset but 0. Between equal sets, each row is then its only neighbour.
  bool has_only_offset_0() const {
    return geometry.volume == 1 && offsets.empty() &&
           llvm::all_of(geometry.origin, [](i32 axis) { return axis == 0; });
  }
};

/// Limits what the operations after MapOperations::begin() may do, so that the workspace of begin() suffices
/// for them.
struct MapLimits {
  i32 key_bits = 64;  // Limits the number of bits of a key.
  i64 capacity = 0;   // No coordinate set has a larger capacity.
  i32 sets = 1;       // Counts the coordinate sets that are built by sorting.
  i32 maps = 0;
  i32 max_volume = 1;  // No kernel map has more offsets than this.
  i64 sort_keys = 0;   // No sort has more keys than `sort_keys` or `capacity`, whichever is larger.

  i64 most_keys() const { return std::max(capacity, sort_keys); }

  KeyType key() const { return key_type_of(key_bits); }
};

struct BuildCoordsRequest {
  const i32* coordinates = nullptr;  // The shape is [*count, 1 + ndim]. Rows are in the caller's order.
  const i32* count = nullptr;        // Points to the number of coordinates, which is in device memory.
  i64 most = 0;                      // Holds an upper bound of *count.
  const CloudLayout* layout = nullptr;
  bool refuses_duplicates = false;  // Says whether a duplicate coordinate sets kStatusDuplicate.
  Coords coords;                    // Receives the unique coordinates in ascending order.
  i32* source_row = nullptr;  // Receives, for each unique coordinate, the caller's first row that has it.
  i32* row_of = nullptr;      // Receives, for each of the caller's *count rows, its row in `coords`.
  u32* status = nullptr;      // The operation ORs kStatus... bits into this word.
};

/// Requests a set that follows from one or two others.
struct DownsampleRequest {
  Coords fine;
  const CloudLayout* layout = nullptr;
  AxisArray stride{1, 1, 1, 1};  // Holds the tensor stride of the new set.
  Coords coarse;                 // Receives the new set.
  u32* status = nullptr;         // The operation ORs kStatus... bits into this word.
  /// Describes the new set if it is reached from `fine` (ReachSpec), or if it is the union of `fine` and
  /// `other`, each of which has an element then, or if it is their intersection, for which only `fine` has
  /// one. It is empty if the coordinates of `fine` are rounded down.
  llvm::ArrayRef<LevelSource> sources = {};
  Coords other = {};

  const Coords& parent(std::size_t source) const { return source == 0 ? fine : other; }
  /// Returns the largest number of cells, with repetitions, that `sources` give.
  i64 most_cells() const {
    i64 cells = 0;
    for (std::size_t i = 0; i < sources.size(); ++i) cells += most_cells(i);
    return cells;
  }
  /// Returns the largest number of cells that one source gives.
  i64 most_cells(std::size_t source) const {
    return std::max<i64>(parent(source).capacity, 1) * sources[source].cells;
  }
};

/// Requests all coordinate sets of a cloud. They are made with an index of the voxels that they occupy
/// (voxel_index.h).
struct IndexSetsRequest {
  const i32* coordinates = nullptr;  // The shape is [most, 1 + ndim].
  const i32* given_count = nullptr;  // Points to the number of coordinates. Null means that it is `most`.
  i64 most = 0;
  u32 outside_status = 0;           // These status bits are set if a coordinate is out of the index's bounds.
  bool refuses_duplicates = false;  // Says whether a duplicate coordinate sets kStatusDuplicate.
  u32* status = nullptr;            // Receives one word of kStatus... bits.
  i32* points = nullptr;            // Receives the number of coordinates.
  /// Points to `zero_words` words that are set to 0 before the sets are made, such as `counts`. It may be
  /// null.
  i32* zeros = nullptr;
  i64 zero_words = 0;
  /// Points to `voided_words` words, such as `points` and `counts`, that are set to 0 after the sets are made
  /// if the status then has a bit set. This does what MapOperations::void_failed() does, without a launch of
  /// its own. It may be null.
  i32* voided = nullptr;
  i64 voided_words = 0;
  /// Receives, for each row of level 0, the number of the first coordinate in this row. The pointer may be
  /// null.
  i32* source_row = nullptr;
  i32* row_of = nullptr;   // Receives, for each coordinate, its row in level 0.
  VoxelIndex description;  // Describes the index. assign_memory() must have added its memory.
  /// Holds, for each level except those of the points (levels_of_points()), how its cells follow from the
  /// rows of its parents (sources_of()).
  llvm::ArrayRef<LevelSources> sources;
  /// Points to all memory of the index. This includes slots that only earlier, larger clouds used, because
  /// they must be emptied.
  IndexMemory memory;
  /// Points to words that receive the number of rows of each level. The words must be 0 before or be among
  /// `zeros`, because a cloud that fails may leave them unchanged.
  llvm::ArrayRef<i32*> counts;

  i32 levels_of_points() const { return description.levels - static_cast<i32>(sources.size()); }
};

/// Requests the search of a map, each of whose sides is in an index (Coords::side). The search writes the
/// map's masks, and its rows if `map->rows` is not null. It adds to the map's counts, which must be 0
/// before, unless they are null.
struct IndexedSearch {
  Coords queries, sources;
  const MapView* map = nullptr;
};

struct SearchRequest {
  Coords sources;
  Coords queries;
  const CloudLayout* layout = nullptr;
  /// Receives the result in `map->rows`: for each query and kernel offset, the matching source row or -1.
  MapView* map = nullptr;
};

/// Requests the view of one direction of a kernel map whose rows are known.
struct ViewRequest {
  const MapView* map = nullptr;
  Coords sources, queries;  // These are the finer side and the coarser side of the map.
  /// Says whether the view lists the coarser rows of each finer row, instead of the reverse. If so, and if
  /// the map's rows are in a table, the operation also makes the table of the view's rows.
  bool transposed = false;
  bool has_masks = false;  // Says whether the masks are already made.
  /// Lists the kernel offsets by whose mask bits the queries are sorted. If this is not null, the view gets
  /// masks, an order, and ordered rows and masks. If it is null, the view gets no order.
  const OffsetOrder* offsets = nullptr;

  const NeighbourView& view() const { return transposed ? map->transposed : *map; }
  const Coords& output_coords() const { return transposed ? sources : queries; }
  const Coords& others() const { return transposed ? queries : sources; }
  /// Returns where the view's rows come from. This is a table, which may be that of the other direction, or
  /// an index.
  RowSource row_source() const {
    if (map->rows || !map->index.index) return RowSource::Table;
    if (transposed) return RowSource::Parents;
    return map->index.children ? RowSource::Children : RowSource::Neighbours;
  }
  /// Returns true if the rows can be found in a table or in an index. An index serves a view that is not
  /// transposed only if has_masks is true, and a transposed view only if the map has IndexedSides::parents.
  bool is_found() const {
    return row_source() == RowSource::Table || (transposed ? map->index.parents != nullptr : has_masks);
  }
};

/// Requests the list of a map's pairs.
struct PairsRequest {
  const MapView* map = nullptr;      // Null means that there is one offset, and each query is its own source.
  const i32* query_count = nullptr;  // Points to the number of queries. Null means that it is `most_queries`.
  i64 most_queries = 0;
  /// Element i holds the number that stands for source row i or query row i in the list. Null means i itself.
  const i32 *source_numbers = nullptr, *query_numbers = nullptr;
  /// These arrays receive the offset, the source row and the query row of pair n at element n * step.
  /// `offsets` may be null.
  i32 *offsets = nullptr, *sources = nullptr, *targets = nullptr;
  i64 step = 1;
  i64 capacity = 0;           // Counts the pairs that the arrays have room for. Further pairs are dropped.
  i32* pair_count = nullptr;  // Receives the number of all pairs. It may be null.

  /// Returns a request that writes the offset, the source row and the query row of each pair side by side, as
  /// [most, 3] numbers. No pair is written if `most` is 0, and `pairs` may be null then.
  static PairsRequest side_by_side(i32* pairs, i64 most, i32* pair_count) {
    PairsRequest request;
    request.offsets = pairs;
    request.sources = pairs ? pairs + 1 : nullptr;
    request.targets = pairs ? pairs + 2 : nullptr;
    request.step = 3;
    request.capacity = most;
    request.pair_count = pair_count;
    return request;
  }
};

/// Declares the operations of the Map step. MapStep (runtime/cuda/map_step.h) and CpuEngine
/// (runtime/cpu/cpu_engine.h) implement them.
class MapOperations {
 public:
  virtual ~MapOperations() = default;

  /// Finds the count, bounds and key layout of a cloud, and initializes its status.
  virtual llvm::Error find_layout(const LayoutRequest& request) = 0;
  virtual i64 workspace_bytes(const MapLimits& limits) const = 0;
  /// Starts the Map step. `workspace` has workspace_bytes(limits) bytes and stays in use until the last
  /// search.
  virtual llvm::Error begin(const MapLimits& limits, void* workspace) = 0;
  virtual llvm::Error build_coords(const BuildCoordsRequest& request) = 0;
  virtual llvm::Error downsample(const DownsampleRequest& request) = 0;
  virtual llvm::Error search(const SearchRequest& request) = 0;
  /// Finds the count and bounds of a cloud, and initializes its status. It does not write the layout.
  virtual llvm::Error find_bounds(const i32* coordinates, i64 count, const CloudState& cloud) = 0;
  /// Makes sets with an index (voxel_index.h). It does not require a call of begin().
  virtual llvm::Error index_sets(const IndexSetsRequest& request) = 0;
  /// Makes maps by look-ups in the indexes of their sides. It does not require a call of begin().
  virtual llvm::Error search_index(llvm::ArrayRef<IndexedSearch> searches) = 0;
  /// Returns true if make_views() can look rows up in an index. Otherwise every map needs a table of rows.
  virtual bool looks_up_rows() const = 0;
  /// Writes positions and counts of a map whose rows are made. It requires a call of begin(). `queries` is
  /// the coarser side.
  virtual llvm::Error count_pairs(const Coords& queries, const MapView& map) = 0;
  /// Writes the masks of a view whose rows are made, and adds the number of pairs of each offset to `counts`,
  /// which has [volume] elements.
  virtual llvm::Error make_masks(const Coords& queries, i32 volume, const NeighbourView& view,
                                 i32* counts) = 0;
  /// Returns how many bytes of workspace make_views() needs for `requests`, whose views may not have memory
  /// yet.
  virtual i64 view_workspace_bytes(llvm::ArrayRef<ViewRequest> requests) const = 0;
  /// Makes many views at once. It does not require a call of begin(). `workspace` stays in use until all
  /// views are made.
  virtual llvm::Error make_views(llvm::ArrayRef<ViewRequest> requests, void* workspace) = 0;
  /// Writes the coordinates of a set to `coordinates`, which has the shape [*coords.count, 1 + ndim], in
  /// the order of the rows. `layout` is the layout of the set's keys. It is null for a set in an index.
  virtual llvm::Error unpack(const Coords& coords, const CloudLayout* layout, i32* coordinates) = 0;
  /// Sets words[0, counts), the numbers of points and rows, to 0 if the status has any bit set, so that later
  /// operations process no rows.
  virtual llvm::Error void_failed(const u32* status, i32* words, i64 counts) = 0;
  /// Sets the bits of each `from` in its `to`, in the order of other work. No `to` is a `from`.
  virtual llvm::Error join_words(llvm::ArrayRef<JoinedWord> words) = 0;
  /// Writes the pairs of maps whose positions are made, each map's ordered by offset, then by query.
  virtual llvm::Error compact_pairs(llvm::ArrayRef<PairsRequest> requests) = 0;
};

}  // namespace minuet
