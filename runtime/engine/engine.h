// The operations that a device offers to an execution: the Map step, and the ops of a program.
//
// There are two engines, runtime/cuda and runtime/cpu; everything above (plans, networks,
// executions, coordinate sets, kernel maps) is the same code for both. An engine belongs to one
// execution, or to one of those that build sets and maps, and to one thread at a time. Operations only
// enqueue on the stream given to begin(); `wait` is the one that waits. Pointers are device pointers unless a
// name says host.
#pragma once

#include <memory>
#include <vector>

#include "codegen/choose/candidates.h"
#include "codegen/choose/choice.h"
#include "codegen/choose/offset_order.h"
#include "kernels_templates/shared/cell_index.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
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

/// What begin_maps has to make room for.
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
  i32 search = 0;          // index of the engine's SearchChoice
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
  const Coords& askers() const { return transposed ? sources : queries; }
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

/// output row i = input row index[i].
struct PermuteRequest {
  i32 permute = 0;  // number given by add_permute_rows
  const void* input = nullptr;
  i64 input_ld = 0;
  const i32* index = nullptr;
  i64 rows = 0;
  void* output = nullptr;
  i64 output_ld = 0;
  const i32* count = nullptr;  // device: rows from it on become zeros; or null
};

/// An op that another op's kernel computes too: where its output goes.
struct CoveredOp {
  void* output = nullptr;
  i64 output_ld = 0;
  u32* overflow = nullptr;
};

/// One op on one cloud, as far as all families have it in common. Each family adds what its kernels read of
/// the map (runtime/engine/ops).
struct OpRequest {
  i32 op = 0;  // number given by add_op
  const MapView* map = nullptr;
  bool transposed = false;
  const void* input = nullptr;  // first column of the first row
  i64 input_rows = 0, input_ld = 0;
  void* output = nullptr;
  i64 output_rows = 0, output_ld = 0;
  const i32* output_count = nullptr;  // device: the rows that the cloud has, output_rows at most
  bool pads_output = false;           // rows past the count become zeros; else anything
  const void* residual = nullptr;
  i64 residual_ld = 0;
  llvm::SmallVector<CoveredOp, kMostCovered> covered;  // the ops behind it that the candidate covers
  u32* overflow = nullptr;  // overflow_mark once a number of the output is infinite or NaN
  u32 overflow_mark = 1;    // not 0
  void* scratch = nullptr;  // Engine::scratch_bytes()
};

/// The request of an op that reads one view of its map: of the output's side; none where each row is its own
/// neighbour.
struct NeighbourRequest : OpRequest {
  NeighbourView view;
};

/// Internal where the view has no table of rows, and the kernel more than the offset by which a row is its
/// own neighbour.
inline llvm::Error check_rows(const NeighbourRequest& request, i64 volume) {
  if (request.view.rows != nullptr || volume == 1) return llvm::Error::success();
  return make_error(StatusCode::Internal, "the view of {0} offsets has no rows", volume);
}

/// What an execution did since reset_counters.
struct EngineCounters {
  i64 kernels = 0, copies = 0, fills = 0, matmuls = 0;
  i64 host_syncs = 0;
  i64 allocations = 0;   // device, pinned or event: none when warm
  i64 gemm_lookups = 0;  // look-ups of GEMM algorithms: none when warm
};

/// Time per stage, milliseconds.
struct StageTimes {
  double sort = 0, map = 0, gather = 0, gemm = 0, scatter = 0, other = 0;

  StageTimes& operator+=(const StageTimes& more) {
    sort += more.sort, map += more.map, gather += more.gather;
    gemm += more.gemm, scatter += more.scatter, other += more.other;
    return *this;
  }
};

/// What a call's times belong to: those of the last prepare and of the last run are kept.
enum class Timed : i32 { Nothing, Prepare, MoreOfPrepare, Run };

/// Of the last prepare and the last run.
struct PassTimes {
  StageTimes all;
  std::vector<StageTimes> ops;  // by their numbers; none where none ran
};

/// What engines on one stream may share, for their calls come one after the other (Device::create_share).
class EngineShare {
 public:
  virtual ~EngineShare() = default;
};

constexpr i64 kMostLateWords = 16;

/// Words of the device's that are on their way to the host, kMostLateWords at most. Any thread may wait, and
/// again, which waits no more.
class LateWords {
 public:
  virtual ~LateWords() = default;
  /// They live as long as this does.
  virtual llvm::Expected<llvm::ArrayRef<i32>> wait() = 0;
};

struct GmasTables;  // runtime/engine/ops/convolution.h

class Engine {
 public:
  virtual ~Engine() = default;

