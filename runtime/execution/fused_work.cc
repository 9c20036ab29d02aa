#include "runtime/execution/fused_work.h"

#include <algorithm>

namespace minuet {
namespace {

constexpr bool kDirections[] = {false, true};  // whether transposed

/// One offset onto the set itself: each row is its own neighbour, and no view says more.
bool is_identity(const MapView& map, const Coords& sources, const Coords& queries) {
  return map.geometry.volume == 1 && sources.count == queries.count;
}

bool is_transposed(const ProgramLayer& layer) {
  return layer.convolution().kind == ConvolutionKind::Transposed;
}

}  // namespace

FusedWork::FusedWork(const Program& program, Engine& engine, RowOrder order, bool masks)
    : program_(program),
      engine_(engine),
      order_(order),
      masks_(masks),
      maps_(program.maps.size()),
      offsets_(program.maps.size()) {}

void FusedWork::begin() {
  for (Map& map : maps_) map = Map();
  requests_.clear();
}

llvm::Error FusedWork::add_layer(i32 number, const MapView& view, const Coords& sources,
                                 const Coords& queries, const KernelMap* keeper) {
  const ProgramLayer& layer = program_.layers[number];
  const bool transposed = is_transposed(layer);
  Map& map = maps_[layer.map];
  Side& side = map.sides[transposed];
  if (side.used) return llvm::Error::success();
  if (!map.sides[!transposed].used) {
    map.view = view;
    map.has_masks = view.masks != nullptr;
  }
  map.sources = sources;
  map.queries = queries;
  if (is_identity(view, sources, queries)) return llvm::Error::success();
  find_offsets(layer.map);
  side.used = true;
  if (!keeper) {
    ask_for(layer.map, transposed);
    return llvm::Error::success();
  }
  side.shared = keeper->find_fused_view(transposed);
  if (!side.shared) {
    side.shared = std::make_shared<FusedView>();
    side.shared->transposed = transposed;
    MINUET_ASSIGN(side.shared->memory, allocate_parts(keeper->queue()->memory(), [&](Placement& parts) {
                    place_view(parts, map, transposed);
                    place_view_workspace(parts, map, transposed);
                  }));
    side.shared->view = map.neighbours(transposed);
    keeper->keep_fused_view(side.shared);
  }
  map.neighbours(transposed) = side.shared->view;
  if (!side.shared->is_made) ask_for(layer.map, transposed);
  return llvm::Error::success();
}

void FusedWork::ask_for(i32 number, bool transposed) {
  Map& map = maps_[number];
  map.sides[transposed].unmade = true;
  ViewRequest request{&map.view, map.sources, map.queries, transposed};
  request.has_masks = !transposed && map.has_masks;
  if (is_ordered()) request.offsets = &offsets_[number];
  requests_.push_back(request);
}

void FusedWork::find_offsets(i32 map) {
  if (!is_ordered() || offsets_[map].ranked > 0) return;
  const MapSpec& spec = program_.maps[map];
  offsets_[map] = order_offsets(make_geometry(program_.ndim, spec.kernel_size, spec.dilation, {}));
}

void FusedWork::place_view(Placement& parts, Map& map, bool transposed) const {
  NeighbourView& view = map.neighbours(transposed);
  const i64 volume = map.view.geometry.volume, words = mask_words(map.view.geometry.volume);
  const i64 queries = map.askers(transposed).capacity;
  if (!is_ordered()) {
    place_rows(parts, map, transposed);
    if (transposed && masks_) view.masks = parts.take<u32>(words * queries);
    return;
  }
  view.order = parts.take<i32>(queries);
  view.ordered_rows = parts.take<i32>(volume * queries);
  view.ordered_masks = parts.take<u32>(words * queries);
  view.block_orders = parts.take<i32>(block_order_begin(queries, kBlockHeightCount));
}

void FusedWork::place_view_workspace(Placement& parts, Map& map, bool transposed) const {
  if (!is_ordered()) return;
  NeighbourView& view = map.neighbours(transposed);
  const i64 words = mask_words(map.view.geometry.volume), queries = map.askers(transposed).capacity;
  place_rows(parts, map, transposed);
  if (transposed || !map.has_masks) view.masks = parts.take<u32>(words * queries);
  view.block_masks = parts.take<u32>(words * blocks_of_height(queries, kLeastBlockHeight));
}

/// A transposed table. What an index tells has none; but where it takes no memory of its own there is room
/// for it, so that a cloud like this one of too many cells fits too.
void FusedWork::place_rows(Placement& parts, Map& map, bool transposed) {
  const bool is_table = map.view.rows || !map.view.index.layout;
  if (!transposed || (!is_table && map.sides[transposed].shared)) return;
  i32* const rows = parts.take<i32>(map.view.geometry.volume * map.sources.capacity);
  if (is_table) map.view.transposed.rows = rows;
}

/// Of the execution's own views.
void FusedWork::place_unmade(Placement& parts, PlaceView place) {
  for (Map& map : maps_) {
    for (const bool transposed : kDirections) {
      const Side& side = map.sides[transposed];
      if (side.unmade && !side.shared) (this->*place)(parts, map, transposed);
    }
  }
}

void FusedWork::place_views(Placement& parts) { place_unmade(parts, &FusedWork::place_view); }

void FusedWork::place_workspace(Placement& parts) {
  place_unmade(parts, &FusedWork::place_view_workspace);
  workspace_ = parts.take<char>(engine_.view_workspace_bytes(requests_));
  i64 most_offsets = 0;
  for (const Map& map : maps_) most_offsets = std::max<i64>(most_offsets, map.view.geometry.volume);
  mask_counts_ = is_ordered() || !masks_ ? nullptr : parts.take<i32>(most_offsets);
}

llvm::Error FusedWork::make_views() {
  if (requests_.empty()) return llvm::Error::success();
  MINUET_TRY(engine_.make_views(requests_, workspace_));
  if (!is_ordered() && masks_) MINUET_TRY(make_plain_masks());
  note_made();
  return llvm::Error::success();
}

/// Of the views that have none: a cloud's maps have those of their coarser sides.
llvm::Error FusedWork::make_plain_masks() {
  for (const ViewRequest& request : requests_) {
    if (!request.transposed) continue;
    const i32 volume = request.map->geometry.volume;
    MINUET_TRY(engine_.fill_words(mask_counts_, 0, volume));
    MINUET_TRY(engine_.make_masks(request.askers(), volume, request.view(), mask_counts_));
  }
  return llvm::Error::success();
}

void FusedWork::note_made() {
  for (Map& map : maps_) {
    for (Side& side : map.sides) {
      if (side.unmade && side.shared) side.shared->is_made = true;
      side.unmade = false;
    }
  }
  requests_.clear();
}

llvm::Error FusedWork::make_views(llvm::ArrayRef<FusedWork*> works, Queue& queue) {
  std::vector<ViewRequest> requests;
  for (FusedWork* const work : works) {
    for (const ViewRequest& request : work->requests_) {
      // Executions of one map ask for one view.
      const auto is_same = [&](const ViewRequest& other) {
        return other.view().order == request.view().order && other.view().rows == request.view().rows;
      };
      if (llvm::none_of(requests, is_same)) requests.push_back(request);
    }
  }
  if (requests.empty()) return llvm::Error::success();
  Engine& engine = works.front()->engine_;
  MINUET_ASSIGN(const auto workspace, queue.scratch(engine.view_workspace_bytes(requests)));
  MINUET_TRY(engine.make_views(requests, workspace->data()));
  for (FusedWork* const work : works) work->note_made();
  return llvm::Error::success();
}

FusedOperands FusedWork::operands(i32 number) const {
  const ProgramLayer& layer = program_.layers[number];
  const Map& map = maps_[layer.map];
  const bool transposed = is_transposed(layer);
  const i32* const count = map.askers(transposed).count;
  if (!map.sides[transposed].used) return {{}, count};
  FusedOperands operands{transposed ? map.view.transposed : map.view, count};
  if (order_ == RowOrder::ByMask) operands.view.block_orders = nullptr;
  return operands;
}

}  // namespace minuet