  // ---- made once, before the first begin() -----------------------------------------------------
  /// Adds an op, to run as chosen, and returns its number; they count up. FailedPrecondition where its
  /// kernels are not loaded.
  /// `parameters`: on the device, in the order of parameter_images() (runtime/weights/weight_image.h).
  virtual llvm::Expected<i32> add_op(const OpChoice& choice, llvm::ArrayRef<const void*> parameters) = 0;
  virtual llvm::Expected<i32> add_permute_rows(const PermuteRowsSpec& spec) = 0;
  /// Device memory that the engine wants for itself once all ops are added (256-byte aligned).
  virtual i64 workspace_bytes() const = 0;
  virtual llvm::Error set_workspace(void* workspace) = 0;
  /// Of an OpRequest's scratch, which is anybody's between two calls.
  virtual i64 scratch_bytes() const = 0;
  virtual i64 map_workspace_bytes(const MapLimits& limits) const = 0;

  // ---- one call --------------------------------------------------------------------------------
  /// `stream`: the caller's CUstream; ignored by the CPU.
  virtual llvm::Error begin(void* stream) = 0;
  /// Ends what begin() began, after a failure too: the last stage's time ends here, and the destructor waits
  /// for what was enqueued until here. The CPU has nothing to do.
  virtual llvm::Error end() { return llvm::Error::success(); }
  /// Whether what was enqueued until end() went into a graph.
  virtual bool was_captured() const { return false; }
  virtual llvm::Error fill_words(void* target, u32 word, i64 words) = 0;
  /// `host` is memory from allocate_pinned and stays untouched until the next wait().
  virtual llvm::Error read_back(void* host, const void* source, i64 bytes) = 0;
  /// For whoever waits for them, later and anywhere; not in a capture.
  virtual llvm::Expected<std::shared_ptr<LateWords>> fetch_late(const i32* source, i64 words) = 0;
  /// `host` is memory from allocate_pinned and stays untouched until the next wait_for_sends().
  virtual llvm::Error send(void* target, const void* host, i64 bytes) = 0;
  /// Waits where what was sent is still under way.
  virtual llvm::Error wait_for_sends() = 0;
  virtual llvm::Error wait() = 0;
  virtual llvm::Expected<void*> allocate_pinned(i64 bytes) = 0;  // owned by the engine

  /// The count, bounds and key layout of a cloud; its status begins here.
  virtual llvm::Error find_layout(const LayoutRequest& request) = 0;
  /// Starts the Map step: `workspace` of map_workspace_bytes(limits), in use until the last search.
  virtual llvm::Error begin_maps(const MapLimits& limits, void* workspace) = 0;
  virtual llvm::Error build_coords(const BuildCoordsRequest& request) = 0;
  virtual llvm::Error downsample(const DownsampleRequest& request) = 0;
  virtual llvm::Error search(const SearchRequest& request) = 0;
  /// Whether sets may be indexed by their cells, and so the next two be called.
  virtual bool has_cell_index() const { return false; }
  virtual llvm::Error index_sets(const IndexSetsRequest&) { return no_cell_index(); }
  /// Of maps of one index; a Map step need not have begun.
  virtual llvm::Error search_index(llvm::ArrayRef<IndexedSearch>) { return no_cell_index(); }
  /// Positions and counts of a map whose rows were searched since begin_maps; `queries` are the coarser
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
  /// Fills source_table and query_table of `tables`.
  virtual llvm::Error make_tables(const MapView& map, i32 direct_offset, const GmasTables& tables) = 0;
  /// sources, targets: [pairs], ordered by offset, then by query.
  virtual llvm::Error compact_pairs(const MapView& map, i32* sources, i32* targets) = 0;

  virtual llvm::Error permute_rows(const PermuteRequest& request) = 0;
  /// What one op needs for one cloud, before its first run there. It writes what it sends: after
  /// wait_for_sends(), or a wait, in the same call.
  virtual llvm::Error prepare_op(const OpRequest& request) = 0;
  /// Once all of a prepare's are.
  virtual llvm::Error send_prepared() { return llvm::Error::success(); }
  virtual llvm::Error run_op(const OpRequest& request) = 0;

  // ---- what happened ---------------------------------------------------------------------------
  virtual const EngineCounters& counters() const = 0;
  virtual void reset_counters() = 0;
  /// Timed passes record events between the stages; off by default.
  virtual void set_profiling(bool on) = 0;
  /// Before begin(): what the call's times take the place of, or go on with. A run's, where nobody says.
  virtual void time_as(Timed call) = 0;
  virtual llvm::Expected<PassTimes> pass_times() = 0;  // waits

 private:
  static llvm::Error no_cell_index() {
    return make_error(StatusCode::Internal, "this engine does not index sets by their cells");
  }
};

}  // namespace minuet
